"""What the graph costs: importing it, finding definitions in files, and building at several sizes.

    python benchmarks/graph.py [--sizes 100,1000,5000] [--rounds 15] [--json FILE]

Imports are measured in processes of their own, the statements taking turns so that a busy machine is busy for all
of them. Building is linear: the last column is the time an edge costs against what it costs in the smallest
graph. Targets: the import of the package and of the definition language under 2.5 times ``import pydantic``; 500 files
discovered and built in under 2 seconds of CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bollhav_provider.model import Model

MAX_RATIO, MAX_DISCOVERY, FILES = 2.5, 2.0, 500
BASE = "import pydantic"
STATEMENTS = (BASE, "import bollhav_provider", "import bollhav_provider.model", "import bollhav_provider.graph")
#: What a definition file imports; the graph is the deployment's.
JUDGED = ("import bollhav_provider", "import bollhav_provider.model")


def main() -> int:
    """Measure and print; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="100,1000,5000", help="numbers of models")
    parser.add_argument("--rounds", type=int, default=15, help="processes for each import")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    figures = {
        "imports": _imports(options.rounds),
        "builds": _builds([int(size) for size in options.sizes.split(",")]),
        "discovery": _discovery(),
    }
    missed = _report(figures)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 1 if missed else 0


def _imports(rounds: int) -> dict[str, float]:
    """Return the median CPU seconds of a process that executes each statement."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found: dict[str, list[float]] = {statement: [] for statement in STATEMENTS}
    for turn in range(rounds + 1):
        for statement in STATEMENTS:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if turn:  # the first turn only fills the caches
                found[statement].append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return {statement: statistics.median(times) for statement, times in found.items()}


def timed(work: Callable[[], object]) -> float:
    """Return the CPU seconds that something takes, the best of three."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def _builds(sizes: list[int]) -> list[dict[str, Any]]:
    from bollhav_provider.graph import build_graph

    def build(models: list[Model]) -> None:
        graph = build_graph(models)
        if graph.errors or len(graph.order()) != len(models):
            raise SystemExit(f"the benchmark's own models do not fit: {graph.errors[:3]}")

    found = []
    for size in sizes:
        for shape, make in (("chain", _chain), ("fan", _fan), ("layers of 10 upstreams", _layers)):
            models, edges = make(size)
            found.append({"shape": shape, "models": size, "edges": edges, "seconds": timed(lambda: build(models))})  # noqa: B023
    return found


def _model(schema: str, name: str, *upstream: Any) -> Model:
    from bollhav_provider.model import Batch, Model, Source, Target, TimeChunking

    sources = [source if isinstance(source, Source) else Source(source) for source in upstream]
    return Model(target=Target(schema=schema, name=name), batching=Batch(time=TimeChunking("@daily")), upstream=sources)


def _chain(size: int) -> tuple[list[Model], int]:
    return [_model("s", f"m{n:05}", *([f"s.m{n - 1:05}"] if n else [])) for n in range(size)], size - 1


def _fan(size: int) -> tuple[list[Model], int]:
    """One model that all read, and one that reads all by a wildcard."""
    from bollhav_provider.model import Source

    leaves = [_model(f"f{n:05}", "leaf", "s.root") for n in range(size - 2)]
    return [_model("s", "root"), *leaves, _model("s", "all", Source("*.leaf", many=True))], 2 * (size - 2)


def _layers(size: int) -> tuple[list[Model], int]:
    models, edges = [], 0
    for n in range(size):
        reads = [f"s.m{other:05}" for other in range(max(n - 10, 0), n)]
        edges += len(reads)
        models.append(_model("s", f"m{n:05}", *reads))
    return models, edges


def _discovery() -> dict[str, float]:
    """Return the seconds to find the models of files, and to build their graph, in a process that starts cold."""
    program = (
        "import sys, time\n"
        "began = time.process_time()\n"
        "from bollhav_provider.graph import build_graph, discover\n"
        "found = discover(sys.argv[1])\n"
        "seen = time.process_time()\n"
        "graph = build_graph(found.models).require_good()\n"
        f"assert len(graph.order()) == {FILES}, found.errors\n"
        "print(seen - began, time.process_time() - seen)\n"
    )
    with tempfile.TemporaryDirectory(prefix="bollhav-bench-") as name:
        folder = Path(name) / "models"
        folder.mkdir()
        for n in range(FILES):
            upstream = f"Source('s.m{n - 1:03}', contract='exact')" if n else ""
            (folder / f"m{n:03}.py").write_text(
                "from bollhav_provider import Batch, Column, Model, Source, State, Target, TimeChunking\n"
                f"model = Model(target=Target(schema='s', name='m{n:03}', write_mode='recreate_partition',\n"
                "    columns=[Column('at', 'timestamptz', partition_on=True), Column('x', 'integer')]),\n"
                "    batching=Batch(time=TimeChunking('@daily', tz='America/New_York')),\n"
                f"    upstream=[{upstream}], state=State())\n"
                "@model.execute\n"
                "def make(unit): ...\n",
                encoding="utf-8",
            )
        turns = []
        for _ in range(3):
            done = subprocess.run(
                [sys.executable, "-c", program, str(folder)], check=True, capture_output=True, text=True
            )
            turns.append([float(word) for word in done.stdout.split()])
    discovered, built = min(turns, key=sum)
    return {"import and discover": discovered, "build": built}


def _report(figures: dict[str, Any]) -> bool:
    missed = False
    print(f"{'import (CPU, whole process)':<44}{'ms':>9}{'/ pydantic':>13}")
    for statement, spent in figures["imports"].items():
        ratio = spent / figures["imports"][BASE]
        bad = statement in JUDGED and ratio >= MAX_RATIO
        missed |= bad
        print(f"{statement:<44}{spent * 1000:>9.1f}{ratio:>12.2f}x{'  MISSED' if bad else ''}")
    print(f"\n{'graph build':<26}{'models':>8}{'edges':>10}{'ms':>9}{'µs an edge':>13}{'/ smallest':>12}")
    first: dict[str, float] = {}
    for row in figures["builds"]:
        cost = row["seconds"] / max(row["edges"], 1)
        first.setdefault(row["shape"], cost)
        print(
            f"{row['shape']:<26}{row['models']:>8,}{row['edges']:>10,}{row['seconds'] * 1000:>9.1f}"
            f"{cost * 1e6:>13.1f}{cost / first[row['shape']]:>11.2f}x"
        )
    total = sum(figures["discovery"].values())
    bad = total >= MAX_DISCOVERY
    print(f"\n{f'{FILES} files, cold (CPU)':<44}{'s':>9}")
    for what, spent in figures["discovery"].items():
        print(f"{what:<44}{spent:>9.2f}")
    print(f"{'together':<44}{total:>9.2f}{'  MISSED' if bad else ''}")
    return missed or bad


if __name__ == "__main__":
    sys.exit(main())
