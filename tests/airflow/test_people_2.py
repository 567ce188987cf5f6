"""What people do in Airflow 2, on a real deployment, through its REST API and its commands; as ``test_people`` on 3.3.

The tests share one deployment; each begins where the one before it left it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from psycopg import sql
from test_people import People

from bollhav_provider.model.names import state_table_name
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS
from tools import LOCAL
from tools.demo.deployment import Deployment
from tools.demo.places import Places

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(AIRFLOW_V_3_0_PLUS, reason="the deployment is one of Airflow 2"),
]

ALL = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-04T00:00:00Z"}
FIRST, SECOND, THIRD = "2024-01-01", "2024-01-02", "2024-01-03"
#: One row for each load that was committed.
LOAD = """
CREATE FUNCTION control.load(at timestamptz) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_sleep(1);
    INSERT INTO control.loads VALUES (at);
    RETURN 1;
END $$
"""


class People2(People):
    """A deployment of Airflow 2, and what a person does with it."""

    def __init__(self, running: Deployment) -> None:
        from airflow_2 import Page

        super().__init__(running)
        self.page = Page(running.airflow)

    def start_backfill(self, model: str, first: str, last: str, *flags: str) -> subprocess.Popen[str]:
        """Start ``airflow dags backfill`` over logical dates, both included."""
        from airflow_2 import AIRFLOW

        command = [AIRFLOW, "dags", "backfill", model, "--start-date", first, "--end-date", last, "--yes", *flags]
        return subprocess.Popen(
            command, env=self.running.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def backfill_2(self, model: str, first: str, last: str, *flags: str, code: int = 0) -> None:
        """Backfill, and wait for its end, as the command does."""
        with self.start_backfill(model, first, last, *flags) as process:
            try:
                told, _ = process.communicate(timeout=150)
            except subprocess.TimeoutExpired:
                process.kill()
                told, _ = process.communicate()
                raise AssertionError(f"the backfill did not end:\n{told[-4000:]}") from None
        assert process.returncode == code, told[-4000:]

    def run(self, model: str, **conf: object) -> str:
        """Run a DAG once over all three days, and return the run's id when it has ended."""
        run = self.airflow.trigger(model, ALL | conf)
        self.until(lambda: self.has_ended(model, run))
        return run

    def has_ended(self, model: str, run: str) -> bool:
        return self.run_state(model, run) in ("success", "failed")

    def run_state(self, model: str, run: str) -> str:
        return str(self.airflow.get(f"/dags/{model}/dagRuns/{quote(run, safe='')}")["state"])

    def mark(self, task: dict[str, Any], state: str) -> None:
        run = quote(task["dag_run_id"], safe="")
        path = f"/dags/{task['dag_id']}/dagRuns/{run}/taskInstances/{task['task_id']}/{task['map_index']}"
        self.airflow.patch(path, {"new_state": state, "dry_run": False})

    def execute_task(self, model: str, run: str, index: int = 0) -> dict[str, Any]:
        """Return a task of a run that executes."""
        tasks = self.airflow.tasks(model, run)
        return next(t for t in tasks if t["task_id"] == "unit.execute" and t["map_index"] == index)

    def clear_task(self, task: dict[str, Any]) -> None:
        """Clear one of a run's mapped tasks in the UI, and wait until the run has ended again.

        Neither the REST API nor the command line of Airflow 2 can clear one: they clear all that a task is mapped to.
        """
        self.page.submit("/clear", **_identity(task), execution_date=task["execution_date"], confirmed="true")
        self.until(lambda: self.has_ended(task["dag_id"], task["dag_run_id"]))

    def mark_in_ui(self, task: dict[str, Any], state: str) -> None:
        """Mark one of a run's mapped tasks in the UI."""
        self.page.submit(f"/{state}", **_identity(task))

    def claims(self, model: str) -> list[Any]:
        """Return what is claimed of a model, or seems to be."""
        table = sql.Identifier(state_table_name(model))
        held = sql.SQL("status = 'running' OR owner IS NOT NULL OR lease_until IS NOT NULL")
        return self.rows(sql.SQL("SELECT since FROM z_bollhav.{} WHERE {}").format(table, held))

    def marked(self, model: str) -> list[tuple[str, str]]:
        """Return the days that somebody marked, with who did."""
        table = sql.Identifier(state_table_name(model))
        query = "SELECT since::date::text, marked_by FROM z_bollhav.{} WHERE marked_by IS NOT NULL ORDER BY since"
        return self.rows(sql.SQL(query).format(table))

    def sleep(self, asleep: bool) -> None:
        """Have the query of ``shop.slow`` sleep for two minutes in the second window, or not."""
        self.execute(f"UPDATE control.sleep SET seconds = {120 if asleep else 0}")  # noqa: S608


