"""What the definition language costs: importing it, defining models, reading them from YAML, and generating
ticks.

    python benchmarks/definitions.py [--rounds 15] [--models 1000] [--json FILE]

Imports are measured in processes of their own, the statements taking turns so that a busy machine is busy for
all of them; the figure is the median of the CPU time of the whole process. ``import pydantic`` alone defers
most of its work, so ``from pydantic import BaseModel``, which any program that declares a model pays, stands
beside it. Targets: the definition language under 2.5 times ``import pydantic``, a million hourly ticks in
under 5 seconds.
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
from datetime import UTC, datetime
from pathlib import Path

MAX_RATIO, MAX_TICK_SECONDS = 2.5, 5.0
BASE = "import pydantic"
STATEMENTS = (
    "pass",
    BASE,
    "from pydantic import BaseModel",
    "import bollhav_provider",
    "import bollhav_provider.intervals",
    "import bollhav_provider.model",
    "from bollhav_provider import Model, Target, Column, Source, Unit",
)


def main() -> int:
    """Measure and print; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15, help="processes for each import")
    parser.add_argument("--models", type=int, default=1000, help="models that are defined")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    figures = {"imports": imports(options.rounds), "seconds": costs(options.models)}
    missed = report(figures, options.models)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 1 if missed else 0


def imports(rounds: int) -> dict[str, float]:
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


def costs(models: int) -> dict[str, float]:
    """Return the seconds that definitions, YAML documents and ticks take in this process."""
    from bollhav_provider import Batch, Column, Contract, Grid, Model, Source, State, Target, TimeChunking
    from bollhav_provider.model.yaml import load_yaml

    def define(number: int) -> Model:
        return Model(
            target=Target(
                schema="mart",
                name=f"model_{number}",
                write_mode="upsert",
                columns=[
                    Column("day", "date", primary_key=True, partition_on=True),
                    Column("carrier", "text", primary_key=True),
                    Column("delay", "numeric(6,1)"),
                ],
            ),
            contract=Contract(begin="2013-01-01T00:00-05:00"),
            batching=Batch(time=TimeChunking("@daily", tz="America/New_York")),
            upstream=[Source("raw.flights", contract="exact"), Source("ref.airlines", contract="whole")],
            state=State(),
        )

    first = timed(lambda: define(0))
    many = timed(lambda: [define(number) for number in range(models)])
    with tempfile.TemporaryDirectory(prefix="bollhav-bench-") as folder:
        path = Path(folder) / "models.yaml"
        path.write_text("---\n".join(_document(number) for number in range(models)), encoding="utf-8")
        documents = timed(lambda: load_yaml(path))
    grid = Grid("@hourly", "America/New_York")
    since, until = datetime(1950, 1, 1, tzinfo=UTC), datetime(2064, 1, 30, tzinfo=UTC)
    ticks = 0

    def generate() -> None:
        nonlocal ticks
        ticks = sum(1 for _ in grid.ticks(since, until))

    spent = timed(generate)
    return {
        "first model": first,
        "a model": many / models,
        "a YAML document": documents / models,
        "a million ticks": spent / ticks * 1e6,
    }


def _document(number: int) -> str:
    return f"""\
target:
  schema: mart
  name: model_{number}
  columns:
    - {{name: day, type: date, primary_key: true, partition_on: true}}
    - {{name: carrier, type: text, primary_key: true}}
contract: {{begin: "2013-01-01T00:00-05:00"}}
batching: {{time: {{chunk: "@daily", tz: America/New_York}}}}
upstream:
  - {{name: raw.flights, contract: exact}}
state: {{}}
"""


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def report(figures: dict[str, dict[str, float]], models: int) -> bool:
    """Print the figures; True when a target is missed."""
    times, seconds = figures["imports"], figures["seconds"]
    print(f"{'import (CPU, whole process)':<68}{'ms':>8}{'/ pydantic':>12}")
    missed = False
    for statement, spent in times.items():
        ratio = spent / times[BASE]
        bad = statement == "import bollhav_provider.model" and ratio >= MAX_RATIO
        missed |= bad
        print(f"{statement:<68}{spent * 1000:>8.1f}{ratio:>11.2f}x{'  MISSED' if bad else ''}")
    print(f"\n{f'definitions ({models:,} each)':<68}{'ms':>8}")
    for what, spent in seconds.items():
        bad = what == "a million ticks" and spent >= MAX_TICK_SECONDS
        missed |= bad
        print(f"{what:<68}{spent * 1000:>8.2f}{'  MISSED' if bad else ''}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
