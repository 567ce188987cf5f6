"""The task that does the work: a batch of units, each with its own claim, gates and commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid5

from airflow.providers.common.compat.sdk import AirflowSkipException

from bollhav_provider.exceptions import GateClosedError
from bollhav_provider.hooks.settings import airflow_option
from bollhav_provider.operators.base import ModelOperator, for_the_log, time_outs
from bollhav_provider.operators.prefill import hand_on
from bollhav_provider.operators.run_context import (
    clear_number,
    environment,
    first_clear,
    marking_reason,
    run_settings,
    task_run,
)
from bollhav_provider.operators.run_keys import RUN_KEY, WORK_KEY, prefill_of
from bollhav_provider.operators.unit_lists import unit_label, units_of, units_to_json
from bollhav_provider.version_compat import emit_asset_event, seconds, task_colour

if TYPE_CHECKING:
    from bollhav_provider.intervals import Unit
    from bollhav_provider.run import Connections, RunSpec, UnitOutcome

WhenClosed = Literal["wait", "skip", "fail"]
#: Of a unit's attempts, how many are looked through for those of one task.
_MOST_ATTEMPTS = 1000
#: Seconds that a wait lasts at least: none at all would be no time-out. When they are over, Airflow says so.
_LEAST_WAIT = 1.0
#: How many windows an asset's event names one by one; more are given as the range from the first to the last.
_MOST_WINDOWS = 100


class ExecuteOperator(ModelOperator):
    """Work off units of a model.

    Each unit has its own claim, gate check and commit, so whatever a stopped task leaves behind is whole. A
    retry does what is left; a unit that is applied already is not done again. A gate that closed since the
    sensor looked makes the task wait for it without a slot.

    Args:
        model: the model.
        graph: resolves its upstreams.
        units: the units as JSON: what the mapped group gives, or a literal list.
        prefill_task_id: the task whose XCom holds the run's specification; None to make one from this task's
            context.
        asset: the model's asset; its event carries the windows.
        when_closed: what happens at a gate that is closed after all: ``wait`` without a slot (the default), ``skip``
            the task, or ``fail`` it, to be retried.
        wait_timeout: time, or its seconds, after which the task gives up waiting and fails, counted from the first wait
            of a try, however many gates it meets after that; as configured, a week.
        bollhav_conn_id: Airflow connection of the library; as configured by default.
    """

    template_fields: Sequence[str] = ("units",)
    ui_color = task_colour("#cfe8d8")

    def __init__(
        self,
        *,
        units: Any = None,
        prefill_task_id: str | None = None,
        asset: Any = None,
        when_closed: WhenClosed = "wait",
        wait_timeout: float | timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("trigger_rule", "none_failed")
        super().__init__(**kwargs)
        self.units = units
        self.prefill_task_id = prefill_task_id
        self.asset = asset
        self.when_closed = when_closed
        self.wait_timeout = wait_timeout
        self._cleared_at_prefill = 0
        self._waiting_since: datetime | None = None

    @property
    def label(self) -> str:
        """The window of this batch, for the task's label in the UI."""
        return unit_label(self.units)

    def execute(self, context: Mapping[str, Any]) -> list[dict[str, Any]]:
        with self._working():
            connections = self.connect(run_settings(context))
            spec, todo = self._plan(context, connections)
            outcomes, closed = self._work(context, connections, spec, todo)
            self._finish(connections, spec)
        if closed and self.when_closed == "wait":
            self._wait_for(connections, spec, closed)
        retried = _is_retry(context)
        if not any(_counts(outcome, retried) for outcome in outcomes) and (closed or outcomes):
            reasons = sorted({outcome.reason for outcome in outcomes} | ({"a gate is closed"} if closed else set()))
            raise AirflowSkipException("; ".join(reasons))
        self._tell(context, spec, outcomes)
        return [outcome.to_json() for outcome in outcomes]

    def get_openlineage_facets_on_start(self) -> Any:
        """Return what the task reads and writes; Airflow's OpenLineage provider asks."""
        from bollhav_provider.operators.openlineage import facets

        return facets(self)

    def _plan(self, context: Mapping[str, Any], connections: Connections) -> tuple[RunSpec, list[Unit]]:
        """Return the run and the units of it that this task does."""
        todo = units_of(self.units)
        spec = self._spec(context, connections, todo)
        if self.prefill_task_id is None or self.prefill_task_id != prefill_of(self.task_id):
            hand_on(self, context, WORK_KEY, spec, units=units_to_json(todo, self.model.grid))
        if spec.mark_applied and not spec.dry_state and self.model.is_tracked:
            self._mark(connections, replace(spec, reason=spec.reason or marking_reason(context)), todo)
            return spec, todo  # which finds them applied, and says so
        self._redo_after_clear(context, connections, spec, todo)
        return spec, todo

    def _mark(self, connections: Connections, spec: RunSpec, todo: list[Unit]) -> None:
        """Record the units as loaded, and move nothing: what the run asks for where no prefill has done it."""
        from bollhav_provider.state import bootstrap, mark_applied, prefill, register

        with connections.state(self.model) as conn:
            bootstrap(conn, spec.env)
            register(conn, self.model, spec.env)
            if self.model.is_windowless:
                prefill(conn, self.model, spec.env, spec.window, run=spec.run)  # its row says how far it reaches
            mark_applied(conn, self.model, spec.env, todo, spec.run, spec.reason)

    def resume(
        self, context: Mapping[str, Any], event: Any = None, waiting_since: str | None = None
    ) -> list[dict[str, Any]]:
        """Go on after waiting for a gate. The gates are checked again in the claim, whatever the event says."""
        self._waiting_since = datetime.fromisoformat(waiting_since) if waiting_since else None
        if isinstance(event, Mapping) and event.get("status") == "error":
            self.log.warning("the wait ended early: %s", event.get("reason"))
        return self.execute(context)

    def _work(
        self, context: Mapping[str, Any], connections: Connections, spec: RunSpec, todo: list[Unit]
    ) -> tuple[list[UnitOutcome], list[Unit]]:
        """Do every unit whose gates are open; return what became of them and the units to wait for.

        A unit that fails does not keep the others from being tried, unless they would meet the same.

        Raises:
            Exception: the first unit's failure, once all were tried.
        """
        from bollhav_provider.run import Worker, pointless

        outcomes: list[UnitOutcome] = []
        closed: list[Unit] = []
        failure: Exception | None = None
        sequential = self.model.state is not None and self.model.state.sequential
        with Worker(
            connections, self.resolved_graph(), self.model, spec, context=context, interrupts=time_outs()
        ) as worker:
            for unit in todo:
                try:
                    outcome = worker.execute(unit)
                except GateClosedError as exc:
                    self.log.info("%s %s waits: %s", self.model.full_name, unit.label, exc)
                    if self.when_closed == "fail":
                        failure = failure or exc
                    closed.append(unit)
                except Exception as exc:
                    said = for_the_log(exc)
                    self.log.warning("%s %s: %s: %s", self.model.full_name, unit.label, type(exc).__name__, said)
                    failure = failure or exc
                    if pointless(exc):
                        break
                else:
                    for warning in outcome.warnings:
                        self.log.warning("%s %s: %s", self.model.full_name, unit.label, warning)
                    self.log.info("%s %s: %s", self.model.full_name, unit.label, _sentence(outcome))
                    outcomes.append(outcome)
                if sequential and (closed or failure):
                    break
        if failure is not None:
            raise failure
        return outcomes, closed

    def _finish(self, connections: Connections, spec: RunSpec) -> None:
        """Give the lock of a model that allows one run at a time back, when this was the last of the run's tasks."""
        from bollhav_provider.run import finish

        try:
            finish(connections, self.model, spec, if_done=True)
        except Exception as exc:  # what was to be done is done, and the lock ends by itself
            self.log.warning("%s: the model's lock ends with its lease: %s", self.model.full_name, exc)

    def _spec(self, context: Mapping[str, Any], connections: Connections, todo: list[Unit]) -> RunSpec:
        """Return the run's specification as prefill settled it, with this task as the one who works."""
        from bollhav_provider.run import RunSpec

        ti = context.get("ti")
        given = None
        if ti is not None and self.prefill_task_id is not None:
            given = ti.xcom_pull(task_ids=self.prefill_task_id, key=RUN_KEY, map_indexes=None)
        if given:
            self._cleared_at_prefill = int(given.get("clear_number") or 0)
            spec = RunSpec.from_json(given)
            mine = task_run(context)
            return replace(spec, run=replace(mine, run_id=spec.run.run_id))
        settings = run_settings(context)
        spec = RunSpec.from_settings(settings, task_run(context), environment(settings), None)
        self._make_ready(connections, spec, todo)
        return spec

    def _make_ready(self, connections: Connections, spec: RunSpec, todo: list[Unit]) -> None:
        """Do what a prefill does for units that none has listed: have the library, the target and the units' rows.

        Nothing is put back; a unit that is applied already stays so.
        """
        from bollhav_provider.intervals import Interval
        from bollhav_provider.run import prepare

        if not todo or spec.dry_state or (spec.mark_applied and self.model.is_tracked):
            return
        windows = [unit.window for unit in todo if unit.window is not None]
        span = Interval(min(w.since for w in windows), max(w.until for w in windows)) if windows else None
        alone = replace(spec, window=span, mode="discover", reconcile=False, cascade=False)
        for warning in prepare(connections, self.resolved_graph(), self.model, alone).warnings:
            self.log.warning("%s: %s", self.model.full_name, warning)

    def _redo_after_clear(
        self, context: Mapping[str, Any], connections: Connections, spec: RunSpec, todo: list[Unit]
    ) -> None:
        """Invalidate this task's own windows when a person cleared it, and not its whole run.

        A cleared run has invalidated already, in its prefill; a retry never does. In ``discover`` a cleared task
        does what is outstanding, like any other.
        """
        first = first_clear(context) + 1
        if first == 1 or spec.mode == "discover" or spec.state_disabled or not self.model.is_tracked:
            return
        from bollhav_provider.state import attempts, reset

        name = spec.env.table(self.model.identity).full_name
        again = replace(spec.run, run_id=uuid5(spec.run.run_id, f"{spec.run.task_id} from try {first}"))
        cleared_since = clear_number(context) > self._cleared_at_prefill
        with connections.state(self.model) as conn:
            for unit in todo:
                tries = [
                    attempt.try_number or 0
                    for attempt in attempts(conn, spec.env, name, unit=unit, limit=_MOST_ATTEMPTS)
                    if attempt.run_id == spec.run.run_id and attempt.task_id == spec.run.task_id
                ]
                # Tries from before the clear under the id of this very run: its prefill was not cleared with it.
                if any(number < first for number in tries) or (not tries and cleared_since):
                    reset(conn, self.model, spec.env, again, unit.window, "bulldozer")

    def _wait_for(self, connections: Connections, spec: RunSpec, closed: list[Unit]) -> None:
        """Give the slot back until the gates of ``closed`` open.

        Raises:
            GateClosedError: an earlier window of a sequential model is not applied, and nobody is about to do it.
        """
        from bollhav_provider.factory.tasks import bound_tables
        from bollhav_provider.operators.own_past import LOOK_AGAIN, waits_for_own_past
        from bollhav_provider.sensors.upstream import library_of
        from bollhav_provider.state import GateWatch
        from bollhav_provider.triggers.questions import Questions
        from bollhav_provider.triggers.upstream import UpstreamTrigger

        bound = bound_tables(self.model, self.resolved_graph())
        dag = self.get_dag()
        alone = dag is not None and dag.max_active_runs == 1
        past = waits_for_own_past(connections, self.model, spec, closed, bound, one_at_a_time=alone)
        watches = tuple(GateWatch.of(self.model, spec.env, unit, bound) for unit in closed)
        now = datetime.now(UTC)
        since = self._waiting_since or now
        patience = seconds(self.wait_timeout or float(airflow_option("gate_timeout", "604800")))
        left = max(patience - (now - since).total_seconds(), _LEAST_WAIT)
        self.defer(
            trigger=UpstreamTrigger(
                **library_of(self.model, self.bollhav_conn_id),
                poll_interval=float(airflow_option("poke_interval", "15")),
                look_again=LOOK_AGAIN if past else None,
                **Questions(spec.env, watches=watches).to_json(),
            ),
            method_name="resume",
            kwargs={"waiting_since": since.isoformat()},
            timeout=timedelta(seconds=min(left, patience)),
        )

    def _tell(self, context: Mapping[str, Any], spec: RunSpec, outcomes: list[UnitOutcome]) -> None:
        """Say in the asset's event which windows are there now: a partition key for each, its start in UTC."""
        if self.asset is None:
            return
        retried = _is_retry(context)
        units = [outcome.unit for outcome in outcomes if _counts(outcome, retried)]
        windows = [unit.window for unit in units if unit.window is not None]
        extra: dict[str, Any] = {"model": self.model.full_name, "run_id": str(spec.run.run_id)}
        if windows:
            extra |= {"since": windows[0].since.isoformat(), "until": windows[-1].until.isoformat()}
            if len(windows) <= _MOST_WINDOWS:
                extra["windows"] = [window.to_json() for window in windows]
        extra["rows_written"] = sum(outcome.stats.rows_written for outcome in outcomes)
        keys = [window.since.strftime("%Y-%m-%dT%H:%M:%S") for window in windows]
        emit_asset_event(context, self.asset, extra, keys)


def _is_retry(context: Mapping[str, Any]) -> bool:
    """Whether an earlier try of this task, since it was last cleared, may have committed something."""
    ti = context.get("ti")
    return ti is not None and int(ti.try_number) > first_clear(context) + 1


def _counts(outcome: UnitOutcome, retried: bool) -> bool:
    """Whether this task may say of a unit that it is there.

    What an earlier try of it committed was never told: only a successful task emits events. A unit that somebody else
    has, or that has no row any more, is not there at all as far as anybody knows.
    """
    return outcome.applied or (retried and outcome.present)


def _sentence(outcome: UnitOutcome) -> str:
    if not outcome.applied:
        return f"skipped, {outcome.reason}"
    stats = outcome.stats
    changed = "" if stats.rows_changed is None else f", {stats.rows_changed} changed"
    seconds = stats.duration.total_seconds()
    return f"applied, {stats.rows_in} rows in, {stats.rows_written} written{changed}, {seconds:.2f} s"
