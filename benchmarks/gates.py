"""Latency of one gate check at each level, as a ratio to ``SELECT 1`` on the same connection.

    python benchmarks/gates.py [--sizes 10000,100000,1000000,10000000] [--rounds 400] [--dsn DSN] [--json FILE]

Each size is one hourly upstream whose rows are all applied, loaded as a plain writer does. The window asked for lies in
the middle of the history, so that nothing recent helps. What is timed is ``check_gates``: the statement, and the rules
on its answer. The calls take turns with ``SELECT 1``. Targets: under 4 times that at every size (5 times with a
freshness), and the largest size under 1.5 times the smallest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from bollhav_provider.intervals import Interval
from bollhav_provider.model import Environment, Freshness, FreshnessScope, UpstreamContract
from bollhav_provider.state import GateRequest, StateRef, check_gates, coverage
from bollhav_provider.state.schema import bootstrap, ensure_state_table
from bollhav_provider.testing.postgres import PostgresServer

ENV = Environment()
HOUR = timedelta(hours=1)
LIMIT = Freshness(timedelta(days=3650))
BATCH = 1_000_000
#: Of a level; a freshness at that level is a second question.
MAX_RATIO, MAX_RATIO_WITH_FRESHNESS, MAX_GROWTH = 4.0, 5.0, 1.5
TOGETHER = "three upstreams"


def main() -> int:
    """Build, measure, print; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--sizes", default="10000,100000,1000000,10000000", help="rows of the upstreams, smallest first"
    )
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--dsn", help="an empty database to use; a server of its own is started otherwise")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    sizes = sorted(int(size) for size in options.sizes.split(","))
    server = None
    dsn = options.dsn
    if dsn is None:
        home = Path(tempfile.mkdtemp(prefix="bollhav-bench-"))
        server = PostgresServer(home, settings=("shared_buffers=1GB", "max_wal_size=8GB", "jit=off"))
        dsn = server.start()
    try:
        with psycopg.connect(dsn, autocommit=True) as conn:
            figures = run(conn, sizes, options.rounds)
    finally:
        if server is not None:
            server.destroy()
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1))
    return report(figures, sizes)


def run(
    conn: psycopg.Connection[Any], sizes: list[int], rounds: int
) -> dict[str, dict[int, dict[str, float]]]:
    """Return figures by level and size: median microseconds, and the ratio to ``SELECT 1``."""
    conn.execute("SET TimeZone = 'UTC'")
    bootstrap(conn, ENV)
    refs = {size: build(conn, size) for size in sizes}
    conn.execute("VACUUM ANALYZE")
    questions: dict[str, dict[int, list[GateRequest]]] = {}
    for size, (ref, begin) in refs.items():
        for name, requests in asked(ref.full_name, begin, size).items():
            questions.setdefault(name, {})[size] = requests
    figures: dict[str, dict[int, dict[str, float]]] = {}
    for name, by_size in questions.items():
        calls: list[Callable[[], object]] = [lambda: conn.execute("SELECT 1").fetchall()]
        for requests in by_size.values():
            results = check_gates(conn, ENV, requests)
            assert all(r.satisfied for r in results), results
            calls.append(lambda requests=requests: check_gates(conn, ENV, requests))  # type: ignore[misc]
        base, *others = interleaved(calls, rounds)
        figures[name] = {
            size: {"us": seconds * 1e6, "ratio": seconds / base}
            for size, seconds in zip(by_size, others, strict=True)
        }
    return figures


def asked(name: str, begin: datetime, size: int) -> dict[str, list[GateRequest]]:
    """Return what is timed: each level without and with a freshness, and three upstreams of one unit at once."""
    middle = begin + HOUR * (size // 2)
    hour, day = Interval(middle, middle + HOUR), Interval(middle, middle + 24 * HOUR)
    found: dict[str, list[GateRequest]] = {}
    for level in UpstreamContract:
        window = hour if level is UpstreamContract.EXACT else day
        found[level.value] = [GateRequest.of(name, level, window)]
        if level is UpstreamContract.EXISTS:
            continue
        for scope in FreshnessScope:
            limit = Freshness(LIMIT.within, scope=scope)
            found[f"{level.value}, {scope.value}"] = [GateRequest.of(name, level, window, limit)]
    found[TOGETHER] = [
        GateRequest.of(name, level, day)
        for level in (UpstreamContract.ENCAPSULATE, UpstreamContract.THROUGH, UpstreamContract.WHOLE)
    ]
    return found


def build(conn: psycopg.Connection[Any], size: int) -> tuple[StateRef, datetime]:
    """Make one registered upstream with ``size`` applied hourly rows; returns it and its begin."""
    began = time.monotonic()
    ref = StateRef(ENV.state_schema, f"bench_{size:016d}", f"bench.hourly_{size}")
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 24 * HOUR
    begin = end - HOUR * size
    ensure_state_table(conn, ref)
    for start in range(0, size, BATCH):
        conn.execute(
            sql.SQL(
                "INSERT INTO {} (model_name, run_id, since, until, status, applied_at) "
                "SELECT %s, gen_random_uuid(), t, t + interval '1 hour', 'applied', now() - (%s - i) * interval '1s' "
                "FROM (SELECT %s::timestamptz + i * interval '1 hour' AS t, i "
                "      FROM generate_series(%s::int, %s::int) i) x"
            ).format(ref.ident),
            (ref.full_name, size, begin, start, min(start + BATCH, size) - 1),
        )
    coverage.install(conn, ref)
    metadata = {
        "contract": {"begin": begin.isoformat(), "end": end.isoformat()},
        "batching": {"chunk": "@hourly", "fixed_intervals": True},
        "tz": "UTC",
        "columns": [{"name": f"c{i}", "type": "text", "nullable": True} for i in range(30)],
    }
    conn.execute(
        sql.SQL(
            "INSERT INTO {} (full_name, upstream, model_type, state_schema, state_table, metadata) "
            "VALUES (%s, '{{}}', 'TABLE', %s, %s, %s)"
        ).format(sql.Identifier(ref.schema, "library")),
        (ref.full_name, ref.schema, ref.table, json.dumps(metadata)),
    )
    print(f"{size:>10} rows in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return ref, begin


def interleaved(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """Return each call's median seconds. The calls take turns, so that what else the machine does hits all alike."""
    times: list[list[float]] = [[] for _ in calls]
    for warm in range(rounds + 20):
        for call, spent in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            if warm >= 20:
                spent.append(time.perf_counter() - start)
    return [statistics.median(spent) for spent in times]


def report(figures: dict[str, dict[int, dict[str, float]]], sizes: list[int]) -> int:
    """Print the table; returns 1 when a level misses a target."""
    print(f"{'level':<22}" + "".join(f"{size:>22,}" for size in sizes) + f"{'growth':>10}")
    missed = 0
    for name, by_size in figures.items():
        growth = by_size[sizes[-1]]["us"] / by_size[sizes[0]]["us"]
        cells = "".join(f"{by_size[size]['us']:>12.0f} us {by_size[size]['ratio']:>5.2f}x" for size in sizes)
        limit = MAX_RATIO_WITH_FRESHNESS if "," in name else MAX_RATIO
        slow = name != TOGETHER and any(by_size[size]["ratio"] > limit for size in sizes)
        bad = growth > MAX_GROWTH or slow
        missed += bad
        print(f"{name:<22}{cells}{growth:>9.2f}x{'  MISSED' if bad else ''}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
