"""What orders runs is the state of their windows: nothing that Airflow may clear, skip or fill again."""

from __future__ import annotations

import pytest
from airflow_models import gated, timeless, windowed

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.model import State, UpstreamContract


@pytest.mark.parametrize("group_by", ["model", "tag", "schema"])
def test_no_task_depends_on_what_became_of_an_earlier_run(group_by: str) -> None:
    models = [
        windowed("shop.orders", tags=["x"]),
        windowed("mart.report", upstream=(gated("shop.orders", UpstreamContract.THROUGH),), tags=["x"]),
        windowed("mart.running", tags=["x"]).model_copy(update={"state": State(sequential=True)}),
        timeless("ref.plain", tags=["x"]),
    ]
    tasks = [task for dag in build_dags(models, group_by=group_by).values() for task in dag.tasks]
    assert len(tasks) > 6
    for task in tasks:
        assert not task.depends_on_past, task.task_id
        assert not task.wait_for_downstream, task.task_id
        assert not task.wait_for_past_depends_before_skipping, task.task_id
