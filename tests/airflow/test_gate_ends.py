"""How a gate ends: in time, out of time, or never. In every mode, with the state row saying what is true."""

from __future__ import annotations

from typing import Any

import pytest
from airflow_models import gated, windowed
from airflow_testing import rows, state_rows, states

from bollhav_provider import run as core
from bollhav_provider.dag_factory import build_dags
from bollhav_provider.graph import build_graph
from bollhav_provider.intervals import Interval, as_utc
from bollhav_provider.model import Model, UpstreamContract
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS

EXACT = UpstreamContract.EXACT
MISSING = "STATE_002: upstream 'shop.orders' (exact) missing [2024-01-01T00:00Z, 2024-01-02T00:00Z)"
ORDERS = windowed("shop.orders")
REPORT = windowed("mart.report", upstream=(gated("shop.orders", EXACT),))
MODES = ["defer", "reschedule", "poke"]


def register(dsn: str, model: Model) -> None:
    """Make a model known to the library without loading anything of it."""
    day = Interval(as_utc("2024-01-01T00:00:00Z", "since"), as_utc("2024-01-02T00:00:00Z", "until"))
    spec = core.RunSpec(run=core.run_key(), window=day)
    core.prepare(core.DsnConnections(dsn), build_graph([model]), model, spec)


def tries(dag_run: Any, name: str) -> int:
    """Return the number of tries of a task whose name starts so."""
    return max(ti.try_number for ti in dag_run.get_task_instances() if ti.task_id == name)


# A deferred task's time is out in the scheduler, which these runs have none of: see the tests of a deployment.
@pytest.mark.parametrize("mode", ["reschedule", "poke"])
def test_out_of_time_a_gate_fails_and_its_unit_stays_blocked(library: str, run: Any, mode: str) -> None:
    register(library, ORDERS)
    how = {"mode": mode, "poke_interval": 0.2, "timeout": 0.5}
    dag_run = run(build_dags([ORDERS, REPORT], sensor_args=how)["mart.report"], "2024-01-02")
    assert dag_run.state == "failed"
    assert states(dag_run) == {
        "prefill": "success",
        "unit.shop.orders[0]": "failed",
        "unit.execute[0]": "upstream_failed",
    }
    assert state_rows(library, REPORT, "status", "blocked_reason", "attempt")[0] == ("blocked", MISSING, 0)


@pytest.mark.parametrize("mode", ["reschedule", "poke"])
def test_out_of_time_a_soft_gate_skips_and_the_unit_is_not_done_for_it(
    library: str, run: Any, mode: str, caplog: Any, capsys: Any
) -> None:
    register(library, ORDERS)
    how = {"mode": mode, "poke_interval": 0.2, "timeout": 0.5, "soft_fail": True}
    dag_run = run(build_dags([ORDERS, REPORT], sensor_args=how)["mart.report"], "2024-01-02")
    assert states(dag_run) == {
        "prefill": "success",
        "unit.shop.orders[0]": "skipped",
        "unit.execute[0]": "skipped",
    }
    status, reason, attempt = state_rows(library, REPORT, "status", "blocked_reason", "attempt")[0]
    assert (status, reason) == ("blocked", MISSING)
    assert attempt == 1  # it looked once more, in its claim: a skipped gate is no open one
    assert rows(library, "SELECT count(*) FROM mart.report") == [(0,)]
    assert "a gate is closed" in capsys.readouterr().out + caplog.text


