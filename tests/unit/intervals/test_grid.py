"""The grid of a cron: named cases."""

from __future__ import annotations

import copy
import pickle
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from bollhav_provider.exceptions import GridError, IntervalError
from bollhav_provider.intervals import ALIASES, Grid, Interval, IntervalSet


def window(since: str, until: str) -> Interval:
    return Interval(since, until)  # type: ignore[arg-type]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def cells(cron: str, tz: str, since: str, until: str) -> list[str]:
    return [str(cell) for cell in Grid(cron, tz).windows(window(since, until))]


@pytest.mark.parametrize(
    ("cron", "tz", "since", "until", "hours"),
    [
        ("@daily", "Europe/Stockholm", "2024-03-29T23:00Z", "2024-04-01T22:00Z", [24, 23, 24]),
        ("@daily", "Europe/Stockholm", "2024-10-25T22:00Z", "2024-10-28T23:00Z", [24, 25, 24]),
        ("@daily", "America/New_York", "2013-11-02T04:00Z", "2013-11-05T05:00Z", [24, 25, 24]),
        ("@daily", "Australia/Lord_Howe", "2024-04-05T13:00Z", "2024-04-08T13:30Z", [24, 24.5, 24]),
        ("0 */7 * * *", "UTC", "2024-01-01T00:00Z", "2024-01-02T07:00Z", [7, 7, 7, 3, 7]),
        ("0 */5 * * *", "UTC", "2024-01-01T00:00Z", "2024-01-02T00:00Z", [5, 5, 5, 5, 4]),
        ("0 0 */2 * *", "UTC", "2024-01-29T00:00Z", "2024-02-03T00:00Z", [48, 24, 48]),
        ("0 0 31 * *", "UTC", "2024-01-31T00:00Z", "2024-05-31T00:00Z", [60 * 24, 61 * 24]),
        ("0 0 29 2 *", "UTC", "2020-02-29T00:00Z", "2028-02-29T00:00Z", [1461 * 24, 1461 * 24]),
        ("0 0 * * 1-5", "UTC", "2024-01-04T00:00Z", "2024-01-09T00:00Z", [24, 72, 24]),
        ("0 0 L * *", "UTC", "2024-01-31T00:00Z", "2024-03-31T00:00Z", [29 * 24, 31 * 24]),
        ("0 0 15,L * *", "UTC", "2024-02-15T00:00Z", "2024-03-15T00:00Z", [14 * 24, 15 * 24]),
        ("0 0 * * 5#2", "UTC", "2024-01-12T00:00Z", "2024-03-08T00:00Z", [28 * 24, 28 * 24]),
        ("0 0 * * L5", "UTC", "2024-01-26T00:00Z", "2024-03-29T00:00Z", [28 * 24, 35 * 24]),
        ("0 0 15W * *", "UTC", "2024-05-15T00:00Z", "2024-07-15T00:00Z", [30 * 24, 31 * 24]),
        ("@weekly", "UTC", "2024-01-07T00:00Z", "2024-01-21T00:00Z", [168, 168]),
        ("@quarterly", "UTC", "2024-01-01T00:00Z", "2024-07-01T00:00Z", [91 * 24, 91 * 24]),
        ("@yearly", "UTC", "2023-01-01T00:00Z", "2025-01-01T00:00Z", [365 * 24, 366 * 24]),
        # A repeated local time counts once, at its second occurrence; a skipped one when the clock has moved.
        ("30 1 * * *", "America/New_York", "2024-11-02T05:30Z", "2024-11-04T06:30Z", [25, 24]),
        ("0 2 * * *", "America/New_York", "2024-03-09T07:00Z", "2024-03-11T06:00Z", [24, 23]),
        # Steps of an hour count elapsed time: the repeated hour is a window, the skipped one is not.
        ("@hourly", "America/New_York", "2024-11-03T04:00Z", "2024-11-03T07:00Z", [1, 1, 1]),
        ("@hourly", "America/New_York", "2024-03-10T05:00Z", "2024-03-10T08:00Z", [1, 1, 1]),
        ("@hourly", "Australia/Lord_Howe", "2024-04-06T13:00Z", "2024-04-06T16:30Z", [1, 1, 0.5, 1]),
        ("@hourly", "Australia/Lord_Howe", "2024-10-05T14:30Z", "2024-10-05T17:00Z", [1, 0.5, 1]),
    ],
)
def test_the_widths_of_windows(cron: str, tz: str, since: str, until: str, hours: list[float]) -> None:
    found = list(Grid(cron, tz).windows(window(since, until)))
    assert [cell.duration / timedelta(hours=1) for cell in found] == hours
    assert (found[0].since, found[-1].until) == (at(since), at(until))


