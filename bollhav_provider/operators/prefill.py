"""The first task of a run: registers, prefills, invalidates once, and says which units there are to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException

from bollhav_provider.operators.base import ModelOperator
from bollhav_provider.operators.run_context import (
    RUN_KEY,
    environment,
    first_clear,
    run_settings,
    run_window,
    task_run,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from bollhav_provider.run import Connections


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
        bollhav_conn_id: Airflow connection of the library; as configured by default.
    """

    def __init__(self, *, units_per_task: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units_per_task = units_per_task

    def execute(self, context: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
        from bollhav_provider.run import RunSpec, batches, prepare

        with self._working():
            settings = run_settings(context)
            self._respect_curfew()
            connections = self._connect(settings)
            found = run_window(context, self.model, lambda: _database_clock(connections))
            for warning in found.warnings:
                self.log.warning("%s: %s", self.model.full_name, warning)
            run = task_run(context, cleared=first_clear(context))
            spec = RunSpec.from_settings(settings, run, environment(settings), found.window)
            self._hand_on(context, spec.to_json())
            if found.window is None and not self.model.is_windowless:
                self.log.info("%s: %s", self.model.full_name, found.message)
                return []
            self.log.info(
                "%s: window %s (%s), state mode %s",
                self.model.full_name,
                found.window or "whole",
                found.origin,
                spec.mode,
            )
            prepared = prepare(connections, self._graph(), self.model, spec)
            for warning in prepared.warnings:
                self.log.warning("%s: %s", self.model.full_name, warning)
            self.log.info("%s: %s", self.model.full_name, prepared.message)
            per_task = self.units_per_task or (self.model.batching.units_per_task if self.model.batching else 1)
            divided = batches(prepared.units, per_task, settings.max_map_length)
            return [[unit.to_json() for unit in batch] for batch in divided]

    def _respect_curfew(self) -> None:
        """Skip the run while its model has a curfew (a skip with the reason, not a failure)."""
        from datetime import UTC, datetime

        curfew = self.model.curfew
        if curfew is not None and (reason := curfew.closed_at(datetime.now(UTC))):
            raise AirflowSkipException(f"{self.model.full_name}: {reason}")

    @staticmethod
    def _hand_on(context: Mapping[str, Any], spec: dict[str, Any]) -> None:
        ti = context.get("ti")
        if ti is not None:
            ti.xcom_push(key=RUN_KEY, value=spec)


def _database_clock(connections: Connections) -> datetime:
    """Return the database's now: the one clock that "latest complete" is measured by, whatever the worker's says."""
    from bollhav_provider.state import db_now

    with connections.state() as conn:
        return db_now(conn)
