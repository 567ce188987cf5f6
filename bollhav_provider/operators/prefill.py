"""The first task of a run: registers, prefills, invalidates once, and says which units there are to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException

from bollhav_provider.operators.base import ModelOperator
from bollhav_provider.operators.cascade import Cascade
from bollhav_provider.operators.only import respect_only
from bollhav_provider.operators.run_context import (
    clear_number,
    environment,
    first_clear,
    marking_reason,
    refuse_misspelt,
    run_settings,
    run_window,
    task_run,
)
from bollhav_provider.operators.run_keys import PLAN_KEY, RUN_KEY
from bollhav_provider.operators.standin import stand_in_json
from bollhav_provider.operators.unit_lists import units_to_json

if TYPE_CHECKING:
    from datetime import datetime

    from bollhav_provider.intervals import Unit
    from bollhav_provider.model import Model
    from bollhav_provider.run import CascadeStep, Connections, RunSpec
    from bollhav_provider.settings import Settings


#: What a plan's words mean to who reads it in a log.
_FATES = {
    "run": "would run", "after": "would run", "blocked": "would wait", "hard": "cannot run as declared",
    "applied": "applied already", "running": "in another worker's hands", "never": "not enabled",
}  # fmt: skip


class PrefillOperator(ModelOperator):
    """Make the model's state a mirror of its contract and list the run's units.

    The window is the run's parameters ``since`` and ``until``, else its data interval, else the latest
    complete window. The result is a list of batches of units as JSON, to map a task group over; an empty one
    when there is nothing to do. The run's specification goes to XCom under ``bollhav_run`` for the tasks
    behind.

    Args:
        model: the model.
        graph: resolves its upstreams.
        units_per_task: units of one batch; what the model says by default.
        dag_ids: the DAG of each model that gets one in the same DAG file, by full name. What a run with ``cascade``
            puts back runs again there; the DAG of any other model is expected to have the model's name.
        bollhav_conn_id: Airflow connection of the library; as configured by default.
    """

    shallow_copy_attrs: Sequence[str] = (*ModelOperator.shallow_copy_attrs, "dag_ids")

    def __init__(
        self, *, units_per_task: int | None = None, dag_ids: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.units_per_task = units_per_task
        self.dag_ids = dag_ids if dag_ids is not None else {}

    def execute(self, context: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
        from bollhav_provider.run import batches

        with self._working():
            settings = run_settings(context)
            spec, units = prepare_run(self, context, settings)
            hand_on(self, context, RUN_KEY, spec)
            per_task = self.units_per_task or (self.model.batching.units_per_task if self.model.batching else 1)
            divided = batches(units, per_task, min(settings.max_map_length, _airflows_map_length()))
            return [units_to_json(batch, self.model.grid) for batch in divided]


def hand_on(task: ModelOperator, context: Mapping[str, Any], key: str, spec: RunSpec, **more: Any) -> None:
    """Leave the run, and whose it is, in XCom: for the tasks behind, and for who has no DAG file.

    Args:
        task: works on the run.
        context: its context; outside Airflow there is nobody to leave it for.
        key: of the XCom.
        spec: the run.
        more: what else to leave there, as JSON.
    """
    ti = context.get("ti")
    if ti is None:
        return
    whose = {
        "model": stand_in_json(task.model),
        "conn_id": task.bollhav_conn_id,
        "clear_number": clear_number(context),
    }
    ti.xcom_push(key=key, value=spec.to_json() | whose | more)


def _airflows_map_length() -> int:
    """Return how many tasks Airflow itself lets a list be mapped to; it fails the task that returns a longer one."""
    from airflow.providers.common.compat.sdk import conf

    return int(conf.getint("core", "max_map_length", fallback=1024))


def prepare_run(
    task: ModelOperator, context: Mapping[str, Any], settings: Settings
) -> tuple[RunSpec, tuple[Unit, ...]]:
    """Resolve the run's window, make the state ready for it, and return the run with its outstanding units.

    Raises:
        AirflowSkipException: the model has a curfew now.
        AirflowFailException: the run's parameters make no sense.
    """
    from bollhav_provider.run import RunSpec, prepare

    model, log, dag = task.model, task.log, task.get_dag()
    refuse_misspelt(context, dag.params if dag is not None else ())
    respect_only(task, context)
    _respect_curfew(model)
    connections = task.connect(settings)
    found = run_window(context, model, lambda: _database_clock(connections, model))
    for warning in found.warnings:
        log.warning("%s: %s", model.full_name, warning)
    run = task_run(context, cleared=first_clear(context))
    spec = RunSpec.from_settings(settings, run, environment(settings), found.window)
    if spec.mark_applied:
        spec = replace(spec, reason=marking_reason(context))
    if found.empty and not spec.reconcile:  # which works off the whole contract, wherever the run's window lies
        log.info("%s: %s", model.full_name, found.message)
        return spec, ()
    window = found.window or "whole"
    log.info("%s: window %s (%s), state mode %s", model.full_name, window, found.origin, spec.mode)
    cascade = Cascade(task, context, connections, spec)
    prepared = prepare(connections, task.resolved_graph(), model, spec, before_cascade=cascade.refuse_own_queue)
    for warning in prepared.warnings:
        log.warning("%s: %s", model.full_name, warning)
    if prepared.message not in prepared.warnings:
        log.info("%s: %s", model.full_name, prepared.message)
    for line in plan_lines(prepared.plan or {}):
        log.info("%s", line)
    ti = context.get("ti")
    if prepared.plan is not None and ti is not None:
        ti.xcom_push(key=PLAN_KEY, value=dict(prepared.plan))
    if spec.cascade:
        before = _before_cleared(task, context, connections, spec)
        cascade.start([*prepared.cascade, *before])
    return spec, prepared.units


def plan_lines(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each range of units that share a fate, with the reason of those that would not run.

    Args:
        plan: as the run's plan is kept in XCom.
    """
    from bollhav_provider.intervals import Interval

    for planned in plan.get("models") or ():
        for part in planned["ranges"]:
            span = str(Interval.from_json(part)) if part["since"] and part["until"] else "the whole"
            after = f" after {', '.join(part['after'])}" if part["after"] and not part["reason"] else ""
            why = f": {part['reason']}" if part["reason"] else ""
            fate = _FATES.get(part["action"], part["action"])
            yield f"{planned['model']} {span}, {part['units']} unit(s) {fate}{after}{why}"
        if planned["note"]:
            yield f"{planned['model']}: {planned['note']}"


def _before_cleared(
    task: ModelOperator, context: Mapping[str, Any], connections: Connections, spec: RunSpec
) -> Iterator[CascadeStep]:
    """Return what the same run put back before its first task was cleared, as often as that was.

    Nothing of it is applied any more, so that the clear did not put it back once more; and its runs may not have been
    started.
    """
    from bollhav_provider.run import steps_of

    for cleared in range(first_clear(context)):
        before = replace(spec, run=task_run(context, cleared=cleared))
        yield from steps_of(connections, task.resolved_graph(), task.model, before)


def _respect_curfew(model: Model) -> None:
    """Skip the run while its model has a curfew (a skip with the reason, not a failure)."""
    from datetime import UTC, datetime

    if model.curfew is not None and (reason := model.curfew.closed_at(datetime.now(UTC))):
        raise AirflowSkipException(f"{model.full_name}: {reason}")


def _database_clock(connections: Connections, model: Model) -> datetime:
    """Return the database's now: the one clock that "latest complete" is measured by, whatever the worker's says."""
    from bollhav_provider.state import db_now

    with connections.state(model) as conn:
        return db_now(conn)
