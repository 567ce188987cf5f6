"""A unit that somebody else holds is never reported as done: the task skips, or says so and is retried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from airflow_models import windowed
from airflow_testing import rows, state_rows, states

from bollhav_provider import run as core
from bollhav_provider import state
from bollhav_provider.dag_factory import build_dags
from bollhav_provider.intervals import Interval, Unit, as_utc
from bollhav_provider.model import Environment
from bollhav_provider.operators.execute import ExecuteOperator
from bollhav_provider.operators.run_context import task_run

ORDERS = windowed("shop.orders")
DAY = Unit(Interval(as_utc("2024-01-01T00:00:00Z", "since"), as_utc("2024-01-02T00:00:00Z", "until")))
Claim = Callable[[state.RunKey], None]


@pytest.fixture
def claim(library: str) -> Iterator[Claim]:
    """Claim the day on a session of its own, which lives until the test is over."""
    with closing(core.connect(library)) as conn:

        def take(run: state.RunKey) -> None:
            assert state.claim(conn, ORDERS, Environment(), DAY, run, timedelta(minutes=10)) is not None

        yield take


def before_each_try(monkeypatch: pytest.MonkeyPatch, look: Callable[[Any], None]) -> list[BaseException]:
    """Have ``look`` called with the context before each try of an execute task; returns what the tries raised."""
    execute = ExecuteOperator.execute
    raised: list[BaseException] = []

    def watched(self: Any, context: Any) -> Any:
        try:
            look(context)
            return execute(self, context)
        except BaseException as exc:
            raised.append(exc)
            raise

    monkeypatch.setattr(ExecuteOperator, "execute", watched)
    return raised


def events() -> list[Any]:
    """Return the events of the model's asset."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        return [e.extra for e in session.scalars(select(AssetEvent)) if e.extra.get("model") == ORDERS.full_name]


def test_a_unit_that_another_run_works_on_is_left_to_it_and_told_to_nobody(
    library: str, run: Any, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = events()
    raised = before_each_try(monkeypatch, lambda context: claim(state.RunKey.ad_hoc("another run")))
    dag_run = run(build_dags([ORDERS], default_args={"retries": 2})["shop.orders"], "2024-01-02")
    assert states(dag_run)["unit.execute[0]"] == "skipped"
    assert [type(exc).__name__ for exc in raised] == ["AirflowSkipException"]
    assert "another session holds its advisory lock" in str(raised[0])
    assert state_rows(library, ORDERS, "status", "attempt")[0] == ("running", 1)
    assert rows(library, "SELECT count(*) FROM shop.orders") == [(0,)]
    assert events() == told


def test_a_unit_that_an_earlier_try_still_holds_is_tried_again_until_it_is_free(
    library: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a scheduler lost sight of a worker that lives: the try that it starts finds the unit held."""
    monkeypatch.setenv("AIRFLOW__BOLLHAV__BUSY_TIMEOUT", "1")
    zombie = core.connect(library)
    seen: list[tuple[Any, ...]] = []

    def look(context: Any) -> None:
        number = context["ti"].try_number
        if number == 1:
            spec = context["ti"].xcom_pull(task_ids="prefill", key="bollhav_run", map_indexes=None)
            mine = state.RunKey.from_json({**task_run(context).to_json(), "run_id": spec["run"]["run_id"]})
            assert state.claim(zombie, ORDERS, Environment(), DAY, mine, timedelta(minutes=10)) is not None
            raise psycopg.OperationalError("the worker is out of sight")
        seen.extend(state_rows(library, ORDERS, "status", "attempt")[:1])
        if number == 3:
            zombie.close()

    raised = before_each_try(monkeypatch, look)
    dags = build_dags([ORDERS], default_args={"retries": 2, "retry_delay": timedelta(seconds=0)})
    dag_run = run(dags["shop.orders"], "2024-01-02")
    assert [type(exc).__name__ for exc in raised] == ["OperationalError", "UnitBusyError"]
    text = str(raised[1])
    assert "try 1 of this task" in text
    assert "still holds the unit: its lease ends at" in text
    assert seen == [("running", 1)] * 2
    assert states(dag_run)["unit.execute[0]"] == "success"
    assert state_rows(library, ORDERS, "status", "attempt")[0] == ("applied", 2)


def test_without_a_retry_left_the_task_fails_and_the_unit_stays_what_it_is(
    library: str, run: Any, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__BOLLHAV__BUSY_TIMEOUT", "0")
    told = events()

    def look(context: Any) -> None:
        spec = context["ti"].xcom_pull(task_ids="prefill", key="bollhav_run", map_indexes=None)
        mine = task_run(context).to_json()
        claim(state.RunKey.from_json({**mine, "run_id": spec["run"]["run_id"], "try_number": 0}))

    raised = before_each_try(monkeypatch, look)
    dag_run = run(build_dags([ORDERS])["shop.orders"], "2024-01-02")
    assert [type(exc).__name__ for exc in raised] == ["UnitBusyError"]
    assert states(dag_run)["unit.execute[0]"] == "failed"
    assert state_rows(library, ORDERS, "status", "attempt")[0] == ("running", 1)
    assert events() == told
