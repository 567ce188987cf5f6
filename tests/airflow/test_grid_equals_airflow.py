"""The grid is, tick for tick, the data intervals of the installed Airflow's cron data-interval timetable."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pendulum
import pytest
from airflow.timetables.base import DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable
from hypothesis import given, settings
from hypothesis import strategies as st

from bollhav_provider.intervals import Grid, Interval


def once(value: str) -> Any:
    """A zone or cron that says nothing new on another version of Airflow."""
    return pytest.param(value, marks=pytest.mark.once)


ZONES = (
    "Europe/Stockholm",
    once("America/New_York"),
    once("Australia/Sydney"),
    "Australia/Lord_Howe",
    once("Pacific/Chatham"),
    once("Asia/Kathmandu"),
    once("America/Sao_Paulo"),
    once("UTC"),
)
#: Cron, and how many days around a clock change are compared (None: whole years).
CRONS: dict[str, int | None] = {
    "@hourly": 2,
    "@daily": 20,
    "@weekly": None,
    "@monthly": None,
    "@quarterly": None,
    "@yearly": None,
    "0 */7 * * *": 5,
    "*/25 * * * *": 1,
    "*/7 * * * *": 1,
    "0 0 */2 * *": 40,
    "0 0 * * 1-5": 20,
    "0 0 31 * *": None,
    "0 0 29 2 *": None,
    "30 1 * * *": 12,
    "0 2 * * *": 12,
    "30 2 * * *": 12,
    "20 */4 * * *": 4,
    "0 */2 * * *": 3,
    "0 7-8 * * *": 10,
    "0 0 1 * 1": None,
    "0 0 L * *": None,
    "0 0 * * 5#2": None,
    "0 0 * * L5": None,
    "0 0 15W * *": None,
    "0 12 1-7 * *": None,
}
#: The crons for pytest. Those of thousands of ticks are compared once, and one that croniter, not Airflow, must know.
MARKED = [once(cron) if cron in {"*/7 * * * *", "*/25 * * * *", "0 0 15W * *"} else cron for cron in CRONS]
#: Where Airflow's own intervals overlap, leave a hole or stop at a clock change; the chain of its ticks counts.
AWKWARD: dict[str, int | None] = {
    "30 * * * *": 2,
    "*/20 */2 * * *": 1,
    "0,30 2 * * *": 10,
    "15,40 2 * * *": 10,
    "0 * L * *": 20,
    "0 * 15 * *": 20,
}


def chain(timetable: Any, since: datetime, until: datetime) -> list[datetime]:
    """Airflow's ticks: each is the timetable's next one after the tick before."""
    ticks = [pendulum.instance(since)]
    while ticks[-1] < until:
        ticks.append(timetable._get_next(ticks[-1]))
    return ticks


def scheduled(timetable: Any, since: datetime, until: datetime) -> tuple[list[DataInterval], bool]:
    """What the scheduler would create, and whether those intervals tile."""
    restriction = TimeRestriction(earliest=pendulum.instance(since), latest=None, catchup=True)
    found: list[DataInterval] = []
    while True:
        try:
            info = timetable.next_dagrun_info(
                last_automated_data_interval=found[-1] if found else None, restriction=restriction
            )
        except ValueError:  # from 3.3 on: "timetable did not advance"; before, the same interval comes again
            return found, False
        interval = info.data_interval
        if interval.start >= until:
            return found, all(before.end == after.start for before, after in pairwise(found))
        if found and interval.start <= found[-1].start:
            return found, False
        found.append(interval)


def stretches(tz: str, days: int | None) -> Iterator[tuple[datetime, datetime]]:
    """Leap and ordinary years, or some days around every clock change of them."""
    if days is None:
        yield datetime(2018, 1, 3, tzinfo=UTC), datetime(2020, 6, 1, tzinfo=UTC)
        yield datetime(2023, 6, 3, tzinfo=UTC), datetime(2024, 12, 20, tzinfo=UTC)
        return
    changes = [*Grid("@daily", tz)._clock.changes(2018, 2018), *Grid("@daily", tz)._clock.changes(2024, 2024)]
    for change in changes or [int(datetime(2024, 2, 29, tzinfo=UTC).timestamp())]:
        middle = datetime.fromtimestamp(change, UTC)
        yield middle - timedelta(days=days), middle + timedelta(days=days)


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("cron", [*MARKED, *AWKWARD])
def test_every_tick_is_airflows(cron: str, tz: str) -> None:
    grid, timetable = Grid(cron, tz), CronDataIntervalTimetable(cron, timezone=tz)
    for since, until in stretches(tz, {**CRONS, **AWKWARD}[cron]):
        first = grid.ceil(since)
        ticks = chain(timetable, first, until)
        assert list(grid.ticks(first, ticks[-1])) == ticks


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("cron", MARKED)
def test_every_window_is_a_scheduled_data_interval(cron: str, tz: str) -> None:
    grid, timetable = Grid(cron, tz), CronDataIntervalTimetable(cron, timezone=tz)
    compared, expected = 0, 0
    for since, until in stretches(tz, CRONS[cron]):
        first = grid.ceil(since)
        intervals, tiles = scheduled(timetable, first, until)
        if not intervals:
            continue  # the cron is rarer than the stretch is long
        expected += 1
        if not tiles:
            continue
        windows = list(grid.windows(Interval(first, intervals[-1].end)))
        assert [(window.since, window.until) for window in windows] == [tuple(interval) for interval in intervals]
        compared += 1
    # Half an hour is no whole number of steps of these crons, and Airflow's own intervals then do not tile.
    if tz != "Australia/Lord_Howe":
        assert compared == expected > 0


@pytest.mark.parametrize(
    "tz", ["Europe/Stockholm", once("America/New_York"), once("Asia/Kathmandu"), once("America/Sao_Paulo")]
)
@given(
    cron=st.sampled_from(["@hourly", "@daily", "@weekly", "0 */7 * * *", "*/25 * * * *", "0 0 * * 1-5"]), data=st.data()
)
@settings(max_examples=25, deadline=None)
def test_a_manual_run_gets_the_latest_complete_window(tz: str, cron: str, data: st.DataObject) -> None:
    grid, timetable = Grid(cron, tz), CronDataIntervalTimetable(cron, timezone=tz)
    # Summer and winter: inside a clock change Airflow itself may align a manual run to a tick that its
    # schedule never has.
    now = data.draw(
        st.one_of(
            st.datetimes(datetime(2024, 5, 1), datetime(2024, 9, 1), timezones=st.just(UTC)),
            st.datetimes(datetime(2023, 12, 1), datetime(2024, 2, 20), timezones=st.just(UTC)),
        )
    ).replace(microsecond=0)
    expected = timetable.infer_manual_data_interval(run_after=pendulum.instance(now))
    found = grid.latest_complete(now)
    assert (found.since, found.until) == (expected.start, expected.end)


@pytest.mark.parametrize("tz", ZONES)
@given(
    minutes=st.sets(st.integers(0, 59), min_size=1, max_size=3),
    hours=st.one_of(st.just("*"), st.sets(st.integers(0, 23), min_size=1, max_size=4)),
    days=st.one_of(st.just("*"), st.just("*"), st.sets(st.integers(1, 31), min_size=1, max_size=4)),
    weekdays=st.one_of(st.just("*"), st.just("*"), st.sets(st.integers(0, 6), min_size=1, max_size=3)),
    year=st.sampled_from([2018, 2024]),
    which=st.integers(0, 3),
)
@settings(max_examples=25, deadline=None)
def test_ticks_of_any_cron_are_airflows(
    tz: str,
    minutes: set[int],
    hours: str | set[int],
    days: str | set[int],
    weekdays: str | set[int],
    year: int,
    which: int,
) -> None:
    def text(values: str | set[int]) -> str:
        return values if isinstance(values, str) else ",".join(map(str, sorted(values)))

    cron = f"{text(minutes)} {text(hours)} {text(days)} * {text(weekdays)}"
    grid, timetable = Grid(cron, tz), CronDataIntervalTimetable(cron, timezone=tz)
    changes = grid._clock.changes(year, year) or [int(datetime(year, 2, 28, tzinfo=UTC).timestamp())]
    change = datetime.fromtimestamp(changes[which % len(changes)], UTC)
    first = grid.ceil(change - timedelta(days=1))
    ticks = chain(timetable, first, change + timedelta(days=2))
    assert list(grid.ticks(first, ticks[-1])) == ticks
