"""The operators for DAGs of one's own, and what tasks tell the rest of the deployment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pendulum
import pytest
from airflow_models import gated, timeless, windowed
from airflow_testing import execute, rows, state_rows, states, statuses

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.model import Column, Model, State, Target, Temporality, UpstreamContract, WriteMode
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS, AIRFLOW_V_3_3_PLUS, cron_intervals

EXACT = UpstreamContract.EXACT


@pytest.fixture
def own_dag() -> Iterator[Any]:
    """A daily DAG of one's own, open."""
    from airflow.providers.common.compat.sdk import DAG

    with DAG("own", schedule=cron_intervals("@daily", "UTC"), start_date=pendulum.datetime(2024, 1, 1)) as dag:
        yield dag


def test_what_another_program_loaded_is_recorded_and_lets_a_model_pass(library: str, run: Any, own_dag: Any) -> None:
    from bollhav_provider.operators.library import RecordAppliedOperator

    RecordAppliedOperator(task_id="record", model="dbt.orders", chunk="@daily")
    assert states(run(own_dag, "2024-01-02")) == {"record": "success"}
    recorded = windowed("dbt.orders")
    assert state_rows(library, recorded, "status", "reason") == [("applied", "loaded before task own.record")]
    execute(library, "CREATE SCHEMA dbt", "CREATE TABLE dbt.orders AS SELECT now() AS at")
    report = windowed("mart.report", upstream=(gated("dbt.orders", EXACT),))
    dag_run = run(build_dags([report])["mart.report"], "2024-01-02")
    assert states(dag_run)["unit.execute[0]"] == "success"


def test_any_window_can_be_recorded_without_a_chunk(library: str, run: Any, own_dag: Any) -> None:
    from bollhav_provider.operators.library import RecordAppliedOperator

    RecordAppliedOperator(
        task_id="record", model="spark.events", since="2024-01-01T03:07:00Z", until="2024-01-01T09:00:00Z"
    )
    assert states(run(own_dag, "2024-01-02")) == {"record": "success"}
    found = rows(library, "SELECT state_table, fixed_intervals FROM z_bollhav.library")
    assert found[0][1] is False


def test_a_table_without_windows_is_recorded_whole(library: str, run: Any, own_dag: Any) -> None:
    from bollhav_provider.operators.library import RecordAppliedOperator

    RecordAppliedOperator(task_id="record", model="ref.rates", timeless=True)
    assert states(run(own_dag, "2024-01-02")) == {"record": "success"}
    assert state_rows(library, timeless("ref.rates"), "status", "since") == [("applied", None)]


@pytest.mark.parametrize("given", [{}, {"chunk": "0 0 * * *"}])
def test_recording_a_table_that_a_model_declares_keeps_the_models_windows_and_its_entry(
    library: str, run: Any, own_dag: Any, given: dict[str, Any]
) -> None:
    from bollhav_provider.operators.library import RecordAppliedOperator

    orders = windowed("shop.orders", tags=["core"])
    run(build_dags([orders])["shop.orders"], "2024-01-02")
    entry = "SELECT upstream, sources, fixed_intervals, metadata FROM z_bollhav.library"
    before = rows(library, entry)
    RecordAppliedOperator(task_id="record", model="shop.orders", **given)
    dag_run = run(own_dag, "2024-02-01", conf={"since": "2024-01-02T00:00:00Z", "until": "2024-01-03T12:00:00Z"})
    assert states(dag_run) == {"record": "success"}
    assert rows(library, entry) == before
    assert statuses(library, orders) == {"2024-01-01": "applied", "2024-01-02": "applied", "2024-01-03": "pending"}


@pytest.mark.parametrize("given", [{"chunk": "@hourly"}, {"timeless": True}, {"chunk": "@daily", "tz": "Europe/Oslo"}])
def test_other_windows_than_those_of_the_tables_model_are_refused(
    library: str, run: Any, own_dag: Any, given: dict[str, Any]
) -> None:
    from bollhav_provider.operators.library import RecordAppliedOperator

    orders = windowed("shop.orders")
    run(build_dags([orders])["shop.orders"], "2024-01-02")
    before = state_rows(library, orders, "since", "until", "status")
    RecordAppliedOperator(task_id="record", model="shop.orders", **given)
    assert states(run(own_dag, "2024-01-03")) == {"record": "failed"}
    assert state_rows(library, orders, "since", "until", "status") == before


