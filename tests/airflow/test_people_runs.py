"""Runs that meet: cascades, backfills beside the schedule, gates out of patience. On a real deployment.

The tests share one deployment; each has models of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow_models import gated, windowed
from psycopg import sql
from test_people import People

from bollhav_provider import run as core
from bollhav_provider.graph import build_graph
from bollhav_provider.intervals import Interval, as_utc
from bollhav_provider.model import Environment, UpstreamContract
from bollhav_provider.model.names import state_table_name
from bollhav_provider.state import attempts
from bollhav_provider.version_compat import AIRFLOW_V_3_3_PLUS
from tools import LOCAL
from tools.demo.client import ApiError
from tools.demo.deployment import deployment
from tools.demo.places import Places

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not AIRFLOW_V_3_3_PLUS, reason="the deployment is one of Airflow 3.3"),
]

ALL = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-04T00:00:00Z"}
FIRST = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-02T00:00:00Z"}
SECOND = {"since": "2024-01-02T00:00:00Z", "until": "2024-01-03T00:00:00Z"}
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")
#: Says when it began and ended to load a window, in the unit's own transaction.
BUSY = """
CREATE FUNCTION control.busy(at timestamptz) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE began timestamptz := clock_timestamp();
BEGIN
    PERFORM pg_sleep(0.5);
    INSERT INTO control.loads VALUES (at, began, clock_timestamp());
    RETURN 1;
