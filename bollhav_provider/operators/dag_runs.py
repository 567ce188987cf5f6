"""Starting runs of other DAGs from inside a task, on every supported Airflow.

Airflow 3 lets no task near its metadata: a task asks its supervisor, with the message that Airflow's own
``TriggerDagRunOperator`` sends, and the server answers. Airflow 2 has a function for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, Literal, NamedTuple

from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS

_NOT_FOUND, _REFUSALS = 404, (400, 422)
#: Instants that are tried on Airflow 2, where a DAG has one run at a logical date.
_INSTANTS = 50


class Answer(NamedTuple):
    """What became of asking for a run.

    Attributes:
        outcome: ``started``; ``exists``, a run of that id is there already; ``missing``, there is no such DAG; or
            ``refused``.
        reason: why it was refused.
    """

    outcome: Literal["started", "exists", "missing", "refused"]
    reason: str = ""


def start_run(dag_id: str, run_id: str, conf: Mapping[str, Any]) -> Answer:
    """Ask for a run of a DAG, without a logical date where Airflow can do without one.

    Args:
        dag_id: the DAG.
        run_id: the run's id; a run of that id is never started twice.
        conf: its parameters.

    Raises:
        Exception: the server cannot be asked; trying again may help.
    """
    return (_ask_supervisor if AIRFLOW_V_3_0_PLUS else _start_on_airflow_2)(dag_id, run_id, dict(conf))


def is_paused(dag_id: str) -> bool | None:
    """Return whether a DAG is paused; None where this Airflow does not tell a task (3.1), or does not know the DAG."""
    if not AIRFLOW_V_3_0_PLUS:
        found = import_module("airflow.models.dag").DagModel.get_current(dag_id)
        return None if found is None else bool(found.is_paused)
    from airflow.sdk.execution_time import comms

    if not hasattr(comms, "GetDag"):
        return None
    try:
        return bool(_supervisor().send(comms.GetDag(dag_id=dag_id)).is_paused)
    except Exception:  # only a word in the log depends on it
        return None


def _supervisor() -> Any:
    return import_module("airflow.sdk.execution_time.task_runner").SUPERVISOR_COMMS


def _ask_supervisor(dag_id: str, run_id: str, conf: dict[str, Any]) -> Answer:
    from airflow.sdk.exceptions import ErrorType
    from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun

    try:
        answer = _supervisor().send(TriggerDagRun(dag_id=dag_id, run_id=run_id, conf=conf))
    except Exception as exc:
        status, reason = _refusal(exc)
        if status == _NOT_FOUND:
            return Answer("missing", reason)
        if status in _REFUSALS:
            return Answer("refused", reason)
        raise
    if isinstance(answer, ErrorResponse) and answer.error == ErrorType.DAGRUN_ALREADY_EXISTS:
        return Answer("exists")
    return Answer("started")


def _refusal(exc: BaseException) -> tuple[int | None, str]:
    """Return the server's status and words.

    A task gets them wrapped by its supervisor; one that ``dag.test`` runs gets the client's own exception.
    """
    if (told := getattr(getattr(exc, "error", None), "detail", None)) is not None:
        status, detail = told.get("status_code"), told.get("detail")
    else:
        status, detail = getattr(getattr(exc, "response", None), "status_code", None), getattr(exc, "detail", None)
    while isinstance(detail, Mapping) and ("detail" in detail or "message" in detail):
        detail = detail.get("detail") or detail.get("message")
    return status, str(detail or exc)


def _start_on_airflow_2(dag_id: str, run_id: str, conf: dict[str, Any]) -> Answer:
    trigger: Any = import_module("airflow.api.common.trigger_dag")
    exceptions: Any = import_module("airflow.exceptions")
    runs: Any = import_module("airflow.models.dagrun").DagRun
    at = datetime.now(UTC)
    for number in range(_INSTANTS):
        when = at + timedelta(microseconds=number)
        try:
            trigger.trigger_dag(
                dag_id=dag_id, run_id=run_id, conf=conf, execution_date=when, replace_microseconds=False
            )
        except exceptions.DagNotFound as exc:
            return Answer("missing", str(exc))
        except exceptions.DagRunAlreadyExists:
            if runs.find(dag_id=dag_id, run_id=run_id):
                return Answer("exists")
            continue  # another run has that very instant
        return Answer("started")
    return Answer("refused", "another run of the DAG has every instant that was tried")
