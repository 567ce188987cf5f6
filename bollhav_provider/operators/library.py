"""Operators that read or write state alone, for DAGs of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid5

from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.operators.base import ModelOperator
from bollhav_provider.operators.run_context import environment, first_clear, run_settings, run_window, task_run
from bollhav_provider.operators.standin import declared_stand_in, stand_in
from bollhav_provider.version_compat import emit_asset_event

if TYPE_CHECKING:
    from bollhav_provider.intervals import ResolvedWindow, Unit
    from bollhav_provider.model import Environment, Model
    from bollhav_provider.state import RunKey
    from bollhav_provider.state.refs import Conn


class StateOperator(ModelOperator):
    """Base of operators that work on the state of one model in one window.

    Args:
        model: the model, or the full name of a table that something else loads. By the name of a model that is
            registered, that model's windows are meant.
        chunk: cron of the windows of a table that is given by name; none makes any window acceptable.
        tz: zone of ``chunk``.
        timeless: whether a table that is given by name has no windows.
        since: start of the window, ISO 8601 with an offset; the run's window by default.
        until: end of the window.
        bollhav_conn_id: Airflow connection of the library; as configured by default.
    """

    template_fields: Sequence[str] = ("since", "until")

    def __init__(
        self,
        *,
        model: Model | str,
        chunk: str | None = None,
        tz: str = "UTC",
        timeless: bool = False,
        since: str | None = None,
        until: str | None = None,
        **kwargs: Any,
    ) -> None:
        self._by_name = isinstance(model, str)
        self._content_hash: str | None = None
        self._guessed = chunk is None and not timeless
        if isinstance(model, str):
            # Any window: a flexible stand-in, whose chunk only slices work that this operator never does.
            free = self._guessed
            model = stand_in(model, chunk="@daily" if free else chunk, tz=tz, flexible=free, timeless=timeless)
        super().__init__(model=model, **kwargs)
        self.since = since
        self.until = until

    def execute(self, context: Mapping[str, Any]) -> Any:
        with self._working():
            settings = run_settings(context)
            env = environment(settings)
            connections = self.connect(settings)
            if not self.model.is_tracked:
                raise ConfigurationError(f"{self.model.full_name} has no state: give the model state=State().")
            with connections.state(self.model) as conn:
                from bollhav_provider.state import bootstrap, db_now

                bootstrap(conn, env)
                self._register(conn, env)
                found = run_window(self._asked(context), self.model, lambda: db_now(conn))
                return self._work(conn, env, found, task_run(context, cleared=first_clear(context)), context)

    def _register(self, conn: Conn, env: Environment) -> None:
        """Have the table in the library; by the name of a model that is there already, take that model's windows."""
        from bollhav_provider.state import get_entry, register

        if self._by_name and (entry := get_entry(conn, env, env.table(self.model.identity).full_name)) is not None:
            declared = declared_stand_in(entry, self.model, guessed=self._guessed)
            self._content_hash = entry.content_hash
            if declared is not None:
                self.model = declared
                return
        register(conn, self.model, env)

    def _asked(self, context: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the context with the operator's own window in the place of the run's parameters."""
        if not self.since and not self.until:
            return context
        params = dict(context.get("params") or {}) | {"since": self.since, "until": self.until}
        return {**context, "params": params}

    def _work(
        self,
        conn: Conn,
        env: Environment,
        found: ResolvedWindow,
        run: RunKey,
        context: Mapping[str, Any],
    ) -> Any:
        raise NotImplementedError


class MarkAppliedOperator(StateOperator):
    """Record a window's units as applied without moving any data, for data that was loaded another way.

    It is an assertion: nothing checks that the data are there. The rows say who claims so and why.

    Args:
        reason: why; kept on the rows.
    """

    template_fields: Sequence[str] = ("since", "until", "reason")
    ui_color = "#efe3f5"

    def __init__(self, *, reason: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason

    def _work(
        self,
        conn: Conn,
        env: Environment,
        found: ResolvedWindow,
        run: RunKey,
        context: Mapping[str, Any],
    ) -> list[dict[str, Any]]:
        from bollhav_provider.state import mark_applied

        units = self._units(found)
        if not units:
            self.log.info("%s: %s", self.model.full_name, found.message or "no window of the grid lies in the run's")
            return []
        reason = self.reason or self._default_reason(context)
        count = mark_applied(conn, self.model, env, units, run, reason, content_hash=self._content_hash)
        self.log.info("%s: %d unit(s) recorded as applied in %s", self.model.full_name, count, found.window or "whole")
        self._tell(context, units)
        return [unit.to_json() for unit in units]

    def _units(self, found: ResolvedWindow) -> Sequence[Unit]:
        return found.units

    def _default_reason(self, context: Mapping[str, Any]) -> str:
        return f"marked by task {self.dag_id}.{self.task_id}"

    def _tell(self, context: Mapping[str, Any], units: Sequence[Unit]) -> None:
        """Say in the events of the task's outlets which windows are there now."""
        windows = [unit.window for unit in units if unit.window is not None]
        extra: dict[str, Any] = {"model": self.model.full_name}
        if windows:
            extra |= {"since": windows[0].since.isoformat(), "until": windows[-1].until.isoformat()}
        keys = [window.since.strftime("%Y-%m-%dT%H:%M:%S") for window in windows]
        for asset in self.outlets:
            emit_asset_event(context, asset, extra, keys)


class RecordAppliedOperator(MarkAppliedOperator):
    """Record in the library that another program loaded a window, so that models can wait for it.

    Put it behind a dbt, Spark or any other task::

        dbt_run >> RecordAppliedOperator(task_id="record", model="dbt.orders", chunk="@daily")

    ``dbt.orders`` is then an upstream like any other. Without ``chunk`` the window is recorded as it is;
    gates on it may ask for anything but EXACT. The table's asset is an outlet of the task, so that what is made after
    the table runs.
    """

    ui_color = "#e3f5ec"

    def __init__(self, *, model: Model | str, **kwargs: Any) -> None:
        from bollhav_provider.factory.assets import Assets

        super().__init__(model=model, **kwargs)
        asset = Assets.configured().of(self.model)
        if asset not in self.outlets:
            self.outlets = [*self.outlets, asset]

    def _units(self, found: ResolvedWindow) -> Sequence[Unit]:
        if self.model.is_flexible and found.window is not None:
            from bollhav_provider.intervals import Unit

            return [Unit(found.window)]
        return found.units

    def _default_reason(self, context: Mapping[str, Any]) -> str:
        return f"loaded before task {self.dag_id}.{self.task_id}"


class ResetOperator(StateOperator):
    """Invalidate a window, so that the next run of the model does it again. Moves no data.

    Args:
        mode: ``bulldozer`` for the window's units (the default), ``torch`` for every unit of the model.
    """

    template_fields: Sequence[str] = ("since", "until", "mode")
    ui_color = "#f5e3e3"

    def __init__(self, *, mode: str = "bulldozer", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mode = mode

    def _work(
        self,
        conn: Conn,
        env: Environment,
        found: ResolvedWindow,
        run: RunKey,
        context: Mapping[str, Any],
    ) -> int:
        from bollhav_provider.state import prefill, reset

        if found.empty:
            self.log.info("%s: %s", self.model.full_name, found.message)
            return 0
        prefill(conn, self.model, env, found.window)
        # A reset of its own: what the run's other tasks put back before they loaded it does not stand for it.
        run = replace(run, run_id=uuid5(run.run_id, f"{self.task_id} resets"))
        count = reset(conn, self.model, env, run, found.window, self.mode)
        self.log.info("%s: %d unit(s) of %s are pending again", self.model.full_name, count, found.window or "whole")
        return count


class CheckGatesOperator(StateOperator):
    """Look once whether the gates of a model's window are open. Fails, to be retried, when one is not.

    Args:
        soft: return the answer instead of failing.
    """

    ui_color = "#f5ecd7"

    def __init__(self, *, soft: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.soft = soft

    def _work(
        self,
        conn: Conn,
        env: Environment,
        found: ResolvedWindow,
        run: RunKey,
        context: Mapping[str, Any],
    ) -> list[dict[str, Any]]:
        from bollhav_provider.factory.tasks import bound_tables
        from bollhav_provider.state import GateWatch, observe_all, prefill

        if not found.empty:
            prefill(conn, self.model, env, found.window)
        bound = bound_tables(self.model, self.resolved_graph())
        watches = [GateWatch.of(self.model, env, unit, bound) for unit in found.units]
        reports = observe_all(conn, watches)
        answer = []
        for unit, report in zip(found.units, reports, strict=True):
            self.log.info("%s %s: %s", self.model.full_name, unit.label, report.reason or "open")
            answer.append({"unit": unit.to_json(), "open": report.open, "reason": report.reason})
        if not self.soft:
            for report in reports:
                report.require_open()
        return answer
