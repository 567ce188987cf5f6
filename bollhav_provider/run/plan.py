"""The plan: what a run would do, for all its models together, without changing anything (Semantics: DRY_STATE).

Models are taken in the order in which they depend on each other. A unit whose gate is shut now, and would be open
once the plan has run so far, runs after those upstreams; so does one whose gate is open and whose upstream is about
to be loaded again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg

from bollhav_provider import state
from bollhav_provider.exceptions import StateError
from bollhav_provider.intervals import Grid, Interval, IntervalSet, Unit, contract_range, split_window
from bollhav_provider.model import Environment, Model
from bollhav_provider.run.connections import Connections
from bollhav_provider.run.forecast import Forecast
from bollhav_provider.run.inputs import gated_tables, runnable_upstreams
from bollhav_provider.run.planned import ModelPlan, Plan, PlannedUnit
from bollhav_provider.run.spec import RunSpec
from bollhav_provider.state import single
from bollhav_provider.state.summary import has_state

if TYPE_CHECKING:
    from bollhav_provider.graph import Graph

logger = logging.getLogger(__name__)

#: Units whose gates are asked for in one statement.
_BATCH = 500
#: What the server says where there is no library, or an older one.
_NO_LIBRARY = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.UndefinedColumn,
)


def plan(
    connections: Connections,
    graph: Graph,
    models: Iterable[Model],
    spec: RunSpec,
    windows: Mapping[str, Interval | None] | None = None,
) -> Plan:
    """Work out what a run would do. Nothing is written, made or locked.

    Args:
        connections: to the library of each model.
        graph: all models; the order and what each waits for.
        models: those that would run.
        spec: how; its window is that of all models that ``windows`` does not name.
        windows: what each model's run would cover, by full name.
    """
    wanted = {model.full_name for model in models}
    forecast: Forecast | None = None
    planned: list[ModelPlan] = []
    for model in (found for found in graph.order() if found.full_name in wanted):
        window = (windows or {}).get(model.full_name, spec.window)
        with closing(connections.state(model)) as conn:
            forecast = forecast or Forecast(state.db_now(conn))
            planned.append(_Planner(conn, graph, model, spec, window, forecast).plan())
    if not spec.cascade:
        return Plan(tuple(planned))
    with closing(connections.state()) as conn:
        return Plan(tuple(planned), tuple(_outdated(conn, spec.env, planned)))


class _Planner:
    """Plans one model."""

    def __init__(
        self,
        conn: psycopg.Connection[Any],
        graph: Graph,
        model: Model,
        spec: RunSpec,
        window: Interval | None,
        forecast: Forecast,
    ) -> None:
        self._conn = conn
        self._graph = graph
        self._model = model
        self._spec = spec
        self._window = window
        self._forecast = forecast
        self._runnable = runnable_upstreams(graph, model, spec.env)

    def plan(self) -> ModelPlan:
        model = self._model
        if not self._graph.is_enabled(model):
            return ModelPlan(model, self._window, (), "not enabled: read, never written")
        if model.is_tracked and not self._spec.state_disabled:
            units = self._with_state()
        else:
            units = [PlannedUnit(unit, "run") for unit in self._slices(model.grid, self._range())]
        note = "" if units else "nothing in the window"
        return ModelPlan(model, self._window, tuple(units), note)

    def _with_state(self) -> list[PlannedUnit]:
        model, env = self._model, self._spec.env
        ref = state.StateRef.of(model, env)
        rows = self._rows()
        islands = self._islands(ref)
        status = {row.unit: row for row in rows}
        candidates, invalidated = self._candidates(rows, islands)
        kept: list[PlannedUnit] = []
        todo: list[Unit] = []
        for unit in candidates:
            row = status.get(unit)
            if row is not None and row.in_work:
                kept.append(PlannedUnit(unit, "running"))
            elif row is not None and row.status == "applied" and not invalidated:
                kept.append(PlannedUnit(unit, "applied"))
            else:
                todo.append(unit)
        self._forecast.start(ref.full_name, model, islands, todo)
        judged = self._judge(ref.full_name, todo)
        return sorted([*kept, *judged], key=lambda planned: planned.unit.sort_key)

    def _candidates(self, rows: Sequence[state.UnitRow], islands: IntervalSet) -> tuple[list[Unit], bool]:
        """Return the run's units, and whether the mode invalidates those that are applied."""
        model, spec = self._model, self._spec
        invalidates = spec.mode != "discover" and not spec.reconcile
        if model.is_windowless:
            row = rows[0] if rows else None
            again = invalidates or (row is not None and self._content_differs(row))
            held = (row.status, row.covers) if row is not None else None
            loads = single.would_load(model, held, self._window, state.db_now(self._conn), again=again)
            return [Unit(None)] if loads or row is not None else [], loads
        within = self._range()
        grid = model.grid
        if spec.interval_override and model.is_flexible:
            grid = spec.override(model.tz)
        if within is None:
            return [], invalidates
        if model.is_flexible and not invalidates:
            holes = IntervalSet([within]) - islands
            gaps = [unit for island in holes.islands for unit in self._slices(grid, island)]
            done = [Unit(part) for part in (islands & IntervalSet([within])).islands]
            return sorted([*gaps, *done], key=lambda unit: unit.sort_key), invalidates
        return list(self._slices(grid, within)), invalidates

    def _content_differs(self, row: state.UnitRow) -> bool:
        recorded = row.row.get("content_hash")
        return self._model.content_hash is not None and recorded not in (None, self._model.content_hash)

    def _range(self) -> Interval | None:
        """What the run covers, inside the contract."""
        model, grid = self._model, self._model.grid
        if grid is None:
            return None
        begin, end = model.contract.begin, model.contract.end
        if begin is None:
            return self._window
        declared = contract_range(grid, begin, end, state.db_now(self._conn), flexible=model.is_flexible)
        if self._window is None or self._spec.reconcile:
            return declared
        return self._window.intersection(declared) if declared is not None else None

    def _slices(self, grid: Grid | None, within: Interval | None) -> tuple[Unit, ...]:
        if grid is None:
            return (Unit(None),)
        return split_window(grid, within, flexible=self._model.is_flexible) if within is not None else ()

    def _rows(self) -> list[state.UnitRow]:
        window = None if self._model.is_windowless else self._range()
        if window is None and not self._model.is_windowless:
            return []
        try:
            return state.units(self._conn, self._model, self._spec.env, window, outstanding=False)
        except _NO_LIBRARY:
            return []

    def _islands(self, ref: state.StateRef) -> IntervalSet:
        if self._model.is_windowless or not has_state(self._conn, ref):
            return IntervalSet(())
        try:
            return state.coverage.islands(self._conn, ref)
        except _NO_LIBRARY:
            return IntervalSet(())

    def _judge(self, name: str, todo: Sequence[Unit]) -> list[PlannedUnit]:
        bound = gated_tables(self._model, self._graph.upstreams(self._model))
        found = []
        for start in range(0, len(todo), _BATCH):
            batch = todo[start : start + _BATCH]
            asked = [state.gate_requests(self._model, self._spec.env, unit, bound) for unit in batch]
            answers = iter(self._answers([request for requests in asked for request in requests]))
            for unit, requests in zip(batch, asked, strict=True):
                planned = self._one(unit, [next(answers) for _ in requests])
                self._forecast.decide(name, unit, runs=planned.action in ("run", "after"))
                found.append(planned)
        return found

    def _answers(self, requests: Sequence[state.GateRequest]) -> list[state.GateResult]:
        if not requests:
            return []
        try:
            return state.check_gates(self._conn, self._spec.env, requests)
        except (*_NO_LIBRARY, StateError):
            text = state.reasons.not_registered
            return [
                state.GateResult(
                    request,
                    False,
                    hard=True,
                    code=state.reasons.NOT_REGISTERED,
                    reason=text(request.upstream),
                )
                for request in requests
            ]

    def _one(self, unit: Unit, results: Sequence[state.GateResult]) -> PlannedUnit:
        after: list[str] = []
        shut: list[state.GateResult] = []
        for result in results:
            verdict = self._forecast.verdict(result)
            if verdict == "after":
                after.append(result.request.upstream)
            elif verdict == "shut":
                shut.append(result)
        if shut:
            hard = any(result.hard and not self._will_be_registered(result) for result in shut)
            reason = "; ".join(map(self._why, shut))
            return PlannedUnit(unit, "hard" if hard else "blocked", reason=reason)
        return PlannedUnit(unit, "after" if after else "run", tuple(dict.fromkeys(after)))

    def _will_be_registered(self, result: state.GateResult) -> bool:
        """Whether all that is missing is a first run of a model of this graph."""
        name = result.request.upstream
        return result.code == state.reasons.NOT_REGISTERED and (self._forecast.knows(name) or name in self._runnable)

    def _why(self, result: state.GateResult) -> str:
        name = result.request.upstream
        if self._forecast.knows(name):
            return _waits(result) if _would_exist(result) else result.reason
        if self._will_be_registered(result):
            return f"after {name}, which has not run yet and is not part of this plan"
        return result.reason


