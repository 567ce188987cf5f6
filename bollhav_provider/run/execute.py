"""One unit's life: claim, gates, work, one transaction, and what comes after the commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bollhav_provider.graph import Graph
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Model
from bollhav_provider.run.connections import Connections
from bollhav_provider.run.results import UnitOutcome
from bollhav_provider.run.spec import RunSpec


def execute_unit(
    connections: Connections,
    graph: Graph,
    model: Model,
    unit: Unit,
    spec: RunSpec,
    *,
    context: Mapping[str, Any] | None = None,
    on_commit: Callable[[UnitOutcome], None] | None = None,
    interrupts: tuple[type[BaseException], ...] = (),
) -> UnitOutcome:
    """Do one unit."""
    raise NotImplementedError


def execute_units(
    connections: Connections,
    graph: Graph,
    model: Model,
    units: Iterable[Unit],
    spec: RunSpec,
    *,
    context: Mapping[str, Any] | None = None,
    on_commit: Callable[[UnitOutcome], None] | None = None,
    interrupts: tuple[type[BaseException], ...] = (),
) -> list[UnitOutcome]:
    """Do several units on one connection, each with its own claim, gates and commit."""
    raise NotImplementedError