def test_a_daily_window_is_a_local_date() -> None:
    assert cells("@daily", "America/New_York", "2013-01-01T00:00Z", "2013-01-03T12:00Z") == [
        "[2013-01-01T05:00Z, 2013-01-02T05:00Z)",
        "[2013-01-02T05:00Z, 2013-01-03T05:00Z)",
    ]


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        ("* * * * * *", "chunk: '* * * * * *' has 6 fields instead of five; seconds and years are not part of a chunk"),
        ("0 0 1 1 * 0 2024", "has 7 fields instead of five"),
        ("0 0 * *", "chunk: '0 0 * *' has 4 fields instead of five; write five fields: minute hour day-of-month"),
        ("", "chunk: '' has 0 fields instead of five"),
        ("0 0 30 2 *", "chunk: '0 0 30 2 *' never fires: no month has such a day"),
        ("0 0 31 4,6,9,11 *", "never fires"),
        ("61 * * * *", "chunk: '61 * * * *' is not a cron expression"),
        ("a b c d e", "is not a cron expression"),
        ("0 0 32 * *", "is not a cron expression"),
        ("*/0 * * * *", "is not a cron expression"),
        ("@once", "chunk: '@once' is not an alias; the aliases are @hourly, @daily, @weekly, @monthly, @quarterly"),
        ("@midnight", "is not an alias"),
        ("R * * * *", "holds 'R', a hashed or random field"),
        ("H(0-10) 0 * * *", "holds 'H(0-10)', a hashed or random field"),
        (None, "chunk: None is not a cron expression"),
    ],
)
def test_what_is_no_chunk_is_refused(cron: str, message: str) -> None:
    with pytest.raises(GridError) as caught:
        Grid(cron)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("tz", "message"),
    [
        ("Europe/Stokholm", "tz: 'Europe/Stokholm' is not a known time zone; did you mean 'Europe/Stockholm'?"),
        ("", "tz: '' is not a time zone; write an IANA name"),
        ("localtime", "is not a time zone"),
        ("../../etc/passwd", "is not a known time zone"),
        ("+01:00", "is not a known time zone"),
        (None, "tz: None is not a time zone"),
    ],
)
def test_what_is_no_zone_is_refused(tz: str, message: str) -> None:
    with pytest.raises(GridError) as caught:
        Grid("@daily", tz)
    assert message in str(caught.value)


def test_both_day_fields_restricted_is_a_warning() -> None:
    (warning,) = Grid("0 0 1 * 1").warnings
    assert "restricts both day-of-month and day-of-week; cron fires when either of them matches" in warning
    found = list(Grid("0 0 1 * 1").ticks(at("2024-01-30T00:00Z"), at("2024-02-06T00:00Z")))
    assert found == [at("2024-02-01T00:00Z"), at("2024-02-05T00:00Z")]
    assert Grid("0 0 1 * *").warnings == () == Grid("0 0 * * 1").warnings


def test_aliases_are_their_crons() -> None:
    for alias, cron in ALIASES.items():
        assert Grid(alias) == Grid(cron)
        assert hash(Grid(alias)) == hash(Grid(cron))
        assert Grid(alias).expression == cron
    assert Grid("@daily", "UTC") != Grid("@daily", "Europe/Stockholm")
    assert Grid(" 0  0 * * * ") == Grid("@daily")
    assert str(Grid("@daily", "Europe/Stockholm")) == "@daily in Europe/Stockholm"


def test_a_grid_survives_copying() -> None:
    grid = Grid("@daily", "America/New_York")
    assert pickle.loads(pickle.dumps(grid)) == grid == copy.deepcopy(grid)


def test_steps_of_the_grid() -> None:
    grid = Grid("@daily", "America/New_York")
    tick, inside = at("2024-01-02T05:00Z"), at("2024-01-02T05:00:00.000001Z")
    assert grid.floor(tick) == grid.ceil(tick) == tick
    assert grid.floor(inside) == tick
    assert grid.ceil(inside) == grid.next(tick) == grid.next(inside) == at("2024-01-03T05:00Z")
    assert grid.prev(tick) == at("2024-01-01T05:00Z")
    assert grid.prev(inside) == tick
    assert grid.cell(inside) == window("2024-01-02T05:00Z", "2024-01-03T05:00Z")
    assert list(grid.ticks(tick, tick)) == [tick]
    assert list(grid.ticks(inside, inside)) == []


