"""The mapped group of a generated DAG, beside the one that Airflow's own decorator makes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow_models import gated, windowed
from test_factory import serialised

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.factory import mapping
from bollhav_provider.model import UpstreamContract

SHOWN = "one batch"


def built() -> dict[str, Any]:
    report = windowed("mart.report", tags=["core"], upstream=(gated("shop.orders", UpstreamContract.EXACT),))
    models = [windowed("shop.orders", tags=["core"]), report]
    found = {name: json.loads(text) for name, text in serialised(build_dags(models)).items()}
    return found | {name: json.loads(text) for name, text in serialised(build_dags(models, group_by="tag")).items()}


def units(dags: dict[str, Any]) -> list[str]:
    """Take what the serialised tasks show of their batch out of them."""
    tasks = [task["__var"] for dag in dags.values() for task in dag["dag"]["tasks"]]
    return [task.pop("units") for task in tasks if "units" in task]


def test_the_group_is_the_one_that_airflows_decorator_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = built()
    assert len(units(ours)) == 5
    monkeypatch.setattr(mapping, "_parts", lambda: None)
    theirs = built()
    assert SHOWN not in units(theirs)
    assert ours == theirs


@pytest.mark.once
def test_its_parts_are_found_and_show_their_batch_in_a_few_words() -> None:
    assert mapping._parts() is not None
    assert set(units(built())) == {SHOWN}
