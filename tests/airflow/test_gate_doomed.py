"""Of several gates of one unit, one can never open: the others end too, instead of waiting out their patience."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException, AirflowSkipException
from airflow_models import report_of_two
from airflow_testing import state_rows, states

from bollhav_provider import run as core
from bollhav_provider.dag_factory import build_dags
from bollhav_provider.graph import build_graph
from bollhav_provider.intervals import Interval, Unit, as_utc
from bollhav_provider.model import Environment, Model
from bollhav_provider.sensors import UpstreamSensor
from bollhav_provider.state import GateWatch
from bollhav_provider.triggers import UpstreamTrigger
from bollhav_provider.triggers.questions import Questions

DAY = Interval(as_utc("2024-01-01T00:00:00Z", "since"), as_utc("2024-01-02T00:00:00Z", "until"))
ORDERS, RETURNS, REPORT = report_of_two()
MODES = ["defer", "reschedule", "poke"]
ORDERS_GATE, RETURNS_GATE, EXECUTE = "unit.shop.orders[0]", "unit.shop.returns[0]", "unit.execute[0]"
WHY = (
    "shop.returns is not waited for: mart.report [2024-01-01T00:00Z, 2024-01-02T00:00Z) can never run. "
    "STATE_001: upstream 'shop.orders' not registered"
)


def prepare(dsn: str, model: Model) -> None:
    """Make a model known to the library without loading anything of it."""
    spec = core.RunSpec(run=core.run_key(), window=DAY)
    core.prepare(core.DsnConnections(dsn), build_graph([ORDERS, RETURNS, REPORT]), model, spec)


@pytest.mark.parametrize("soft_fail", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_beside_a_gate_that_can_never_open_nobody_waits(
    library: str, run: Any, mode: str, soft_fail: bool, capsys: Any, caplog: Any
) -> None:
    prepare(library, RETURNS)
    how = {"mode": mode, "soft_fail": soft_fail, "timeout": 20, "poke_interval": 0.2}
    dag_run = run(build_dags([ORDERS, RETURNS, REPORT], sensor_args=how)["mart.report"], "2024-01-02")
    assert dag_run.state == "failed"
    found = states(dag_run)
    assert (found[ORDERS_GATE], found[RETURNS_GATE]) == ("failed", "skipped")
    assert found[EXECUTE] == "upstream_failed"
    assert WHY in capsys.readouterr().out + caplog.text
    status, reason = state_rows(library, REPORT, "status", "blocked_reason")[0]
    assert status == "blocked"
    assert "STATE_001: upstream 'shop.orders' not registered" in reason


@pytest.mark.once
def test_an_open_gate_is_open_whatever_becomes_of_the_others(library: str, run: Any) -> None:
    dags = build_dags([ORDERS, RETURNS, REPORT])
    run(dags["shop.returns"], "2024-01-02")
    found = states(run(dags["mart.report"], "2024-01-02"))
    assert (found[ORDERS_GATE], found[RETURNS_GATE], found[EXECUTE]) == ("failed", "success", "upstream_failed")


@pytest.mark.once
def test_where_what_follows_would_skip_for_it_the_gate_fails(library: str, run: Any) -> None:
    prepare(library, RETURNS)
    dags = build_dags([ORDERS, RETURNS, REPORT], execute_args={"trigger_rule": "all_success"})
    dag_run = run(dags["mart.report"], "2024-01-02")
    assert dag_run.state == "failed"
    found = states(dag_run)
    assert (found[ORDERS_GATE], found[RETURNS_GATE], found[EXECUTE]) == ("failed", "failed", "upstream_failed")


def test_a_gate_that_waits_already_learns_it_in_the_triggerer(library: str) -> None:
    prepare(library, RETURNS)
    prepare(library, REPORT)
    asked = Questions(Environment(), watches=(GateWatch.of(REPORT, Environment(), Unit(DAY)),), source="shop.returns")
    trigger = UpstreamTrigger(poll_interval=0.2, finish=True, **asked.to_json())

    async def first() -> Any:
        async for event in trigger.run():
            return event.payload

    told = asyncio.run(asyncio.wait_for(first(), 20))
    assert told == {"status": "doomed", "reason": "STATE_001: upstream 'shop.orders' not registered"}
    how: dict[str, Any] = {"model": "shop.returns", "downstream": REPORT, "units": [Unit(DAY).to_json()]}
    with DAG("own", schedule=None, start_date=datetime(2024, 1, 1, tzinfo=UTC)):
        generated = UpstreamSensor(task_id="returns", prefill_task_id="prefill", **how)
        own = UpstreamSensor(task_id="own", **how)
    with pytest.raises(AirflowSkipException) as skipped:
        generated.resume_execution("resume", {"event": told}, {})
    assert str(skipped.value).startswith(WHY)
    with pytest.raises(AirflowFailException) as failed:
        own.resume_execution("resume", {"event": told}, {})
    assert str(failed.value).startswith(WHY)
