"""A person marks an execute task success: its windows are then applied, flagged with who says so."""

from __future__ import annotations

from typing import Any

import pytest
from airflow_models import windowed
from airflow_testing import mark_success, state_rows, states, statuses

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS


@pytest.fixture
def failed(library: str, run: Any) -> tuple[Any, Any]:
    """A model whose first window failed, and its run."""
    orders = windowed("shop.orders")
    broken = orders.replace(query="SELECT %(since)s::timestamptz AS at, 1 / 0 AS n WHERE %(since)s < %(until)s")
    dag_run = run(build_dags([broken])["shop.orders"], "2024-01-02")
    assert states(dag_run)["unit.execute[0]"] == "failed"
    assert statuses(library, orders)["2024-01-01"] == "error"
    return orders, dag_run


def test_the_window_is_applied_and_flagged_with_the_person(library: str, failed: Any) -> None:
    orders, dag_run = failed
    mark_success(dag_run, "unit.execute[0]", "ada")
    status, by, reason = state_rows(library, orders, "status", "marked_by", "reason")[0]
    assert (status, by) == ("applied", "ada")
    assert reason == "task shop.orders.unit.execute[0] was marked success in Airflow"
    assert statuses(library, orders)["2024-01-02"] == "pending"


def test_a_window_that_is_applied_already_stays_as_it_is(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    dag_run = run(build_dags([orders])["shop.orders"], "2024-01-02")
    before = state_rows(library, orders, "attempt", "applied_at", "marked_by")
    mark_success(dag_run, "unit.execute[0]", "ada")
    assert state_rows(library, orders, "attempt", "applied_at", "marked_by") == before


@pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="Airflow 2 reads XComs by the backend in any case")
def test_a_deployments_own_xcom_backend_says_what_its_rows_stand_for(
    library: str, failed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.models.xcom import XComModel
    from airflow.sdk.bases.xcom import BaseXCom
    from airflow.utils.session import create_session
    from sqlalchemy import select

    kept: dict[str, Any] = {}

    class Kept(BaseXCom):
        @staticmethod
        def deserialize_value(result: Any) -> Any:
            return kept[result.value]

    orders, dag_run = failed
    monkeypatch.setattr("airflow.sdk.execution_time.xcom.XCom", Kept)
    with create_session() as session:
        for row in session.scalars(select(XComModel).where(XComModel.run_id == dag_run.run_id)):
            kept[f"s3://xcom/{row.task_id}/{row.key}"] = XComModel.deserialize_value(row)
            row.value = f"s3://xcom/{row.task_id}/{row.key}"
    mark_success(dag_run, "unit.execute[0]", "ada")
    assert statuses(library, orders)["2024-01-01"] == "applied"


def test_a_prefill_that_is_marked_marks_nothing(library: str, failed: Any) -> None:
    orders, dag_run = failed
    mark_success(dag_run, "prefill", "ada")
    assert statuses(library, orders)["2024-01-01"] == "error"


def test_a_library_that_cannot_be_reached_does_not_fail_the_persons_request(
    library: str, failed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_testing import forget_connections

    orders, dag_run = failed
    monkeypatch.setenv("AIRFLOW_CONN_BOLLHAV_DEFAULT", '{"conn_type": "bollhav", "host": "/nowhere"}')
    forget_connections()
    mark_success(dag_run, "unit.execute[0]", "ada")
    assert statuses(library, orders)["2024-01-01"] == "error"
