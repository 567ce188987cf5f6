"""What is tried again: errors that can heal, as often as somebody said, else as the provider is configured."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pendulum
import psycopg
import pytest
from airflow_models import BEGIN, END, gated, windowed
from airflow_testing import states, statuses

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.exceptions import ConfigurationError, LeaseLostError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import (
    AirflowOptions,
    Batch,
    Column,
    Contract,
    Model,
    State,
    Target,
    TimeChunking,
    UpstreamContract,
)
from bollhav_provider.operators.base import configured_retries
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS, AIRFLOW_V_3_3_PLUS, cron_intervals

AT_ONCE = {"retries": 1, "retry_delay": timedelta(0)}


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A deployment that says nothing of retries; the tests around run without any."""
    monkeypatch.delenv("AIRFLOW__BOLLHAV__RETRIES")
    configured_retries.cache_clear()
    yield monkeypatch
    configured_retries.cache_clear()


def tries(**more: Any) -> set[int]:
    """Return how often the tasks of a generated DAG are tried again: prefill, gate and execute."""
    report = windowed("mart.report", upstream=(gated("shop.orders", UpstreamContract.EXACT),), **more)
    return {task.retries for task in build_dags([windowed("shop.orders"), report])["mart.report"].tasks}


def test_every_task_is_tried_again_where_nobody_says(configured: pytest.MonkeyPatch) -> None:
    assert tries() == {2}
    assert tries(airflow=AirflowOptions(retries=0)) == {0}


def test_the_deployment_says_how_often(configured: pytest.MonkeyPatch) -> None:
    configured.setenv("AIRFLOW__BOLLHAV__RETRIES", "0")
    assert tries() == {0}
    configured_retries.cache_clear()
    configured.setenv("AIRFLOW__CORE__DEFAULT_TASK_RETRIES", "5")
    assert tries() == {5}


def test_a_number_of_retries_that_is_none_is_refused(configured: pytest.MonkeyPatch) -> None:
    configured.setenv("AIRFLOW__BOLLHAV__RETRIES", "often")
    with pytest.raises(ConfigurationError, match=r"retries is 'often': write a whole number"):
        configured_retries()


def test_what_a_dag_of_ones_own_says_of_all_its_tasks_stays(configured: pytest.MonkeyPatch) -> None:
    from airflow.providers.common.compat.sdk import DAG

    from bollhav_provider import ModelTaskGroup
    from bollhav_provider.sensors import UpstreamSensor

    said: dict[str, Any] = {"retries": 7}
    if AIRFLOW_V_3_3_PLUS:
        from airflow.sdk.definitions.retry_policy import ExceptionRetryPolicy

        said["retry_policy"] = ExceptionRetryPolicy(rules=[])
    schedule = cron_intervals("@daily", "UTC")
    with DAG("own", schedule=schedule, start_date=pendulum.datetime(2024, 1, 1), default_args=said) as dag:
        ModelTaskGroup(windowed("shop.orders"))
        UpstreamSensor(task_id="waits", model="shop.other")
    assert {task.retries for task in dag.tasks} == {7}
    if AIRFLOW_V_3_3_PLUS:
        assert {type(task.retry_policy).__name__ for task in dag.tasks} == {"ExceptionRetryPolicy"}


@pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="Airflow 2 does not try again in one process")
@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("server closed the connection unexpectedly"),
        psycopg.errors.LockNotAvailable("canceling statement due to lock timeout"),
        psycopg.errors.SerializationFailure("could not serialize access"),
        LeaseLostError("another worker has the unit"),
    ],
    ids=["connection", "lock time-out", "serialization", "lease"],
)
def test_what_can_heal_is_tried_again_and_heals(library: str, run: Any, error: Exception) -> None:
    orders = Model(
        target=Target(schema="shop", name="orders", columns=[Column("n", "integer")]),
        batching=Batch(time=TimeChunking(chunk="@daily")),
        contract=Contract(begin=BEGIN, end=END),
        state=State(),
    )
    found = iter([error])

    @orders.execute
    def load(unit: Unit) -> list[dict[str, int]]:
        if (wrong := next(found, None)) is not None:
            raise wrong
        return [{"n": 1}]

    dag_run = run(build_dags([orders], default_args=AT_ONCE)["shop.orders"], "2024-01-02")
    assert states(dag_run) == {"prefill": "success", "unit.execute[0]": "success"}
    assert {ti.task_id: ti.try_number for ti in dag_run.get_task_instances()} == {"prefill": 1, "unit.execute": 2}
    assert statuses(library, orders)["2024-01-01"] == "applied"


@pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="Airflow 2 does not try again in one process")
def test_what_cannot_heal_is_tried_once(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    run(build_dags([orders])["shop.orders"], "2024-01-02")
    other = windowed("shop.orders", chunk="@hourly", window="@daily")  # rows of the state do not lie on this grid
    dag_run = run(build_dags([other], default_args=AT_ONCE)["shop.orders"], "2024-01-03")
    (prefill,) = [ti for ti in dag_run.get_task_instances() if ti.task_id == "prefill"]
    assert (prefill.state, prefill.try_number) == ("failed", 1)
