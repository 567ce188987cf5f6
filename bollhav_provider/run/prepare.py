"""The first step of a run: make the state a mirror of the contract and say which units are to be done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg

from bollhav_provider import data, state
from bollhav_provider.data.commits import ensure_marks
from bollhav_provider.intervals import Grid, Unit, split_window
from bollhav_provider.model import Model
from bollhav_provider.run.cascade import CascadeStep, foreseen, put_back
from bollhav_provider.run.connections import Connections
from bollhav_provider.run.inputs import gated_tables
from bollhav_provider.run.results import Prepared
from bollhav_provider.run.spec import RunSpec
from bollhav_provider.state.upkeep import keep_up

if TYPE_CHECKING:
    from bollhav_provider.graph import Graph

logger = logging.getLogger(__name__)


def prepare(
    connections: Connections,
    graph: Graph,
    model: Model,
    spec: RunSpec,
    *,
    before_cascade: Callable[[Sequence[CascadeStep]], None] | None = None,
) -> Prepared:
    """Register the model, prefill its state, invalidate once, and list what is outstanding in the run's
    window.

    Safe to call again by a retry of the same run, and by several runs at once: what a run invalidated once it never
    invalidates again (Semantics: execution is window-scoped).

    Args:
        connections: where they come from.
        graph: of all models; a dry run shows the plan with it.
        model: what is run.
        spec: how.
        before_cascade: told what the run is about to put back downstream, before it resets anything; what it raises
            ends the run there.

    Raises:
        GrainChangedError: rows of a fixed model do not lie on its grid; the text names the way out.
        SchemaMismatchError: the target differs from its declaration.
        StateError: the library cannot be made or completed.
    """
    if not graph.is_enabled(model):
        return Prepared(message="the model is not enabled here: it is read, never written", skip=True)
    if spec.dry_state:
        return _dry(connections, graph, model, spec)
    if model.curfew is not None and (closed := model.curfew.closed_at(datetime.now(UTC))):
        return Prepared(message=closed, skip=True)
    warnings: list[str] = []
    chunk = _override(model, spec, warnings)
    if spec.state_disabled or not model.is_tracked:
        return _without_state(connections, model, spec, chunk, warnings)
    with closing(connections.state(model)) as conn:
        state.bootstrap(conn, spec.env)
        state.register(conn, model, spec.env)
        if spec.mark_applied:
            return _mark(conn, model, spec, chunk, warnings)
        _make_target(connections, model, spec, warnings)
        counts = {"prefilled": state.prefill(conn, model, spec.env, spec.window, run=spec.run, chunk=chunk)}
        window = spec.window
        if spec.cascade and before_cascade is not None:
            before_cascade(foreseen(conn, graph, model, spec, _about_to_load(conn, model, spec, chunk)))
        if spec.reconcile:
            bound = gated_tables(model, graph.upstreams(model))
            counts |= state.reconcile(conn, model, spec.env, spec.run, bound).to_json()
            window = None
        else:
            counts["reset"] = state.reset(conn, model, spec.env, spec.run, window, spec.mode, chunk=chunk)
        found = state.units(conn, model, spec.env, window)
        units = tuple(row.unit for row in found)
        busy = state.working(conn, model, spec.env, window)
        if busy:
            warnings.append(_left_to_others(busy))
        steps = put_back(conn, graph, model, spec, units) if spec.cascade else ()
        if steps:
            counts["put back downstream"] = sum(step.units for step in steps)
        keep_up(conn, spec.env, spec.retention)
    message = _sentence(model, spec, units, counts)
    return Prepared(units, message, tuple(warnings), counts, skip=not units, busy=len(busy), cascade=steps)


def finish(connections: Connections, model: Model, spec: RunSpec, *, if_done: bool = False) -> bool:
    """Say that nothing more of the run will come: the lock of a model that allows no concurrent runs ends now.

    Without it the lock ends with its lease.

    Args:
        connections: where they come from.
        model: what was run.
        spec: the run.
        if_done: only when no unit of the run's window is left to do or being worked on: for one of several workers,
            which does not know whether it is the last.

    Returns:
        Whether the run held the lock and gave it back.
    """
    if model.state is None or model.state.allow_concurrent_runs or spec.state_disabled or spec.dry_state:
        return False
    with closing(connections.state(model)) as conn:
        if if_done:
            window = None if spec.reconcile else spec.window
            rows = state.units(conn, model, spec.env, window, outstanding=False)
            if any(row.status != "applied" for row in rows):
                return False
        return state.unlock_model(conn, model, spec.env, spec.run)


def _override(model: Model, spec: RunSpec, warnings: list[str]) -> Grid | None:
    """Return the grid that slices this run, when it may be another than the model's."""
    if spec.interval_override is None:
        return None
    if not model.is_flexible:
        warnings.append(
            f"interval_override {spec.interval_override!r} is ignored: the chunk is the identity of a fixed "
            f"model's state. To "
            "move the model to another grid, change its chunk and run once with state_mode torch."
        )
        return None
    return spec.override(model.tz)


