"""Which window a sensor in a DAG of one's own waits for, whatever that DAG's runs say of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pendulum
import pytest
from airflow_models import timeless, windowed
from airflow_testing import execute, states

from bollhav_provider import run as core
from bollhav_provider.graph import build_graph
from bollhav_provider.intervals import Interval, as_utc
from bollhav_provider.model import Environment, Freshness, Model
from bollhav_provider.sensors import UpstreamSensor
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS, cron_intervals

ORDERS = windowed("shop.orders", tz="America/New_York", begin="2024-01-01T05:00Z", end="2024-01-04T05:00Z")


def load(dsn: str, model: Model, since: str, until: str, *, only_register: bool = False) -> None:
    """Load a model's window outside Airflow, or make it known alone."""
    window = Interval(as_utc(since, "since"), as_utc(until, "until"))
    connections, graph = core.DsnConnections(dsn), build_graph([model])
    spec = core.RunSpec(run=core.run_key(), window=None if model.is_windowless else window)
    prepared = core.prepare(connections, graph, model, spec)
    if not only_register:
        core.execute_units(connections, graph, model, prepared.units, spec)


@pytest.fixture
def second_day(library: str) -> str:
    """A library in which the orders of the second day alone are loaded: 05:00 to 05:00 in UTC."""
    load(library, ORDERS, "2024-01-02T05:00Z", "2024-01-03T05:00Z")
    return library


def waits_for(**context: Any) -> Interval | None:
    return UpstreamSensor(task_id="orders", model="shop.orders")._run_window(context, Environment())


SECOND = Interval(as_utc("2024-01-02T05:00Z", "since"), as_utc("2024-01-03T05:00Z", "until"))


def test_an_instant_is_the_latest_window_of_the_upstream_by_then(second_day: str) -> None:
    for moment in ("2024-01-03T05:00Z", "2024-01-03T12:00Z", "2024-01-04T04:59Z"):
        at = datetime.fromisoformat(moment)
        assert waits_for(data_interval_start=at, data_interval_end=at) == SECOND


@pytest.mark.parametrize(
    "partition",
    [
        {"partition_date": datetime(2024, 1, 2, 5, tzinfo=UTC)},
        {"partition_key": "2024-01-02T05:00:00"},
        {"partition_key": "2024-01-02"},
    ],
    ids=["date", "an asset's key", "a day"],
)
def test_a_partition_is_the_window_of_the_upstream_that_holds_it(second_day: str, partition: dict[str, Any]) -> None:
    assert waits_for(**partition) == SECOND


def test_a_plain_date_is_midnight_in_the_zone_of_the_upstream(second_day: str) -> None:
    assert waits_for(params={"since": "2024-01-02", "until": "2024-01-03"}) == SECOND


def test_a_run_that_says_nothing_of_any_time_waits_for_the_whole(second_day: str) -> None:
    assert waits_for() is None
    assert waits_for(partition_key="north") is None


def test_of_a_table_without_windows_or_that_nobody_knows_the_whole_is_waited_for(library: str) -> None:
    at = datetime(2024, 1, 3, tzinfo=UTC)
    assert waits_for(data_interval_start=at, data_interval_end=at) is None  # there is no library yet
    load(library, timeless("shop.orders"), "2024-01-02T05:00Z", "2024-01-03T05:00Z")
    assert waits_for(data_interval_start=at, data_interval_end=at) is None


@pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="a plain cron has intervals in Airflow 2")
def test_in_a_dag_of_a_plain_cron_the_latest_window_is_enough(second_day: str, run: Any) -> None:
    from airflow.providers.common.compat.sdk import DAG

    with DAG("own", schedule="0 6 * * *", start_date=pendulum.datetime(2024, 1, 1)) as dag:
        UpstreamSensor(task_id="orders", model="shop.orders", mode="poke", timeout=2, poke_interval=0.3)
    assert states(run(dag, datetime(2024, 1, 3, 6, tzinfo=UTC))) == {"orders": "success"}
    assert states(run(dag, datetime(2024, 1, 4, 6, tzinfo=UTC))) == {"orders": "failed"}  # the third is missing


@pytest.mark.parametrize("freshness", [timedelta(hours=1), Freshness(within="1h")])
def test_a_window_that_was_loaded_too_long_ago_is_waited_for(
    second_day: str, run: Any, caplog: Any, capsys: Any, freshness: Any
) -> None:
    from airflow.providers.common.compat.sdk import DAG

    how: dict[str, Any] = {"model": "shop.orders", "mode": "poke", "timeout": 1, "poke_interval": 0.3}
    schedule = cron_intervals("@daily", "America/New_York")
    with DAG("own", schedule=schedule, start_date=pendulum.datetime(2024, 1, 1)) as dag:
        UpstreamSensor(task_id="fresh", freshness=freshness, **how)
        UpstreamSensor(task_id="patient", freshness=timedelta(days=3), **how)
    at = datetime(2024, 1, 3, 5, tzinfo=UTC)
    assert set(states(run(dag, at)).values()) == {"success"}
    age = "UPDATE z_bollhav.{} SET applied_at = applied_at - interval '2 hours' WHERE status = 'applied'"
    execute(second_day, age.format(ORDERS.state_table))
    assert states(run(dag, at)) == {"fresh": "failed", "patient": "success"}
    assert "(encapsulate, stale)" in capsys.readouterr().out + caplog.text
