"""What one unit costs beside its own work: round trips counted by the server, and the time of a unit that does nothing.

    python benchmarks/unit_overhead.py [--units 300] [--upstreams 3] [--json FILE]

A model with gated upstreams, all open, whose function returns no rows, is run unit after unit by one worker, as a task
of a deployment does. The server logs every statement that it executes; a statement is one round trip. The time of the
same number of bare ``UPDATE`` statements in transactions of their own stands beside it. Target: at most 8 round trips
for a unit with 3 gated upstreams.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from bollhav_provider import state
from bollhav_provider.graph import build_graph
from bollhav_provider.intervals import Unit, as_utc
from bollhav_provider.model import (
    Batch,
    Column,
    Contract,
    Environment,
    Model,
    Source,
    State,
    Target,
    TimeChunking,
)
from bollhav_provider.run import DsnConnections, RunSpec, execute_units, prepare, run_key
from bollhav_provider.testing.postgres import PostgresServer

ENV = Environment()
MAX_ROUND_TRIPS = 8
_STATEMENT = re.compile(r"LOG:  (?:statement|execute [^:]+): (.*?)(?=\n\d{4}-\d\d-\d\d \d\d:|\Z)", re.DOTALL)


def main() -> int:
    """Measure and print; exit code 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--units", type=int, default=300)
    parser.add_argument("--upstreams", type=int, default=3)
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="bollhav-bench-"))
    server = PostgresServer(home, settings=("jit=off",))
    try:
        dsn = server.start()
        models = definitions(options.units, options.upstreams)
        figures: dict[str, Any] = measure(dsn, models, options.units)
        figures |= counted(server, dsn, models)
    finally:
        server.destroy()
        shutil.rmtree(home, ignore_errors=True)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return report(figures, options.upstreams)


def definitions(units: int, upstreams: int) -> list[Model]:
    """The upstreams, applied in full, and last the model that does nothing."""
    begin = "2024-01-01T00:00Z"
    end = as_utc(begin, "begin") + timedelta(hours=units)

    def model(name: str, sources: list[Source]) -> Model:
        return Model(
            target=Target(
                schema="bench",
                name=name,
                write_mode="recreate_partition",
                columns=[Column("at", "timestamptz", partition_on=True), Column("n", "integer")],
            ),
            contract=Contract(begin=begin, end=end),
            batching=Batch(time=TimeChunking("@hourly")),
            upstream=sources,
            state=State(),
        )

    above = [model(f"upstream_{number}", []) for number in range(upstreams)]
    gates = [Source(f"bench.upstream_{number}", contract="encapsulate") for number in range(upstreams)]
    nothing = model("nothing", gates)

    @nothing.execute
    def compute(unit: Unit) -> list[dict[str, Any]]:
        return []

    return [*above, nothing]


def measure(dsn: str, models: list[Model], units: int) -> dict[str, Any]:
    """Return milliseconds a unit, and those of a bare transaction."""
    connections, graph = DsnConnections(dsn), build_graph(models)
    *above, nothing = models
    with connections.state() as conn:
        state.bootstrap(conn, ENV)
        for model in above:
            state.register(conn, model, ENV)
            state.prefill(conn, model, ENV)
            found = [row.unit for row in state.units(conn, model, ENV)]
            state.mark_applied(conn, model, ENV, found, state.RunKey.ad_hoc("bench"))
        spec = RunSpec(run_key())
        prepared = prepare(connections, graph, nothing, spec)
        assert len(prepared.units) == units
        half = units // 2
        execute_units(connections, graph, nothing, prepared.units[:10], spec)
        start = time.perf_counter()
        outcomes = execute_units(connections, graph, nothing, prepared.units[10:half], spec)
        spent = time.perf_counter() - start
        assert all(outcome.applied for outcome in outcomes)
        conn.execute("CREATE TABLE bare (id int PRIMARY KEY, n int)")
        conn.execute("INSERT INTO bare SELECT i, 0 FROM generate_series(1, 100) i")
        times = []
        for number in range(200):
            began = time.perf_counter()
            with conn.transaction():
                conn.execute("UPDATE bare SET n = n + 1 WHERE id = %s", (number % 100 + 1,))
            times.append(time.perf_counter() - began)
    bare = statistics.median(times) * 1e3
    mean = spent / len(outcomes) * 1e3
    return {"ms_per_unit": mean, "ms_per_bare_transaction": bare, "ratio": mean / bare}


def counted(server: PostgresServer, dsn: str, models: list[Model]) -> dict[str, Any]:
    """Return the statements that the server executed for one unit, in order, on a connection that has run some."""
    connections, graph = DsnConnections(dsn), build_graph(models)
    nothing = models[-1]
    with connections.state() as conn:
        left = [row.unit for row in state.units(conn, nothing, ENV)]
        spec = RunSpec(run_key())
        conn.execute("ALTER SYSTEM SET log_statement = 'all'")
        conn.execute("SELECT pg_reload_conf()")
        time.sleep(0.5)
        log = server.data / "server.log"
        before = log.stat().st_size
        many = 20
        execute_units(connections, graph, nothing, left[:many], spec)
        time.sleep(0.2)
        text = log.read_text(encoding="utf-8", errors="replace")[before:]
        conn.execute("ALTER SYSTEM RESET log_statement")
        conn.execute("SELECT pg_reload_conf()")
    statements = _STATEMENT.findall(text)
    kinds = Counter(_kind(statement) for statement in statements)
    per_unit = {kind: round(count / many, 1) for kind, count in kinds.items() if count >= many * 0.9}
    return {
        "round_trips": sum(per_unit.values()),
        "statements": per_unit,
        "once_a_worker": len(statements) - many * sum(per_unit.values()),
    }


def _kind(statement: str) -> str:
    function = re.search(r'"z_bollhav"\."?([a-z_]+?)_(?:facts_)?[0-9a-f]{8}', statement)
    return function[1] if function else " ".join(statement.split()[:4])[:60]


def report(figures: dict[str, Any], upstreams: int) -> int:
    """Print the figures; return 1 when the target is missed."""
    print(f"a unit with {upstreams} gated upstreams and no rows: {figures['ms_per_unit']:.2f} ms")
    print(
        f"a bare transaction of one UPDATE: {figures['ms_per_bare_transaction']:.2f} ms (ratio {figures['ratio']:.1f})"
    )
    print(f"round trips a unit, as the server counts: {figures['round_trips']:.1f}")
    for kind, count in figures["statements"].items():
        print(f"  {count:4.1f}  {kind}")
    print(f"once a worker: {figures['once_a_worker']:.0f}")
    return int(upstreams == 3 and figures["round_trips"] > MAX_ROUND_TRIPS)


if __name__ == "__main__":
    sys.exit(main())
