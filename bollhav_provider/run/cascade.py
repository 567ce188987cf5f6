"""Restating what was made from windows that were loaded again (Semantics: restatement)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bollhav_provider import state
from bollhav_provider.intervals import Interval, IntervalSet, Unit
from bollhav_provider.model import Model
from bollhav_provider.run.connections import Connections
from bollhav_provider.run.spec import RunSpec
from bollhav_provider.state.restatement import Outdated, cascade

if TYPE_CHECKING:
    from bollhav_provider.graph import Graph


@dataclass(frozen=True, slots=True)
class Restatement:
    """What has to run again, in order.

    Attributes:
        steps: models of this deployment, each with the windows to run (None for a model without windows).
        elsewhere: units of other pipelines, which only they can run.
        units: everything, one by one, with what each is made from.
    """

    steps: tuple[tuple[Model, tuple[Interval | None, ...]], ...]
    elsewhere: tuple[Outdated, ...]
    units: tuple[Outdated, ...]


def restatement(
    connections: Connections,
    graph: Graph,
    spec: RunSpec,
    seeds: Mapping[str, Sequence[Interval] | None] | None = None,
) -> Restatement:
    """Work out what a restatement reaches, across pipelines; nothing is changed.

    Args:
        connections: to the library.
        graph: models of this deployment.
        spec: names the environment.
        seeds: full names, with the environment's suffix, to the windows that are loaded again (None: all of
            them). Not
            given: everything that is older than its inputs now.
    """
    with closing(connections.state()) as conn:
        units = tuple(cascade(conn, spec.env, seeds))
    here = {
        spec.env.table(model.identity).full_name: model for model in graph.models if graph.is_enabled(model)
    }
    windows: dict[str, list[Unit]] = {}
    for one in units:
        windows.setdefault(one.full_name, []).append(one.unit)
    steps = tuple((here[name], _ranges(here[name], found)) for name, found in windows.items() if name in here)
    return Restatement(steps, tuple(one for one in units if one.full_name not in here), units)


def invalidate(connections: Connections, model: Model, spec: RunSpec) -> int:
    """Put the units of a run's window back, once for the run, as ``bulldozer`` does."""
    with closing(connections.state(model)) as conn:
        return state.reset(conn, model, spec.env, spec.run, spec.window, "bulldozer")


def _ranges(model: Model, units: Sequence[Unit]) -> tuple[Interval | None, ...]:
    """Join units that touch: one reset and one run for each stretch of time."""
    if model.is_windowless:
        return (None,)
    return IntervalSet(unit.window for unit in units if unit.window is not None).islands
