"""What a plan says, as plain data: units with their fate, models with their units, and all of it as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.model import Model

Action = Literal["run", "after", "blocked", "hard", "applied", "running", "never"]


@dataclass(frozen=True, slots=True)
class PlannedUnit:
    """What would become of one unit.

    Attributes:
        unit: which.
        action: ``run`` now, run ``after`` others, ``blocked``, ``hard`` (waiting cannot help), ``applied`` already,
            ``running`` in another worker's hands, ``never`` because the model is not enabled.
        after: the upstreams that it runs after.
        reason: why it is blocked.
    """

    unit: Unit
    action: Action
    after: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """What a run would do with one model.

    Attributes:
        model: which.
        window: what the run covers; None for the whole.
        units: in order of time.
        note: why there are none.
    """

    model: Model
    window: Interval | None
    units: tuple[PlannedUnit, ...]
    note: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """Number of units by action."""
        found: dict[str, int] = {}
        for planned in self.units:
            found[planned.action] = found.get(planned.action, 0) + 1
        return found

    def ranges(self) -> list[dict[str, Any]]:
        """Units that follow each other and share a fate, as one entry each."""
        found = []
        for (action, after, reason), group in groupby(
            self.units, key=lambda p: (p.action, p.after, p.reason)
        ):
            units = [planned.unit for planned in group]
            found.append(
                {
                    "since": units[0].since.isoformat() if units[0].since else None,
                    "until": units[-1].until.isoformat() if units[-1].until else None,
                    "units": len(units),
                    "action": action,
                    "after": list(after),
                    "reason": reason or None,
                }
            )
        return found


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would do.

    Attributes:
        models: in the order in which they would run.
        outdated: units that are older than their inputs, or would be, where that was asked for.
        warnings: what somebody should read.
    """

    models: tuple[ModelPlan, ...]
    outdated: tuple[Any, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    @property
    def counts(self) -> dict[str, int]:
        """Number of units by action, over all models."""
        found: dict[str, int] = {}
        for planned in self.models:
            for action, number in planned.counts.items():
                found[action] = found.get(action, 0) + number
        return found

    @property
    def hard(self) -> bool:
        """Whether some unit can never run as things are declared."""
        return "hard" in self.counts

    @property
    def blocked(self) -> bool:
        """Whether some unit would be left waiting."""
        return "blocked" in self.counts or self.hard

    @property
    def sentence(self) -> str:
        """The plan in one sentence."""
        words = {
            "run": "would run",
            "after": "would run after others",
            "blocked": "blocked",
            "hard": "can never run as declared",
            "applied": "applied already",
            "running": "running",
            "never": "not enabled",
        }
        counts = self.counts
        parts = [f"{counts[action]} {text}" for action, text in words.items() if action in counts]
        return "the plan, in units: " + (", ".join(parts) if parts else "nothing")

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "counts": self.counts,
            "blocked": self.blocked,
            "hard": self.hard,
            "models": [
                {
                    "model": planned.model.full_name,
                    "window": planned.window.to_json() if planned.window else None,
                    "counts": planned.counts,
                    "note": planned.note or None,
                    "ranges": planned.ranges(),
                }
                for planned in self.models
            ],
            "outdated": [one.to_json() for one in self.outdated],
            "warnings": list(self.warnings),
        }
