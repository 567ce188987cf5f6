"""A run over more units than Airflow maps tasks to is one run all the same."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from airflow_models import windowed
from airflow_testing import rows

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.operators.unit_lists import units_of

YEARS = {"since": "2014-01-01T00:00:00Z", "until": "2024-01-01T00:00:00Z"}
HOURS = 87_648


def test_ten_years_of_hours_are_one_run_within_airflows_limit(library: str) -> None:
    hours = windowed("shop.hours", chunk="@hourly", window="@daily", begin=YEARS["since"], end=YEARS["until"])
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(
        dag_id="shop.hours", run_id="reload", task_id="prefill", map_index=-1, try_number=1, max_tries=0,
        xcom_push=lambda key, value: pushed.update({key: value}),
    )  # fmt: skip
    prefill = build_dags([hours])["shop.hours"].get_task("prefill")
    batches = prefill.execute({"ti": ti, "params": YEARS})
    assert len(batches) <= 1024
    assert len(json.dumps(batches)) < 250_000  # each of the tasks reads all of it
    sizes = [len(units_of(batch)) for batch in batches]
    assert max(sizes) - min(sizes) <= 1  # no task has nearly all of it to do
    units = [unit.window for batch in batches for unit in units_of(batch) if unit.window is not None]
    assert len(units) == HOURS
    # Every hour once, in order, each beginning where the one before it ends.
    assert units[0].since == datetime(2014, 1, 1, tzinfo=UTC)
    assert all(before.until == after.since for before, after in pairwise(units))
    assert units[-1].until - units[-1].since == timedelta(hours=1)
    assert rows(library, "SELECT count(*) FROM z_bollhav.library") == [(1,)]
