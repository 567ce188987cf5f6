"""Where Airflow 2 needs help from inside. Loaded there alone."""

from __future__ import annotations

import functools
from typing import Any

from airflow.providers.common.compat.sdk import hookimpl


@hookimpl
def on_starting(component: Any) -> None:
    """Prepare a process that starts: every job, and the one around every task."""
    leave_expansion_to_the_backfill()


def leave_expansion_to_the_backfill() -> None:
    """Keep the process around a prefill from expanding the tasks behind it, where a backfill does so itself.

    When a task has ended, its process looks for what may be scheduled next, which is "entirely optional optimisation".
    Behind a prefill that expands the units' group, at the very moment at which ``airflow dags backfill`` expands it:
    the backfill then finds its own rows gone and ends with a ``StaleDataError``, or waits for them for ever.
    """
    from airflow.models.taskinstance import TaskInstance

    original = TaskInstance.schedule_downstream_tasks
    if hasattr(original, "__wrapped_by_bollhav__"):
        return

    @functools.wraps(original)
    def schedule_downstream_tasks(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self.task, "task_type", None) == "PrefillOperator" and _of_a_backfill(self):
            self.log.info("The backfill schedules what comes next.")
            return None
        return original(self, *args, **kwargs)

    schedule_downstream_tasks.__wrapped_by_bollhav__ = True  # type: ignore[attr-defined]
    TaskInstance.schedule_downstream_tasks = schedule_downstream_tasks


def _of_a_backfill(task_instance: Any) -> bool:
    """Whether a backfill works off the run of this task: one that it made, or one that it took over."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunType
    from sqlalchemy import select

    query = select(DagRun.run_type).where(DagRun.dag_id == task_instance.dag_id, DagRun.run_id == task_instance.run_id)
    with create_session() as session:
        return bool(session.scalar(query) == DagRunType.BACKFILL_JOB)
