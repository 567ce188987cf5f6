"""What another program loads is an asset like any model: who is made after it hears of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pendulum
import pytest
from airflow_models import gated, timeless

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.model import UpstreamContract
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS, cron_intervals


@pytest.fixture
def own_dag() -> Iterator[Any]:
    """A daily DAG of one's own, open."""
    from airflow.providers.common.compat.sdk import DAG

    with DAG("records", schedule=cron_intervals("@daily", "UTC"), start_date=pendulum.datetime(2024, 1, 1)) as dag:
        yield dag


@pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="Airflow 3 keeps asset events")
def test_what_follows_a_table_hears_that_another_program_loaded_it(library: str, run: Any, own_dag: Any) -> None:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    from bollhav_provider.operators import RecordAppliedOperator
    from bollhav_provider.version_compat import make_asset

    mine = make_asset("mine", "postgres://elsewhere/db/dbt/orders")
    record = RecordAppliedOperator(task_id="record", model="dbt.orders", chunk="@daily", outlets=[mine])
    total = timeless("mart.total", upstream=(gated("dbt.orders", UpstreamContract.WHOLE),))
    timetable: Any = build_dags([total])["mart.total"].timetable
    followed = [asset.uri for asset in timetable.asset_condition.objects]
    assert [asset.uri for asset in record.outlets] == [mine.uri, *followed]
    run(own_dag, "2024-01-02")
    with create_session() as session:
        query = select(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        (event, *_) = session.scalars(query.where(AssetModel.uri == followed[0])).all()
    assert event.extra == {
        "model": "dbt.orders", "since": "2024-01-01T00:00:00+00:00", "until": "2024-01-02T00:00:00+00:00",
    }  # fmt: skip