def _would_exist(result: state.GateResult) -> bool:
    """Whether the answer of today says nothing of the day on which the plan has run."""
    return result.satisfied or result.code == state.reasons.NOT_REGISTERED


def _waits(result: state.GateResult) -> str:
    """Why a gate on an upstream of the plan would be shut."""
    name, level = result.request.upstream, result.request.level
    return f"upstream {name!r} ({level}) would not be there: it is blocked itself, or the plan loads only a part of it"


def _outdated(conn: psycopg.Connection[Any], env: Environment, planned: Sequence[ModelPlan]) -> list[Any]:
    """Return what is older than its inputs, or would be once the plan has run, beside what the plan runs itself."""
    from bollhav_provider.state.restatement import cascade

    seeds: dict[str, list[Interval] | None] = {}
    in_plan: set[tuple[str, Unit]] = set()
    for one in planned:
        name = env.table(one.model.identity).full_name
        loaded = [unit.unit for unit in one.units if unit.action in ("run", "after")]
        in_plan.update((name, unit) for unit in loaded)
        if loaded:
            windows = [unit.window for unit in loaded if unit.window is not None]
            seeds[name] = windows or None
    try:
        return [
            found
            for found in cascade(conn, env, seeds, outdated_too=True)
            if (found.full_name, found.unit) not in in_plan
        ]
    except _NO_LIBRARY:
        return []