def test_the_latest_complete_window() -> None:
    grid = Grid("@hourly", "America/New_York")
    expected = window("2024-01-01T03:00Z", "2024-01-01T04:00Z")
    assert grid.latest_complete(at("2024-01-01T04:00Z")) == expected
    assert grid.latest_complete(at("2024-01-01T04:59:59.999999Z")) == expected
    assert grid.latest_complete(at("2024-01-01T03:59Z")) == window("2024-01-01T02:00Z", "2024-01-01T03:00Z")


def test_cells_are_recognised() -> None:
    grid = Grid("@daily", "Europe/Stockholm")
    assert grid.is_cell(window("2024-03-30T23:00Z", "2024-03-31T22:00Z"))
    assert not grid.is_cell(window("2024-03-30T23:00Z", "2024-03-31T23:00Z"))
    assert not grid.is_cell(window("2024-03-29T23:00Z", "2024-03-31T22:00Z"))
    assert not grid.is_cell(window("2024-03-30T23:30Z", "2024-03-31T22:00Z"))


def test_parts_of_cells_are_left_out_or_kept() -> None:
    grid, within = Grid("@daily"), window("2024-01-01T10:17Z", "2024-01-03T06:00Z")
    assert [str(cell) for cell in grid.windows(within)] == ["[2024-01-02T00:00Z, 2024-01-03T00:00Z)"]
    assert [str(piece) for piece in grid.pieces(within)] == [
        "[2024-01-01T10:17Z, 2024-01-02T00:00Z)",
        "[2024-01-02T00:00Z, 2024-01-03T00:00Z)",
        "[2024-01-03T00:00Z, 2024-01-03T06:00Z)",
    ]
    assert grid.count(within) == 1
    assert grid.count(window("2024-01-01T01:00Z", "2024-01-01T02:00Z")) == 0
    assert list(grid.pieces(window("2024-01-01T01:00Z", "2024-01-01T02:00Z"))) == [
        window("2024-01-01T01:00Z", "2024-01-01T02:00Z")
    ]


@pytest.mark.parametrize(
    ("cron", "tz", "since", "n", "expected"),
    [
        ("@daily", "UTC", "2024-03-10T00:00Z", 3, "2024-03-07T00:00Z"),
        ("@daily", "Europe/Stockholm", "2024-04-01T22:00Z", 2, "2024-03-30T23:00Z"),  # 47 hours
        ("@monthly", "UTC", "2024-03-01T00:00Z", 1, "2024-02-01T00:00Z"),
        ("0 0 31 * *", "UTC", "2024-05-31T00:00Z", 2, "2024-01-31T00:00Z"),
        ("*/7 * * * *", "UTC", "2024-01-01T01:07Z", 3, "2024-01-01T00:49Z"),
        ("@daily", "UTC", "2024-03-10T05:00Z", 1, "2024-03-10T00:00Z"),  # off the grid: back to the tick before
        ("@yearly", "UTC", "2024-01-01T00:00Z", 100, "1924-01-01T00:00Z"),
        ("@daily", "UTC", "2024-03-10T00:00Z", 0, "2024-03-10T00:00Z"),
    ],
)
def test_lookback_counts_ticks(cron: str, tz: str, since: str, n: int, expected: str) -> None:
    until = at(since) + timedelta(hours=1)
    assert Grid(cron, tz).lookback(Interval(at(since), until), n) == Interval(at(expected), until)


def test_a_negative_lookback_is_refused() -> None:
    with pytest.raises(IntervalError, match="lookback: -1 is negative"):
        Grid("@daily").lookback(window("2024-01-01T00:00Z", "2024-01-02T00:00Z"), -1)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Grid("@daily"), Grid("0 0 * * *"), True),
        (Grid("@daily"), Grid("0 0 1-31 * *"), True),
        (Grid("@daily"), Grid("0 0 * * 0-6", "Etc/UTC"), True),
        (Grid("@hourly", "Europe/Stockholm"), Grid("@hourly", "America/New_York"), True),
        (Grid("@hourly", "Asia/Kathmandu"), Grid("@hourly"), False),
        (Grid("@daily", "Europe/Stockholm"), Grid("@daily", "Europe/Helsinki"), False),
        (Grid("@daily", "Europe/London"), Grid("@daily"), False),
        (Grid("@daily"), Grid("@hourly"), False),
        (Grid("0 0 * * 0"), Grid("0 0 * * 7"), True),
    ],
)
def test_grids_are_compared_by_their_ticks(one: Grid, other: Grid, same: bool) -> None:
    assert one.same_as(other) is same
    assert other.same_as(one) is same


