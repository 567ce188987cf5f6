"""What parsing generated DAGs costs, beside the same number of hand-written DAGs with empty operators.

    python benchmarks/dag_factory.py [--models 100 500 2000] [--rounds 3] [--json FILE]

Three views, each in a process of its own, its imports of Airflow not counted: the DAG processor's (build and
serialise every DAG), a worker's (build the one DAG that it runs, found by the parsing context), and the same of a
hand-written file that has as many DAGs and tasks, all of them plain empty operators. Models are in chains of ten, each
waiting for the one before it. Times are CPU seconds, so that a busy machine does not matter.
Targets: under twice the hand-written file, 500 models in under 5 seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

_CHAIN = 10

_MODEL = """
m{n} = Model(
    description="Model {n}.",
    target=Target(schema="s{schema}", name="m{n}", write_mode=WriteMode.RECREATE_PARTITION, columns=[
        Column("at", "timestamptz", primary_key=True, nullable=False, partition_on=True),
        Column("n", "integer", nullable=False, description="a number"),
    ]),
    contract=Contract(begin="2024-01-01T00:00+01:00"),
    batching=Batch(time=TimeChunking(chunk="@daily", tz="Europe/Stockholm")),
    upstream=[{upstream}],
    query={query!r},
    state=State(),
    tags=["t{schema}"],
)
"""
_IMPORTS = (
    "from bollhav_provider import (Batch, Column, Contract, Model, Source, SourceModel, State, Target, TimeChunking,\n"
    "                              UpstreamContract, WriteMode)\n"
)
_HAND_WRITTEN = """
from airflow.sdk import DAG, CronDataIntervalTimetable
from airflow.providers.standard.operators.empty import EmptyOperator
import pendulum
def build():
    dags = {{}}
    for n in range({models}):
        with DAG(f"m{{n}}", schedule=CronDataIntervalTimetable("0 0 * * *", timezone="Europe/Stockholm"), catchup=False,
                 start_date=pendulum.datetime(2024, 1, 1), tags=["t"], description=f"Model {{n}}.") as dag:
            first, last = EmptyOperator(task_id="first"), EmptyOperator(task_id="last")
            if n % {chain}:
                first >> EmptyOperator(task_id="wait") >> last
            else:
                first >> last
        dags[dag.dag_id] = dag
    return dags
"""
_MEASURE = """
import json, os, sys, time
import airflow.sdk, airflow.serialization.serialized_objects as so
from airflow.providers.common.compat.sdk import BaseOperator, BaseSensorOperator, DAG, get_parsing_context
from airflow.timetables.interval import CronDataIntervalTimetable
{setup}
started = time.process_time()
dags = build()
built = time.process_time()
size = sum(len(json.dumps(so.DagSerialization.to_dict(dag))) for dag in dags.values())
print(json.dumps([len(dags), built - started, time.process_time() - built, size]))
"""


def write_models(folder: Path, models: int) -> None:
    """Write definition files of ten models each."""
    for first in range(0, models, _CHAIN):
        text = _IMPORTS
        for n in range(first, min(models, first + _CHAIN)):
            schema, upstream = first // _CHAIN, ""
            query = "SELECT %(since)s::timestamptz AS at, 1 AS n WHERE %(since)s < %(until)s"
            if n > first:
                upstream = f'Source("s{schema}.m{n - 1}", type=SourceModel(), contract=UpstreamContract.EXACT)'
                query = f"SELECT u.at, u.n FROM {{m{n - 1}}} u WHERE u.at >= %(since)s AND u.at < %(until)s"  # noqa: S608
            text += _MODEL.format(n=n, schema=schema, upstream=upstream, query=query)
        (folder / f"models_{first:05d}.py").write_text(text)


def measure(setup: str, dag_id: str | None = None) -> tuple[int, float, float, int]:
    """Return how many DAGs were built, the CPU seconds to build and to serialise them, and their size in bytes."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if dag_id is not None:
        environment["_AIRFLOW_PARSING_CONTEXT_DAG_ID"] = dag_id
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE.format(setup=textwrap.dedent(setup))],
        capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    dags, build, serialise, size = json.loads(done.stdout.splitlines()[-1])
    return dags, build, serialise, size


def compare(models: int, rounds: int) -> dict[str, float]:
    """Return the figures for so many models."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "models")
        folder.mkdir()
        write_models(folder, models)
        ours = f"from bollhav_provider import build_dags\ndef build(): return build_dags({str(folder)!r})"
        theirs = _HAND_WRITTEN.format(models=models, chain=_CHAIN)
        measure(ours)  # once for the compiled files
        found = [(measure(ours), measure(ours, f"s0.m{_CHAIN - 1}"), measure(theirs)) for _ in range(rounds)]
    assert all(one[0][0] == models and one[1][0] == 1 and one[2][0] == models for one in found)

    def middle(view: int, *parts: int) -> float:
        return statistics.median(sum(one[view][part] for part in parts) for one in found)

    return {
        "models": models,
        "all_s": middle(0, 1, 2),
        "build_s": middle(0, 1),
        "one_dag_s": middle(1, 1),
        "hand_written_s": middle(2, 1, 2),
        "ratio": middle(0, 1, 2) / middle(2, 1, 2),
        "bytes_a_dag": middle(0, 3) / models,
        "hand_written_bytes_a_dag": middle(2, 3) / models,
        "one_dag_ratio": middle(1, 1) / middle(2, 1),
    }


def main() -> None:
    """Print the table, and write it where asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=int, nargs="+", default=[100, 500, 2000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["AIRFLOW_HOME"] = home
        results = [compare(models, arguments.rounds) for models in arguments.models]
    columns = {
        "models": "models",
        "all_s": "all, s",
        "build_s": "build, s",
        "one_dag_s": "one DAG, s",
        "hand_written_s": "by hand, s",
        "ratio": "ratio",
        "bytes_a_dag": "bytes a DAG",
        "hand_written_bytes_a_dag": "by hand, bytes",
    }
    print("  ".join(columns.values()))
    for result in results:
        shown = (f"{result[key]:{len(title)}.{0 if result[key] >= 100 else 2}f}" for key, title in columns.items())
        print("  ".join(shown))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
