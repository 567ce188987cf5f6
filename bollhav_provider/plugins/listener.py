"""What Airflow tells of: a task that a person marked success. Called for every task of a deployment, so it looks first.

Airflow 3 calls it in the API server, with the row of the task, in the request of the person. A worker calls it, too,
at the end of its task; there ``previous_state`` says that it ran.
"""

from __future__ import annotations

import logging
from typing import Any

from airflow.providers.common.compat.sdk import hookimpl

log = logging.getLogger(__name__)

#: Names of the operators whose success means that units are applied. What a user derives from one of them is known by
#: what its task left behind.
_EXECUTING = frozenset({"ExecuteOperator", "RunModelOperator", "_BollhavDecorated"})


@hookimpl
def on_task_instance_success(previous_state: Any, task_instance: Any) -> None:
    """Record the units of an execute task that a person marked success as applied, flagged as marked."""
    if previous_state is None:
        marked_success(task_instance)


def marked_success(task_instance: Any, person: str | None = None) -> None:
    """Record the units of an execute task as applied; of any other task there is nothing to record.

    Args:
        task_instance: the row of the metadata database, in a session.
        person: who marked it, where the caller knows.
    """
    from bollhav_provider.plugins.marked import record_marked

    try:
        record_marked(task_instance, person, executing=getattr(task_instance, "operator", None) in _EXECUTING)
    except Exception:  # the person's request must not fail because the library cannot be reached
        log.exception(
            "%s.%s of run %s was marked success, and its windows could not be marked applied: use the run parameter "
            "mark_applied or `bollhav mark-applied`",
            task_instance.dag_id,
            task_instance.task_id,
            task_instance.run_id,
        )
