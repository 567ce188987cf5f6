"""Which window a run covers, by what Airflow says of the run."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow_models import windowed

from bollhav_provider.operators.run_context import data_interval, run_window, says_a_time

NOW = datetime(2024, 6, 1, 12, tzinfo=UTC)
DAYS = windowed("shop.orders", end=None)
OSLO = windowed("shop.orders", end=None, tz="Europe/Oslo")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def covered(context: dict[str, Any], model: Any = DAYS) -> str:
    found = run_window(context, model, lambda: NOW)
    return str(found.window or found.message)


def test_a_run_that_says_nothing_of_any_time_covers_the_latest_window() -> None:
    assert covered({}) == "[2024-05-31T00:00Z, 2024-06-01T00:00Z)"


def test_an_interval_without_length_is_the_latest_window_at_its_instant() -> None:
    """What a plain cron string gives on Airflow 3: a backfill of it must not load today's window again and again."""
    instant = at("2024-03-05T02:00")
    assert covered({"data_interval_start": instant, "data_interval_end": instant}) == (
        "[2024-03-04T00:00Z, 2024-03-05T00:00Z)"
    )
    later = at("2025-01-01T00:00")
    assert covered({"data_interval_start": later, "data_interval_end": later}) == (
        "[2024-05-31T00:00Z, 2024-06-01T00:00Z)"
    )


@pytest.mark.parametrize(
    ("context", "model", "expected"),
    [
        ({"partition_key": "2024-03-04T00:00:00"}, DAYS, "[2024-03-04T00:00Z, 2024-03-05T00:00Z)"),
        ({"partition_key": "2024-03-04T05:00:00"}, DAYS, "[2024-03-04T00:00Z, 2024-03-05T00:00Z)"),
        ({"partition_key": "2024-03-04"}, OSLO, "[2024-03-03T23:00Z, 2024-03-04T23:00Z)"),
        ({"partition_key": "2024-03-03T23:00:00"}, OSLO, "[2024-03-03T23:00Z, 2024-03-04T23:00Z)"),
        ({"partition_key": "x", "partition_date": at("2024-03-04")}, DAYS, "[2024-03-04T00:00Z, 2024-03-05T00:00Z)"),
        ({"partition_key": "europe"}, DAYS, "[2024-05-31T00:00Z, 2024-06-01T00:00Z)"),
    ],
)
def test_a_run_of_a_partition_covers_the_window_that_it_is_of(context: Any, model: Any, expected: str) -> None:
    assert covered(context, model) == expected


def test_a_partition_that_has_not_ended_is_not_run() -> None:
    said = covered({"partition_date": at("2024-06-01"), "partition_key": "2024-06-01T00:00:00"})
    assert said.startswith("the partition's window [2024-06-01T00:00Z, 2024-06-02T00:00Z) has not ended at 2024-06-01")


@pytest.mark.parametrize("run_type", ["dataset_triggered", "asset_triggered"])
@pytest.mark.parametrize("as_enum", [False, True])
@pytest.mark.parametrize("end", ["2024-05-21", "2024-01-05"])
def test_a_run_by_events_does_the_latest_window_and_not_all_that_its_events_span(
    run_type: str, as_enum: bool, end: str
) -> None:
    """Airflow 2 makes an interval from the first event's to the last one's: it would put all between them back."""
    kind = SimpleNamespace(value=run_type) if as_enum else run_type
    by_events = {
        "dag_run": SimpleNamespace(run_type=kind),
        "data_interval_start": at("2024-01-05"),
        "data_interval_end": at(end),
    }
    assert covered(by_events) == "[2024-05-31T00:00Z, 2024-06-01T00:00Z)"
    assert data_interval(by_events) is None
    assert not says_a_time(by_events)
    by_events["dag_run"] = SimpleNamespace(run_type="scheduled")
    assert says_a_time(by_events)


def test_what_somebody_says_comes_first() -> None:
    said = {"params": {"since": "2024-02-01", "until": "2024-02-02"}, "partition_key": "2024-03-04T00:00:00"}
    assert covered(said) == "[2024-02-01T00:00Z, 2024-02-02T00:00Z)"
