"""Waiting for upstreams: the sensor, its trigger, and the one connection that everybody who waits shares."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from airflow_models import gated, windowed
from airflow_testing import airflow_connection, forget_connections, rows, state_rows, states, statuses

from bollhav_provider import run as core
from bollhav_provider.dag_factory import build_dags
from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.graph import build_graph
from bollhav_provider.intervals import Interval, Unit, as_utc
from bollhav_provider.model import Environment, Freshness, Model, UpstreamContract
from bollhav_provider.state import GateRequest
from bollhav_provider.triggers import leaving, shared
from bollhav_provider.triggers.questions import Batch, Questions
from bollhav_provider.triggers.shared import GateRunner
from bollhav_provider.triggers.upstream import UpstreamTrigger

EXACT = UpstreamContract.EXACT
ENV = Environment()


def window(since: str, until: str) -> Interval:
    return Interval(as_utc(f"{since}T00:00:00Z", "since"), as_utc(f"{until}T00:00:00Z", "until"))


def load(dsn: str, model: Model, since: str, until: str) -> None:
    """Do a window of a model without Airflow."""
    graph, connections = build_graph([model]), core.DsnConnections(dsn)
    spec = core.RunSpec(run=core.run_key(), window=window(since, until))
    prepared = core.prepare(connections, graph, model, spec)
    core.execute_units(connections, graph, model, prepared.units, spec)


def register(dsn: str, model: Model) -> None:
    """Make a model known to the library without loading anything of it."""
    spec = core.RunSpec(run=core.run_key(), window=window("2024-01-01", "2024-01-02"))
    core.prepare(core.DsnConnections(dsn), build_graph([model]), model, spec)


def asks(model: str, since: str, until: str, level: UpstreamContract = UpstreamContract.ENCAPSULATE) -> Questions:
    return Questions(ENV, requests=(GateRequest.of(model, level, window(since, until)),))


def runner(dsn: str, statements: list[str] | None = None) -> GateRunner:
    class Counting(psycopg.AsyncConnection[Any]):
        async def execute(self, query: Any, *args: Any, **more: Any) -> Any:
            if statements is not None:
                statements.append(str(query))
            return await super().execute(query, *args, **more)

    async def connect() -> psycopg.AsyncConnection[Any]:
        return await Counting.connect(dsn, autocommit=True, application_name="gates")

    return GateRunner(connect, ENV)


def test_a_closed_gate_defers_and_its_row_says_why_until_the_upstream_commits(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.orders", EXACT),))
    register(library, orders)
    seen: list[tuple[Any, ...]] = []

    def upstream_commits() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            time.sleep(0.2)
            try:
                seen[:] = state_rows(library, report, "status", "blocked_reason")[:1]
            except psycopg.errors.UndefinedTable:
                continue
            if seen and seen[0][0] == "blocked":
                break
        load(library, orders, "2024-01-01", "2024-01-02")

    thread = threading.Thread(target=upstream_commits)
    thread.start()
    dag_run = run(build_dags([orders, report])["mart.report"], "2024-01-02")
    thread.join()
    assert seen == [
        (
            "blocked",
            "STATE_002: upstream 'shop.orders' (exact) missing [2024-01-01T00:00Z, 2024-01-02T00:00Z)",
        )
    ]
    assert set(states(dag_run).values()) == {"success"}
    assert statuses(library, report)["2024-01-01"] == "applied"


@pytest.mark.parametrize("mode", ["poke", "reschedule"])
def test_the_other_modes_look_again_by_themselves(library: str, run: Any, mode: str) -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.orders", EXACT),))
    register(library, orders)
    timer = threading.Timer(1.5, load, (library, orders, "2024-01-01", "2024-01-02"))
    timer.start()
    dags = build_dags([orders, report], sensor_args={"mode": mode, "poke_interval": 0.3})
    dag_run = run(dags["mart.report"], "2024-01-02")
    timer.join()
    assert set(states(dag_run).values()) == {"success"}


@pytest.mark.parametrize(("soft_fail", "end"), [(False, "failed"), (True, "skipped")])
def test_a_sensor_whose_time_is_out_fails_or_skips(library: str, run: Any, soft_fail: bool, end: str) -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.orders", EXACT),))
    register(library, orders)
    how = {"mode": "poke", "poke_interval": 0.2, "timeout": 0.5, "soft_fail": soft_fail}
    dag_run = run(build_dags([orders, report], sensor_args=how)["mart.report"], "2024-01-02")
    assert states(dag_run)["unit.shop.orders[0]"] == end


def test_a_sensor_in_a_dag_of_ones_own_waits_for_the_runs_window(library: str, run: Any) -> None:
    import pendulum
    from airflow.providers.common.compat.sdk import DAG

    from bollhav_provider.sensors import UpstreamSensor
    from bollhav_provider.version_compat import cron_intervals

    orders = windowed("shop.orders")
    register(library, orders)
    with DAG("own", schedule=cron_intervals("@daily", "UTC"), start_date=pendulum.datetime(2024, 1, 1)) as dag:
        UpstreamSensor(task_id="orders", model="shop.orders", contract="encapsulate", freshness=timedelta(days=1))
    timer = threading.Timer(1.5, load, (library, orders, "2024-01-02", "2024-01-03"))
    timer.start()
    dag_run = run(dag, "2024-01-03")
    timer.join()
    assert states(dag_run) == {"orders": "success"}


@pytest.mark.parametrize(
    ("model", "params", "told"),
    [
        ("shop.orders", {"since": "2024-01-03T00:00:00Z"}, "since alone, which makes no window to wait for"),
        ("shop.orders", {"until": "2024-01-03T00:00:00Z"}, "until alone, which makes no window to wait for"),
        ("orders", {}, "model is 'orders': 'orders' is not the name of a table"),
    ],
)
def test_a_sensor_that_cannot_know_what_to_wait_for_says_so(
    library: str, model: str, params: dict[str, str], told: str
) -> None:
    from bollhav_provider.sensors import UpstreamSensor

    sensor = UpstreamSensor(task_id="orders", model=model)
    day = window("2024-01-01", "2024-01-02")
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        sensor._asked({"params": params, "data_interval_start": day.since, "data_interval_end": day.until})


def test_a_sensor_takes_a_plain_date_as_models_do(library: str) -> None:
    from bollhav_provider.sensors import UpstreamSensor

    context = {"params": {"since": "2024-01-01", "until": "2024-01-02"}}
    found = UpstreamSensor(task_id="orders", model="shop.orders")._run_window(context, Environment())
    assert found == window("2024-01-01", "2024-01-02")


def test_a_trigger_carries_nothing_secret(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_BOLLHAV_DEFAULT", json.dumps(airflow_connection(library, password="hunter2")))
    questions = asks("shop.orders", "2024-01-01", "2024-01-02")
    path, arguments = UpstreamTrigger(conn_id="bollhav_default", poll_interval=3, **questions.to_json()).serialize()
    assert path == "bollhav_provider.triggers.upstream.UpstreamTrigger"
    text = json.dumps(arguments)
    assert "hunter2" not in text
    assert "postgres" not in text
    again = UpstreamTrigger(**json.loads(text))
    assert again.serialize() == (path, json.loads(text))
    assert Questions.from_json(again._asked()) == questions


def test_questions_survive_json_with_their_units() -> None:
    from bollhav_provider.state import GateWatch

    report = windowed("mart.report", upstream=(gated("shop.orders", EXACT, freshness=Freshness(within="1d")),))
    unit = Unit(window("2024-01-01", "2024-01-02"))
    questions = Questions(ENV, watches=(GateWatch.of(report, ENV, unit),), source="shop.orders")
    assert Questions.from_json(json.loads(json.dumps(questions.to_json()))) == questions
    assert questions.upstreams == ("shop.orders",)


async def drained(trigger: UpstreamTrigger) -> list[Any]:
    return [event async for event in trigger.run()]


def test_a_trigger_whose_gate_is_open_ends_the_task_itself(library: str) -> None:
    orders = windowed("shop.orders")
    load(library, orders, "2024-01-01", "2024-01-02")
    questions = asks("shop.orders", "2024-01-01", "2024-01-02")
    (event,) = asyncio.run(drained(UpstreamTrigger(finish=True, **questions.to_json())))
    assert type(event).__name__ == "TaskSuccessEvent"
    (event,) = asyncio.run(drained(UpstreamTrigger(**questions.to_json())))
    assert event.payload == {"status": "open", "reason": ""}


def test_a_trigger_on_what_can_never_open_says_so(library: str) -> None:
    register(library, windowed("shop.orders"))
    questions = asks("shop.nobody", "2024-01-01", "2024-01-02")
    (event,) = asyncio.run(drained(UpstreamTrigger(finish=True, **questions.to_json())))
    assert event.payload["status"] == "hard"
    assert event.payload["reason"] == "STATE_001: upstream 'shop.nobody' not registered"


def test_a_trigger_without_a_connection_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_BOLLHAV_DEFAULT", raising=False)
    monkeypatch.delenv("BOLLHAV_DSN", raising=False)
    forget_connections()
    questions = asks("shop.orders", "2024-01-01", "2024-01-02")
    (event,) = asyncio.run(drained(UpstreamTrigger(**questions.to_json())))
    assert event.payload["status"] == "error"
    assert "AIRFLOW_CONN_BOLLHAV_DEFAULT" in event.payload["reason"]


@pytest.mark.once
def test_a_thousand_gates_share_one_connection_and_a_statement_a_look(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "_A_SECOND", 1000.0)
    orders = windowed("shop.orders")
    register(db, orders)
    statements: list[str] = []

    async def wait() -> tuple[float, int]:
        shared = runner(db, statements)
        questions = [asks("shop.orders", f"2024-01-0{1 + n % 3}", f"2024-01-0{2 + n % 3}") for n in range(1000)]
        tasks = [asyncio.create_task(shared.wait(q, 60.0)) for q in questions]
        await asyncio.sleep(1.0)
        connections = rows(db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gates'")[0][0]
        before = time.monotonic()
        await asyncio.to_thread(load, db, orders, "2024-01-01", "2024-01-04")
        answers = await asyncio.wait_for(asyncio.gather(*tasks), 30)
        assert all(answer.open for answer in answers)
        return time.monotonic() - before, connections

    took, connections = asyncio.run(wait())
    assert connections == 1
    assert len(statements) < 20
    assert took < 10


def test_gates_wait_until_a_run_has_brought_the_library_to_the_version_of_the_triggerer(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "_FIRST_PAUSE", 0.1)
    orders = windowed("shop.orders")
    register(db, orders)
    as_of_another_version = """
        DELETE FROM z_bollhav.installed;
        DO $$ DECLARE f regprocedure; BEGIN
            FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'z_bollhav'::regnamespace AND proname LIKE 'gate%'
            LOOP EXECUTE format('DROP FUNCTION %s CASCADE', f); END LOOP;
        END $$
    """
    with psycopg.connect(db, autocommit=True) as conn:
        conn.execute(as_of_another_version.encode())

    async def wait() -> Any:
        task = asyncio.create_task(runner(db).wait(asks("shop.orders", "2024-01-01", "2024-01-02"), 0.3))
        await asyncio.sleep(1)
        assert not task.done()
        await asyncio.to_thread(load, db, orders, "2024-01-01", "2024-01-02")
        return await asyncio.wait_for(task, 30)

    assert asyncio.run(wait()).open


def test_a_commit_wakes_at_once_however_long_the_poll_interval_is(db: str) -> None:
    orders = windowed("shop.orders")
    register(db, orders)

    async def wait() -> float:
        task = asyncio.create_task(runner(db).wait(asks("shop.orders", "2024-01-01", "2024-01-02"), 600.0))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(load, db, orders, "2024-01-01", "2024-01-02")
        committed = time.monotonic()
        await asyncio.wait_for(task, 20)
        return time.monotonic() - committed

    assert asyncio.run(wait()) < 2


def count_looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets, at each look from now on, how many gates it is at."""
    looks: list[int] = []

    class Counted(Batch):
        async def ask(self, *args: Any) -> Any:
            looks.append(len(self.asked))
            return await super().ask(*args)

    monkeypatch.setattr(shared, "Batch", Counted)
    return looks


