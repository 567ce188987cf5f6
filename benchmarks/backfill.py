"""Wall time of a 7-day backfill of the demo, beside the same DAGs, runs and task instances that do nothing.

    python benchmarks/backfill.py [--days 7] [--json FILE]

One real deployment serves all sides, one after the other: the demo's models; hand-written DAGs whose tasks start a
worker process, as every task that works does, and do nothing in it; and hand-written DAGs of Airflow's EmptyOperator,
which the scheduler marks successful without a worker. What the second takes is Airflow's own; what the first takes
beyond it is ours, with the work itself. Wall times are from the first backfill to the last run's end. A busy machine
stretches them, so the load and CPU seconds stand beside them: of the scheduler with its task processes, and of all of
Airflow and PostgreSQL, which on a stretched side also counts what a deployment uses while it waits. Target: the demo,
from the start of its deployment to its last run's end, in under 5 minutes on two cores. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console

from bollhav_provider.factory.tasks import gates
from bollhav_provider.graph import build_graph, discover
from tools import LOCAL, ROOT
from tools.demo import check, command, progress
from tools.demo.deployment import Deployment, deployment
from tools.demo.places import Places
from tools.processes import free_port, orderly_end

PLACES = Places(LOCAL / "backfill")
MAX_DEMO_SECONDS = 300.0
#: The demo, and the hand-written sides by the prefix of their DAGs.
OURS, NOTHING, EMPTY = "the demo", "nothing", "empty"
TITLES = {OURS: "the demo's models", NOTHING: "tasks that do nothing", EMPTY: "EmptyOperator"}
_BY_HAND = '''"""An Airflow DAG file."""
import pendulum
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, BaseOperator, CronDataIntervalTimetable


class NothingOperator(BaseOperator):
    def execute(self, context):
        return None


first = pendulum.datetime(2013, 1, 1, tz="America/New_York")
for prefix, operator in (({nothing!r}, NothingOperator), ({empty!r}, EmptyOperator)):
    for name, waits in {waits!r}.items():
        daily = CronDataIntervalTimetable("0 0 * * *", timezone="America/New_York") if name in {temporal!r} else None
        with DAG(f"{{prefix}}.{{name}}", schedule=daily, start_date=first, end_date=first.add(days={days} - 1),
                 catchup=False) as dag:
            begin, end = operator(task_id="first"), operator(task_id="last")
            begin >> end
            for number in range(waits):
                begin >> operator(task_id=f"wait_{{number}}") >> end
        globals()[dag.dag_id] = dag
'''


def main() -> int:
    """Measure and print; exit code 1 when the demo is wrong or takes too long."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    folder = LOCAL / "backfill-dags"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "dags", folder, ignore=shutil.ignore_patterns("__pycache__"))
    waits = gates_of_models()
    text = _BY_HAND.format(waits=waits, nothing=NOTHING, empty=EMPTY, temporal=command.TEMPORAL, days=arguments.days)
    (folder / "by_hand.py").write_text(text)
    load = os.getloadavg()[0]
    started = time.time()
    try:
        where = {"places": PLACES, "dags": folder, "port": free_port()}
        with orderly_end(), deployment(days=arguments.days, **where) as running:
            figures = compare(running, arguments.days, list(waits), started)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    figures |= {"days": arguments.days, "cores": os.cpu_count(), "load_before": load, "load_after": os.getloadavg()[0]}
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    return report(figures)


def gates_of_models() -> dict[str, int]:
    """Return how many gates each model of the demo waits at, by its full name."""
    sys.path.insert(0, str(ROOT / "dags"))
    found = discover(ROOT / "dags" / "models")
    if found.errors:
        raise SystemExit(f"The demo's definitions cannot be read: {found.errors[0]}")
    graph = build_graph(found.models)
    return {model.full_name: len(gates(model, graph)) for model in graph.models}


def compare(running: Deployment, days: int, names: list[str], started: float) -> dict[str, Any]:
    """Return the figures of all sides.

    Args:
        running: the deployment, with nothing run in it yet.
        days: local days to backfill.
        names: full names of the models, which are their DAGs' ids.
        started: when the deployment was begun, in seconds since 1970.
    """
    up = time.time() - started
    wanted = {*names, *(f"{prefix}.{name}" for prefix in (NOTHING, EMPTY) for name in names)}
    while running.airflow.dag_ids() < wanted:
        running.check_alive()
        time.sleep(0.2)
    console = Console(highlight=False)
    sides = {OURS: measured(running, names, lambda: command.fill(running, days, console))}
    demo = sides[OURS].pop("ended") - started
    with running.connect() as conn:
        wrong = list(check.problems(conn, progress.read_counts(conn), days))
    for prefix in (NOTHING, EMPTY):
        mine = [f"{prefix}.{name}" for name in names]
        sides[prefix] = measured(running, mine, lambda mine=mine: fill_by_hand(running, days, mine))
        del sides[prefix]["ended"]
    for what in ("dags", "runs", "tasks"):
        counts = {name: side[what] for name, side in sides.items()}
        if len(set(counts.values())) != 1:
            wrong.append(f"the sides differ in {what}: {counts}")
    return {"startup_s": up, "demo_s": demo, "sides": sides, "wrong": wrong}


def fill_by_hand(running: Deployment, days: int, dag_ids: list[str]) -> None:
    """Start all runs of hand-written DAGs at once, as many and as many together as the demo's, and await their end."""
    dates = command.first_and_last(days)
    expected = 0
    for dag_id in dag_ids:
        running.airflow.pause(dag_id, False)
        if dag_id.split(".", 1)[1] in command.TEMPORAL:
            running.airflow.backfill(dag_id, *dates, at_once=7)
            expected += days
        else:
            running.airflow.trigger(dag_id)
            expected += 1
    while True:
        running.check_alive()
        runs = [run for run in running.airflow.runs() if run["dag_id"] in dag_ids]
        if len(runs) == expected and not any(run["state"] in ("queued", "running") for run in runs):
            return
        time.sleep(1)


