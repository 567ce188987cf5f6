"""A grid's cells as something the server can unfold: runs of equal steps instead of a list of windows.

A million hourly windows are one run; a zone's clock changes start new ones. The server turns runs back into
rows, so that prefill is one set-based statement whatever the cron and the zone are (Semantics: state,
prefill).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from psycopg import sql

from bollhav_provider.intervals import Grid, Interval

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_WEEK = 7 * 86_400
#: Zones whose clock never jumps.
_STEADY_ZONES = frozenset(
    {"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "Etc/Zulu", "UCT", "Etc/UCT", "Universal"}
)


@dataclass(slots=True)
class Cells:
    """Consecutive windows, as runs of equal steps.

    Attributes:
        starts: first instant of each run, in seconds since 1970.
        steps: width of the run's windows, in seconds.
        counts: how many windows the run has.
    """

    starts: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, grid: Grid, within: Interval) -> Cells:
        """Return the whole cells of ``grid`` inside ``within``."""
        if (step := _uniform_step(grid)) is not None:
            first, last = _seconds(grid.ceil(within.since)), _seconds(grid.floor(within.until))
            return cls([first], [step], [(last - first) // step]) if first < last else cls()
        return cls._joined(grid.tick_seconds(within.since, within.until))

    @classmethod
    def _joined(cls, ticks: Iterator[int]) -> Cells:
        cells = cls()
        before = next(ticks, None)
        if before is None:
            return cells
        step = count = 0
        for tick in ticks:
            if tick - before == step:
                count += 1
            else:
                if count:
                    cells.counts.append(count)
                step, count = tick - before, 1
                cells.starts.append(before)
                cells.steps.append(step)
            before = tick
        if count:
            cells.counts.append(count)
        return cells

    def __bool__(self) -> bool:
        return bool(self.starts)

    def __iter__(self) -> Iterator[Interval]:
        for start, step, count in zip(self.starts, self.steps, self.counts, strict=True):
            at = _EPOCH + timedelta(seconds=start)
            width = timedelta(seconds=step)
            for _ in range(count):
                yield Interval(at, at + width)
                at += width

    def __add__(self, other: Cells) -> Cells:
        return Cells(self.starts + other.starts, self.steps + other.steps, self.counts + other.counts)

    def __len__(self) -> int:
        return sum(self.counts)

    @property
    def parameters(self) -> dict[str, list[int]]:
        """The values of :data:`ROWS`."""
        return {"starts": self.starts, "steps": self.steps, "counts": self.counts}


#: A subquery with the columns ``since`` and ``until``; its values are :attr:`Cells.parameters`.
ROWS = sql.SQL(
    """(SELECT to_timestamp(r.start + r.step * i) AS since, to_timestamp(r.start + r.step * (i + 1)) AS until
        FROM unnest(%(starts)s::bigint[], %(steps)s::bigint[], %(counts)s::bigint[]) AS r (start, step, count),
             generate_series(0, r.count - 1) AS i)"""
)


def _seconds(at: datetime) -> int:
    return (at - _EPOCH) // _SECOND


def _uniform_step(grid: Grid) -> int | None:
    """Return the width of every cell, in seconds, when all are known to be equal."""
    if grid.tz not in _STEADY_ZONES:
        return None
    _, _, day, month, _ = grid.expression.split()
    if (day, month) != ("*", "*"):
        return None
    # without days of a month or months the ticks repeat every week
    since = datetime(2024, 1, 1, tzinfo=UTC)
    ticks = grid.tick_seconds(since, since + timedelta(seconds=2 * _WEEK))
    widths = {after - before for before, after in pairwise(ticks)}
    return widths.pop() if len(widths) == 1 else None
