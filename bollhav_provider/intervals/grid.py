"""``Grid``: the ticks of a chunk, and the windows between them.

The grid of a cron in a zone is the sequence of data intervals of Airflow's cron data-interval timetable: each
window ends where that timetable's next tick after its start lies. Two cases follow from it:

* A cron that names hours fires at local times. A repeated local time counts once, at its second occurrence; a
  skipped one fires when the clock has skipped it, and whatever the skip moved past falls away.
* A cron whose hour field is ``*`` steps by elapsed time, so the repeated hour is a window of its own. The
  first step after a clock change may end off the pattern where the change is no whole number of steps (half
  an hour on Lord Howe); the next step is back on it.

The timetable re-aligns the end of each interval before it starts the next. At the few clock changes where
that makes *its* successive intervals overlap or leave a hole (a half-hour change and a minute such as
``30 * * * *``; several minutes inside a skipped hour), the grid keeps the unaligned ticks: it always tiles, each
window starts where the one before it ends, and none is empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import takewhile

from bollhav_provider.exceptions import GridError, IntervalError
from bollhav_provider.intervals.cron import CronPattern, cron_pattern
from bollhav_provider.intervals.instants import as_utc, instant_text
from bollhav_provider.intervals.interval import Interval
from bollhav_provider.intervals.zones import EPOCH, FIRST, LAST, ZoneClock, zone_clock

__all__ = ["Grid"]

_DAY = 86_400
_SECOND = timedelta(seconds=1)
# How many matching days are tried for a place where no clock change disturbs the sequence.
_ANCHOR_TRIES = 400


class Grid:
    """The tick grid of a cron expression in a time zone.

    Args:
        cron: five fields, or one of ``@hourly @daily @weekly @monthly @quarterly @yearly``.
        tz: an IANA time zone name.

    Raises:
        GridError: not exactly five fields, malformed, never firing, or an unknown zone.

    Attributes:
        cron: as given.
        tz: as given.
        expression: the five fields that ``cron`` stands for.
        warnings: sentences about what is legal and probably not meant.

    Two grids are equal when cron (aliases resolved) and zone are; :meth:`same_as` compares the ticks instead.
    Rule: Semantics, time.
    """

    __slots__ = ("_clock", "_pattern", "cron", "tz")

    cron: str
    tz: str

    def __init__(self, cron: str, tz: str = "UTC") -> None:
        self._pattern: CronPattern = cron_pattern(cron)
        self._clock: ZoneClock = zone_clock(tz)
        self.cron = cron
        self.tz = tz

    @property
    def expression(self) -> str:
        """The five fields, aliases resolved."""
        return self._pattern.expression

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is legal and probably not meant, one sentence each."""
        if self._pattern.days is None or self._pattern.weekdays is None:
            return ()
        return (
            f"chunk: {self.cron!r} restricts both day-of-month and day-of-week; cron fires when either "
            "of them matches, not both; leave one of them '*' if that is not meant",
        )

    # Ticks

    def ticks(self, since: datetime, until: datetime) -> Iterator[datetime]:
        """Yield the ticks from ``since`` to ``until``, both included, in UTC."""
        for tick in self.tick_seconds(since, until):
            yield EPOCH + timedelta(seconds=tick)

    def tick_seconds(self, since: datetime, until: datetime) -> Iterator[int]:
        """Yield the same ticks as seconds since 1970: cheaper, where there are many."""
        first, last = _ceil_second(as_utc(since, "since")), _floor_second(as_utc(until, "until"))
        return takewhile(lambda tick: tick <= last, self._from(first))

    def floor(self, at: datetime) -> datetime:
        """Return the last tick at or before an instant."""
        return _instant(self._floor(_floor_second(as_utc(at, "at"))))

    def ceil(self, at: datetime) -> datetime:
        """Return the first tick at or after an instant."""
        return self._first(_ceil_second(as_utc(at, "at")))

    def next(self, at: datetime) -> datetime:
        """Return the first tick after an instant."""
        return self._first(_floor_second(as_utc(at, "at")) + 1)

    def prev(self, at: datetime) -> datetime:
        """Return the last tick before an instant."""
        return _instant(self._floor(_ceil_second(as_utc(at, "at")) - 1))

    # Windows

    def windows(self, within: Interval) -> Iterator[Interval]:
        """Yield the whole cells inside an interval; parts of a cell at its edges are left out."""
        before: datetime | None = None
        for tick in self.ticks(within.since, within.until):
            if before is not None:
                yield Interval(before, tick)
            before = tick

    def pieces(self, within: Interval) -> Iterator[Interval]:
        """Yield an interval cut at every tick inside it; the first and last piece may be part of a cell."""
        before = within.since
        for tick in self.ticks(within.since, within.until):
            if before < tick:
                yield Interval(before, tick)
                before = tick
        if before < within.until:
            yield Interval(before, within.until)

    def count(self, within: Interval) -> int:
        """Return how many whole cells lie inside an interval."""
        first, last = _ceil_second(within.since), _floor_second(within.until)
        return max(sum(1 for _ in takewhile(lambda tick: tick <= last, self._from(first))) - 1, 0)

    def is_cell(self, interval: Interval) -> bool:
        """Say whether an interval is exactly one cell of the grid."""
        try:
            return (
                self.floor(interval.since) == interval.since and self.next(interval.since) == interval.until
            )
        except GridError:
            return False

    def cell(self, at: datetime) -> Interval:
        """Return the cell that holds an instant."""
        return Interval(self.floor(at), self.next(at))

    def latest_complete(self, now: datetime) -> Interval:
        """Return the last cell that has ended at ``now``."""
        until = self.floor(now)
        return Interval(self.prev(until), until)

    def lookback(self, window: Interval, n: int) -> Interval:
        """Move a window's start back by ``n`` ticks; its end stays.

        Raises:
            IntervalError: ``n`` is negative.
        """
        if n < 0:
            raise IntervalError(f"lookback: {n} is negative; write how many ticks to go back, 0 for none")
        if n == 0:
            return window
        first = _ceil_second(window.since) - 1
        span = _DAY
        while True:
            # The last n ticks before the window: look back twice as far until there are that many.
            low = max(first - span, FIRST)
            recent = deque(takewhile(lambda tick: tick <= first, self._from(low)), maxlen=n)
            if len(recent) == n or low == FIRST:
                break
            span *= 2
        return Interval(_instant(recent[0]), window.until) if recent else window

    def same_as(self, other: Grid) -> bool:
        """Say whether both grids have the same ticks, however they are written.

        Grids of different zones or crons are compared around every clock change of both zones from 1970 to
        2050 and over two whole years in between, which is where they could differ.
        """
        if self == other or (self.tz == other.tz and self._pattern.meaning == other._pattern.meaning):
            return True
        return _same_ticks(*sorted((self, other), key=lambda grid: (grid.expression, grid.tz)))

    def refines(self, other: Grid) -> bool:
        """Say whether every tick of ``other`` is a tick of this grid; its cells are then unions of ours."""
        return self.same_as(other) or _refines(self, other)

    # Integers from here on: seconds since 1970.

    def _first(self, at: int) -> datetime:
        for tick in self._from(at):
            return _instant(tick)
        raise GridError(
            f"{self} has no tick after {instant_text(_instant(min(at, LAST)))}: the calendar ends in 9999"
        )

    def _floor(self, at: int) -> int:
        if self._pattern.every_day and self._clock.steady(at - 3 * _DAY, at + 3 * _DAY):
            offset = self._clock.offset_at(at)
            local = self._pattern.latest(at + offset)
            if local is not None:
                return local - offset
        found = self._anchor(at)
        if found is None:
            raise GridError(
                f"{self} has no tick at or before {instant_text(_instant(max(at, FIRST)))}: "
                "the calendar starts there"
            )
        for tick in takewhile(lambda tick: tick <= at, self._walk(found)):
            found = tick
        return found

    def _from(self, at: int) -> Iterator[int]:
        """Yield the ticks at or after an instant."""
        anchor = self._anchor(at - 1)
        if anchor is None:
            anchor = FIRST
        for tick in self._walk(anchor):
            if tick >= at:
                yield tick
                break
            anchor = tick
        else:
            return
        yield from self._walk(tick)

    def _anchor(self, at: int) -> int | None:
        """Find a tick at or before an instant that every sequence coming from before it passes through.

        After a clock change the next tick depends on the one before the change. On a matching day with no
        change from the day before to its end, all sequences have met again at its last tick.
        """
        offset = self._clock.offset_at(at)
        earliest: int | None = None
        for tries, day in enumerate(self._pattern.days_before((at + offset) // _DAY)):
            offset = self._clock.offset_at(day * _DAY)
            tick = self._pattern.last_of(day) - offset
            if tick < FIRST:
                return earliest
            if tick > at:
                continue
            if self._clock.steady((day - 1) * _DAY - offset, (day + 1) * _DAY - offset):
                return tick
            earliest = self._clock.to_utc(self._pattern.last_of(day))
            if tries >= _ANCHOR_TRIES:
                return earliest
        return earliest

    def _walk(self, tick: int) -> Iterator[int]:
        """Yield the ticks after a tick, as Airflow's timetable steps from one to the next."""
        clock, after, by_elapsed_time = self._clock, self._pattern.after, self._pattern.every_hour
        while tick < LAST:
            offset, end, offset_after = clock.segment(tick)
            # Local times from here on belong to the next stretch; those that a change skips still read with
            # the old offset.
            boundary = end + offset_after
            for local in after(tick + offset):
                tick = local - offset
                if tick >= LAST:
                    return
                if local >= boundary and not by_elapsed_time:
                    tick = clock.to_utc(local)
                    yield tick
                    break
                yield tick
                if tick >= end:
                    break
            else:
                return

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Grid):
            return NotImplemented
        return (self.expression, self.tz) == (other.expression, other.tz)

    def __hash__(self) -> int:
        return hash((self.expression, self.tz))

    def __reduce__(self) -> tuple[type[Grid], tuple[str, str]]:
        return (Grid, (self.cron, self.tz))

    def __repr__(self) -> str:
        return f"Grid({self.cron!r}, {self.tz!r})"

    def __str__(self) -> str:
        return f"{self.cron} in {self.tz}"


def _floor_second(at: datetime) -> int:
    return (at - EPOCH) // _SECOND


def _ceil_second(at: datetime) -> int:
    return -((EPOCH - at) // _SECOND)


def _instant(seconds: int) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def _samples(one: Grid, other: Grid) -> Iterator[tuple[int, int]]:
    """Yield the stretches over which two grids are compared."""
    start = _floor_second(as_utc("2023-01-01T00:00Z", "since"))
    yield start, start + 10 * _DAY
    for change in sorted({*one._clock.changes(1970, 2050), *other._clock.changes(1970, 2050)}):
        yield change - 2 * _DAY, change + 2 * _DAY
    yield start, start + 731 * _DAY


def _ticks_in(grid: Grid, since: int, until: int) -> list[int]:
    return list(takewhile(lambda tick: tick <= until, grid._from(since)))


@lru_cache(maxsize=4096)
def _same_ticks(one: Grid, other: Grid) -> bool:
    return all(_ticks_in(one, *sample) == _ticks_in(other, *sample) for sample in _samples(one, other))


@lru_cache(maxsize=4096)
def _refines(fine: Grid, coarse: Grid) -> bool:
    return all(
        set(_ticks_in(coarse, *sample)) <= set(_ticks_in(fine, *sample)) for sample in _samples(fine, coarse)
    )
