"""``Interval``: a half-open window ``[since, until)`` in UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bollhav_provider.exceptions import IntervalError
from bollhav_provider.intervals.instants import as_utc, instant_text

__all__ = ["Interval"]


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """A window of time, half-open and never empty.

    Args:
        since: the first instant inside; aware, or an ISO string with an offset. Stored in UTC.
        until: the first instant after it. Stored in UTC.

    Raises:
        IntervalError: an instant is naive, or ``since`` is not before ``until``.

    Intervals order by ``since``, then ``until``. Rule: Semantics, time.
    """

    since: datetime
    until: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "since", as_utc(self.since, "since"))
        object.__setattr__(self, "until", as_utc(self.until, "until"))
        if self.since >= self.until:
            kind = "empty" if self.since == self.until else "inverted"
            raise IntervalError(
                f"since {instant_text(self.since)} is not before until {instant_text(self.until)}: an {kind} "
                "window; windows are half-open, so until is the first instant that no longer belongs to it"
            )

    @property
    def duration(self) -> timedelta:
        """The length of the window on the clock that never jumps."""
        return self.until - self.since

    def contains(self, other: Interval | datetime) -> bool:
        """Say whether an instant, or the whole of another interval, lies inside."""
        if isinstance(other, Interval):
            return self.since <= other.since and other.until <= self.until
        at = as_utc(other, "instant")
        return self.since <= at < self.until

    def overlaps(self, other: Interval) -> bool:
        """Say whether both share at least one instant; touching is not overlapping."""
        return self.since < other.until and other.since < self.until

    def touches(self, other: Interval) -> bool:
        """Say whether one ends exactly where the other begins."""
        return self.until == other.since or other.until == self.since

    def intersection(self, other: Interval) -> Interval | None:
        """Return the part that both share, or None."""
        since, until = max(self.since, other.since), min(self.until, other.until)
        return Interval(since, until) if since < until else None

    def to_json(self) -> dict[str, str]:
        """Return ``{"since": ..., "until": ...}`` in ISO 8601, in UTC."""
        return {"since": self.since.isoformat(), "until": self.until.isoformat()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Interval:
        """Read what :meth:`to_json` wrote.

        Raises:
            IntervalError: a key is missing, or a value is no aware instant.
        """
        try:
            return cls(value["since"], value["until"])
        except KeyError as exc:
            raise IntervalError(
                f"interval {dict(value)!r} lacks the key {exc}; it needs 'since' and 'until'"
            ) from None

    def __str__(self) -> str:
        return f"[{instant_text(self.since)}, {instant_text(self.until)})"
