"""Restating what was made from windows that a run loads again (Semantics: restatement).

A run with ``cascade`` puts back, before it loads anything, every unit that is made from its own, across
pipelines: they are stale from the moment on at which the first of its rows is committed, and nobody may take
them for good meanwhile. What is put back is a list of steps: the command line runs those of its own models,
Airflow's side starts runs of the models' DAGs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

import psycopg

from bollhav_provider import state
from bollhav_provider.intervals import Interval, IntervalSet, Unit
from bollhav_provider.model import Model
from bollhav_provider.run.connections import Connections
from bollhav_provider.run.spec import RunSpec
from bollhav_provider.state import RunKey
from bollhav_provider.state.restatement import cascade
from bollhav_provider.state.restating import restate, restated

if TYPE_CHECKING:
    from bollhav_provider.graph import Graph


@dataclass(frozen=True, slots=True)
class CascadeStep:
    """A stretch of time of one model that has to run again; the steps of a run are in an order in which they can.

    Attributes:
        model: the model's full name, without the environment's suffix: its DAG's id.
        window: what its run has to cover; None for a model without windows.
        units: how many units of it were put back.
        here: whether the model is one of this deployment. Of others nothing is known but the name.
        parts: the windows of these units, where the model has windows.
        put_back_by: on whose behalf, the same at every try of the run.
    """

    model: str
    window: Interval | None
    units: int
    here: bool
    parts: tuple[Interval, ...]
    put_back_by: UUID

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "model": self.model,
            "window": self.window.to_json() if self.window else None,
            "units": self.units,
            "here": self.here,
        }


def put_back(
    conn: psycopg.Connection[Any], graph: Graph, model: Model, spec: RunSpec, units: Sequence[Unit]
) -> tuple[CascadeStep, ...]:
    """Put everything back that is made from ``units``, once for the run, and return what has to run again.

    A retry of the run gets what the first try put back, even where that is being made again already.

    Args:
        conn: to the library, in autocommit.
        graph: models of this deployment.
        model: what the run loads.
        spec: the run.
        units: its units that are to be loaded.
    """
    name = spec.env.table(model.identity).full_name
    if units:
        windows = [unit.window for unit in units if unit.window is not None]
        restate(conn, spec.env, _putting_back(model, spec), cascade(conn, spec.env, {name: windows or None}))
    return _steps(conn, graph, model, spec)


def foreseen(
    conn: psycopg.Connection[Any], graph: Graph, model: Model, spec: RunSpec, units: Sequence[Unit]
) -> tuple[CascadeStep, ...]:
    """Return what :func:`put_back` will put back; nothing is put back. Arguments as there.

    It is asked before the run's own units are reset, which are then in nobody's way.
    """
    if not units:
        return ()
    name = spec.env.table(model.identity).full_name
    windows = [unit.window for unit in units if unit.window is not None]
    found = cascade(conn, spec.env, {name: windows or None})
    own = {(name, unit) for unit in units}
    others = [(one.full_name, one.unit) for one in found if (one.full_name, one.unit) not in own]
    return _as_steps(conn, graph, model, spec, others)


def steps_of(connections: Connections, graph: Graph, model: Model, spec: RunSpec) -> tuple[CascadeStep, ...]:
    """Return what a run put back when it was prepared; nothing is put back now.

    Args:
        connections: where they come from.
        graph: models of this deployment.
        model: what the run loaded.
        spec: the run.
    """
    with closing(connections.state(model)) as conn:
        return _steps(conn, graph, model, spec)


def _putting_back(model: Model, spec: RunSpec) -> RunKey:
    """Return under whose name a run puts back: a DAG run may run several models, each with its own downstream."""
    return replace(spec.run, run_id=uuid5(spec.run.run_id, f"cascade of {spec.env.table(model.identity).full_name}"))


def _steps(conn: psycopg.Connection[Any], graph: Graph, model: Model, spec: RunSpec) -> tuple[CascadeStep, ...]:
    return _as_steps(conn, graph, model, spec, restated(conn, spec.env, _putting_back(model, spec)))


def _as_steps(
    conn: psycopg.Connection[Any], graph: Graph, model: Model, spec: RunSpec, units: Iterable[tuple[str, Unit]]
) -> tuple[CascadeStep, ...]:
    """Make steps of units that have to run again, which are in an order in which they can."""
    run = _putting_back(model, spec)
    here = {spec.env.table(other.identity).full_name: other for other in graph.models}
    declared = {entry.full_name: entry for entry in state.entries(conn, spec.env)}
    found: dict[str, list[Unit]] = {}
    for full_name, unit in units:
        found.setdefault(full_name, []).append(unit)
    steps: list[CascadeStep] = []
    for full_name, again in found.items():
        known = here.get(full_name)
        told = known.full_name if known is not None else _declared_name(declared[full_name])
        runs = known is not None and graph.is_enabled(known)
        for window, parts in _stretches(again, windowless=known is not None and known.is_windowless):
            steps.append(CascadeStep(told, window, len(parts) or 1, runs, parts, run.run_id))
    return tuple(steps)


def _stretches(units: Iterable[Unit], *, windowless: bool) -> list[tuple[Interval | None, tuple[Interval, ...]]]:
    """Join units that touch: one run for each stretch of time, with its units' windows."""
    windows = [unit.window for unit in units if unit.window is not None]
    if windowless or not windows:
        return [(None, ())]
    islands = IntervalSet(windows).islands
    starts = [island.since for island in islands]
    parts: list[list[Interval]] = [[] for _ in islands]
    for window in windows:
        parts[bisect_right(starts, window.since) - 1].append(window)
    return [(island, tuple(found)) for island, found in zip(islands, parts, strict=True)]


def _declared_name(entry: state.LibraryEntry) -> str:
    """Return a model's name without the environment's suffix, as its registrant declared it."""
    parts = [entry.metadata.get(key) for key in ("catalog", "schema", "table")]
    if not all(isinstance(part, str) and part for part in parts[1:]):
        return entry.full_name
    return ".".join(str(part) for part in parts if part)
