"""Nothing depends on one machine: docker-compose.yaml's services with two Celery workers, one of which is lost."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql

from tests.e2e.composed import COMPONENTS, INSTALLED, PLACES, Composed, composed
from tests.e2e.watch import Watch
from tools.console import Sentence
from tools.demo.client import Airflow
from tools.guard import kill_leftovers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DAYS = 2
MARTS = ("mart.carrier_day", "mart.carrier_to_date")
MODELS = ("ref.airlines", "raw.flights", *MARTS)
#: A write of flights stops at its first row until the test lets go of a lock.
HOLD = """
    CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NEW; END';
    CREATE TRIGGER hold BEFORE INSERT ON raw.flights FOR EACH ROW EXECUTE FUNCTION public.hold();
"""
WAITING = sql.SQL("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted")


@pytest.fixture(scope="module")
def running() -> Iterator[Composed]:
    if missing := INSTALLED.missing():
        pytest.skip(missing)
    try:
        INSTALLED.ensure()
    except Sentence as sentence:
        pytest.skip(f"Celery is not installed: {sentence}")
    with composed(DAYS) as found:
        yield found


def test_the_installed_airflow_has_every_option_that_the_file_sets(running: Composed) -> None:
    assert running.unknown_options() == []


def test_every_health_check_of_the_file_says_that_its_service_is_healthy(running: Composed) -> None:
    names = {name: name for name in COMPONENTS}
    if running.broker == "redis":  # a database as broker carries no commands for workers
        names |= {"redis": "redis"} | dict.fromkeys(running.workers, "worker")
    for name, service in names.items():
        done = running.health(service, name)
        assert done.returncode == 0, f"{name}: {done.stdout} {done.stderr}"


def test_what_a_lost_worker_was_writing_is_written_once_by_the_other(running: Composed) -> None:
    watch, airflow = Watch(running, DAYS), running.airflow
    assert set(MODELS) <= airflow.dag_ids()
    for model in MODELS:
        airflow.pause(model, False)
    airflow.trigger("ref.airlines")
    watch.backfill("raw.flights", 1, 1)
    watch.wait_for("the first day of flights", lambda: watch.all_ended("raw.flights", "ref.airlines"))
    day = watch.day(2)
    with running.connect() as conn:
        conn.execute(HOLD)
        conn.execute("SELECT pg_advisory_lock(4711)")
        watch.backfill("mart.carrier_day", 1, DAYS)
        watch.wait_for("mart.carrier_day to be registered", lambda: watch.registered() >= {"mart.carrier_day"})
        watch.backfill("mart.carrier_to_date", 1, DAYS)
        watch.backfill("raw.flights", 2, 2)

        def writing() -> Any:
            tasks = [t for t in airflow.tasks("raw.flights", state="running") if t["task_id"] == "unit.execute"]
            return tasks[0] if watch.rows(WAITING) and tasks and tasks[0]["pid"] else None

        task = watch.wait_for("a worker in the middle of its write", writing)
        watch.wait_for("both workers to have done something", lambda: all(map(tasks_done, running.workers)))
        lost = worker_of(running, int(task["pid"]))
        kill_leftovers(running.workers[lost].pid, running.workers[lost].pid, os.getpid())
        done_by_lost = tasks_done(lost)
        assert watch.state("raw.flights")[day].status == "running"
        watch.wait_for("Airflow to notice", lambda: latest(airflow, task) != ("running", task["try_number"]))
        conn.execute("SELECT pg_advisory_unlock(4711)")
    watch.wait_for("everything to end", lambda: watch.all_ended(*MODELS), seconds=240)
    assert {run["state"] for run in airflow.runs() if run["dag_id"] in MODELS} == {"success"}
    assert [watch.state("raw.flights")[watch.day(n)].status for n in (1, 2)] == ["applied", "applied"]
    assert [problem for problem in watch.problems() if problem.startswith(MODELS)] == []
    assert tasks_done(lost) == done_by_lost


def latest(airflow: Airflow, task: dict[str, Any]) -> tuple[str, int]:
    """Return the state and the number of the latest try of a task; each try has an id of its own."""
    same = [t for t in airflow.tasks("raw.flights", task["dag_run_id"]) if t["task_id"] == task["task_id"]]
    return same[0]["state"], same[0]["try_number"]


def tasks_done(worker: str) -> int:
    """Return how many tasks a worker's log says that it has done."""
    return len(re.findall(r"succeeded in [\d.]+s", (PLACES.logs / f"{worker}.log").read_text()))


def worker_of(running: Composed, pid: int) -> str:
    """Return the name of the worker that a process descends from."""
    roots = {process.pid: name for name, process in running.workers.items()}
    while pid > 1:
        if pid in roots:
            return roots[pid]
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    raise AssertionError("the task is no worker's")
