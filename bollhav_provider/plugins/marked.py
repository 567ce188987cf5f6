"""Record in the library what a person asserted in Airflow's UI. Runs in the API server, which has no DAG file.

With Airflow 2 it runs in the web server.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bollhav_provider.operators.run_keys import EXECUTE, PREFILL, RUN_KEY, UNIT

if TYPE_CHECKING:
    from bollhav_provider.intervals import Unit

log = logging.getLogger(__name__)


def record_marked(task_instance: Any, person: str | None = None) -> int:
    """Mark the units of an execute task applied, unless they are.

    Args:
        task_instance: the row of the metadata database, in a session.
        person: who marked it; by default who the audit log says it was.

    Returns:
        How many units were marked.
    """
    from sqlalchemy.orm import object_session

    session = object_session(task_instance)
    run = _handed_on(session, task_instance)
    if run is None or run["spec"].get("state_disabled") or run["spec"].get("dry_state"):
        return 0
    return _mark(run["spec"], run["units"], task_instance, person or _person(session, task_instance))


def _mark(spec: Mapping[str, Any], batch: list[Any], task_instance: Any, person: str) -> int:
    from bollhav_provider.hooks.library import LibraryHook
    from bollhav_provider.intervals import Unit
    from bollhav_provider.model import Environment
    from bollhav_provider.operators.standin import stand_in_from_json
    from bollhav_provider.state import RunKey, mark_applied, units

    model, env = stand_in_from_json(spec["model"]), Environment.from_json(spec.get("env") or {})
    wanted = [Unit.from_json(unit) for unit in batch]
    name = f"{task_instance.task_id}[{task_instance.map_index}]"
    run = replace(RunKey.from_json(spec["run"]), task_id=name, try_number=task_instance.try_number or 0, who=person)
    with LibraryHook(spec.get("conn_id")).connections("bollhav mark").state(model) as conn:
        todo: list[Unit] = []
        for unit in wanted:
            known = units(conn, model, env, unit.window, outstanding=False)
            if not any(row.unit == unit and row.status == "applied" for row in known):
                todo.append(unit)
        reason = f"task {task_instance.dag_id}.{name} was marked success in Airflow"
        return mark_applied(conn, model, env, todo, run, reason)


def _handed_on(session: Any, task_instance: Any) -> dict[str, Any] | None:
    """Return what the prefill of this task left for it: the run, and this task's batch of units."""
    prefix = task_instance.task_id.removesuffix(f"{UNIT}.{EXECUTE}")
    spec = _xcom(session, task_instance, f"{prefix}{PREFILL}", RUN_KEY)
    batches = _xcom(session, task_instance, f"{prefix}{PREFILL}", "return_value")
    index = task_instance.map_index
    if spec is None or not batches or index < 0 or index >= len(batches):
        log.warning(
            "%s.%s was marked success; no prefill says which windows it stands for, so none is marked applied",
            task_instance.dag_id,
            task_instance.task_id,
        )
        return None
    return {"spec": spec, "units": batches[index]}


def _xcom(session: Any, task_instance: Any, task_id: str, key: str) -> Any:
    from sqlalchemy import select

    from bollhav_provider.version_compat import xcom_access

    model, value_of = xcom_access()
    row = session.execute(
        select(model.value).where(
            model.dag_id == task_instance.dag_id,
            model.run_id == task_instance.run_id,
            model.task_id == task_id,
            model.map_index == -1,
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
