"""Properties: the grid tiles time in every zone, over both clock changes and leap years."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bollhav_provider.intervals import Grid, Interval, IntervalSet, split_window

CRONS = (
    "@hourly",
    "@daily",
    "@weekly",
    "@monthly",
    "@quarterly",
    "@yearly",
    "0 */7 * * *",
    "*/25 * * * *",
    "*/7 * * * *",
    "0 0 */2 * *",
    "0 0 * * 1-5",
    "0 0 31 * *",
    "0 0 29 2 *",
    "30 1 * * *",
    "0 2 * * *",
    "20 */4 * * *",
    "30 * * * *",
    "*/20 */2 * * *",
    "0,30 2 * * *",
    "0 * L * *",
    "0 * 15 * *",
    "0 0 1 * 1",
    "0 7-8 * * *",
)
ZONES = (
    "Europe/Stockholm",
    "America/New_York",
    "Australia/Sydney",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "Asia/Kathmandu",
    "America/Sao_Paulo",
    "UTC",
)
#: A leap year, an ordinary one, a century that is none, and the last years with clock changes in São Paulo.
YEARS = (1900, 2000, 2018, 2023, 2024)

#: The longest gap between two ticks of a cron, for choosing how far to look.
_FINE = {"*/25 * * * *", "*/7 * * * *", "*/20 */2 * * *", "30 * * * *", "@hourly"}


@st.composite
def stretches(draw: st.DrawFn) -> tuple[str, Interval]:
    cron = draw(st.sampled_from(CRONS))
    start = datetime(draw(st.sampled_from(YEARS)), 1, 1, tzinfo=UTC)
    since = start + timedelta(minutes=draw(st.integers(0, 366 * 24 * 60)))
    # A few weeks around where clocks change, or longer where ticks are rare.
    length = timedelta(days=draw(st.integers(1, 20 if cron in _FINE else 500)))
    return cron, Interval(since, since + length)


def assert_tiles(grid: Grid, within: Interval) -> list[Interval]:
    cells = list(grid.windows(within))
    for before, after in pairwise(cells):
        assert before.until == after.since
    if cells:
        assert IntervalSet(cells).islands == (Interval(cells[0].since, cells[-1].until),)
        assert grid.prev(cells[0].since) < within.since or cells[0].since == grid.ceil(within.since)
        assert grid.next(cells[-1].until) > within.until
    return cells


@pytest.mark.parametrize("tz", ZONES)
@given(stretch=stretches())
@settings(max_examples=40, deadline=None)
def test_the_grid_tiles(tz: str, stretch: tuple[str, Interval]) -> None:
    cron, within = stretch
    assert_tiles(Grid(cron, tz), within)


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("cron", CRONS)
def test_the_grid_tiles_over_every_clock_change(cron: str, tz: str) -> None:
    grid = Grid(cron, tz)
    within = Interval(datetime(2018, 1, 1, tzinfo=UTC), datetime(2019, 3, 1, tzinfo=UTC))
    if cron in _FINE:
        changes = grid._clock.changes(2017, 2019)[:4]
        stretches = [
            Interval(
                datetime.fromtimestamp(change, UTC) - timedelta(days=2),
                datetime.fromtimestamp(change, UTC) + timedelta(days=2),
            )
            for change in changes
        ]
    else:
        stretches = [within]
    for stretch in stretches:
        assert_tiles(grid, stretch)


@pytest.mark.parametrize("tz", ZONES)
@given(stretch=stretches())
@settings(max_examples=25, deadline=None)
def test_the_ticks_do_not_depend_on_where_one_starts(tz: str, stretch: tuple[str, Interval]) -> None:
    cron, within = stretch
    grid = Grid(cron, tz)
    ticks = list(grid.ticks(within.since, within.until))
    middle = within.since + within.duration / 2
    assert [tick for tick in ticks if tick >= middle] == list(grid.ticks(middle, within.until))
    for tick in ticks[:3] + ticks[-3:]:
        assert grid.floor(tick) == grid.ceil(tick) == tick
        assert grid.next(grid.prev(tick)) == tick
        assert grid.prev(grid.next(tick)) == tick
        assert grid.is_cell(Interval(tick, grid.next(tick)))
        assert grid.floor(tick + timedelta(microseconds=1)) == tick
        assert grid.latest_complete(tick).until == tick


@pytest.mark.parametrize("tz", ZONES)
@given(stretch=stretches(), flexible=st.booleans())
@settings(max_examples=25, deadline=None)
def test_splitting_then_joining_is_the_identity(tz: str, stretch: tuple[str, Interval], flexible: bool) -> None:
    cron, within = stretch
    grid = Grid(cron, tz)
    units = split_window(grid, within, flexible=flexible)
    joined = IntervalSet(unit.window for unit in units if unit.window is not None)
    if flexible:
        assert joined.islands == (within,)
    elif units:
        (island,) = joined.islands
        assert within.contains(island)
        assert split_window(grid, island) == units
        assert len(units) == grid.count(within)


@given(stretch=stretches(), n=st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_lookback_is_n_steps_back(stretch: tuple[str, Interval], n: int) -> None:
    cron, within = stretch
    grid = Grid(cron, "America/New_York")
    expected = within.since
    for _ in range(n):
        expected = grid.prev(expected)
    assert grid.lookback(within, n) == Interval(expected, within.until)


_PROBE = """
from bollhav_provider.intervals import Grid, Interval
for cron in ("@daily", "@hourly", "30 1 * * *", "0 0 * * 5#2"):
    for tz in ("Europe/Stockholm", "America/New_York", "UTC"):
        for cell in Grid(cron, tz).windows(Interval("2024-10-20T00:00Z", "2024-11-20T00:00Z")):
            print(cron, tz, cell)
"""


def test_windows_do_not_depend_on_the_zone_of_the_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _PROBE], env={**os.environ, "TZ": tz}, capture_output=True, text=True, check=True
        ).stdout
        for tz in ("Asia/Tokyo", "America/New_York", "UTC")
    }
    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) > 2000


def test_a_begin_in_another_zone_gives_the_same_grid() -> None:
    grid = Grid("@daily", "America/New_York")
    end = datetime(2013, 2, 1, tzinfo=UTC)
    written = ("2013-01-01T00:00-05:00", "2013-01-01T05:00Z", "2013-01-01T10:45+05:45")
    grids = [list(grid.windows(Interval(begin, end))) for begin in written]  # type: ignore[arg-type]
    assert grids[0] == grids[1] == grids[2]
    assert len(grids[0]) == 30


@pytest.mark.parametrize("tz", ZONES)
def test_a_daily_chunk_is_one_window_per_local_date(tz: str) -> None:
    zone = ZoneInfo(tz)
    cells = list(
        Grid("@daily", tz).windows(Interval(datetime(2018, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)))
    )
    dates = [cell.since.astimezone(zone).date() for cell in cells]
    assert dates == [dates[0] + timedelta(days=n) for n in range(len(cells))]
    for cell, date in zip(cells, dates, strict=True):
        assert (cell.until - timedelta(seconds=1)).astimezone(zone).date() == date
        assert (cell.since - timedelta(seconds=1)).astimezone(zone).date() == date - timedelta(days=1)
