"""The whole line on a real deployment. Each test begins where the one before it left the deployment."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

import pytest
from psycopg import sql

from tests.e2e.watch import Watch
from tools.demo.command import WAVES, start
from tools.demo.progress import MODELS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_closed_gate_holds_no_worker_says_what_is_missing_and_opens_by_itself(watch: Watch) -> None:
    airflow = watch.airflow
    assert set(MODELS) <= airflow.dag_ids()
    # One day of weather, so that it is registered; then it is paused with the other days still to come.
    airflow.pause("raw.weather", False)
    watch.backfill("raw.weather", 1, 1)
    watch.wait_for("the first day of weather", lambda: watch.all_ended("raw.weather"))
    airflow.pause("raw.weather")
    for wave in WAVES:
        start(watch.running, [name for name in wave if name != "raw.weather"], *watch.dates(1, watch.days))
        watch.wait_for(f"{', '.join(wave)} to be registered", lambda wave=wave: watch.registered() >= set(wave))

    def waits() -> bool:
        return watch.states("mart.flight_weather", "unit.raw.weather").count("deferred") == watch.days - 1

    watch.wait_for("six sensors of mart.flight_weather deferred", waits, seconds=240)
    others = set(MODELS) - {"raw.weather", "mart.flight_weather"}
    watch.wait_for("everything that does not wait for weather", lambda: watch.all_ended(*others), seconds=240)

    state = watch.state("mart.flight_weather")
    assert state[watch.day(1)].status == "applied"
    for number in range(2, watch.days + 1):
        row = state[watch.day(number)]
        assert row.status == "blocked"
        span = f"[{watch.day(number):%Y-%m-%dT%H:%MZ}, {watch.day(number + 1):%Y-%m-%dT%H:%MZ})"
        assert row.reason == f"STATE_002: upstream 'raw.weather' (encapsulate) missing {span}"
    # Nothing runs and nothing is queued for a worker: all that waits waits in the triggerer.
    unfinished = {t["state"] for t in airflow.tasks("mart.flight_weather") if t["state"] not in ("success", None)}
    assert unfinished == {"deferred"}

    airflow.pause("raw.weather", False)
    watch.backfill("raw.weather", 2, watch.days)
    watch.wait_for(
        "mart.flight_weather completes by itself", lambda: watch.all_ended("mart.flight_weather"), seconds=240
    )
    assert {row.status for row in watch.state("mart.flight_weather").values()} == {"applied"}


def test_the_demo_is_complete_and_its_numbers_are_those_of_the_files(watch: Watch) -> None:
    watch.wait_for("every run to end", lambda: watch.all_ended(*MODELS), seconds=240)
    assert watch.problems() == []
    assert {run["state"] for run in watch.airflow.runs()} == {"success"}
    first_hour = watch.state("raw.weather")[watch.day(1)]
    assert first_hour.status == "applied"
    query = sql.SQL("SELECT count(*) FROM raw.weather WHERE time_hour < {}").format(watch.day(1) + timedelta(hours=1))
    assert watch.rows(query) == [(0,)], "the first hour is a window without rows"


def test_a_backfill_with_reprocess_runs_exactly_its_windows_again(watch: Watch) -> None:
    before = watch.state("mart.carrier_day")
    watch.reprocess("mart.carrier_day", 3, 4)

    def again() -> set[int]:
        state = watch.state("mart.carrier_day")
        return {
            n for n in range(1, watch.days + 1) if state[watch.day(n)].applied_at != before[watch.day(n)].applied_at
        }

    def done() -> bool:
        applied = {row.status for row in watch.state("mart.carrier_day").values()} == {"applied"}
        return applied and again() >= {3, 4} and watch.all_ended("mart.carrier_day")

    watch.wait_for("the two windows to be applied again", done)
    assert again() == {3, 4}
    assert len(watch.airflow.runs("mart.carrier_day")) == watch.days
    assert watch.problems() == []


def test_a_task_killed_in_the_middle_of_its_write_leaves_each_row_once(watch: Watch) -> None:
    # The write of one day stops at its first row until the test lets go of a lock.
    setup = """
        CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN IF pg_try_advisory_xact_lock(4711) THEN RETURN NEW; END IF;
               PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END';
        CREATE TRIGGER hold BEFORE INSERT ON raw.flights FOR EACH ROW EXECUTE FUNCTION public.hold();
    """
    day = watch.day(5)
    with watch.running.connect() as conn:
        conn.execute(setup)
        conn.execute("SELECT pg_advisory_lock(4711)")
        before = watch.state("raw.flights")[day]
        watch.reprocess("raw.flights", 5, 5)

        def writing() -> object:
            # Waiting for our lock inside its transaction: rows of the window are deleted, none is committed.
            waiting = watch.rows(
                sql.SQL(
                    "SELECT a.pid FROM pg_stat_activity a JOIN pg_locks l USING (pid) "
                    "WHERE l.locktype = 'advisory' AND l.objid = 4711 AND NOT l.granted"
                )
            )
            running = [t for t in watch.airflow.tasks("raw.flights", state="running") if t["task_id"] == "unit.execute"]
            return running[0] if waiting and running and running[0]["pid"] else None

        task = watch.wait_for("a task in the middle of its write", writing)
        assert isinstance(task, dict)
        os.kill(int(task["pid"]), signal.SIGKILL)
        watch.wait_for(
            "Airflow to notice",
            lambda: watch.states("raw.flights", "unit.execute").count("running") == 0
            or any(t["try_number"] > task["try_number"] for t in watch.airflow.tasks("raw.flights")
                   if t["id"] == task["id"]),
        )  # fmt: skip
        # Nothing of the killed try is there: what was committed before is.
        query = sql.SQL("SELECT count(*) FROM raw.flights WHERE time_hour >= {} AND time_hour < {}")
        assert watch.rows(query.format(day, watch.day(6))) == [(_flights(5),)]
        conn.execute("SELECT pg_advisory_unlock(4711)")

    def done() -> bool:
        row = watch.state("raw.flights")[day]
        return row.status == "applied" and row.applied_at != before.applied_at and watch.all_ended("raw.flights")

    watch.wait_for("the retry to apply the window", done, seconds=300)
    with watch.running.connect() as conn:
        conn.execute("DROP TRIGGER hold ON raw.flights; DROP FUNCTION public.hold()")
    tries = [t["try_number"] for t in watch.airflow.tasks("raw.flights") if t["dag_run_id"] == task["dag_run_id"]]
    assert max(tries) > task["try_number"]
    assert {run["state"] for run in watch.airflow.runs("raw.flights")} == {"success"}
    assert watch.problems() == []


def _flights(number: int) -> int:
    """Return how many flights the files have on a day of January 2013."""
    from tools.demo import expected

    return expected.flights(number).height - expected.flights(number - 1).height