def measured(running: Deployment, dag_ids: Iterable[str], fill: Callable[[], None]) -> dict[str, Any]:
    """Run one side and return its figures.

    Args:
        running: the deployment.
        dag_ids: the side's DAGs.
        fill: starts all of its runs and returns when they have ended.
    """
    mine, roots, scheduler = set(dag_ids), processes(running), [running.processes["scheduler"].pid]
    cpu, task_cpu, started = cpu_seconds(roots), cpu_seconds(scheduler), time.time()
    fill()
    cpu, task_cpu = cpu_seconds(roots) - cpu, cpu_seconds(scheduler) - task_cpu
    runs = [run for run in running.airflow.runs() if run["dag_id"] in mine]
    tasks = [task for task in running.airflow.tasks() if task["dag_id"] in mine]
    for dag_id in mine:
        running.airflow.pause(dag_id)
    failed = [f"{run['dag_id']} {run['dag_run_id']}" for run in runs if run["state"] != "success"]
    if failed:
        raise SystemExit(f"{len(failed)} runs failed, {failed[0]} for instance: see {running.logs}.")
    ended = max(datetime.fromisoformat(run["end_date"]).timestamp() for run in runs)
    return {
        "dags": len({run["dag_id"] for run in runs}),
        "runs": len(runs),
        "tasks": len(tasks),
        "worker_starts": sum(task["pid"] is not None for task in tasks),
        "wall_s": ended - started,
        "cpu_s": cpu,
        "task_cpu_s": task_cpu,
        "kinds": dict(kinds(tasks)),
        "ended": ended,
    }


def kinds(tasks: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the number of task instances of each kind, and the median of the seconds from their start to their end."""
    for title, belongs in (
        ("prefill or first", lambda name: name in ("prefill", "first")),
        ("gate or wait", lambda name: name not in ("prefill", "first", "unit.execute", "last")),
        ("execute or last", lambda name: name in ("unit.execute", "last")),
    ):
        seconds = [task["duration"] or 0.0 for task in tasks if belongs(task["task_id"])]
        yield title, {"tasks": len(seconds), "median_s": statistics.median(seconds)}


def processes(running: Deployment) -> list[int]:
    """Return the processes whose descendants are the whole deployment: Airflow's components and PostgreSQL."""
    with running.connect() as conn:
        row = conn.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        postmaster = _stat(int(row[0]))[1]
    return [postmaster, *(process.pid for process in running.processes.values())]


def cpu_seconds(roots: Iterable[int]) -> float:
    """Return the CPU seconds that these processes and all that came from them have used, the ended ones too."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            ticks[int(path.name)], parent = _stat(int(path.name))
        except OSError:  # it ended meanwhile
            continue
        children.setdefault(parent, []).append(int(path.name))
    found, todo = 0, list(roots)
    while todo:
        pid = todo.pop()
        found += ticks.get(pid, 0)
        todo += children.get(pid, ())
    return found / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> tuple[int, int]:
    """Return a process's clock ticks, those of the children that it has waited for included, and its parent."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])), int(fields[1])


def report(figures: dict[str, Any]) -> int:
    """Print the figures and return the exit code."""
    sides = figures["sides"]
    print(f"\n{figures['days']} days on {figures['cores']} cores; load average {figures['load_before']:.1f} before and "
          f"{figures['load_after']:.1f} at the end")  # fmt: skip
    print(f"{'':<22} {'DAGs':>5} {'runs':>5} {'tasks':>6} {'workers':>8} {'wall, s':>8} {'tasks, s':>8} {'CPU, s':>7}")
    for name, side in sides.items():
        print(f"{TITLES[name]:<22} {side['dags']:>5} {side['runs']:>5} {side['tasks']:>6} {side['worker_starts']:>8} "
              f"{side['wall_s']:>8.1f} {side['task_cpu_s']:>8.1f} {side['cpu_s']:>7.1f}")  # fmt: skip
    for other in (NOTHING, EMPTY):
        wall, tasks, cpu = (sides[OURS][what] / sides[other][what] for what in ("wall_s", "task_cpu_s", "cpu_s"))
        print(f"the demo against {TITLES[other]}: {wall:.2f} times the wall time, {tasks:.2f} times the CPU of the "
              f"scheduler and its tasks, {cpu:.2f} times all CPU")  # fmt: skip
    ours, theirs = (sides[side]["task_cpu_s"] / sides[side]["tasks"] for side in (OURS, NOTHING))
    print(f"CPU of scheduler and tasks, by task: {ours:.2f} s for the demo, {theirs:.2f} s for nothing")
    print(f"{'seconds of a task, median':<28} {'tasks':>6} {'demo':>6} {'nothing':>8}")
    for kind, ours in sides[OURS]["kinds"].items():
        theirs = sides[NOTHING]["kinds"][kind]
        print(f"{kind:<28} {ours['tasks']:>6} {ours['median_s']:>6.2f} {theirs['median_s']:>8.2f}")
    print(f"the demo from its start: {figures['demo_s']:.0f} s, {figures['startup_s']:.0f} s of them until Airflow was "
          f"up (target: under {MAX_DEMO_SECONDS:.0f} s)")  # fmt: skip
    for problem in figures["wrong"]:
        print(f"wrong: {problem}")
    return int(bool(figures["wrong"]) or figures["demo_s"] > MAX_DEMO_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
