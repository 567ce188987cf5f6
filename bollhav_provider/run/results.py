"""What a run's steps answer, as plain data that travels as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from bollhav_provider.intervals import Unit

if TYPE_CHECKING:
    from bollhav_provider.run.cascade import CascadeStep


@dataclass(frozen=True, slots=True)
class UnitStats:
    """What one unit moved.

    Attributes:
        rows_in: rows that the function or query gave.
        rows_written: rows inserted or updated in the target.
        rows_changed: rows that are now other than before, where the write mode knows.
        duration: from the claim to the commit.
    """

    rows_in: int = 0
    rows_written: int = 0
    rows_changed: int | None = None
    duration: timedelta = timedelta(0)

    def to_json(self) -> dict[str, Any]:
        return {
            "rows_in": self.rows_in,
            "rows_written": self.rows_written,
            "rows_changed": self.rows_changed,
            "seconds": round(self.duration.total_seconds(), 6),
        }


@dataclass(frozen=True, slots=True)
class UnitOutcome:
    """How one unit ended. Failures are exceptions, not outcomes.

    Attributes:
        unit: the window, or the whole.
        status: ``applied``; ``skipped`` when there was nothing for this worker to do.
        reason: why it was skipped; empty otherwise.
        stats: what was moved.
        warnings: checks of severity ``warn``, an empty result, a failure after the commit.
        before: of a skipped unit, whether it is applied already, by an earlier try or by somebody else. Else it is not
            known to be there.
    """

    unit: Unit
    status: Literal["applied", "skipped"]
    reason: str = ""
    stats: UnitStats = field(default_factory=UnitStats)
    warnings: tuple[str, ...] = ()
    before: bool = False

    @property
    def applied(self) -> bool:
        return self.status == "applied"

    @property
    def present(self) -> bool:
        """Whether the unit is applied, now or since before."""
        return self.applied or self.before

    def to_json(self) -> dict[str, Any]:
        return {
            "unit": self.unit.to_json(),
            "status": self.status,
            "before": self.before,
            "reason": self.reason,
            "stats": self.stats.to_json(),
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class Prepared:
    """What there is to do in a run.

    Attributes:
        units: outstanding units of the run's window, in order of time.
        message: one sentence for the log and the task's note.
        warnings: things that somebody should read.
        counts: what preparation did: ``prefilled``, ``reset``, ``marked`` and the like.
        plan: the dry plan in its machine-readable form; None unless the run is dry.
        busy: units of the window that are left to others, who work on them already.
        cascade: what a run with ``cascade`` put back and has to be run again after it, in order.
        skip: whether the run ends here on purpose (marked, dry, curfew, nothing to do).
    """

    units: tuple[Unit, ...] = ()
    message: str = ""
    warnings: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    plan: Mapping[str, Any] | None = None
    skip: bool = False
    busy: int = 0
    cascade: tuple[CascadeStep, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "units": [unit.to_json() for unit in self.units],
            "message": self.message,
            "warnings": list(self.warnings),
            "counts": dict(self.counts),
            "plan": dict(self.plan) if self.plan is not None else None,
            "skip": self.skip,
            "busy": self.busy,
            "cascade": [step.to_json() for step in self.cascade],
        }


def batches(
    units: tuple[Unit, ...] | list[Unit], units_per_task: int, max_map_length: int
) -> list[list[Unit]]:
    """Divide units among tasks, in order.

    Args:
        units: the run's units.
        units_per_task: how many one task works off, at least 1.
        max_map_length: most tasks; more units than ``units_per_task * max_map_length`` make the tasks larger.

    Returns:
        Batches of nearly equal size that keep the order; none is empty.
    """
    if not units:
        return []
    per_task = max(1, units_per_task)
    tasks = min(-(-len(units) // per_task), max(1, max_map_length))
    if tasks == -(-len(units) // per_task):
        return [list(units[i : i + per_task]) for i in range(0, len(units), per_task)]
    size, larger = divmod(len(units), tasks)
    result, start = [], 0
    for index in range(tasks):
        stop = start + size + (index < larger)
        result.append(list(units[start:stop]))
        start = stop
    return result
