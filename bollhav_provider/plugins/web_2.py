"""What people mark in Airflow 2's web server, which tells no listener of it.

All its ways of marking a task (the grid, the list of task instances, a whole run, the REST API) set the state of a row
of the metadata and flush it within the person's request. So each flush is looked at in requests that change something;
what was marked is recorded when the request has been answered for: by then it is committed, or it was rolled back.
"""

from __future__ import annotations

import logging
from typing import Any

from flask import Blueprint, g, has_request_context, request  # type: ignore[import-not-found, unused-ignore]

from bollhav_provider.plugins.listener import marked_success

log = logging.getLogger(__name__)

#: Where a request keeps the tasks that it marked success.
_NOTED = "bollhav_marked_success"
_SUCCESS = "success"
#: Tasks of isolated components come this way to the metadata, and no person does.
_INTERNAL = "/internal_api/"


def build_blueprint() -> Blueprint:
    """Return what the web server registers on its application; it has no pages."""
    blueprint = Blueprint("bollhav", __name__)
    blueprint.record(lambda _: _watch())
    blueprint.after_app_request(record)
    return blueprint


def _watch() -> None:
    """Look at every flush of this process from now on."""
    from sqlalchemy import event
    from sqlalchemy.orm import Session

    if not event.contains(Session, "after_flush", note):
        event.listen(Session, "after_flush", note)


def note(session: Any, _: Any = None) -> None:
    """Note the tasks that this flush of a person's request turned into successful ones."""
    if not has_request_context() or request.method in ("GET", "HEAD", "OPTIONS") or _INTERNAL in request.path:
        return
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import inspect

    for changed in session.dirty:
        if not isinstance(changed, TaskInstance) or changed.state != _SUCCESS:
            continue
        before: Any = inspect(changed).attrs.state.history.deleted
        if before and before[0] != _SUCCESS:
            noted = g.setdefault(_NOTED, [])
            noted.append((changed.dag_id, changed.task_id, changed.run_id, changed.map_index))


def record(response: Any) -> Any:
    """Record the units of the tasks that the request marked, and that are so now, as applied by its person."""
    noted = g.pop(_NOTED, ())
    if noted:
        try:
            _record(noted)
        except Exception:  # the person's request has done what it was to do
            log.exception("What was marked success could not be looked up: its windows are not marked applied")
    return response


def _record(noted: list[tuple[str, str, str, int]]) -> None:
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    person = _person()
    with create_session() as session:
        for dag_id, task_id, run_id, map_index in dict.fromkeys(noted):
            query = select(TaskInstance).where(
                TaskInstance.dag_id == dag_id,
                TaskInstance.task_id == task_id,
                TaskInstance.run_id == run_id,
                TaskInstance.map_index == map_index,
                TaskInstance.state == _SUCCESS,
            )
            task_instance = session.scalars(query).one_or_none()
            if task_instance is not None:
                marked_success(task_instance, person)


def _person() -> str:
    """Return the name of who is logged in, as the audit log has it."""
    from airflow.www.extensions.init_auth_manager import get_auth_manager

    manager = get_auth_manager()
    return str(manager.get_user_name()) if manager.is_logged_in() else "anonymous"
