"""``IntervalSet``: the algebra of covered time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from operator import attrgetter

from bollhav_provider.intervals.instants import as_utc
from bollhav_provider.intervals.interval import Interval

__all__ = ["IntervalSet"]


class IntervalSet:
    """A set of instants, kept as its maximal islands.

    Touching and overlapping intervals are joined, so two sets of the same instants are equal, whatever they
    were built from. All operations are linear in the number of islands, lookups logarithmic.

    Args:
        intervals: in any order, overlapping or not.
    """

    __slots__ = ("_islands", "_starts")

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        joined: list[Interval] = []
        since: datetime | None = None
        until: datetime | None = None
        for interval in sorted(intervals, key=attrgetter("since")):
            if since is None or until is None:
                since, until = interval.since, interval.until
            elif interval.since <= until:
                until = max(until, interval.until)
            else:
                joined.append(Interval(since, until))
                since, until = interval.since, interval.until
        if since is not None and until is not None:
            joined.append(Interval(since, until))
        self._islands = tuple(joined)
        self._starts = [island.since for island in joined]

    @property
    def islands(self) -> tuple[Interval, ...]:
        """The maximal covered windows, in order; no two of them touch."""
        return self._islands

    @property
    def span(self) -> Interval | None:
        """The smallest interval that holds the whole set, or None when it is empty."""
        if not self._islands:
            return None
        return Interval(self._islands[0].since, self._islands[-1].until)

    @property
    def duration(self) -> timedelta:
        """How much time is covered."""
        return sum((island.duration for island in self._islands), timedelta())

    def covers(self, other: Interval | datetime) -> bool:
        """Say whether an instant, or the whole of an interval, is covered."""
        since = other.since if isinstance(other, Interval) else as_utc(other, "instant")
        position = bisect_right(self._starts, since) - 1
        return position >= 0 and self._islands[position].contains(other)

    def gaps(self, within: Interval) -> tuple[Interval, ...]:
        """Return the uncovered parts of ``within``, in order."""
        return tuple(self._gaps(within))

    def first_gap(self, within: Interval) -> Interval | None:
        """Return the first uncovered part of ``within``, or None when all of it is covered."""
        return next(self._gaps(within), None)

    def _gaps(self, within: Interval) -> Iterator[Interval]:
        at = within.since
        position = max(bisect_right(self._starts, at) - 1, 0)
        for island in self._islands[position:]:
            if island.since >= within.until:
                break
            if island.since > at:
                yield Interval(at, island.since)
            at = max(at, island.until)
            if at >= within.until:
                return
        if at < within.until:
            yield Interval(at, within.until)

    def _parts(self, within: Interval) -> Iterator[Interval]:
        position = max(bisect_right(self._starts, within.since) - 1, 0)
        for island in self._islands[position:]:
            if island.since >= within.until:
                return
            shared = island.intersection(within)
            if shared is not None:
                yield shared

    def __or__(self, other: IntervalSet) -> IntervalSet:
        return IntervalSet((*self._islands, *other._islands))

    def __and__(self, other: IntervalSet) -> IntervalSet:
        small, large = (self, other) if len(self) <= len(other) else (other, self)
        return IntervalSet(part for island in small._islands for part in large._parts(island))

    def __sub__(self, other: IntervalSet) -> IntervalSet:
        return IntervalSet(gap for island in self._islands for gap in other._gaps(island))

    def __iter__(self) -> Iterator[Interval]:
        return iter(self._islands)

    def __len__(self) -> int:
        return len(self._islands)

    def __eq__(self, other: object) -> bool:
        return self._islands == other._islands if isinstance(other, IntervalSet) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._islands)

    def __repr__(self) -> str:
        return f"IntervalSet({', '.join(map(str, self._islands))})"
