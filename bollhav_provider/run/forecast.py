"""What the upstreams of a plan would hold once it has run so far. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from bollhav_provider import state
from bollhav_provider.intervals import Interval, IntervalSet, Unit, contract_range
from bollhav_provider.model import Model, UpstreamContract
from bollhav_provider.state.gate_types import OWN_PAST

Verdict = Literal["open", "after", "shut"]

_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)


def needs(request: state.GateRequest) -> Interval | None:
    """Return the part of an upstream that a gate selects; None for all of it, and for nothing but its existence."""
    level, window = request.effective_level, request.window
    if window is None or level in (UpstreamContract.WHOLE.value, UpstreamContract.EXISTS.value):
        return None
    if level == UpstreamContract.THROUGH.value:
        return Interval(_BEGINNING, window.until)
    if level == OWN_PAST:
        return Interval(_BEGINNING, window.since)
    return window


@dataclass(slots=True)
class _Outlook:
    """One model of the plan."""

    model: Model
    applied: IntervalSet
    todo: set[Unit]
    stuck: set[Unit] = field(default_factory=set)


class Forecast:
    """Remembers what was planned for each model; models are added in the order in which they depend on each other.

    Args:
        now: the instant that "elapsed" is measured by.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._models: dict[str, _Outlook] = {}

    def start(self, full_name: str, model: Model, applied: IntervalSet, todo: Iterable[Unit]) -> None:
        """Add a model with what it holds now and what the plan would load."""
        wanted = set(todo)
        again = IntervalSet(unit.window for unit in wanted if unit.window is not None)
        self._models[full_name] = _Outlook(model, applied - again, wanted)

    def decide(self, full_name: str, unit: Unit, *, runs: bool) -> None:
        """Say whether a unit would run in the end."""
        if not runs:
            self._models[full_name].stuck.add(unit)

    def knows(self, full_name: str) -> bool:
        """Return whether a model is part of the plan."""
        return full_name in self._models

    def verdict(self, result: state.GateResult) -> Verdict:
        """Return what a gate would say when its turn comes: open as it is, open after others ran, or shut."""
        outlook = self._models.get(result.request.upstream)
        if outlook is None:
            return "open" if result.satisfied else "shut"
        if result.request.effective_level == UpstreamContract.EXISTS.value:
            return "open" if result.satisfied else "after"
        if result.request.effective_level == OWN_PAST:
            return self._own_past(outlook, result.request)
        if result.hard and result.code != state.reasons.NOT_REGISTERED:
            return "shut"
        wanted = needs(result.request)
        concerned = [unit for unit in outlook.todo if _concerns(unit, wanted)]
        if any(unit in outlook.stuck for unit in concerned):
            return "shut"
        if concerned and (result.satisfied or result.stale or self._would_cover(outlook, result, concerned)):
            return "after"
        return "open" if result.satisfied else "shut"

    def _own_past(self, outlook: _Outlook, request: state.GateRequest) -> Verdict:
        """Judge a sequential model's own earlier windows; an empty past is satisfied."""
        past = self._required(outlook.model, request)
        if past is None or outlook.applied.covers(past):
            return "open"
        runs = IntervalSet(unit.window for unit in outlook.todo - outlook.stuck if unit.window is not None)
        return "after" if (outlook.applied | runs).covers(past) else "shut"

    def _would_cover(self, outlook: _Outlook, result: state.GateResult, concerned: list[Unit]) -> bool:
        """Whether the level would be reached with everything that the plan loads."""
        request, model = result.request, outlook.model
        if model.is_windowless:
            return True
        windows = [unit.window for unit in concerned if unit.window is not None]
        if request.effective_level == UpstreamContract.EXACT.value:
            return request.window in windows
        then = outlook.applied | IntervalSet(windows)
        required = self._required(model, request) or result.missing
        return then.covers(required) if required is not None else bool(windows)

    def _required(self, model: Model, request: state.GateRequest) -> Interval | None:
        """Return what has to be covered; None where neither the gate nor the contract says."""
        if request.effective_level == UpstreamContract.ENCAPSULATE.value:
            return request.window
        grid, begin, end = model.grid, model.contract.begin, model.contract.end
        if grid is None or begin is None:
            return None
        declared = contract_range(grid, begin, end, self._now, flexible=model.is_flexible)
        selected = needs(request)
        return declared.intersection(selected) if declared is not None and selected is not None else declared


def _concerns(unit: Unit, wanted: Interval | None) -> bool:
    return wanted is None or unit.window is None or unit.window.overlaps(wanted)
