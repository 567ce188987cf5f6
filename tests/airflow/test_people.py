"""What people do in the UI, on a real deployment, through its REST API: the state says the truth afterwards.

The tests share one deployment; each begins where the one before it left it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from bollhav_provider.model.names import state_table_name
from bollhav_provider.version_compat import AIRFLOW_V_3_3_PLUS
from tools import LOCAL
from tools.demo.deployment import Deployment, deployment
from tools.demo.places import Places

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not AIRFLOW_V_3_3_PLUS, reason="the deployment is one of Airflow 3.3"),
]

#: DAGs that follow the asset of shop.fails, unpaused where that is looked at.
FOLLOWERS = {"shop.total", "follow.commits", "follow.windows"}


class People:
    """A deployment, and what a person does with it."""

    def __init__(self, running: Deployment) -> None:
        self.running = running
        self.airflow = running.airflow

    def execute(self, *statements: str) -> None:
        with psycopg.connect(self.running.dsn, autocommit=True) as conn:
            for statement in statements:
                conn.execute(statement.encode())

    def rows(self, query: sql.Composed | str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.running.dsn, autocommit=True) as conn:
            text = query.as_string() if isinstance(query, sql.Composed) else query
            return conn.execute(text.encode()).fetchall()

    def state(self, model: str) -> dict[str, tuple[str, int]]:
        """Return status and attempt of each window by its day; nothing before the model is registered."""
        query = sql.SQL("SELECT since::date::text, status, attempt FROM z_bollhav.{} ORDER BY since")
        try:
            found = self.rows(query.format(sql.Identifier(state_table_name(model))))
        except psycopg.errors.UndefinedTable:
            return {}
        return {day: (status, attempt) for day, status, attempt in found}

    def until(self, look: Callable[[], Any], seconds: float = 90) -> Any:
        """Look until the answer is true, and return it."""
        end = time.monotonic() + seconds
        while not (answer := look()):
            self.running.check_alive()
            tasks = [(t["dag_id"], t["task_id"], t["state"]) for t in self.airflow.tasks()]
            assert time.monotonic() < end, f"not within {seconds:.0f} s: {tasks}"
            time.sleep(0.3)
        return answer

    def backfill(self, model: str, first: int, last: int, reprocess: str = "none") -> None:
        """Backfill days of January 2024, both included."""
        days = (f"2024-01-0{day}T00:00:00+00:00" for day in (first, last))
        self.airflow.backfill(model, *days, reprocess=reprocess)

    def ended(self, model: str, runs: int) -> bool:
        """Say whether so many runs exist and all have ended."""
        found = self.airflow.runs(model)
        return len(found) >= runs and all(run["state"] in ("success", "failed") for run in found)

    def task(self, model: str, day: int) -> dict[str, Any]:
        """Return the execute task of a day."""
        label = f"[2024-01-0{day}T00:00Z, "
        found = self.airflow.tasks(model)
        return next(
            t for t in found if t["task_id"] == "unit.execute" and (t["rendered_map_index"] or "").startswith(label)
        )

    def mark(self, task: dict[str, Any], state: str) -> None:
        run = quote(task["dag_run_id"], safe="")
        path = f"/dags/{task['dag_id']}/dagRuns/{run}/taskInstances/{task['task_id']}/{task['map_index']}"
        self.airflow.patch(path, {"new_state": state})

    def clear(self, task: dict[str, Any]) -> None:
        body = {"dry_run": False, "dag_run_id": task["dag_run_id"], "task_ids": [task["task_id"]], "only_failed": False}
        self.airflow.post(f"/dags/{task['dag_id']}/clearTaskInstances", body | {"reset_dag_runs": True})

    def clear_run(self, task: dict[str, Any]) -> None:
        run = quote(task["dag_run_id"], safe="")
        self.airflow.post(f"/dags/{task['dag_id']}/dagRuns/{run}/clear", {"dry_run": False})


@pytest.fixture(scope="module")
def people() -> Iterator[People]:
    """A running deployment with the models of the folder beside this file."""
    places = Places(LOCAL / "people")
    dags = Path(__file__).parent / "people"
    server = os.environ.get("BOLLHAV_TEST_DSN")
    with deployment(days=1, places=places, dags=dags, server=server, grace=2) as running:
        found = People(running)
        found.execute(
            "CREATE SCHEMA control",
            "CREATE TABLE control.sleep AS SELECT 120::double precision AS seconds",
            "CREATE TABLE control.divisor AS SELECT 0 AS n",
        )
        found.airflow.post("/pools", {"name": "narrow", "slots": 2})
        for dag_id in running.airflow.dag_ids() - FOLLOWERS:
            running.airflow.pause(dag_id, False)
        yield found


def test_marking_a_running_task_failed_leaves_no_claim_and_no_query_behind(people: People) -> None:
    people.backfill("shop.slow", 1, 1)
    people.until(lambda: people.state("shop.slow").get("2024-01-01", ("",))[0] == "running")
    people.mark(people.task("shop.slow", 1), "failed")
    people.until(lambda: people.state("shop.slow")["2024-01-01"][0] == "pending", 40)
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()"
    people.until(lambda: people.rows(asleep + " AND state = 'active'") == [(0,)], 20)


def test_marking_a_failed_task_success_marks_its_window_applied_by_that_person(people: People) -> None:
    people.backfill("shop.fails", 1, 2)
    people.until(lambda: people.ended("shop.fails", 2))
    assert {status for status, _ in people.state("shop.fails").values()} == {"error", "pending"}
    people.mark(people.task("shop.fails", 1), "success")
    assert {day: status for day, (status, _) in people.state("shop.fails").items()} == {
        "2024-01-01": "applied",
        "2024-01-02": "error",
        "2024-01-03": "pending",
    }
    query = sql.SQL("SELECT marked_by FROM z_bollhav.{} WHERE status = 'applied'")
    assert people.rows(query.format(sql.Identifier(state_table_name("shop.fails")))) == [("admin",)]


def test_clearing_a_failed_task_runs_it_again_and_clearing_it_once_more_does_so_again(people: People) -> None:
    people.execute("UPDATE control.divisor SET n = 1")
    for _ in range(2):
        before = people.state("shop.fails")
        expected = before | {"2024-01-02": ("applied", before["2024-01-02"][1] + 1)}
        people.clear(people.task("shop.fails", 2))
        people.until(lambda expected=expected: people.state("shop.fails") == expected)
        people.until(lambda: people.ended("shop.fails", 2))
        assert people.state("shop.fails") == expected


def test_clearing_a_whole_run_does_its_window_once(people: People) -> None:
    before = people.state("shop.fails")
    people.clear_run(people.task("shop.fails", 2))
    people.until(lambda: people.state("shop.fails")["2024-01-02"] == ("applied", before["2024-01-02"][1] + 1))
    people.until(lambda: people.ended("shop.fails", 2))
    after = people.state("shop.fails")
    assert after == before | {"2024-01-02": ("applied", before["2024-01-02"][1] + 1)}


def test_a_backfill_runs_again_what_its_reprocess_behaviour_says(people: People) -> None:
    before = people.state("shop.fails")
    people.backfill("shop.fails", 1, 3, "none")
    people.until(lambda: people.ended("shop.fails", 3))
    after = people.state("shop.fails")
    assert after == before | {"2024-01-03": ("applied", 1)}
    people.backfill("shop.fails", 1, 3, "completed")
    people.until(lambda: all(people.state("shop.fails")[d] == ("applied", after[d][1] + 1) for d in after))
    people.until(lambda: people.ended("shop.fails", 3))
    people.execute("UPDATE control.divisor SET n = 0")
    people.clear(people.task("shop.fails", 2))
    people.until(lambda: people.state("shop.fails")["2024-01-02"][0] == "error")
    people.until(lambda: people.ended("shop.fails", 3))
    people.execute("UPDATE control.divisor SET n = 1")
    before = people.state("shop.fails")
    people.backfill("shop.fails", 1, 3, "failed")
    expected = before | {"2024-01-02": ("applied", before["2024-01-02"][1] + 1)}
    people.until(lambda: people.state("shop.fails") == expected)
    people.until(lambda: people.ended("shop.fails", 3))
    assert people.state("shop.fails") == expected


def test_clearing_a_task_of_a_discover_run_does_its_window_only_if_it_is_outstanding(people: People) -> None:
    third = {"since": "2024-01-03T00:00:00Z", "until": "2024-01-04T00:00:00Z", "state_mode": "discover"}
    put_back = sql.SQL("UPDATE z_bollhav.{} SET status = 'pending' WHERE since = '2024-01-03T00:00Z'")
    outstanding = put_back.format(sql.Identifier(state_table_name("shop.fails"))).as_string()
    people.execute(outstanding)
    run_id = people.airflow.trigger("shop.fails", third)

    def done() -> Any:
        (run,) = [run for run in people.airflow.runs("shop.fails") if run["dag_run_id"] == run_id]
        return run if run["state"] in ("success", "failed") else None

    def again() -> str:
        (task,) = [t for t in people.airflow.tasks("shop.fails", run_id) if t["task_id"] == "unit.execute"]
        people.clear(task)
        tries = task["try_number"]

        def tried() -> Any:
            (now,) = [t for t in people.airflow.tasks("shop.fails", run_id) if t["task_id"] == "unit.execute"]
            return now if now["try_number"] > tries and now["state"] in ("success", "skipped", "failed") else None

        state: str = people.until(tried)["state"]
        people.until(done)
        return state

    people.until(done)
    before = people.state("shop.fails")
    assert before["2024-01-03"][0] == "applied"
    assert again() == "skipped"
    assert people.state("shop.fails") == before
    people.execute(outstanding)
    assert again() == "success"
    assert people.state("shop.fails") == before | {"2024-01-03": ("applied", before["2024-01-03"][1] + 1)}


def test_what_follows_a_models_asset_runs_after_its_commits(people: People) -> None:
    for dag_id in FOLLOWERS:
        people.airflow.pause(dag_id, False)
    people.backfill("shop.fails", 2, 3, "completed")
    # A model without windows, and a DAG of anybody's, run after commits; by partitions, one run for each window.
    people.until(lambda: people.ended("shop.total", 1) and people.ended("follow.commits", 1))
    people.until(lambda: people.ended("follow.windows", 2))
    runs = people.airflow.runs("follow.windows")
    assert {run["partition_key"] for run in runs} == {"2024-01-02T00:00:00", "2024-01-03T00:00:00"}
    assert {run["run_type"] for run in people.airflow.runs("shop.total")} == {"asset_triggered"}
    assert people.rows("SELECT n FROM shop.total") == [(3,)]
    for dag_id in FOLLOWERS:
        people.airflow.pause(dag_id)
    people.until(lambda: people.ended("shop.fails", 3))


def test_deleting_a_run_leaves_the_state_alone(people: People) -> None:
    before = people.state("shop.fails")
    run = quote(people.task("shop.fails", 2)["dag_run_id"], safe="")
    people.airflow._call("DELETE", f"/api/v2/dags/shop.fails/dagRuns/{run}")
    assert people.state("shop.fails") == before


def test_deleting_a_dag_leaves_the_state_alone_and_it_comes_back(people: People) -> None:
    before = people.state("shop.slow")
    people.airflow.delete("/dags/shop.slow")
    assert people.state("shop.slow") == before
    people.until(lambda: "shop.slow" in people.airflow.dag_ids())
    assert people.airflow.runs("shop.slow") == []
    assert people.state("shop.slow") == before


def test_gates_that_wait_let_their_producer_through_a_pool_of_two_slots(people: People) -> None:
    window = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-21T00:00:00Z"}
    first = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-02T00:00:00Z"}
    people.airflow.trigger("shop.orders", first)
    people.until(lambda: people.ended("shop.orders", 1))
    people.airflow.trigger("mart.report", window)

    def waiting() -> int:
        tasks = people.airflow.tasks("mart.report")
        return [t["state"] for t in tasks if t["task_id"] == "unit.shop.orders"].count("deferred")

    people.until(lambda: waiting() == 19, 150)
    assert [status for status, _ in people.state("mart.report").values()].count("blocked") == 19
    people.airflow.trigger("shop.orders", window | {"state_mode": "discover"})
    people.until(lambda: {status for status, _ in people.state("mart.report").values()} == {"applied"}, 150)
