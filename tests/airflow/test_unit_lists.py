"""What a prefill lists is what the tasks behind it read, in few words where the units are neighbours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bollhav_provider.exceptions import IntervalError, StateError
from bollhav_provider.intervals import WHOLE, Grid, Interval, Unit, as_utc
from bollhav_provider.operators.unit_lists import unit_label, units_of, units_to_json

GRIDS = (Grid("@hourly"), Grid("@daily", "America/New_York"), Grid("*/7 * * * *"), Grid("0 */6 * * *", "Europe/Berlin"))


def span(since: str, until: str) -> Interval:
    return Interval(as_utc(since, "since"), as_utc(until, "until"))


@given(grid=st.sampled_from(GRIDS), chosen=st.lists(st.booleans(), min_size=60, max_size=60))
def test_any_choice_of_windows_is_read_as_it_was_written(grid: Grid, chosen: list[bool]) -> None:
    """The days around a clock change of both zones, where windows have other lengths."""
    windows = list(grid.windows(span("2024-03-01T00:00Z", "2024-05-15T00:00Z")))[-60:]
    units = [Unit(window) for window, take in zip(windows, chosen, strict=False) if take]
    assert units_of(units_to_json(units, grid)) == units


def test_neighbours_are_written_as_one_range_and_others_by_themselves() -> None:
    grid = Grid("@hourly")
    hours = [Unit(window) for window in grid.windows(span("2024-01-01T00:00Z", "2024-01-01T08:00Z"))]
    assert units_to_json([*hours[:5], *hours[6:]], grid) == [
        {
            "since": "2024-01-01T00:00:00+00:00",
            "end": "2024-01-01T05:00:00+00:00",
            "units": 5,
            "chunk": "@hourly",
            "tz": "UTC",
        },
        {"since": "2024-01-01T06:00:00+00:00", "until": "2024-01-01T07:00:00+00:00"},
        {"since": "2024-01-01T07:00:00+00:00", "until": "2024-01-01T08:00:00+00:00"},
    ]


def test_neighbours_that_are_no_windows_of_the_grid_stay_as_they_are() -> None:
    odd = [Unit(span(f"2024-01-01T0{n}:30Z", f"2024-01-01T0{n + 1}:30Z")) for n in range(5)]
    assert units_to_json(odd, Grid("@hourly")) == [unit.to_json() for unit in odd]
    assert units_to_json(odd, None) == [unit.to_json() for unit in odd]
    assert units_of(units_to_json([WHOLE], None)) == [WHOLE]


def test_the_label_counts_the_windows_of_a_range() -> None:
    grid = Grid("@hourly")
    hours = [Unit(window) for window in grid.windows(span("2024-01-01T00:00Z", "2024-01-02T00:00Z"))]
    assert unit_label(units_to_json(hours, grid)) == "2024-01-01T00:00Z to 2024-01-02T00:00Z (24)"


def test_a_range_of_other_windows_than_it_was_written_with_is_refused() -> None:
    (written,) = units_to_json(
        [Unit(window) for window in GRIDS[1].windows(span("2024-03-08T05:00Z", "2024-03-13T04:00Z"))], GRIDS[1]
    )
    with pytest.raises(StateError, match=r"is written as 6 windows of '@daily' in America/New_York and is 5 here"):
        units_of([written | {"units": 6}])
    assert unit_label([written | {"units": 6}]) == ""
    with pytest.raises(IntervalError):  # as one unit it would be as wide as the whole range
        Unit.from_json(written)
