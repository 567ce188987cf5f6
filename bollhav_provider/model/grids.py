"""The grids of definitions: made once for each cron and zone, and compared with each other."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from bollhav_provider.exceptions import GridError

if TYPE_CHECKING:
    from bollhav_provider.intervals import Grid

#: Leap years and both clock changes of the zones that have them lie within.
_SAMPLE = (datetime(2023, 12, 1, tzinfo=UTC), datetime(2025, 2, 1, tzinfo=UTC))
_SAMPLE_TICKS = 2000


@lru_cache(maxsize=1024)
def grid_of(cron: str, tz: str) -> Grid:
    """Return the grid of a cron in a zone.

    Raises:
        GridError: there is no such grid.
    """
    from bollhav_provider.intervals import Grid

    return Grid(cron, tz)


@lru_cache(maxsize=1024)
def grid_problem(cron: str, tz: str) -> tuple[str, str] | None:
    """Say which of ``cron`` and ``tz`` is no good and why, or None."""
    try:
        grid_of(cron, tz)
    except GridError as error:
        try:
            grid_of("@daily", tz)
        except GridError:
            return "tz", str(error).removeprefix("tz: ")
        return "cron", str(error).removeprefix("chunk: ")
    return None


@lru_cache(maxsize=1024)
def cell_problem(
    outer_cron: str, inner_cron: str, tz: str, *, outer: str = "window", inner: str = "chunk"
) -> str | None:
    """Say that a tick of one cron is no tick of another, or None.

    The ticks of fourteen months are compared, up to two thousand: both clock changes, a leap day and every
    month lie within.
    """
    fine = grid_of(inner_cron, tz)
    ticks = grid_of(outer_cron, tz).ticks(*_SAMPLE)
    for tick in islice(ticks, _SAMPLE_TICKS):
        if fine.floor(tick) != tick:
            return (
                f"{outer} {outer_cron!r} has a tick at {tick:%Y-%m-%dT%H:%M}Z that is no tick of "
                f"the {inner} {inner_cron!r} in {tz}, "
                f"so a {inner} would be cut in two; write a {outer} whose ticks are all ticks of the {inner}"
            )
    return None