END $$
"""
SLOW = "CREATE FUNCTION control.slow() RETURNS integer LANGUAGE sql VOLATILE AS $$ SELECT 1 FROM pg_sleep(9) $$"


class Patient(People):
    """A person who asks less often, and not for everything: several deployments may share the machine."""

    def until(self, look: Callable[[], Any], seconds: float = 150) -> Any:
        """Look until the answer is true, and return it."""
        end = time.monotonic() + seconds
        while True:
            self.running.check_alive()
            try:
                if answer := look():
                    return answer
            except TimeoutError:  # the server is slow; the next answer may come
                continue
            if time.monotonic() > end:
                tasks = [(t["dag_id"], t["task_id"], t["state"]) for t in self.airflow.tasks()]
                raise AssertionError(f"not within {seconds:.0f} s: {tasks}")
            time.sleep(0.5)


@pytest.fixture(scope="module")
def people() -> Iterator[People]:
    """A running deployment with the models of the folder beside this file; the model of the schedule is paused."""
    places, dags = Places(LOCAL / "people-runs"), Path(__file__).parent / "people_runs"
    server = os.environ.get("BOLLHAV_TEST_DSN")
    with deployment(days=1, places=places, dags=dags, server=server, grace=2) as running:
        found = Patient(running)
        found.execute(
            "CREATE SCHEMA control",
            "CREATE TABLE control.loads (at timestamptz, began timestamptz, ended timestamptz)",
            BUSY,
            SLOW,
        )
        found.until(lambda: {"waits", "mart.report", "board.daily"} <= running.airflow.dag_ids())
        for dag_id in running.airflow.dag_ids() - {"shop.clock"}:
            running.airflow.pause(dag_id, False)
        yield found


def ran(people: People, dag_id: str, conf: dict[str, object]) -> dict[str, Any]:
    """Run a DAG and return the run when it has ended."""
    run_id = people.airflow.trigger(dag_id, conf)

    def ended() -> Any:
        (run,) = [run for run in people.airflow.runs(dag_id) if run["dag_run_id"] == run_id]
        return run if run["state"] in ("success", "failed") else None

    found: dict[str, Any] = people.until(ended)
    return found


def loads(people: People, model: str) -> dict[str, int]:
    """Return how often each day was loaded, as the history has it."""
    with people.running.connect() as conn:
        made = attempts(conn, Environment(), model, limit=1000)
    days = [attempt.unit.since.date().isoformat() for attempt in made if attempt.outcome == "applied"]
    return {day: days.count(day) for day in sorted(set(days))}


def load_without_a_dag(people: People) -> None:
    """Load a model that reads the orders and has no DAG here, as another pipeline would."""
    copy = windowed("other.copy", upstream=(gated("shop.orders", UpstreamContract.EXACT),))
    connections, graph = core.DsnConnections(people.running.dsn), build_graph([copy])
    days = Interval(*(as_utc(ALL[side], side) for side in ("since", "until")))
    spec = core.RunSpec(run=core.run_key(), window=days)
    prepared = core.prepare(connections, graph, copy, spec)
    assert all(done.applied for done in core.execute_units(connections, graph, copy, prepared.units, spec))


def tasks(people: People, run: dict[str, Any]) -> dict[str, str]:
    return {task["task_id"]: task["state"] for task in people.airflow.tasks(run["dag_id"], run["dag_run_id"])}


def test_a_run_with_cascade_has_everything_downstream_run_again_once(people: People) -> None:
    models = ("shop.orders", "mart.sums", "mart.report", "board.page", "board.book")
    for dag_id in ("shop.orders", "mart.sums", "mart.report", "board.daily"):
        assert ran(people, dag_id, ALL)["state"] == "success"
    assert {model: loads(people, model) for model in models} == dict.fromkeys(models, dict.fromkeys(DAYS, 1))
    load_without_a_dag(people)
    people.airflow.pause("mart.report")
    source = ran(people, "shop.orders", SECOND | {"cascade": True})
    assert source["state"] == "success"
    (prefill,) = (t for t in people.airflow.tasks("shop.orders", source["dag_run_id"]) if t["task_id"] == "prefill")
    told = people.airflow.log(prefill)
    assert "no run of the DAG other.copy could be started (there is no such DAG here)" in told
    assert "bollhav run other.copy --since 2024-01-02T00:00:00+00:00 --until 2024-01-03T00:00:00+00:00" in told
    assert "the DAG mart.report is paused: unpause it" in told
    assert "the DAG mart.sums is paused" not in told
    people.airflow.pause("mart.report", False)
    second = dict.fromkeys(DAYS, 1) | {DAYS[1]: 2}
    expected = dict.fromkeys(models, second) | {"mart.report": second | {DAYS[2]: 2}}
    people.until(lambda: {model: loads(people, model) for model in models} == expected)
    people.until(lambda: all(people.ended(dag_id, 2) for dag_id in ("mart.sums", "mart.report", "board.daily")))
    started = [run for run in people.airflow.runs() if run["dag_run_id"].startswith("cascade__shop.orders__")]
    assert sorted((run["dag_id"], run["conf"].get("only") or "", run["state"]) for run in started) == [
        ("board.daily", "board.book", "success"),
        ("board.daily", "board.page", "success"),
        ("mart.report", "", "success"),
        ("mart.sums", "", "success"),
    ]
    assert {model: loads(people, model) for model in models} == expected
    assert all({status for status, _ in people.state(model).values()} == {"applied"} for model in models)


def test_the_schedule_and_backfills_over_the_same_days_run_each_window_once(people: People) -> None:
    body = {"dag_id": "shop.clock", "max_active_runs": 10, "run_backwards": False, "dag_run_conf": {}}
    span = {"from_date": "2024-01-01T00:00:00+00:00", "to_date": "2024-01-04T00:00:00+00:00"}
    later = {"from_date": "2024-01-03T00:00:00+00:00", "to_date": "2024-01-06T00:00:00+00:00"}
    people.airflow.post("/backfills", body | span | {"reprocess_behavior": "none"})
    with pytest.raises(ApiError) as refused:
        people.airflow.post("/backfills", body | later | {"reprocess_behavior": "none"})
    assert refused.value.status == 409
    people.airflow.pause("shop.clock", False)  # the schedule catches up at the same time
    people.backfill("shop.clock", 3, 6)
    days = [f"2024-01-0{day}" for day in range(1, 7)]
    people.until(lambda: people.ended("shop.clock", 6))
    people.until(lambda: people.state("shop.clock") == dict.fromkeys(days, ("applied", 1)))
    assert len(people.airflow.runs("shop.clock")) == 6
    assert people.state("shop.clock") == dict.fromkeys(days, ("applied", 1))
    assert people.rows("SELECT count(*), count(DISTINCT at) FROM control.loads") == [(6, 6)]


def test_runs_over_the_same_windows_never_load_one_at_the_same_time(people: People) -> None:
    people.execute("TRUNCATE control.loads")
    window = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-05T00:00:00Z"}
    for mode in ("bulldozer", "discover", "bulldozer", "discover"):
        people.airflow.trigger("shop.often", window | {"state_mode": mode})
    people.until(lambda: people.ended("shop.often", 4))
    state = people.state("shop.often")
    assert {status for status, _ in state.values()} == {"applied"}
    at_once = (
        "SELECT count(*) FROM control.loads a JOIN control.loads b USING (at) "
        "WHERE a.began < b.began AND b.began < a.ended"
    )
    assert people.rows(at_once) == [(0,)]
    loads = dict(people.rows("SELECT at::date::text, count(*)::int FROM control.loads GROUP BY 1"))
    assert loads == {day: attempt for day, (_, attempt) in state.items()}
    assert max(loads.values()) <= 2  # once for each run that was to do it again, at most


def test_in_every_mode_a_sensor_out_of_time_fails_or_skips_as_it_was_told(people: People) -> None:
    assert ran(people, "shop.partial", FIRST)["state"] == "success"
    run = ran(people, "waits", SECOND)
    assert run["state"] == "failed"
    assert tasks(people, run) == {
        f"{mode}_{end}": {"fails": "failed", "skips": "skipped"}[end]
        for mode in ("defer", "reschedule", "poke")
        for end in ("fails", "skips")
    }
    tries = {t["task_id"]: t["try_number"] for t in people.airflow.tasks("waits", run["dag_run_id"])}
    assert set(tries.values()) == {1}  # waiting once more would not be what a time-out says


def blocked(people: People, model: str) -> list[tuple[str, str]]:
    query = sql.SQL("SELECT status, blocked_reason FROM z_bollhav.{} WHERE since = '2024-01-02T00:00Z'")
    return people.rows(query.format(sql.Identifier(state_table_name(model))))


MISSING = "STATE_002: upstream 'shop.partial' (exact) missing [2024-01-02T00:00Z, 2024-01-03T00:00Z)"


def test_a_deferred_gate_out_of_time_leaves_its_unit_blocked_and_a_clear_goes_on(people: People) -> None:
    soft, strict = ran(people, "mart.soft", SECOND), ran(people, "mart.strict", SECOND)
    assert tasks(people, soft) == {"prefill": "success", "unit.shop.partial": "skipped", "unit.execute": "skipped"}
    assert tasks(people, strict) == {
        "prefill": "success",
        "unit.shop.partial": "failed",
        "unit.execute": "upstream_failed",
    }
    assert (soft["state"], strict["state"]) == ("success", "failed")
    assert blocked(people, "mart.soft") == blocked(people, "mart.strict") == [("blocked", MISSING)]
    assert people.rows("SELECT count(*) FROM mart.soft") == people.rows("SELECT count(*) FROM mart.strict") == [(0,)]
    assert ran(people, "shop.partial", SECOND)["state"] == "success"
    body = {"dry_run": False, "dag_run_id": strict["dag_run_id"], "only_failed": True, "reset_dag_runs": True}
    people.airflow.post("/dags/mart.strict/clearTaskInstances", body)
    people.until(lambda: people.state("mart.strict")["2024-01-02"][0] == "applied")


def sessions(people: People, seconds: float) -> dict[str, int]:
    """Return the most sessions at a time of each name of ours, looking for so long."""
    most: dict[str, int] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        query = (
            "SELECT application_name, count(*)::int FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE 'bollhav%' GROUP BY 1"
        )
        for name, count in people.rows(query):
            most[name] = max(most.get(name, 0), count)
        time.sleep(0.1)
    return most


def test_a_running_unit_has_two_connections_and_waiting_ones_have_none(people: People) -> None:
    third = {"since": "2024-01-03T00:00:00Z", "until": "2024-01-04T00:00:00Z"}
    people.airflow.trigger("mart.waiting", third)
    people.until(lambda: [t["state"] for t in people.airflow.tasks("mart.waiting")].count("deferred") == 1)
    people.until(lambda: sessions(people, 1) == {"bollhav triggerer": 1})
    people.airflow.trigger("shop.slow", FIRST)
    people.until(lambda: people.state("shop.slow").get("2024-01-01", ("",))[0] == "running")
    found = sessions(people, 6)
    assert found.pop("bollhav triggerer") == 1
    assert sum(found.values()) == 2, found  # the second renews the lease
    assert all(name.startswith("bollhav unit.execute") for name in found)
    people.until(lambda: people.state("shop.slow")["2024-01-01"][0] == "applied")
    assert ran(people, "shop.partial", third)["state"] == "success"
    people.until(lambda: people.state("mart.waiting")["2024-01-03"][0] == "applied")
    people.until(lambda: sessions(people, 1) == {})
