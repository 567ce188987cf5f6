"""What only Airflow 2 needs: its web server tells nobody what people mark, and its backfill loses mapped groups."""

from __future__ import annotations

from typing import Any

import pytest
from airflow_models import windowed
from airflow_testing import state_rows, statuses, task_row

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS, TaskInterrupted

pytestmark = pytest.mark.skipif(AIRFLOW_V_3_0_PLUS, reason="it is only of Airflow 2")
TWO_DAYS = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-03T00:00:00Z"}
BOTH = ("unit.execute[0]", "unit.execute[1]")
ERROR = {"2024-01-01": "error", "2024-01-02": "error", "2024-01-03": "pending"}


@pytest.fixture
def failed(library: str, run: Any) -> tuple[Any, Any]:
    """A model whose first two windows failed, and their run."""
    orders = windowed("shop.orders")
    broken = orders.replace(query="SELECT %(since)s::timestamptz AS at, 1 / 0 AS n WHERE %(since)s < %(until)s")
    dag_run = run(build_dags([broken])["shop.orders"], "2024-01-02", conf=TWO_DAYS)
    assert statuses(library, orders) == ERROR
    return orders, dag_run


def test_all_tasks_that_one_request_marks_are_recorded(library: str, failed: Any) -> None:
    from airflow_2_requests import mark_in_request

    orders, dag_run = failed
    mark_in_request(dag_run, *BOTH, person="ada")
    assert state_rows(library, orders, "status", "marked_by") == [("applied", "ada")] * 2 + [("pending", None)]


def test_who_is_not_logged_in_is_anonymous(library: str, failed: Any) -> None:
    from airflow_2_requests import mark_in_request

    orders, dag_run = failed
    mark_in_request(dag_run, BOTH[0], person="")
    assert state_rows(library, orders, "marked_by")[0] == ("anonymous",)


@pytest.mark.parametrize(
    "how",
    [{"method": "GET"}, {"path": "/internal_api/v1/rpcapi"}, {"state": "failed"}, {"state": "skipped"}],
    ids=["a look", "a task", "failed", "skipped"],
)
def test_nothing_else_than_a_person_who_marks_success_is_recorded(library: str, failed: Any, how: Any) -> None:
    from airflow_2_requests import mark_in_request

    orders, dag_run = failed
    mark_in_request(dag_run, BOTH[0], **how)
    assert statuses(library, orders) == ERROR


def test_what_is_rolled_back_is_not_recorded(library: str, failed: Any) -> None:
    from airflow.utils.session import create_session
    from airflow_2_requests import request_by

    orders, dag_run = failed

    def view(_: Any) -> None:
        with create_session() as session:
            task_row(session, dag_run, BOTH[0]).set_state("success", session=session)
            session.flush()
            session.rollback()

    assert request_by("ada", view) == 200
    assert statuses(library, orders) == ERROR


def test_a_request_that_fails_after_its_commit_is_recorded(library: str, failed: Any) -> None:
    from airflow.utils.session import create_session
    from airflow_2_requests import request_by

    orders, dag_run = failed

    def view(_: Any) -> None:
        with create_session() as session:
            task_row(session, dag_run, BOTH[0]).set_state("success", session=session)
        raise RuntimeError("after the commit")

    assert request_by("ada", view) == 500
    assert statuses(library, orders) == ERROR | {"2024-01-01": "applied"}


def test_only_tasks_of_a_mapped_group_wait_for_their_expansion() -> None:
    from airflow.ti_deps.deps.mapped_task_expanded import MappedTaskIsExpanded

    from bollhav_provider.operators.execute import ExecuteOperator

    orders = windowed("shop.orders")
    dag = build_dags([orders])["shop.orders"]
    waits = {task.task_id for task in dag.tasks if MappedTaskIsExpanded() in task.deps}
    assert waits == {"unit.execute"}
    assert MappedTaskIsExpanded() not in ExecuteOperator(task_id="alone", model=orders).deps


def test_airflow_takes_our_interrupt_for_its_own() -> None:
    from airflow.exceptions import AirflowTaskTerminated

    assert issubclass(TaskInterrupted, AirflowTaskTerminated)
    assert issubclass(TaskInterrupted, KeyboardInterrupt)


def test_backfills_are_helped_once_whatever_starts() -> None:
    from airflow.jobs.backfill_job_runner import BackfillJobRunner
    from airflow.models.taskinstance import TaskInstance

    from bollhav_provider.plugins.airflow_2 import on_starting

    on_starting(component=None)
    first = (TaskInstance.schedule_downstream_tasks, BackfillJobRunner._update_counters)
    on_starting(component=None)
    assert (TaskInstance.schedule_downstream_tasks, BackfillJobRunner._update_counters) == first
    assert all(function.wrapped_by_bollhav for function in first)
