"""How long a task that met a closed gate waits: from its first wait on, whatever gates it meets after that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow_models import report_of_two
from airflow_testing import state_rows

from bollhav_provider import run as core
from bollhav_provider.graph import build_graph
from bollhav_provider.intervals import Interval, Unit, as_utc
from bollhav_provider.model import Model
from bollhav_provider.operators import ExecuteOperator

DAY = Interval(as_utc("2024-01-01T00:00:00Z", "since"), as_utc("2024-01-02T00:00:00Z", "until"))
ORDERS, RETURNS, REPORT = report_of_two()
HOUR = 3600.0


def prepare(dsn: str, model: Model) -> Any:
    """Make a model known to the library and its first day ready to be loaded."""
    spec = core.RunSpec(run=core.run_key(), window=DAY)
    return core.prepare(core.DsnConnections(dsn), build_graph([ORDERS, RETURNS, REPORT]), model, spec), spec


def load(dsn: str, model: Model) -> None:
    prepared, spec = prepare(dsn, model)
    graph = build_graph([ORDERS, RETURNS, REPORT])
    core.execute_units(core.DsnConnections(dsn), graph, model, prepared.units, spec)


def deferred(task: ExecuteOperator, **resumed: Any) -> TaskDeferred:
    """Run a task until it waits, as a worker does; ``resumed`` is what Airflow kept of its last wait."""
    with pytest.raises(TaskDeferred) as told:
        task.resume({}, {"status": "open"}, **resumed) if resumed else task.execute({})
    return told.value


@pytest.fixture
def task(library: str) -> ExecuteOperator:
    for model in (ORDERS, RETURNS, REPORT):
        prepare(library, model)
    return ExecuteOperator(task_id="report", model=REPORT, units=[Unit(DAY).to_json()], wait_timeout=HOUR)


def test_the_patience_of_a_task_is_counted_from_its_first_wait(library: str, task: ExecuteOperator) -> None:
    first = deferred(task)
    assert first.timeout == timedelta(seconds=HOUR)
    load(library, ORDERS)
    waited = {"waiting_since": (datetime.now(UTC) - timedelta(minutes=40)).isoformat()}
    assert set(first.kwargs or {}) == set(waited)
    second = deferred(task, **waited)
    assert timedelta(minutes=19) < second.timeout <= timedelta(minutes=20)
    assert second.kwargs == waited


def test_a_task_whose_patience_is_over_waits_no_longer(library: str, task: ExecuteOperator) -> None:
    deferred(task)
    long_ago = {"waiting_since": (datetime.now(UTC) - timedelta(days=9)).isoformat()}
    assert deferred(task, **long_ago).timeout == timedelta(seconds=1)


def test_whoever_starts_anew_has_all_the_patience_again(library: str, task: ExecuteOperator) -> None:
    deferred(task, waiting_since=(datetime.now(UTC) - timedelta(minutes=40)).isoformat())
    again = ExecuteOperator(task_id="again", model=REPORT, units=[Unit(DAY).to_json()], wait_timeout=HOUR)
    assert deferred(again).timeout == timedelta(seconds=HOUR)


def test_a_wait_that_ends_in_time_ends_with_the_load(library: str, task: ExecuteOperator) -> None:
    kept = deferred(task).kwargs or {}
    load(library, ORDERS)
    load(library, RETURNS)
    task.resume({}, {"status": "open"}, **kept)
    assert state_rows(library, REPORT, "status")[0] == ("applied",)
