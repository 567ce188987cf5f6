"""``Unit``: one piece of a model's work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bollhav_provider.intervals.interval import Interval

__all__ = ["WHOLE", "Unit"]


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of work: a window, or the single windowless unit of a model.

    Args:
        window: the half-open window, or None for the windowless unit.
    """

    window: Interval | None = None

    @property
    def windowless(self) -> bool:
        """Whether this is the one unit of a model that has no windows."""
        return self.window is None

    @property
    def since(self) -> datetime | None:
        """The window's first instant, None when windowless."""
        return None if self.window is None else self.window.since

    @property
    def until(self) -> datetime | None:
        """The first instant after the window, None when windowless."""
        return None if self.window is None else self.window.until

    @property
    def label(self) -> str:
        """What people see: ``[2024-01-01T00:00Z, 2024-01-02T00:00Z)`` or ``whole``."""
        return "whole" if self.window is None else str(self.window)

    @property
    def sort_key(self) -> tuple[bool, datetime | None, datetime | None]:
        """A key that sorts units by window; a model never mixes windows with the windowless unit."""
        return (self.window is not None, self.since, self.until)

    def to_json(self) -> dict[str, str | None]:
        """Return ``{"since": ..., "until": ...}``; both None when windowless."""
        return {"since": None, "until": None} if self.window is None else {**self.window.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> Unit:
        """Read what :meth:`to_json` wrote; None is the windowless unit too."""
        if value is None or (value.get("since") is None and value.get("until") is None):
            return WHOLE
        return cls(Interval.from_json(value))

    def __str__(self) -> str:
        return self.label


#: The windowless unit.
WHOLE = Unit(None)