def _identity(task: dict[str, Any]) -> dict[str, object]:
    """Return the fields of the UI's forms that name a task."""
    return {name: task[name] for name in ("dag_id", "dag_run_id", "task_id", "map_index")}


@pytest.fixture(scope="module")
def people() -> Iterator[People2]:
    """A running deployment with the models of the folder beside this file."""
    from airflow_2 import deployment_2

    server = os.environ.get("BOLLHAV_TEST_DSN")
    with deployment_2(Places(LOCAL / "people-2"), Path(__file__).parent / "people_2", server) as running:
        found = People2(running)
        found.execute(
            "CREATE SCHEMA control",
            "CREATE TABLE control.sleep (day timestamptz, seconds double precision)",
            "INSERT INTO control.sleep VALUES ('2024-01-02T00:00Z', 0)",
            "CREATE TABLE control.divisor AS SELECT 0 AS n",
            "CREATE TABLE control.loads (at timestamptz)",
            LOAD,
        )
        for dag_id in running.airflow.dag_ids() - {"shop.recent"}:
            running.airflow.pause(dag_id, False)
        yield found


def test_a_task_that_is_killed_is_tried_again_and_does_only_what_is_left(people: People2) -> None:
    people.sleep(True)
    run = people.airflow.trigger("shop.slow", ALL)
    people.until(lambda: people.state("shop.slow").get(SECOND, ("",))[0] == "running")
    assert people.state("shop.slow") == {FIRST: ("applied", 1), SECOND: ("running", 1), THIRD: ("pending", 0)}
    people.sleep(False)
    os.kill(people.execute_task("shop.slow", run)["pid"], signal.SIGKILL)
    people.until(lambda: people.has_ended("shop.slow", run))
    assert people.state("shop.slow") == {FIRST: ("applied", 1), SECOND: ("applied", 2), THIRD: ("applied", 1)}
    assert people.execute_task("shop.slow", run)["try_number"] == 2
    assert people.claims("shop.slow") == []


@pytest.mark.parametrize("state", ["failed", "success"])
def test_marking_a_running_task_leaves_no_claim_and_no_query_behind(people: People2, state: str) -> None:
    people.sleep(True)
    run = people.airflow.trigger("shop.slow", ALL)
    people.until(lambda: people.state("shop.slow").get(SECOND, ("",))[0] == "running")
    before = people.state("shop.slow")
    assert before[FIRST][0] == "applied"
    people.mark(people.execute_task("shop.slow", run), state)
    expected = {
        "failed": before | {SECOND: ("pending", before[SECOND][1])},
        "success": before | {day: ("applied", before[day][1] + 1) for day in (SECOND, THIRD)},
    }[state]
    people.until(lambda: people.state("shop.slow") == expected, 40)
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND state = 'active'"
    people.until(lambda: people.rows(asleep + " AND pid <> pg_backend_pid()") == [(0,)], 40)
    people.until(lambda: people.has_ended("shop.slow", run))
    assert people.run_state("shop.slow", run) == people.execute_task("shop.slow", run)["state"] == state
    assert people.state("shop.slow") == expected
    assert people.claims("shop.slow") == []
    assert people.marked("shop.slow") == ([(SECOND, "admin"), (THIRD, "admin")] if state == "success" else [])
    people.sleep(False)


def test_a_backfill_runs_its_windows_and_with_reset_dagruns_those_that_have_run_again(people: People2) -> None:
    people.backfill_2("shop.orders", FIRST, SECOND)
    assert people.state("shop.orders") == {FIRST: ("applied", 1), SECOND: ("applied", 1), THIRD: ("pending", 0)}
    people.backfill_2("mart.report", FIRST, SECOND)
    assert people.state("mart.report") == people.state("shop.orders")
    people.backfill_2("shop.orders", SECOND, THIRD, "--reset-dagruns")
    assert people.state("shop.orders") == {FIRST: ("applied", 1), SECOND: ("applied", 2), THIRD: ("applied", 1)}