def test_behind_a_skipped_gate_a_unit_is_done_when_the_upstream_came_after_all(
    library: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bollhav_provider.operators.execute import ExecuteOperator

    register(library, ORDERS)
    execute = ExecuteOperator.execute

    def late(self: Any, context: Any) -> Any:
        connections, graph = core.DsnConnections(library), build_graph([ORDERS])
        day = Interval(as_utc("2024-01-01T00:00:00Z", "since"), as_utc("2024-01-02T00:00:00Z", "until"))
        spec = core.RunSpec(run=core.run_key(), window=day)
        prepared = core.prepare(connections, graph, ORDERS, spec)
        core.execute_units(connections, graph, ORDERS, prepared.units, spec)
        return execute(self, context)

    monkeypatch.setattr(ExecuteOperator, "execute", late)
    how = {"mode": "poke", "poke_interval": 0.2, "timeout": 0.5, "soft_fail": True}
    dag_run = run(build_dags([ORDERS, REPORT], sensor_args=how)["mart.report"], "2024-01-02")
    assert states(dag_run)["unit.shop.orders[0]"] == "skipped"
    assert states(dag_run)["unit.execute[0]"] == "success"
    assert state_rows(library, REPORT, "status")[0] == ("applied",)


@pytest.mark.parametrize("soft_fail", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_gate_that_can_never_open_fails_at_once_whatever_its_patience(
    library: str, run: Any, mode: str, soft_fail: bool
) -> None:
    how = {"mode": mode, "soft_fail": soft_fail, "timeout": 600}
    dags = build_dags([REPORT], sensor_args=how, default_args={"retries": 3})
    dag_run = run(dags["mart.report"], "2024-01-02")
    assert states(dag_run)["unit.shop.orders[0]"] == "failed"
    assert tries(dag_run, "unit.shop.orders") == 1
    reason = "STATE_001: upstream 'shop.orders' not registered"
    assert state_rows(library, REPORT, "status", "blocked_reason")[0] == ("blocked", reason)


@pytest.mark.parametrize("soft_fail", [False, True])
def test_what_the_trigger_says_ends_a_waiting_gate_as_it_should(soft_fail: bool) -> None:
    """As the scheduler resumes a task: with the trigger's event, or to fail it because its time is out."""
    from airflow.providers.common.compat.sdk import (
        AirflowException,
        AirflowFailException,
        AirflowSensorTimeout,
        AirflowSkipException,
    )

    from bollhav_provider.sensors import UpstreamSensor

    sensor = UpstreamSensor(task_id="orders", model="shop.orders", soft_fail=soft_fail)
    never = {"event": {"status": "hard", "reason": "STATE_001: upstream 'shop.orders' not registered"}}
    with pytest.raises(AirflowFailException, match="STATE_001"):
        sensor.resume_execution("resume", never, {})
    lost = {"event": {"status": "error", "reason": "the server is away"}}
    with pytest.raises(AirflowException, match="the server is away") as told:
        sensor.resume_execution("resume", lost, {})
    assert not isinstance(told.value, AirflowSkipException)
    out: Any = "Trigger timeout" if AIRFLOW_V_3_0_PLUS else "Trigger/execution timeout"
    if AIRFLOW_V_3_0_PLUS:
        from airflow.sdk.bases.operator import TriggerFailureReason

        out = TriggerFailureReason.TRIGGER_TIMEOUT
    timed = AirflowSensorTimeout if AIRFLOW_V_3_0_PLUS else AirflowException
    with pytest.raises(AirflowSkipException if soft_fail else timed):
        sensor.resume_execution("__fail__", {"error": out}, {})
    assert sensor.resume_execution("resume", {"event": {"status": "open"}}, {}) is None


def test_behind_a_task_edge_the_gate_is_checked_before_each_unit(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.orders", EXACT),))
    dag = build_dags([orders, report], group_by="all", sensor_args={"soft_fail": True})["bollhav.daily"]
    assert run(dag, "2024-01-02").state == "success"
    two = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-03T00:00:00Z"}
    dag_run = run(dag, "2024-02-01", conf={"only": "mart.report", **two})
    found = states(dag_run)
    assert [found[f"mart-report.unit.execute[{n}]"] for n in (0, 1)] == ["success", "skipped"]
    missing = "STATE_002: upstream 'shop.orders' (exact) missing [2024-01-02T00:00Z, 2024-01-03T00:00Z)"
    assert state_rows(library, report, "status", "blocked_reason")[:2] == [("applied", None), ("blocked", missing)]