def test_who_comes_is_looked_at_alone(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    register(db, windowed("shop.orders"))
    looks = count_looks(monkeypatch)
    closed = asks("shop.orders", "2024-01-01", "2024-01-02")

    async def wait() -> None:
        together = runner(db)
        tasks = [asyncio.create_task(together.wait(closed, 600.0)) for _ in range(20)]
        await asyncio.sleep(1.0)
        for _ in range(3):
            tasks.append(asyncio.create_task(together.wait(closed, 600.0)))
            await asyncio.sleep(1.0)
        tasks.pop().cancel()
        await asyncio.sleep(0.5)
        assert looks == [20, 1, 1, 1]
        for task in tasks:
            task.cancel()

    asyncio.run(wait())


def test_who_waits_is_looked_at_in_time_however_many_come_and_whether_or_not_a_commit_is_announced(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = windowed("shop.orders")
    register(db, orders)

    async def deaf(*_: Any) -> None:
        """Behind a pooler nobody hears of commits."""

    monkeypatch.setattr(shared, "_listen", deaf)

    async def wait() -> None:
        together = runner(db)
        first = asyncio.create_task(together.wait(asks("shop.orders", "2024-01-01", "2024-01-02"), 1.0))
        others = []
        load_it = asyncio.create_task(asyncio.to_thread(load, db, orders, "2024-01-01", "2024-01-02"))
        for _ in range(200):
            others.append(asyncio.create_task(together.wait(asks("shop.orders", "2024-01-02", "2024-01-03"), 1.0)))
            await asyncio.sleep(0.1)
            if first.done():
                break
        await load_it
        assert (await asyncio.wait_for(first, 1)).open
        for task in others:
            task.cancel()

    asyncio.run(wait())


def test_many_units_are_answered_as_each_by_itself(db: str) -> None:
    from bollhav_provider.state import GateWatch

    orders = windowed("shop.orders", end="2024-05-01T00:00Z")
    report = windowed("mart.report", end="2024-05-01T00:00Z", upstream=(gated("shop.orders", EXACT),))
    load(db, orders, "2024-01-02", "2024-01-03")
    register(db, report)
    first = as_utc("2024-01-01T00:00:00Z", "first")
    days = [Interval(first + timedelta(days=n), first + timedelta(days=n + 1)) for n in range(100)]
    watches = [GateWatch.of(report, ENV, Unit(day)) for day in days]
    asked = [Questions(ENV, watches=(watch,), source="shop.orders") for watch in watches]
    asked += [Questions(ENV, requests=(GateRequest.of("shop.orders", EXACT, day),)) for day in days]

    async def look() -> list[Any]:
        async with await psycopg.AsyncConnection.connect(db, autocommit=True) as conn:
            return await Batch(asked).ask(conn, ENV)

    answers = asyncio.run(look())
    assert [answer.open for answer in answers] == [n % 100 == 1 for n in range(200)]
    rows_of = list(statuses(db, report).values())
    assert rows_of[:100] == ["blocked", "pending", *["blocked"] * 98]
    assert set(rows_of[100:]) == {"pending"}
    with psycopg.connect(db, autocommit=True) as conn:
        assert answers == [questions.ask(conn) for questions in asked]


def test_a_cut_connection_is_made_again_and_nobody_is_lost(db: str) -> None:
    orders = windowed("shop.orders")
    register(db, orders)

    async def wait() -> None:
        task = asyncio.create_task(runner(db).wait(asks("shop.orders", "2024-01-01", "2024-01-02"), 0.3))
        await asyncio.sleep(0.5)
        killed = rows(
            db, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'gates'"
        )
        assert killed == [(1,)]
        await asyncio.to_thread(load, db, orders, "2024-01-01", "2024-01-02")
        answer = await asyncio.wait_for(task, 20)
        assert answer.open

    asyncio.run(wait())


def test_who_waits_no_longer_holds_no_connection(db: str) -> None:
    register(db, windowed("shop.orders"))

    async def wait() -> int:
        task = asyncio.create_task(runner(db).wait(asks("shop.orders", "2024-01-01", "2024-01-02"), 60.0))
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.8)
        found: int = rows(db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gates'")[0][0]
        return found

    assert asyncio.run(wait()) == 0