def test_marking_failed_tasks_or_their_run_success_marks_their_windows_applied_by_that_person(people: People2) -> None:
    run = people.run("shop.fails")
    before = people.state("shop.fails")
    assert before == {FIRST: ("error", 1), SECOND: ("error", 1), THIRD: ("error", 1)}
    people.mark(people.execute_task("shop.fails", run, 0), "success")
    assert people.state("shop.fails") == before | {FIRST: ("applied", 2)}
    people.mark_in_ui(people.execute_task("shop.fails", run, 1), "success")
    assert people.state("shop.fails") == before | {FIRST: ("applied", 2), SECOND: ("applied", 2)}
    people.airflow.patch(f"/dags/shop.fails/dagRuns/{quote(run, safe='')}", {"state": "success"})
    assert people.state("shop.fails") == dict.fromkeys(before, ("applied", 2))
    assert people.marked("shop.fails") == [(day, "admin") for day in before]


def test_rerun_failed_tasks_runs_the_failed_ones_again_and_no_other(people: People2) -> None:
    people.backfill_2("shop.fails", FIRST, SECOND, code=1)
    before = people.state("shop.fails")
    assert before[FIRST][0] == before[SECOND][0] == "error"
    people.mark(people.execute_task("shop.fails", f"backfill__{FIRST}T00:00:00+00:00"), "success")
    people.execute("UPDATE control.divisor SET n = 1")
    marked = people.state("shop.fails")
    people.backfill_2("shop.fails", FIRST, SECOND, code=1)
    assert people.state("shop.fails") == marked
    people.backfill_2("shop.fails", FIRST, SECOND, "--rerun-failed-tasks")
    assert people.state("shop.fails") == marked | {SECOND: ("applied", marked[SECOND][1] + 1)}


def test_clearing_a_task_of_a_bulldozer_run_does_its_window_again_and_no_other(people: People2) -> None:
    run = people.run("shop.orders")
    for _ in range(2):
        before = people.state("shop.orders")
        people.clear_task(people.execute_task("shop.orders", run, 1))
        assert people.state("shop.orders") == before | {SECOND: ("applied", before[SECOND][1] + 1)}


def test_clearing_a_whole_run_does_its_windows_once(people: People2) -> None:
    run = people.airflow.runs("shop.orders")[-1]["dag_run_id"]
    before = people.state("shop.orders")
    people.clear_run(people.execute_task("shop.orders", run))
    people.until(lambda: people.has_ended("shop.orders", run))
    assert people.state("shop.orders") == {day: ("applied", attempt + 1) for day, (_, attempt) in before.items()}


def test_clearing_a_task_of_a_discover_run_does_its_window_only_if_it_is_outstanding(people: People2) -> None:
    people.execute("UPDATE control.divisor SET n = 0")
    people.run("shop.fails", since=f"{THIRD}T00:00:00Z")
    run = people.run("shop.fails", state_mode="discover")
    before = people.state("shop.fails")
    assert [status for status, _ in before.values()] == ["applied", "applied", "error"]
    people.execute("UPDATE control.divisor SET n = 1")
    people.clear_task(people.execute_task("shop.fails", run))
    done = before | {THIRD: ("applied", before[THIRD][1] + 1)}
    assert people.state("shop.fails") == done
    people.clear_task(people.execute_task("shop.fails", run))
    assert people.state("shop.fails") == done


def test_deleting_a_run_and_a_dag_leaves_the_state_alone(people: People2) -> None:
    before = people.state("shop.orders")
    run = people.airflow.runs("shop.orders")[-1]["dag_run_id"]
    people.airflow.delete(f"/dags/shop.orders/dagRuns/{quote(run, safe='')}")
    assert people.state("shop.orders") == before
    people.airflow.delete("/dags/shop.orders")
    assert people.state("shop.orders") == before
    assert people.airflow.runs("shop.orders") == []


def test_two_backfills_and_the_schedule_at_once_run_no_window_twice(people: People2) -> None:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [(today - timedelta(days=number)).date().isoformat() for number in (3, 2, 1)]
    people.airflow.pause("shop.recent", False)
    with (
        people.start_backfill("shop.recent", days[0], days[-1]) as one,
        people.start_backfill("shop.recent", days[0], days[-1]) as other,
    ):
        told = [process.communicate(timeout=150)[0] for process in (one, other)]
    loads = "SELECT at::date::text, count(*)::int FROM control.loads GROUP BY 1"
    assert set(dict(people.rows(loads)).values()) <= {1}, told
    # They share their runs, and where they met in one of them Airflow ends a backfill: what is left is left to another.
    people.backfill_2("shop.recent", days[0], days[-1])
    people.until(lambda: people.ended("shop.recent", 3))
    assert {status for status, _ in people.state("shop.recent").values()} == {"applied"}
    assert dict(people.rows(loads)) == dict.fromkeys(days, 1)
