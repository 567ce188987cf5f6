"""Record in the library what a person asserted in Airflow's UI. Runs in the API server, which has no DAG file.

With Airflow 2 it runs in the web server.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bollhav_provider.operators.run_keys import RUN_KEY, WORK_KEY, prefill_of

if TYPE_CHECKING:
    from bollhav_provider.intervals import Unit
    from bollhav_provider.model import Environment, Model
    from bollhav_provider.state import RunKey
    from bollhav_provider.state.refs import Conn

log = logging.getLogger(__name__)

#: Runs that leave the state as it is, and what they do instead.
_STATELESS = {"state_disabled": "reads and writes no state", "dry_state": "is dry"}


def record_marked(task_instance: Any, person: str | None = None, *, executing: bool = True) -> int:
    """Mark the units that a task works on applied, unless they are.

    Args:
        task_instance: the row of the metadata database, in a session.
        person: who marked it; by default who the audit log says it was.
        executing: whether the task is known to work on units. Of any other task nothing is said where it left nothing.

    Returns:
        How many units were marked.
    """
    from sqlalchemy.orm import object_session

    session = object_session(task_instance)
    left = _left_behind(session, task_instance, executing=executing)
    if left is None:
        if executing:
            log.warning(
                "%s was marked success, and none of its windows is marked applied: it had not got so far as to say "
                "which they are. Use the run parameter mark_applied or `bollhav mark-applied`.",
                _shown(task_instance),
            )
        return 0
    for name, what in _STATELESS.items():
        if left["spec"].get(name):
            log.info("%s was marked success; its run %s, so there is no state to mark", _shown(task_instance), what)
            return 0
    return _mark(left["spec"], left["units"], task_instance, person or _person(session, task_instance))


def _mark(spec: Mapping[str, Any], batch: list[Any] | None, task_instance: Any, person: str) -> int:
    from bollhav_provider.hooks.library import LibraryHook
    from bollhav_provider.model import Environment
    from bollhav_provider.operators.standin import stand_in_from_json
    from bollhav_provider.operators.unit_lists import units_of
    from bollhav_provider.state import RunKey, mark_applied, units

    model, env = stand_in_from_json(spec["model"]), Environment.from_json(spec.get("env") or {})
    name = _name(task_instance)
    run = replace(RunKey.from_json(spec["run"]), task_id=name, try_number=task_instance.try_number or 0, who=person)
    with LibraryHook(spec.get("conn_id")).connections("bollhav mark").state(model) as conn:
        if batch is None:
            todo = _outstanding(conn, model, env, spec, run)
        else:
            todo = []
            for unit in units_of(batch):
                known = units(conn, model, env, unit.window, outstanding=False)
                if not any(row.unit == unit and row.status == "applied" for row in known):
                    todo.append(unit)
        reason = f"task {task_instance.dag_id}.{name} was marked success in Airflow"
        return mark_applied(conn, model, env, todo, run, reason, content_hash=spec["model"].get("content_hash"))


def _outstanding(conn: Conn, model: Model, env: Environment, spec: Mapping[str, Any], run: RunKey) -> list[Unit]:
    """Return what is left of a run: of its window, or of all that the model promises where the run reconciles.

    What another run works on is its own business.
    """
    from bollhav_provider.intervals import Interval
    from bollhav_provider.state import units

    window = Interval.from_json(spec["window"]) if spec.get("window") and not spec.get("reconcile") else None
    mine = (run.dag_id, run.airflow_run_id)
    return [
        row.unit
        for row in units(conn, model, env, window, outstanding=False)
        if row.status != "applied"
        and (not row.in_work or row.abandoned or (row.row["dag_id"], row.row["airflow_run_id"]) == mine)
    ]


def _left_behind(session: Any, task_instance: Any, *, executing: bool) -> dict[str, Any] | None:
    """Return what says which units a task stands for: the run, and the units; None for what is left of the run.

    A task without a prefill before it leaves that itself, once it knows; for others the prefill does.
    """
    own = _xcom(session, task_instance, task_instance.task_id, WORK_KEY, task_instance.map_index)
    if own is not None:
        return {"spec": own, "units": own["units"]}
    if not executing:
        return None
    prefill = prefill_of(task_instance.task_id)
    spec = _xcom(session, task_instance, prefill, RUN_KEY)
    batches = _xcom(session, task_instance, prefill, "return_value")
    index = task_instance.map_index
    if spec is None or not batches or index < 0 or index >= len(batches):
        return None
    return {"spec": spec, "units": batches[index]}


def _name(task_instance: Any) -> str:
    index = task_instance.map_index
    return f"{task_instance.task_id}[{index}]" if index >= 0 else str(task_instance.task_id)


def _shown(task_instance: Any) -> str:
    return f"{task_instance.dag_id}.{_name(task_instance)} of run {task_instance.run_id}"


def _xcom(session: Any, task_instance: Any, task_id: str, key: str, map_index: int = -1) -> Any:
    from sqlalchemy import select

    from bollhav_provider.version_compat import xcom_access

    model, value_of = xcom_access()
    row = session.execute(
        select(model.value).where(
            model.dag_id == task_instance.dag_id,
            model.run_id == task_instance.run_id,
            model.task_id == task_id,
            model.map_index == map_index,
            model.key == key,
        )
    ).first()
    return value_of(row) if row is not None else None


def _person(session: Any, task_instance: Any) -> str:
    """Return who marked the task: the audit log's latest entry about it, written by the same request."""
    from airflow.models.log import Log
    from sqlalchemy import select

    owner = session.scalars(
        select(Log.owner)
        .where(Log.dag_id == task_instance.dag_id, Log.event.like("patch%task%"))
        .order_by(Log.id.desc())
        .limit(1)
    ).first()
    return owner or "unknown"