def _about_to_load(
    conn: psycopg.Connection[Any], model: Model, spec: RunSpec, chunk: Grid | None
) -> tuple[Unit, ...]:
    """Return the units that the run is going to load, as far as can be told before it resets them."""
    if spec.reconcile or spec.mode == "discover":
        found = state.units(conn, model, spec.env, None if spec.reconcile else spec.window)
        return tuple(row.unit for row in found)
    return _slices(model, spec, chunk)


def _make_target(connections: Connections, model: Model, spec: RunSpec, warnings: list[str]) -> None:
    """Make or compare the target. A view is made by its unit, once its gates are open."""
    if model.is_view:
        return
    with closing(connections.target(model)) as conn:
        report = data.ensure_target(conn, model, spec.env)
        warnings.extend(f"target {report.table.full_name}: {found}" for found in report.differences)
        if model.is_tracked and not spec.state_disabled and not connections.same_database(model):
            ensure_marks(conn, spec.env.table(model.identity))


def _without_state(
    connections: Connections, model: Model, spec: RunSpec, chunk: Grid | None, warnings: list[str]
) -> Prepared:
    if model.library and not spec.state_disabled:
        with closing(connections.state(model)) as conn:
            state.bootstrap(conn, spec.env)
            state.register(conn, model, spec.env)
    _make_target(connections, model, spec, warnings)
    if spec.state_disabled and model.is_tracked:
        warnings.append("state is disabled: data are moved, and nothing of it is recorded")
    units = _slices(model, spec, chunk)
    return Prepared(units, _sentence(model, spec, units, {}), tuple(warnings), skip=not units)


def _slices(model: Model, spec: RunSpec, chunk: Grid | None) -> tuple[Unit, ...]:
    """Cut the run's window into units, without looking at any state."""
    grid = chunk or model.grid
    if grid is None:
        return (Unit(None),)
    return split_window(grid, spec.window, flexible=model.is_flexible) if spec.window is not None else ()


def _mark(
    conn: psycopg.Connection[Any], model: Model, spec: RunSpec, chunk: Grid | None, warnings: list[str]
) -> Prepared:
    """Record the run's own windows as loaded, and nothing else (Semantics: ``STATE_MARK_APPLIED``)."""
    units = _slices(model, spec, chunk)
    if model.is_windowless:
        state.prefill(conn, model, spec.env, spec.window, run=spec.run)  # its row says how far it reaches
    if not units:
        return Prepared((), _sentence(model, spec, units, {}), tuple(warnings), skip=True)
    marked = state.mark_applied(conn, model, spec.env, units, spec.run, spec.reason, warn=False)
    span = f"of {spec.window}" if spec.window is not None else "of the whole"
    warnings.append(
        f"{marked} unit(s) {span} are marked applied by {spec.run.who or 'an unknown account'}"
        f"{f' ({spec.reason})' if spec.reason else ''}; nothing checks that the data are there"
    )
    return Prepared((), warnings[-1], tuple(warnings), {"marked": marked}, skip=True)


def _dry(connections: Connections, graph: Graph, model: Model, spec: RunSpec) -> Prepared:
    from bollhav_provider.run.plan import plan

    found = plan(connections, graph, [model], spec)
    return Prepared((), found.sentence, found.warnings, plan=found.to_json(), skip=True)


def _left_to_others(busy: list[state.UnitRow]) -> str:
    first = busy[0]
    until = first.row["lease_until"]
    lease = f", until {until.isoformat(timespec='seconds')} unless it goes on" if until is not None else ""
    return (
        f"{len(busy)} unit(s) are left to others, who work on them already: the first is {first.unit.label}, by "
        f"{first.owner or 'a worker without a lease'}{lease}"
    )


def _sentence(model: Model, spec: RunSpec, units: tuple[Unit, ...], counts: dict[str, int]) -> str:
    """Say in one sentence what there is to do."""
    span = str(spec.window) if spec.window is not None and not spec.reconcile else "the whole contract"
    if model.is_windowless:
        span = "the model's one unit"
    if not units:
        if spec.window is not None and model.grid is not None and not _slices(model, spec, None):
            return (
                f"the window {spec.window} holds no whole window of {model.grid} (the one it starts in is "
                f"{model.grid.cell(spec.window.since)}); nothing to run"
            )
        return f"nothing is outstanding in {span}"
    done = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
    return f"{len(units)} unit(s) to do in {span}" + (f" ({done})" if done else "")