def test_who_records_a_table_that_others_load_may_change_its_windows(library: str, run: Any, own_dag: Any) -> None:
    from bollhav_provider.operators.library import RecordAppliedOperator

    hour = {"since": "2024-01-05T03:00:00Z", "until": "2024-01-05T04:00:00Z"}
    days = RecordAppliedOperator(task_id="days", model="dbt.orders", chunk="@daily")
    days >> RecordAppliedOperator(task_id="anything", model="dbt.orders", **hour)
    assert states(run(own_dag, "2024-01-02")) == {"days": "success", "anything": "success"}


def test_marking_and_resetting_a_window(library: str, run: Any, own_dag: Any) -> None:
    from bollhav_provider.operators.library import MarkAppliedOperator, ResetOperator

    orders = windowed("shop.orders")
    mark = MarkAppliedOperator(task_id="mark", model=orders, reason="loaded by hand")
    reset = ResetOperator(task_id="reset", model=orders, since="2024-01-02T00:00:00Z", until="2024-01-03T00:00:00Z")
    mark >> reset
    conf = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-04T00:00:00Z"}
    assert set(states(run(own_dag, "2024-02-01", conf=conf)).values()) == {"success"}
    assert statuses(library, orders) == {"2024-01-01": "applied", "2024-01-02": "pending", "2024-01-03": "applied"}


def test_a_reset_behind_the_load_of_the_same_run_puts_its_window_back(library: str, run: Any, own_dag: Any) -> None:
    from bollhav_provider.operators import ResetOperator, RunModelOperator

    orders = windowed("shop.orders")
    load = RunModelOperator(task_id="load", model=orders)
    load >> ResetOperator(task_id="reset", model=orders)
    # What follows the model's asset hears of it, as of a generated DAG.
    assert load.outlets == [task.outlets[0] for task in build_dags([orders])["shop.orders"].tasks if task.outlets]
    assert set(states(run(own_dag, "2024-01-02")).values()) == {"success"}
    assert statuses(library, orders)["2024-01-01"] == "pending"


def test_gates_are_checked_once_and_fail_the_task_when_closed(library: str, run: Any, own_dag: Any) -> None:
    from bollhav_provider.operators.library import CheckGatesOperator

    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.orders", EXACT),))
    dags = build_dags([orders, report])
    CheckGatesOperator(task_id="look", model=report, soft=True) >> CheckGatesOperator(task_id="insist", model=report)
    run(dags["shop.orders"], "2024-01-03")
    assert states(run(own_dag, "2024-01-02")) == {"look": "success", "insist": "failed"}
    run(dags["shop.orders"], "2024-01-02")
    assert states(run(own_dag, "2024-01-02")) == {"look": "success", "insist": "success"}


def test_a_decorated_function_is_a_models_whole_run(library: str, run: Any, own_dag: Any) -> None:
    from airflow.providers.common.compat.sdk import task

    from bollhav_provider.intervals import Unit

    numbers = Model(
        target=Target(schema="shop", name="numbers", write_mode=WriteMode.TRUNCATE, columns=[Column("n", "integer")]),
        temporality=Temporality.TIMELESS,
        state=State(),
    )
    decorator = getattr(task, "bollhav", None)
    if decorator is None:
        from bollhav_provider.operators.run_model import bollhav_task as decorator

    @decorator(model=numbers)
    def load(unit: Unit) -> list[dict[str, int]]:
        return [{"n": 1}, {"n": 2}]

    load()
    assert states(run(own_dag, "2024-01-02")) == {"load": "success"}
    assert rows(library, "SELECT n FROM shop.numbers ORDER BY n") == [(1,), (2,)]


DAY = {"since": "{{ data_interval_start.isoformat() }}", "until": "{{ data_interval_end.isoformat() }}"}


def test_units_that_no_prefill_lists_are_done_in_a_library_that_is_new(library: str, run: Any, own_dag: Any) -> None:
    from bollhav_provider.operators import ExecuteOperator

    orders = windowed("shop.orders")
    ExecuteOperator(task_id="load", model=orders, units=[DAY])
    assert states(run(own_dag, "2024-01-02")) == {"load": "success"}
    assert statuses(library, orders) == {"2024-01-01": "applied", "2024-01-02": "pending", "2024-01-03": "pending"}
    assert rows(library, "SELECT n FROM shop.orders") == [(1,)]
    before = state_rows(library, orders, "attempt", "applied_at")
    assert states(run(own_dag, "2024-01-02")) == {"load": "skipped"}  # nothing asked for it to be done again
    assert state_rows(library, orders, "attempt", "applied_at") == before


