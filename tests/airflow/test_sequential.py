"""A sequential model's later window waits for an earlier one, but for none that nobody is going to do."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from airflow.providers.common.compat.sdk import DAG, TaskDeferred
from airflow_models import windowed
from airflow_testing import state_rows

from bollhav_provider import run as core
from bollhav_provider import state
from bollhav_provider.exceptions import GateClosedError
from bollhav_provider.graph import build_graph
from bollhav_provider.intervals import Interval, Unit, as_utc
from bollhav_provider.model import Environment, State
from bollhav_provider.operators import ExecuteOperator
from bollhav_provider.operators.own_past import LOOK_AGAIN, waits_for_own_past
from bollhav_provider.triggers.upstream import UpstreamTrigger

TOTALS = windowed("shop.totals").replace(state=State(sequential=True))


def days(first: int, last: int) -> Interval:
    return Interval(as_utc(f"2024-01-0{first}T00:00:00Z", "since"), as_utc(f"2024-01-0{last}T00:00:00Z", "until"))


ONE, TWO, BOTH = days(1, 2), days(2, 3), days(1, 3)


@pytest.fixture
def second(library: str) -> ExecuteOperator:
    spec = core.RunSpec(run=core.run_key(), window=BOTH)
    core.prepare(core.DsnConnections(library), build_graph([TOTALS]), TOTALS, spec)
    return ExecuteOperator(task_id="execute", model=TOTALS, units=[Unit(TWO).to_json()])


def set_status(dsn: str, status: str) -> None:
    ref = state.StateRef.of(TOTALS, Environment())
    with psycopg.connect(dsn) as conn:
        conn.execute(f'UPDATE "{ref.schema}"."{ref.table}" SET status = %s WHERE since = %s', [status, ONE.since])  # noqa: S608


def test_a_later_window_ends_where_the_earlier_one_failed(library: str, second: ExecuteOperator) -> None:
    set_status(library, "error")
    with pytest.raises(
        GateClosedError, match=r"it failed.*clear the window \[2024-01-01T00:00Z, 2024-01-02T00:00Z\)"
    ):
        second.execute({})
    assert ("blocked",) in state_rows(library, TOTALS, "status")


@pytest.mark.parametrize("runs", [2, 1])
def test_a_later_window_waits_for_one_that_another_run_may_still_do(
    library: str, second: ExecuteOperator, runs: int
) -> None:
    """Of several runs that catch up, each waits between two windows that nobody happens to work on."""
    DAG("totals", schedule=None, max_active_runs=runs).add_task(second)
    if runs > 1:
        with pytest.raises(TaskDeferred):
            second.execute({})
    else:
        with pytest.raises(GateClosedError, match=r"its run cannot start while this one.*\(max_active_runs=1\), waits"):
            second.execute({})
    assert ("blocked",) in state_rows(library, TOTALS, "status")


def test_a_later_window_waits_while_the_earlier_one_is_done_and_looks_whether_it_still_is(
    library: str, second: ExecuteOperator
) -> None:
    env, connections = Environment(), core.DsnConnections(library)
    with connections.state(TOTALS) as conn:
        claim = state.claim(conn, TOTALS, env, Unit(ONE), core.run_key(), core.RunSpec(core.run_key()).lease)
        assert claim is not None
        with pytest.raises(TaskDeferred) as waits:
            second.execute({})
        assert waits.value.trigger.look_again == LOOK_AGAIN
        state.fail(conn, claim, ValueError("no"))
    with pytest.raises(GateClosedError, match="it failed"):
        second.resume({}, {"status": "look"})


def test_a_run_waits_for_the_earlier_window_that_is_its_own_to_do_until_that_fails(
    library: str, second: ExecuteOperator
) -> None:
    spec = core.RunSpec(run=core.run_key(), window=BOTH)
    connections = core.DsnConnections(library)
    assert waits_for_own_past(connections, TOTALS, spec, [Unit(TWO)], {}, one_at_a_time=True)
    # an empty past is satisfied
    assert not waits_for_own_past(connections, TOTALS, spec, [Unit(ONE)], {}, one_at_a_time=True)
    set_status(library, "error")
    with pytest.raises(GateClosedError, match="failed"):
        waits_for_own_past(connections, TOTALS, spec, [Unit(TWO)], {}, one_at_a_time=False)


def test_a_trigger_resumes_its_task_to_look_again(monkeypatch: Any) -> None:
    async def forever(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("bollhav_provider.triggers.upstream.wait_for_gates", forever)
    trigger = UpstreamTrigger(look_again=0.01, env=Environment().to_json())
    _, kwargs = trigger.serialize()
    assert kwargs["look_again"] == 0.01

    async def first() -> Any:
        return await anext(trigger.run())

    assert asyncio.run(first()).payload["status"] == "look"


def test_a_time_out_of_the_wait_itself_is_no_time_to_look_again(monkeypatch: Any) -> None:
    async def fails(*_: Any, **__: Any) -> None:
        raise TimeoutError("the server did not answer")

    monkeypatch.setattr("bollhav_provider.triggers.upstream.wait_for_gates", fails)
    trigger = UpstreamTrigger(look_again=60, env=Environment().to_json())

    async def first() -> Any:
        return await anext(trigger.run())

    told = asyncio.run(first()).payload
    assert told["status"] == "error"
    assert "the server did not answer" in told["reason"]
