"""What parsing a DAG file of generated DAGs costs, beside a hand-written file of as many DAGs with empty operators.

    python benchmarks/dag_factory.py [--models 100 500 2000] [--rounds 3] [--json FILE]

A file is parsed as Airflow's DAG processor does it: a process that has the processor's own modules imported, and what
the file names of Airflow, which the processor imports beforehand, and all of that frozen out of the garbage collector's
sight, forks; and the child calls the processor's own function, which runs the file, validates every DAG, applies the
policies and serialises. Counted are the child's CPU seconds until the last DAG is serialised, so that a busy machine
matters little. All imports that happen in the child count: this package, the definition files, and whatever else of
Airflow either side causes to be loaded, plugins included. What the processor has imported before counts for neither
side; its cost, which a process that starts anew pays on top, is told below the table.

The views:

* *all*: every DAG of the file, built and serialised: what the DAG processor does at each parse.
* *one DAG*: what a worker does before each task: it runs the same file, which the parsing context tells the one DAG to
  build, and serialises nothing. A hand-written file of the plain kind builds all of its DAGs there, too.
* *by hand*: as many DAGs, each with as many tasks and edges as the generated one, all of them plain empty operators;
  with what any such DAG has, and the generated one as well: schedule, start date, description, tags and owner.
* *alike by hand*: the same with the mapped task group, the asset, the documentation and the run parameters with their
  texts that a generated DAG has, but still of empty operators. Measured once, and no target; it tells what of the
  difference is Airflow's price for these features.

Models are in chains of ten, each waiting for the one before it. The size is that of the JSON which Airflow stores, and
below the table stands what a DAG's bytes are spent on. Targets: under twice the hand-written file, 500 models in under
5 seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    people=People(owner="data"),
)
"""
_IMPORTS = (
    "from bollhav_provider import (Batch, Column, Contract, Model, People, Source, SourceModel, State, Target,\n"
    "                              TimeChunking, UpstreamContract, WriteMode)\n"
)
_GENERATED = """
from bollhav_provider import build_dags
build_dags("models", into=globals())  # an Airflow DAG file
"""
_PLAIN = """
from airflow.sdk import DAG, CronDataIntervalTimetable
from airflow.providers.standard.operators.empty import EmptyOperator
import pendulum

begin = pendulum.datetime(2024, 1, 1, tz="Europe/Stockholm")
for n in range({models}):
    with DAG(f"s{{n // {chain}}}.m{{n}}", schedule=CronDataIntervalTimetable("0 0 * * *", timezone="Europe/Stockholm"),
             catchup=False, start_date=begin, tags=[f"t{{n // {chain}}}"], description=f"Model {{n}}.",
             default_args={{"owner": "data"}}) as dag:
        first, last = EmptyOperator(task_id="first"), EmptyOperator(task_id="last")
        if n % {chain}:
            wait = EmptyOperator(task_id="wait")
            first >> [wait, last]
            wait >> last
        else:
            first >> last
    globals()[f"dag_{{n}}"] = dag
"""
_ALIKE = """
from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, Param, task_group
from airflow.providers.standard.operators.empty import EmptyOperator
import json, pathlib, pendulum

texts = json.loads(pathlib.Path(__file__).with_name("texts.json").read_text())
begin = pendulum.datetime(2024, 1, 1, tz="Europe/Stockholm")
for n in range({models}):
    name, document = f"s{{n // {chain}}}.m{{n}}", texts["documents"][n]
    uri = f"postgres://bollhav:5432/library/s{{n // {chain}}}/m{{n}}"
    params = {{name: Param(None, description=said, **schema) for name, (said, schema) in texts["params"].items()}}
    with DAG(name, schedule=CronDataIntervalTimetable("0 0 * * *", timezone="Europe/Stockholm"), catchup=False,
             start_date=begin, tags=[f"t{{n // {chain}}}"], default_args={{"owner": "data"}},
             description=f"Model {{n}}.", doc_md=document, params=params) as dag:
        first = EmptyOperator(task_id="first")
        @task_group
        def unit(units):
            last = EmptyOperator(task_id="last", outlets=[Asset(name, uri=uri)])
            if n % {chain}:
                EmptyOperator(task_id="wait") >> last
        unit.expand(units=first.output)
    globals()[f"dag_{{n}}"] = dag
"""


