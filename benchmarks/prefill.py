"""Prefill of a long contract against the bare statement, and what the next run's prefill costs.

    python benchmarks/prefill.py [--windows 1000000] [--rounds 3] [--dsn DSN] [--json FILE]

The bare statement is ``INSERT ... SELECT generate_series`` into a table of the same shape and indexes, without
triggers and without knowing a grid. Prefill fills a registered model's state table: its grid is worked out, the
coverage triggers look at every row. Both take turns. The next run's prefill is measured with nothing new, with
one new window and with a day of them, on a short and on the long history. Targets: over 0.7 times the bare
statement's speed for an hourly grid in UTC; the next run's prefill under 10 ms whatever the length.
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
from uuid import UUID

import psycopg
from psycopg import sql

from bollhav_provider import state
from bollhav_provider.intervals import Interval
from bollhav_provider.model import Batch, Column, Contract, Environment, Model, State, Target, TimeChunking
from bollhav_provider.testing.postgres import PostgresServer

ENV = Environment()
BEGIN = datetime(1900, 1, 1, tzinfo=UTC)
MIN_RATIO, MAX_NEXT_MS = 0.7, 10.0
GRIDS = (("@hourly", "UTC"), ("@hourly", "America/New_York"), ("*/5 * * * *", "UTC"), ("*/7 * * * *", "UTC"))


def main() -> int:
    """Measure and print; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--windows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dsn", help="an empty database to use; a server of its own is started otherwise")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    server = None
    dsn = options.dsn
    if dsn is None:
        home = Path(tempfile.mkdtemp(prefix="bollhav-bench-"))
        server = PostgresServer(home, settings=("shared_buffers=1GB", "max_wal_size=16GB", "jit=off"))
        dsn = server.start()
    try:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("SET TimeZone = 'UTC'")
            state.bootstrap(conn, ENV)
            figures = {
                "first": first_fill(conn, options.windows, options.rounds),
                "next": next_runs(conn, (10_000, options.windows)),
            }
    finally:
        if server is not None:
            server.destroy()
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return report(figures, options.windows)


def hourly(name: str, windows: int, chunk: str = "@hourly", tz: str = "UTC") -> Model:
    """A model whose contract holds about so many windows."""
    width = timedelta(hours=1) if chunk == "@hourly" else timedelta(minutes=int(chunk[2]))
    return Model(
        target=Target(schema="bench", name=name, columns=[Column("at", "timestamptz")]),
        contract=Contract(begin=BEGIN, end=BEGIN + width * windows),
        batching=Batch(time=TimeChunking(chunk, tz=tz)),
        state=State(),
    )


def first_fill(conn: psycopg.Connection[Any], windows: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return seconds and the ratio of speeds by grid; the bare statement stands beside them."""
    spent: dict[str, list[float]] = {}
    for turn in range(rounds):
        spent.setdefault("bare", []).append(bare(conn, windows, turn))
        for chunk, tz in GRIDS:
            model = hourly(f"t{turn}_{len(spent)}_{abs(hash((chunk, tz)))}", windows, chunk, tz)
            state.register(conn, model, ENV)
            took, count = timed(lambda model=model: state.prefill(conn, model, ENV))  # type: ignore[misc]
            # per window: a zone's clock changes and a cron's stubs make slightly more or fewer of them
            spent.setdefault(f"{chunk} {tz}", []).append(took * windows / count)
            conn.execute(sql.SQL("DROP TABLE {}").format(state.StateRef.of(model, ENV).ident))
    base = statistics.median(spent["bare"])
    return {
        name: {"seconds": statistics.median(times), "ratio": base / statistics.median(times)}
        for name, times in spent.items()
    }


def bare(conn: psycopg.Connection[Any], windows: int, turn: int) -> float:
    """Return the seconds of the bare statement."""
    model = hourly(f"bare{turn}", windows)
    state.register(conn, model, ENV)
    ref = state.StateRef.of(model, ENV)
    table = sql.Identifier(ref.schema, "bare")
    conn.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(table, ref.ident))
    query = sql.SQL(
        "INSERT INTO {} (model_name, run_id, since, until, status, temporality) "
        "SELECT %s, %s, t, t + interval '1 hour', 'pending', 'temporal' "
        "FROM generate_series(%s::timestamptz, %s::timestamptz, interval '1 hour') t"
    ).format(table)
    values = (ref.full_name, UUID(int=1), BEGIN, BEGIN + timedelta(hours=windows - 1))
    took, _ = timed(lambda: conn.execute(query, values))
    conn.execute(sql.SQL("DROP TABLE {}, {}").format(table, ref.ident))
    return took


def next_runs(conn: psycopg.Connection[Any], lengths: tuple[int, ...]) -> dict[str, dict[str, float]]:
    """Return the median milliseconds of later prefills by length of the history."""
    return {str(length): later_prefills(conn, length) for length in lengths}


def later_prefills(conn: psycopg.Connection[Any], length: int) -> dict[str, float]:
    """Fill a history, then prefill again and again."""
    name = f"next{length}"
    model = hourly(name, length)
    state.register(conn, model, ENV)
    state.prefill(conn, model, ENV)
    conn.execute("VACUUM ANALYZE")
    reached = length

    def median_ms(call: Callable[[], Any], rounds: int = 30) -> float:
        return statistics.median(timed(call)[0] for _ in range(rounds)) * 1e3

    def grow(step: int) -> None:
        nonlocal reached
        reached += step
        assert state.prefill(conn, hourly(name, reached), ENV) == step

    day = Interval(BEGIN, BEGIN + timedelta(days=1))
    return {
        "nothing new": median_ms(lambda: state.prefill(conn, model, ENV)),
        "1 new window": median_ms(lambda: grow(1)),
        "24 new windows": median_ms(lambda: grow(24)),
        "units of a day": median_ms(lambda: state.units(conn, model, ENV, day)),
    }


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that a call takes, and its answer."""
    start = time.perf_counter()
    answer = call()
    return time.perf_counter() - start, answer


def report(figures: dict[str, dict[str, dict[str, float]]], windows: int) -> int:
    """Print the figures; return 1 when a target is missed."""
    print(f"first fill of {windows:,} windows")
    for name, values in figures["first"].items():
        print(
            f"  {name:<30} {values['seconds']:8.2f} s   {values['ratio']:5.2f} of the bare statement's speed"
        )
    print("the next run's prefill, ms")
    for length, values in figures["next"].items():
        print(f"  {int(length):>12,} rows   " + "   ".join(f"{k}: {v:.2f}" for k, v in values.items()))
    slow = figures["first"]["@hourly UTC"]["ratio"] <= MIN_RATIO
    late = any(v >= MAX_NEXT_MS for values in figures["next"].values() for v in values.values())
    return int(slow or late)


if __name__ == "__main__":
    sys.exit(main())
