"""What people do in the UI means the right thing: clearing tasks and runs, and retries."""

from __future__ import annotations

from typing import Any

import pytest
from airflow_models import windowed
from airflow_testing import again, clear, execute, rows, state_rows

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS

pytestmark = pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="tasks are run one by one through Airflow 3's runner")

TWO_DAYS = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-03T00:00:00Z"}


@pytest.fixture
def done(library: str, run: Any) -> tuple[Any, Any, Any]:
    """A finished run over two days: the model, its DAG and the run."""
    orders = windowed("shop.orders")
    dag = build_dags([orders], default_args={"retries": 1})["shop.orders"]
    dag_run = run(dag, "2024-02-01", conf=TWO_DAYS)
    assert dag_run.state == "success"
    return orders, dag, dag_run


def attempts(library: str, model: Any) -> list[int]:
    return [attempt for attempt, status in state_rows(library, model, "attempt", "status") if status == "applied"]


def test_clearing_an_execute_task_does_its_window_again_and_nothing_else(library: str, done: Any) -> None:
    orders, dag, dag_run = done
    first, second = attempts(library, orders)
    clear(dag_run, "unit.execute[1]")
    assert again(dag, dag_run, "unit.execute[1]") == "success"
    assert attempts(library, orders) == [first, second + 1]


def test_in_discover_a_cleared_task_does_its_window_only_if_it_is_outstanding(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    dag = build_dags([orders])["shop.orders"]
    dag_run = run(dag, "2024-02-01", conf=TWO_DAYS | {"state_mode": "discover"})
    before = attempts(library, orders)
    clear(dag_run, "unit.execute[1]")
    assert again(dag, dag_run, "unit.execute[1]") == "skipped"
    assert attempts(library, orders) == before
    put_back = "UPDATE z_bollhav.{} SET status = 'pending' WHERE since = '2024-01-02T00:00Z'"
    execute(library, put_back.format(orders.state_table))
    clear(dag_run, "unit.execute[1]")
    assert again(dag, dag_run, "unit.execute[1]") == "success"
    assert attempts(library, orders) == [before[0], before[1] + 1]


def test_deleting_a_run_and_its_dag_leaves_the_state_alone(library: str, run: Any, done: Any) -> None:
    from airflow.api.common.delete_dag import delete_dag
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    orders, dag, dag_run = done
    before = state_rows(library, orders, "since", "status", "attempt", "applied_at")
    loaded = rows(library, "SELECT * FROM shop.orders ORDER BY at")
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.run_id == dag_run.run_id))
    assert state_rows(library, orders, "since", "status", "attempt", "applied_at") == before
    assert delete_dag(dag.dag_id) > 0
    assert state_rows(library, orders, "since", "status", "attempt", "applied_at") == before
    assert rows(library, "SELECT * FROM shop.orders ORDER BY at") == loaded
    # A DAG that comes back goes on where it was.
    assert run(build_dags([orders])["shop.orders"], "2024-01-04").state == "success"
    assert [status for _, status, *_ in state_rows(library, orders, "since", "status")] == ["applied"] * 3


def test_clearing_it_twice_does_it_twice(library: str, done: Any) -> None:
    orders, dag, dag_run = done
    first, second = attempts(library, orders)
    for _ in range(2):
        clear(dag_run, "unit.execute[0]")
        assert again(dag, dag_run, "unit.execute[0]") == "success"
    assert attempts(library, orders) == [first + 2, second]


def test_a_retry_after_a_clear_does_not_do_it_again(library: str, done: Any) -> None:
    orders, dag, dag_run = done
    first, second = attempts(library, orders)
    clear(dag_run, "unit.execute[0]")
    again(dag, dag_run, "unit.execute[0]")
    again(dag, dag_run, "unit.execute[0]")
    assert attempts(library, orders) == [first + 1, second]


def test_a_retry_does_not_do_an_applied_unit_again(library: str, done: Any) -> None:
    orders, dag, dag_run = done
    before = attempts(library, orders)
    assert again(dag, dag_run, "unit.execute[0]") == "success"
    assert attempts(library, orders) == before


def test_clearing_the_whole_run_invalidates_once(library: str, done: Any) -> None:
    orders, dag, dag_run = done
    first, second = attempts(library, orders)
    clear(dag_run, "prefill", "unit.execute[0]", "unit.execute[1]")
    for name in ("prefill", "unit.execute[0]", "unit.execute[1]"):
        assert again(dag, dag_run, name) == "success"
    assert attempts(library, orders) == [first + 1, second + 1]


def test_a_retried_prefill_invalidates_nothing(library: str, done: Any) -> None:
    orders, dag, dag_run = done
    before = attempts(library, orders)
    assert again(dag, dag_run, "prefill") == "success"
    assert attempts(library, orders) == before