#: What a DAG's bytes are spent on, and the fields of its JSON.
_PARTS = {
    "parameters": ("params",),
    "documentation": ("doc_md", "description"),
    "tasks": ("tasks",),
    "task groups": ("task_group",),
    "assets' dependencies": ("dag_dependencies",),
}


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


def write_files(folder: Path, models: int) -> None:
    """Write the generated DAGs' file with its definitions, and the hand-written ones."""
    (folder / "models").mkdir()
    write_models(folder / "models", models)
    (folder / "generated.py").write_text(_GENERATED)
    (folder / "plain.py").write_text(_PLAIN.format(models=models, chain=_CHAIN))
    (folder / "alike.py").write_text(_ALIKE.format(models=models, chain=_CHAIN))


def parsed(work: Callable[[Path], Any], file: Path) -> Any:
    """Return what ``work`` finds about a file, in the child of a processor that has prepared for the file."""
    import gc

    from airflow.dag_processing.processor import _pre_import_airflow_modules

    def prepared() -> Any:
        _pre_import_airflow_modules(str(file), structlog.get_logger())
        gc.freeze()
        return in_a_fork(lambda: work(file))

    import structlog

    return in_a_fork(prepared)


def in_a_fork(work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns in a child process, as JSON.

    Raises:
        RuntimeError: the child failed.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            with os.fdopen(writer, "w") as out:
                json.dump(work(), out)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as answers:
        text = answers.read()
    if os.waitpid(child, 0)[1] != 0:
        raise RuntimeError("a parse failed; its trace is above")
    return json.loads(text)


def processed(file: Path) -> dict[str, float]:
    """Parse a file as the DAG processor does; CPU seconds, and what was found."""
    import structlog
    from airflow.dag_processing.processor import DagFileParseRequest, _parse_file

    request = DagFileParseRequest(file=str(file), bundle_path=file.parent, bundle_name="dags", callback_requests=[])
    started, clock = time.process_time(), time.monotonic()
    result = _parse_file(request, structlog.get_logger())
    seconds, wall = time.process_time() - started, time.monotonic() - clock
    if result is None or result.import_errors:
        raise RuntimeError(f"{file.name}: {result and result.import_errors}")
    found = [one.data for one in result.serialized_dags]
    tasks = [task["__var"] for one in found for task in one["dag"]["tasks"]]
    return {
        "dags": len(found),
        "tasks": len(tasks),
        "edges": sum(len(task.get("downstream_task_ids", ())) for task in tasks),
        "seconds": seconds,
        "wall": wall,
        "bytes": sum(len(json.dumps(one)) for one in found),
    } | {f"of {part}": sum(spent(one["dag"], *keys) for one in found) for part, keys in _PARTS.items()}


def spent(serialised: dict[str, Any], *keys: str) -> int:
    """Return the bytes of some of a DAG's fields, their names included."""
    return sum(len(json.dumps({key: serialised[key]})) for key in keys if key in serialised)


def in_a_worker(file: Path, dag_id: str) -> dict[str, float]:
    """Parse a file as a worker does before a task of ``dag_id``; CPU seconds, and how many DAGs were built."""
    from airflow.dag_processing.dagbag import BundleDagBag

    os.environ["_AIRFLOW_PARSING_CONTEXT_DAG_ID"] = dag_id
    started = time.process_time()
    bag = BundleDagBag(
        dag_folder=str(file), safe_mode=False, load_op_links=False, bundle_path=file.parent, bundle_name="dags"
    )
    seconds = time.process_time() - started
    assert dag_id in bag.dags, bag.import_errors
    return {"dags": len(bag.dags), "seconds": seconds}


def texts(file: Path) -> dict[str, Any]:
    """Return the documentation and parameters of the DAGs of a file, for a hand-written file to have the same."""
    from airflow.dag_processing.dagbag import BundleDagBag

    bag = BundleDagBag(dag_folder=str(file), bundle_path=file.parent, bundle_name="dags")
    dags = [bag.dags[name] for name in sorted(bag.dags, key=lambda name: int(name.rpartition("m")[2]))]
    params = dags[0].params
    return {
        "documents": [dag.doc_md for dag in dags],
        "params": {name: (params.get_param(name).description, params.get_param(name).schema) for name in params},
    }


def compare(models: int, rounds: int) -> dict[str, Any]:
    """Return the figures for so many models: medians of the rounds, in each of which the views take turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, models)
        said = parsed(texts, folder / "generated.py")  # this one also writes the compiled files
        (folder / "texts.json").write_text(json.dumps(said))
        last = f"s{(models - 1) // _CHAIN}.m{models - 1}"
        alike = parsed(processed, folder / "alike.py")
        found = [
            {kind: parsed(processed, folder / f"{kind}.py") for kind in ("generated", "plain")}
            | {
                f"one {kind}": parsed(lambda file: in_a_worker(file, last), folder / f"{kind}.py")
                for kind in ("generated", "plain")
            }
            for _ in range(rounds)
        ]
    for one in found:
        for figure in ("dags", "tasks"):
            assert one["generated"][figure] == one["plain"][figure] == alike[figure], (figure, one, alike)
        assert one["generated"]["edges"] == one["plain"]["edges"], one
        assert one["generated"]["dags"] == models
        assert one["one generated"]["dags"] == 1

    def middle(view: str, figure: str = "seconds") -> float:
        return statistics.median(one[view][figure] for one in found)

    def ratio(view: str, other: str, figure: str = "seconds") -> float:
        return statistics.median(one[view][figure] / one[other][figure] for one in found)

    return {
        "models": models,
        "all_s": middle("generated"),
        "all_wall_s": middle("generated", "wall"),
        "by_hand_s": middle("plain"),
        "ratio": ratio("generated", "plain"),
        "alike_s": alike["seconds"],
        "one_dag_s": middle("one generated"),
        "one_dag_by_hand_s": middle("one plain"),
        "one_dag_ratio": ratio("one generated", "one plain"),
        "bytes_a_dag": middle("generated", "bytes") / models,
        "by_hand_bytes_a_dag": middle("plain", "bytes") / models,
        "bytes_ratio": ratio("generated", "plain", "bytes"),
        "alike_bytes_a_dag": alike["bytes"] / models,
        "spent": {part: {k: found[0][k][f"of {part}"] / models for k in ("generated", "plain")} for part in _PARTS},
    }


def become_a_processor(home: str) -> None:
    """Import what a DAG processor has imported before it forks for a file."""
    import importlib

    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ |= {
        "AIRFLOW_HOME": home,
        "_AIRFLOW_PROCESS_CONTEXT": "client",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "600",  # of wall time, which a busy machine has less of
    }
    for module in ("manager", "processor", "dagbag"):
        importlib.import_module(f"airflow.dag_processing.{module}")
    importlib.import_module("airflow.sdk.execution_time.task_runner")


def main() -> None:
    """Print the table, and write it where asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=int, nargs="+", default=[100, 500, 2000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        started = time.process_time()
        become_a_processor(home)
        imports = time.process_time() - started
        results = [compare(models, arguments.rounds) for models in arguments.models]
    columns = {
        "models": "models",
        "all_s": "all, s",
        "by_hand_s": "by hand, s",
        "ratio": "ratio",
        "alike_s": "alike by hand, s",
        "one_dag_s": "one DAG, s",
        "one_dag_by_hand_s": "by hand, s",
        "one_dag_ratio": "ratio",
        "bytes_a_dag": "bytes a DAG",
        "by_hand_bytes_a_dag": "by hand",
        "bytes_ratio": "ratio",
        "alike_bytes_a_dag": "alike by hand",
    }
    print("  ".join(columns.values()))
    for result in results:
        shown = (f"{result[key]:{len(title)}.{0 if result[key] >= 100 else 2}f}" for key, title in columns.items())
        print("  ".join(shown))
    print(
        "\nbytes of a DAG, and by hand: "
        + "; ".join(
            f"{part} {both['generated']:.0f}, {both['plain']:.0f}" for part, both in results[-1]["spent"].items()
        )
    )
    print(f"imports of Airflow, once a process and in none of the figures: {imports:.2f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
