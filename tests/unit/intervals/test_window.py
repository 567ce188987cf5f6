"""Which window a run covers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from bollhav_provider.exceptions import IntervalError
from bollhav_provider.intervals import (
    WHOLE,
    Grid,
    Interval,
    ResolvedWindow,
    align_begin,
    contract_range,
    resolve_window,
    split_window,
)

DAILY = Grid("@daily")
HOURLY = Grid("@hourly")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


NOW = at("2024-01-10T12:00Z")


def window(since: str, until: str) -> Interval:
    return Interval(at(since), at(until))


def resolve(grid: Grid | None = DAILY, **options: Any) -> ResolvedWindow:
    instants = ("since", "until", "begin", "end")
    return resolve_window(
        grid, now=NOW, **{name: at(value) if name in instants else value for name, value in options.items()}
    )


@pytest.mark.parametrize(
    ("options", "origin", "expected", "count"),
    [
        ({}, "latest", window("2024-01-09T00:00Z", "2024-01-10T00:00Z"), 1),
        ({"lookback": 2}, "latest", window("2024-01-07T00:00Z", "2024-01-10T00:00Z"), 3),
        (
            {"data_interval": window("2024-01-03T00:00Z", "2024-01-04T00:00Z")},
            "data interval",
            window("2024-01-03T00:00Z", "2024-01-04T00:00Z"),
            1,
        ),
        (
            {"data_interval": window("2024-01-03T00:00Z", "2024-01-04T00:00Z"), "lookback": 1},
            "data interval",
            window("2024-01-02T00:00Z", "2024-01-04T00:00Z"),
            2,
        ),
        (
            {
                "data_interval": window("2024-01-03T00:00Z", "2024-01-04T00:00Z"),
                "since": "2024-01-05T00:00Z",
                "until": "2024-01-07T00:00Z",
                "lookback": 5,
            },
            "explicit",
            window("2024-01-05T00:00Z", "2024-01-07T00:00Z"),
            2,
        ),
        (
            {"absent": "contract", "begin": "2024-01-01T00:00Z"},
            "contract",
            window("2024-01-01T00:00Z", "2024-01-10T00:00Z"),
            9,
        ),
        (
            {"absent": "contract", "begin": "2024-01-01T00:00Z", "end": "2024-01-04T00:00Z"},
            "contract",
            window("2024-01-01T00:00Z", "2024-01-04T00:00Z"),
            3,
        ),
        ({"since": "2024-01-05T00:00Z"}, "explicit", window("2024-01-05T00:00Z", "2024-01-10T00:00Z"), 5),
        (
            {"since": "2024-01-02T00:00Z", "end": "2024-01-04T00:00Z"},
            "explicit",
            window("2024-01-02T00:00Z", "2024-01-04T00:00Z"),
            2,
        ),
        (
            {"until": "2024-01-05T00:00Z", "begin": "2024-01-02T00:00Z"},
            "explicit",
            window("2024-01-02T00:00Z", "2024-01-05T00:00Z"),
            3,
        ),
        # Nothing outside the contract is run, lookback included.
        (
            {"lookback": 100, "begin": "2024-01-08T00:00Z"},
            "latest",
            window("2024-01-08T00:00Z", "2024-01-10T00:00Z"),
            2,
        ),
        (
            {
                "since": "2023-12-01T00:00Z",
                "until": "2024-02-01T00:00Z",
                "begin": "2024-01-01T00:00Z",
                "end": "2024-01-03T00:00Z",
            },
            "explicit",
            window("2024-01-01T00:00Z", "2024-01-03T00:00Z"),
            2,
        ),
    ],
)
def test_precedence_lookback_and_clamping(options: dict[str, Any], origin: str, expected: Interval, count: int) -> None:
    found = resolve(**options)
    assert (found.origin, found.window, len(found.units), found.message) == (origin, expected, count, "")


def test_a_model_without_windows_has_one_unit() -> None:
    found = resolve(None, since="2024-01-01T00:00Z", until="2024-01-02T00:00Z")
    assert (found.window, found.units, found.origin) == (None, (WHOLE,), "windowless")


def test_a_temporal_model_without_windows_is_told_how_far_its_one_unit_has_to_reach() -> None:
    day = window("2024-01-05T00:00Z", "2024-01-06T00:00Z")
    found = resolve(None, data_interval=day, temporal=True)
    assert (found.window, found.units, found.origin) == (day, (WHOLE,), "data interval")
    found = resolve(None, since="2024-01-05T00:00Z", until="2024-01-06T00:00Z", temporal=True)
    assert (found.window, found.origin) == (day, "explicit")
    found = resolve(None, until="2024-01-06T00:00Z", begin="2024-01-02T00:00Z", temporal=True)
    assert found.window == window("2024-01-02T00:00Z", "2024-01-06T00:00Z")
    assert resolve(None, temporal=True).window is None
    assert not resolve(None, temporal=True).empty
    outside = resolve(None, data_interval=day, begin="2024-02-01T00:00Z", temporal=True)
    assert outside.empty
    assert "outside the contract" in outside.message


def test_a_flexible_model_begins_where_its_contract_does_without_a_warning() -> None:
    asked = {"since": "2024-01-01T00:00Z", "until": "2024-01-02T00:00Z", "begin": "2024-01-01T10:17Z"}
    fixed, flexible = resolve(HOURLY, **asked), resolve(HOURLY, **asked, flexible=True)
    assert len(fixed.warnings) == 1
    assert fixed.units[0].window == window("2024-01-01T11:00Z", "2024-01-01T12:00Z")
    assert flexible.warnings == ()
    assert flexible.units[0].window == window("2024-01-01T10:17Z", "2024-01-01T11:00Z")


def test_a_run_covers_the_coarser_window_of_its_schedule() -> None:
    found = resolve(HOURLY, run_grid=DAILY)
    assert found.window == window("2024-01-09T00:00Z", "2024-01-10T00:00Z")
    assert len(found.units) == 24


def test_a_window_without_a_whole_cell_runs_nothing_and_says_so() -> None:
    found = resolve(since="2024-01-03T01:00Z", until="2024-01-03T05:00Z")
    assert found.units == ()
    assert found.message == (
        "the window [2024-01-03T01:00Z, 2024-01-03T05:00Z) holds no whole window of @daily in UTC "
        "(the one it starts in is [2024-01-03T00:00Z, 2024-01-04T00:00Z)); nothing to run"
    )
    flexible = resolve(since="2024-01-03T01:00Z", until="2024-01-03T05:00Z", flexible=True)
    assert [str(unit) for unit in flexible.units] == ["[2024-01-03T01:00Z, 2024-01-03T05:00Z)"]


def test_a_window_outside_the_contract_runs_nothing_and_says_so() -> None:
    found = resolve(since="2023-01-01T00:00Z", until="2023-02-01T00:00Z", begin="2024-01-01T00:00Z")
    assert (found.window, found.units) == (None, ())
    assert found.message == (
        "the window [2023-01-01T00:00Z, 2023-02-01T00:00Z) lies outside the contract, which runs from "
        "2024-01-01T00:00Z to the open end; nothing to run"
    )


@pytest.mark.parametrize("grid", [DAILY, None])
def test_an_end_before_the_contracts_begin_runs_nothing_and_says_so(grid: Grid | None) -> None:
    for until in ("2023-01-01T00:00Z", "2024-01-01T00:00Z"):
        found = resolve(grid, until=until, begin="2024-01-01T00:00Z", temporal=True)
        assert (found.window, found.units, found.empty) == (None, (), True)
        assert found.message == (
            f"until {until} is not after the contract's begin 2024-01-01T00:00Z; nothing to run"
        )


@pytest.mark.parametrize("lookback", [0, 2, 100])
def test_a_contract_that_has_ended_runs_nothing_past_its_end_however_far_a_run_looks_back(lookback: int) -> None:
    found = resolve(lookback=lookback, begin="2024-01-01T00:00Z", end="2024-01-05T00:00Z")
    if lookback == 100:
        assert found.window == window("2024-01-01T00:00Z", "2024-01-05T00:00Z")
    else:
        assert found.empty
        assert "lies outside the contract" in found.message


def test_a_contract_that_has_not_begun_runs_nothing_and_says_so() -> None:
    found = resolve(absent="contract", begin="2024-01-10T00:00Z")
    assert (found.window, found.units) == (None, ())
    assert found.message == (
        "no window of @daily in UTC has been completed since 2024-01-10T00:00Z; it is 2024-01-10T12:00Z; nothing to run"
    )
    assert resolve(since="2024-01-12T00:00Z").message == (
        "no window of @daily in UTC has been completed since 2024-01-12T00:00Z; it is 2024-01-10T12:00Z; nothing to run"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until": "2024-01-05T00:00Z"}, "until was given without since, and the contract has no begin"),
        ({"absent": "contract"}, "no dates were given and the contract has no begin"),
        ({"since": "2024-01-05T00:00Z", "until": "2024-01-05T00:00Z"}, "an empty window"),
        ({"since": "2024-01-06T00:00Z", "until": "2024-01-05T00:00Z"}, "an inverted window"),
        ({"since": "2024-01-05T00:00", "until": "2024-01-06T00:00Z"}, "since: 2024-01-05T00:00:00 has no time zone"),
        ({"begin": "2024-01-05T00:00"}, "begin: 2024-01-05T00:00:00 has no time zone"),
    ],
)
def test_a_window_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(IntervalError) as caught:
        resolve(**options)
    assert message in str(caught.value)


def test_a_begin_off_the_grid_is_said() -> None:
    first, warning = align_begin(HOURLY, at("2024-01-01T10:17Z"))
    assert first == at("2024-01-01T11:00Z")
    assert warning == (
        "begin 2024-01-01T10:17Z is not a tick of @hourly in UTC; the first window starts at 2024-01-01T11:00Z"
    )
    assert align_begin(HOURLY, at("2024-01-01T10:00Z")) == (at("2024-01-01T10:00Z"), None)
    found = resolve(HOURLY, since="2024-01-01T09:00Z", until="2024-01-01T13:00Z", begin="2024-01-01T10:17Z")
    assert [str(unit) for unit in found.units] == [
        "[2024-01-01T11:00Z, 2024-01-01T12:00Z)",
        "[2024-01-01T12:00Z, 2024-01-01T13:00Z)",
    ]
    assert found.warnings == (warning,)


def test_the_declared_range() -> None:
    begin, now = at("2024-01-01T10:17Z"), at("2024-01-03T12:00Z")
    assert contract_range(DAILY, begin, None, now) == window("2024-01-02T00:00Z", "2024-01-03T00:00Z")
    assert contract_range(DAILY, begin, None, now, flexible=True) == window("2024-01-01T10:17Z", "2024-01-03T00:00Z")
    assert contract_range(DAILY, begin, at("2024-01-02T12:00Z"), now) is None
    assert contract_range(DAILY, begin, at("2024-01-02T12:00Z"), now, flexible=True) == window(
        "2024-01-01T10:17Z", "2024-01-02T12:00Z"
    )
    assert contract_range(DAILY, begin, at("2030-01-01T00:00Z"), now) == window(
        "2024-01-02T00:00Z", "2024-01-03T00:00Z"
    )


def test_splitting_keeps_or_drops_the_edges() -> None:
    within = window("2024-01-01T12:00Z", "2024-01-03T12:00Z")
    assert [unit.label for unit in split_window(DAILY, within)] == ["[2024-01-02T00:00Z, 2024-01-03T00:00Z)"]
    assert len(split_window(DAILY, within, flexible=True)) == 3
