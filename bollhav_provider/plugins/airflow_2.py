"""Where Airflow 2 needs help from inside: its ``dags backfill`` loses the tasks behind a prefill. Loaded there alone.

A backfill expands a mapped group when its executor says that the task before it is over. Two others may be there first:

* The backfill itself, which looks for ended tasks in the metadata as well, and then expects nothing more of them.
* The process around the task, which schedules what comes next as an "entirely optional optimisation".

Either way the backfill waits for a row that is gone: it calls itself deadlocked, ends with a ``StaleDataError``, or
never ends. So the second leaves the expansion to the backfill, and the backfill expands wherever it hears of the end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from airflow.providers.common.compat.sdk import hookimpl

_OURS = "PrefillOperator"


@hookimpl
def on_starting(component: Any) -> None:
    """Prepare a process that starts: every job, and the one around every task."""
    help_backfills()


def help_backfills() -> None:
    """Have backfills find the tasks behind a prefill, whoever hears first that it is over."""
    from airflow.jobs.backfill_job_runner import BackfillJobRunner
    from airflow.models.taskinstance import TaskInstance

    _wrap(TaskInstance, "schedule_downstream_tasks", _leaving_expansion_to_the_backfill)
    _wrap(BackfillJobRunner, "_update_counters", _expanding_behind_prefills)


def _wrap(owner: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    if not hasattr(original, "wrapped_by_bollhav"):
        function: Any = functools.wraps(original)(wrapped(original))
        function.wrapped_by_bollhav = True
        setattr(owner, name, function)


def _leaving_expansion_to_the_backfill(original: Any) -> Any:
    def schedule_downstream_tasks(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self.task, "task_type", None) == _OURS and _of_a_backfill(self):
            self.log.info("The backfill schedules what comes next.")
            return None
        return original(self, *args, **kwargs)

    return schedule_downstream_tasks


def _expanding_behind_prefills(original: Any) -> Any:
    def _update_counters(self: Any, ti_status: Any, session: Any) -> None:
        before = set(ti_status.running)
        original(self, ti_status=ti_status, session=session)
        for key in before & ti_status.succeeded:
            task = self.dag.get_task(key.task_id)
            if task.task_type == _OURS:
                for group in task.iter_mapped_dependants():
                    for node in group.iter_tasks():
                        _expand(node, key.run_id, ti_status, session)

    return _update_counters


def _expand(node: Any, run_id: str, ti_status: Any, session: Any) -> None:
    """Expand a task of a mapped group, and have the backfill run what it became instead of it."""
    expanded, last = node.expand_mapped_task(run_id, session=session)
    for key in list(ti_status.to_run):
        mine = (key.dag_id, key.task_id, key.run_id) == (node.dag_id, node.task_id, run_id)
        if mine and not 0 <= key.map_index <= last:
            del ti_status.to_run[key]
    ti_status.to_run.update({ti.key: ti for ti in expanded})
    for ti in expanded:
        ti.try_number += 1
        ti.set_state("scheduled", session=session)


def _of_a_backfill(task_instance: Any) -> bool:
    """Whether a backfill works off the run of this task: one that it made, or one that it took over."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunType
    from sqlalchemy import select

    query = select(DagRun.run_type).where(DagRun.dag_id == task_instance.dag_id, DagRun.run_id == task_instance.run_id)
    with create_session() as session:
        return bool(session.scalar(query) == DagRunType.BACKFILL_JOB)