def test_a_finer_grid_refines_a_coarser_one() -> None:
    hourly, daily = Grid("@hourly", "America/New_York"), Grid("@daily", "America/New_York")
    assert hourly.refines(daily)
    assert not daily.refines(hourly)
    assert not hourly.refines(Grid("@daily", "Asia/Kathmandu"))
    assert not Grid("0 */7 * * *").refines(Grid("0 */5 * * *"))


def test_the_calendar_ends() -> None:
    grid = Grid("@yearly")
    with pytest.raises(GridError, match=re.escape("the calendar ends in 9999")):
        grid.next(datetime(9999, 12, 30, tzinfo=UTC))
    with pytest.raises(GridError, match="the calendar starts there"):
        grid.prev(datetime(1, 1, 2, tzinfo=UTC))
    assert grid.floor(datetime(9999, 6, 1, tzinfo=UTC)) == datetime(9999, 1, 1, tzinfo=UTC)
    daily = Grid("@daily", "Pacific/Auckland")
    assert len(list(daily.ticks(datetime(9999, 12, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)))) >= 27
    assert len(list(daily.ticks(datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 31, tzinfo=UTC)))) >= 26


@pytest.mark.parametrize(
    ("named", "numbered"),
    [
        ("0 6 * * MON-FRI", "0 6 * * 1-5"),
        ("0 6 * * mon,Wed,SUN", "0 6 * * 0,1,3"),
        ("0 0 1 JAN,jul *", "0 0 1 1,7 *"),
        ("0 0 1 nov-FEB *", "0 0 1 1,2,11,12 *"),
        ("0 0 * * MON#1", "0 0 * * 1#1"),
        ("0 0 ? * *", "0 0 * * *"),
        ("00 00 * * *", "@daily"),
        ("0\t0  *\n* *", "@daily"),
    ],
)
def test_names_of_days_and_months_are_their_numbers(named: str, numbered: str) -> None:
    assert Grid(named).same_as(Grid(numbered))


@pytest.mark.parametrize(
    "cron", ["0 0 * * FUNDAY", "0 0 1 JANUARY *", "@Daily", "@continuous", "@reboot", "0 0 * * *;"]
)
def test_names_that_mean_nothing_are_refused(cron: str) -> None:
    with pytest.raises(GridError, match="is not a"):
        Grid(cron)


@pytest.mark.parametrize(
    ("cron", "tz", "since", "until"),
    [
        ("0 */2 * * *", "America/Toronto", "2024-03-09T12:00Z", "2024-03-11T12:00Z"),
        ("0 */2 * * *", "America/Toronto", "2024-11-02T12:00Z", "2024-11-04T12:00Z"),
        ("0 7-8 * * *", "America/Toronto", "2024-03-09T00:00Z", "2024-03-12T00:00Z"),
        ("20 */4 * * *", "Europe/Stockholm", "2024-03-30T00:00Z", "2024-04-01T00:00Z"),
        ("0 2 2,11,19,26 * *", "Europe/Stockholm", "2024-01-01T00:00Z", "2024-12-31T00:00Z"),
    ],
)
def test_crons_that_other_schedulers_stumbled_over_tile(cron: str, tz: str, since: str, until: str) -> None:
    found = list(Grid(cron, tz).windows(window(since, until)))
    assert len(found) > 4
    assert all(cell.duration > timedelta(0) for cell in found)
    assert all(before.until == after.since for before, after in pairwise(found))


def test_a_run_inside_a_clock_change_covers_a_whole_window() -> None:
    grid = Grid("0 2 * * *", "America/New_York")
    assert grid.latest_complete(at("2024-03-10T07:30Z")) == window("2024-03-09T07:00Z", "2024-03-10T07:00Z")


def test_a_local_day_is_the_union_of_its_hours() -> None:
    hourly, daily = Grid("@hourly", "Europe/Stockholm"), Grid("@daily", "Europe/Stockholm")
    for noon, hours in (("2024-03-31T10:00Z", 23), ("2024-10-27T10:00Z", 25), ("2024-02-29T10:00Z", 24)):
        cell = daily.cell(at(noon))
        assert hourly.count(cell) == hours
        assert IntervalSet(hourly.windows(cell)).islands == (cell,)


def test_a_million_hourly_ticks_are_fast() -> None:
    from time import process_time

    start = process_time()
    grid = Grid("@hourly", "America/New_York")
    count = sum(1 for _ in grid.ticks(at("1950-01-01T00:00Z"), at("2064-02-01T00:00Z")))
    assert count > 1_000_000
    assert process_time() - start < 5
