"""The run's plain values: they travel as JSON, and units are divided among tasks."""

from __future__ import annotations

import datetime as dt
import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bollhav_provider.exceptions import ConfigurationError, GridError
from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.model import Environment
from bollhav_provider.run import Prepared, RunSpec, UnitOutcome, UnitStats, batches, connect, run_key
from bollhav_provider.run.connections import parts_of, same_place
from bollhav_provider.settings import Settings

WINDOW = Interval(dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 2, tzinfo=dt.UTC))


def test_a_specification_survives_json() -> None:
    spec = RunSpec(
        run=run_key("shop.orders", "scheduled__2024", "prefill", 2, "ann"),
        env=Environment("pr1", "2401"),
        window=WINDOW,
        mode="torch",
        interval_override="@daily",
        reconcile=True,
        lease=dt.timedelta(seconds=7),
        reason="why",
    )
    assert RunSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_an_override_that_is_no_cron_is_named_as_what_it_is() -> None:
    assert RunSpec(run=run_key(), interval_override="@daily").override("Europe/Oslo").tz == "Europe/Oslo"
    with pytest.raises(GridError, match="interval_override: 'every day' has 2 fields"):
        RunSpec(run=run_key(), interval_override="every day").override("UTC")


def test_a_specification_of_a_newer_version_is_read() -> None:
    told = {**RunSpec(run=run_key()).to_json(), "invented_later": 1}
    assert RunSpec.from_json(told).mode == "bulldozer"


def test_a_specification_follows_the_settings() -> None:
    settings = Settings.resolve({"state_mode": "discover", "dry_state": True}, {"lease_seconds": 9})
    spec = RunSpec.from_settings(settings, run_key(), Environment(), WINDOW)
    assert (spec.mode, spec.dry_state, spec.lease) == ("discover", True, dt.timedelta(seconds=9))


def test_contradictions_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="choose one"):
        RunSpec(run=run_key(), mark_applied=True, state_disabled=True)
    with pytest.raises(ConfigurationError, match=r"reconcile works off .* choose one"):
        RunSpec(run=run_key(), reconcile=True, state_disabled=True)
    with pytest.raises(ConfigurationError, match="'nuke' is none of"):
        RunSpec(run=run_key(), mode="nuke")


def test_a_retry_is_the_same_run_and_a_clear_is_not() -> None:
    first = run_key("d", "r", "t", 1)
    assert first.run_id == run_key("d", "r", "other", 3).run_id
    assert first.run_id != run_key("d", "r", clear_number=1).run_id
    assert first.run_id != run_key("d", "r2").run_id
    assert run_key("d", "r", clear_number=1).airflow_run_id == "r"
    assert isinstance(run_key().run_id, UUID)
    assert run_key().run_id != run_key().run_id


def test_results_are_json() -> None:
    outcome = UnitOutcome(
        Unit(WINDOW), "applied", stats=UnitStats(1, 2, 3, dt.timedelta(seconds=1.5)), warnings=("w",)
    )
    told = json.loads(json.dumps(outcome.to_json()))
    assert told["stats"] == {"rows_in": 1, "rows_written": 2, "rows_changed": 3, "seconds": 1.5}
    assert (
        json.loads(json.dumps(Prepared((Unit(WINDOW), Unit(None)), "m").to_json()))["units"][1]["since"]
        is None
    )


@given(count=st.integers(0, 300), per_task=st.integers(1, 40), most=st.integers(1, 40))
def test_batches_keep_order_and_the_limit(count: int, per_task: int, most: int) -> None:
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    hour = dt.timedelta(hours=1)
    units = [Unit(Interval(start + i * hour, start + (i + 1) * hour)) for i in range(count)]
    divided = batches(units, per_task, most)
    assert [unit for batch in divided for unit in batch] == units
    assert len(divided) <= most
    assert all(divided)
    if count <= per_task * most:
        assert all(len(batch) <= per_task for batch in divided)
    else:
        sizes = {len(batch) for batch in divided}
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("postgresql://a:x@db/w", "postgresql://b:y@db:5432/w", True),
        ("postgresql://a@db/w", "host=DB dbname=w user=a", True),
        ("postgresql://a@db/w", "postgresql://a@db/v", False),
        ("postgresql://a@db/w", "postgresql://a@other/w", False),
        ("postgresql://a@db:5433/w", "postgresql://a@db/w", False),
    ],
)
def test_one_database_is_told_from_two(one: str, other: str, same: bool) -> None:
    assert same_place(one, other) is same


@pytest.mark.parametrize(
    "dsn", ["mysql://u:hush@h/x", "hush", "postgresql://u:hush@h/x?bogus=1", "host=h password='hush"]
)
def test_what_is_no_connection_string_is_refused_without_being_quoted(dsn: str) -> None:
    with pytest.raises(ConfigurationError, match="is no connection string of PostgreSQL") as caught:
        parts_of(dsn)
    assert "hush" not in str(caught.value)
    assert caught.value.__suppress_context__
    with pytest.raises(ConfigurationError):
        connect(dsn)