def test_units_that_no_prefill_lists_take_the_runs_parameters(library: str, run: Any, own_dag: Any) -> None:
    from bollhav_provider.model import Curfew
    from bollhav_provider.operators import ExecuteOperator

    orders = windowed("shop.orders")
    ExecuteOperator(task_id="load", model=orders, units=[DAY])
    assert states(run(own_dag, "2024-01-02", conf={"dry_state": True})) == {"load": "skipped"}
    assert rows(library, "SELECT to_regclass('z_bollhav.library')") == [(None,)]
    assert states(run(own_dag, "2024-01-03", conf={"dry_state": False, "mark_applied": True})) == {"load": "skipped"}
    assert statuses(library, orders)["2024-01-02"] == "applied"
    assert rows(library, "SELECT to_regclass('shop.orders')") == [(None,)]
    always = Curfew(ranges=[("00:00", "12:00"), ("12:00", "00:00")])
    ExecuteOperator(task_id="closed", model=windowed("shop.closed", curfew=always), units=[DAY])
    assert states(run(own_dag, "2024-01-04", conf={"mark_applied": False}))["closed"] == "skipped"


def test_what_a_prefill_lists_is_mapped_over_in_a_dag_of_ones_own(library: str, run: Any, own_dag: Any) -> None:
    from bollhav_provider.operators import ExecuteOperator, PrefillOperator

    orders = windowed("shop.orders")
    units = PrefillOperator(task_id="list", model=orders)
    ExecuteOperator.partial(task_id="load", model=orders, prefill_task_id="list").expand(units=units.output)
    conf = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-03T00:00:00Z"}
    found = states(run(own_dag, "2024-02-01", conf=conf))
    assert found == {"list": "success", "load[0]": "success", "load[1]": "success"}
    assert list(statuses(library, orders).values()) == ["applied", "applied", "pending"]


def test_models_in_a_dag_of_ones_own_run_between_its_tasks(library: str, run: Any, own_dag: Any) -> None:
    from airflow.providers.common.compat.sdk import task

    from bollhav_provider import ModelTaskGroup

    @task
    def before() -> None: ...

    @task
    def after() -> None: ...

    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.orders", EXACT),))
    before() >> ModelTaskGroup([orders, report]) >> after()
    dag_run = run(own_dag, "2024-01-02")
    found = states(dag_run)
    assert set(found.values()) == {"success"}
    assert "models.mart-report.unit.execute[0]" in found
    assert rows(library, "SELECT n FROM mart.report") == [(1,)]


def test_one_model_in_a_dag_of_ones_own_is_a_group_of_its_name(own_dag: Any) -> None:
    from bollhav_provider import ModelTaskGroup

    ModelTaskGroup(windowed("shop.orders"))
    assert {task.task_id for task in own_dag.tasks} == {"shop-orders.prefill", "shop-orders.unit.execute"}


@pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="Airflow 3 keeps asset events")
def test_a_commit_is_an_event_of_the_models_asset_with_its_windows(library: str, run: Any) -> None:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    hours = windowed("shop.events_by_hour", chunk="@hourly", window="@daily", units_per_task=24)
    run(build_dags([hours])["shop.events_by_hour"], "2024-01-02")
    with create_session() as session:
        query = select(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        events = session.scalars(query.where(AssetModel.name == "shop.events_by_hour")).all()
        extras = [event.extra for event in events]
        keys = {getattr(event, "partition_key", None) for event in events}
    assert extras[0]["model"] == "shop.events_by_hour"
    assert (extras[0]["since"], extras[0]["until"]) == ("2024-01-01T00:00:00+00:00", "2024-01-02T00:00:00+00:00")
    assert extras[0]["rows_written"] == 24
    if AIRFLOW_V_3_3_PLUS:
        # One for each window, for DAGs that are scheduled by partitions, and one for all others.
        assert len(events) == 25
        assert {None, "2024-01-01T07:00:00"} <= keys
    else:
        assert len(events) == 1


def test_a_definition_error_is_not_retried(library: str, run: Any) -> None:
    report = windowed("mart.report", upstream=(gated("shop.nobody", EXACT),))
    dag = build_dags([report], default_args={"retries": 5, "retry_delay": pendulum.duration(hours=1)})["mart.report"]
    assert states(run(dag, "2024-01-02"))["unit.shop.nobody[0]"] == "failed"


def test_another_error_is_retried(library: str, run: Any) -> None:
    from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

    from bollhav_provider.exceptions import GateClosedError, HardGateError
    from bollhav_provider.operators.base import failing_for_good

    # Airflow 2 must be given an exception of its own.
    with pytest.raises(GateClosedError if AIRFLOW_V_3_0_PLUS else AirflowException) as raised, failing_for_good():
        raise GateClosedError("not yet")
    assert not isinstance(raised.value, AirflowFailException)
    assert "not yet" in str(raised.value)
    with pytest.raises(ZeroDivisionError), failing_for_good():
        raise ZeroDivisionError
    with pytest.raises(AirflowFailException, match="HardGateError: never"), failing_for_good():
        raise HardGateError("never")


@pytest.mark.skipif(not AIRFLOW_V_3_3_PLUS, reason="retry policies are of Airflow 3.3")
def test_the_retry_policy_fails_what_cannot_heal_and_leaves_the_rest_to_the_retries() -> None:
    from airflow.sdk.definitions.retry_policy import RetryAction

    from bollhav_provider.exceptions import HardGateError, LeaseLostError
    from bollhav_provider.operators.prefill import PrefillOperator

    task = PrefillOperator(task_id="prefill", model=windowed("shop.orders"))
    policy = task.retry_policy
    assert policy is not None
    assert policy.evaluate(HardGateError("never"), 1, 3).action == RetryAction.FAIL
    assert policy.evaluate(LeaseLostError("slow"), 1, 3).action == RetryAction.DEFAULT
    assert policy.evaluate(ConnectionError("net"), 1, 3).action == RetryAction.DEFAULT


def test_a_curfew_skips_the_run_with_its_reason(library: str, run: Any, capsys: Any, caplog: Any) -> None:
    from bollhav_provider.model import Curfew

    always = Curfew(ranges=[("00:00", "12:00"), ("12:00", "00:00")], reason="night shift")
    dag_run = run(build_dags([windowed("shop.orders", curfew=always)])["shop.orders"], "2024-01-02")
    assert states(dag_run) == {"prefill": "skipped", "unit.execute": "skipped"}
    assert rows(library, "SELECT to_regclass('shop.orders')") == [(None,)]
    assert "night shift" in capsys.readouterr().out + caplog.text


def test_more_units_than_airflow_itself_maps_to_are_batched(
    library: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "5")
    hours = windowed("shop.hours", chunk="@hourly", window="@daily")
    dag_run = run(build_dags([hours])["shop.hours"], "2024-01-02")
    assert sum(name.startswith("unit.execute") for name in states(dag_run)) == 5
    assert rows(library, "SELECT count(*) FROM shop.hours") == [(24,)]


def test_more_units_than_tasks_are_allowed_are_batched(library: str, run: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("BOLLHAV_MAX_MAP_LENGTH", "5")
    hours = windowed("shop.hours", chunk="@hourly", window="@daily")
    dag_run = run(build_dags([hours])["shop.hours"], "2024-01-02")
    assert len([name for name in states(dag_run) if name.startswith("unit.execute")]) == 5
    assert rows(library, "SELECT count(*) FROM shop.hours") == [(24,)]


def test_the_notifier_says_model_window_and_error() -> None:
    from types import SimpleNamespace

    from airflow.utils.state import TaskInstanceState

    from bollhav_provider.notifications import BollhavNotifier

    sent: list[dict[str, Any]] = []
    context = {
        "ti": SimpleNamespace(dag_id="shop.orders", run_id="r", task_id="unit.execute", try_number=2, state="failed"),
        "task": SimpleNamespace(model=windowed("shop.orders"), label="[a, b)", units=[]),
        "exception": ValueError("no such column"),
    }
    BollhavNotifier(send=sent.append).notify(context)
    assert sent[0]["text"] == "shop.orders [a, b): task unit.execute failed: ValueError: no such column"
    assert sent[0]["model"] == "shop.orders"

    prefill = build_dags([windowed("shop.orders")])["shop.orders"].get_task("prefill")
    ended = SimpleNamespace(dag_id="shop.orders", task_id="prefill", state=TaskInstanceState.SUCCESS)
    BollhavNotifier(send=sent.append).notify({"ti": ended, "task": prefill})
    assert sent[1]["text"] == "shop.orders: task prefill success"
    assert (sent[1]["state"], sent[1]["window"]) == ("success", None)


def test_a_notifier_of_all_tasks_hears_of_a_failure(library: str, run: Any) -> None:
    from bollhav_provider.model import AcceptedValues
    from bollhav_provider.notifications import BollhavNotifier

    sent: list[dict[str, Any]] = []
    orders = windowed("shop.orders", checks=[AcceptedValues("n", [2])])
    told = {"on_failure_callback": BollhavNotifier(send=sent.append)}
    assert run(build_dags([orders], default_args=told)["shop.orders"], "2024-01-02").state == "failed"
    (message,) = sent
    assert (message["model"], message["task_id"], message["state"]) == ("shop.orders", "unit.execute", "failed")
    assert message["window"] == "[2024-01-01T00:00Z, 2024-01-02T00:00Z)"
    if AIRFLOW_V_3_3_PLUS:  # in a run in one process Airflow 3.1 tells a callback of no exception
        assert "CheckFailedError" in message["text"]
