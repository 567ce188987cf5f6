"""The second step of a run: do its units."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import psycopg

from bollhav_provider.exceptions import HardGateError, ModelLockedError, ServerRefusedError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Model
from bollhav_provider.run.connections import Connections
from bollhav_provider.run.inputs import Bindings
from bollhav_provider.run.refusals import met_by_all
from bollhav_provider.run.results import UnitOutcome
from bollhav_provider.run.spec import RunSpec
from bollhav_provider.run.worker import Worker

logger = logging.getLogger(__name__)

#: What every further unit of the run would meet as well.
_POINTLESS = (HardGateError, ModelLockedError, psycopg.OperationalError)


def pointless(exc: BaseException) -> bool:
    """Return whether every further unit of the run would meet the same error."""
    if isinstance(exc, ServerRefusedError):
        return met_by_all(exc.sqlstate)
    if isinstance(exc, psycopg.OperationalError) and exc.sqlstate is not None:
        return met_by_all(exc.sqlstate) or exc.sqlstate.startswith("08")
    return isinstance(exc, _POINTLESS)


def execute_unit(
    connections: Connections,
    graph: Bindings,
    model: Model,
    unit: Unit,
    spec: RunSpec,
    *,
    context: Mapping[str, Any] | None = None,
    on_commit: Callable[[UnitOutcome], None] | None = None,
    interrupts: tuple[type[BaseException], ...] = (),
) -> UnitOutcome:
    """Do one unit on connections of its own; parameters and errors are those of :class:`Worker`."""
    with Worker(
        connections, graph, model, spec, context=context, on_commit=on_commit, interrupts=interrupts
    ) as worker:
        return worker.execute(unit)


def execute_units(
    connections: Connections,
    graph: Bindings,
    model: Model,
    units: Iterable[Unit],
    spec: RunSpec,
    *,
    context: Mapping[str, Any] | None = None,
    on_commit: Callable[[UnitOutcome], None] | None = None,
    interrupts: tuple[type[BaseException], ...] = (),
) -> list[UnitOutcome]:
    """Do several units on the same connections, each with its own claim, gates and commit.

    A unit that fails, or waits, does not keep the others from being tried, unless they would meet the same: a
        gate that can
    never open, a locked model, a lost database. A sequential model stops at the first that is not applied.

    Raises:
        Exception: the first unit's error, with the other units' as notes, once all were tried.
    """
    outcomes: list[UnitOutcome] = []
    first: Exception | None = None
    sequential = model.state is not None and model.state.sequential
    with Worker(
        connections, graph, model, spec, context=context, on_commit=on_commit, interrupts=interrupts
    ) as worker:
        for unit in units:
            try:
                outcomes.append(worker.execute(unit))
            except Exception as exc:
                if first is None:
                    first = exc
                else:
                    first.add_note(f"{model.full_name} {unit.label}: {type(exc).__name__}: {exc}")
                if sequential or pointless(exc) or isinstance(exc, interrupts):
                    break
                logger.warning("%s %s: %s: %s", model.full_name, unit.label, type(exc).__name__, exc)
    if first is not None:
        raise first
    return outcomes
