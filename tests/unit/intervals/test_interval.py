"""Windows are half-open, never empty, and the same however they are written."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from bollhav_provider.exceptions import IntervalError
from bollhav_provider.intervals import WHOLE, Interval, Unit


def day(number: int, hour: int = 0) -> datetime:
    return datetime(2024, 1, number, hour, tzinfo=UTC)


def test_a_window_is_the_same_in_every_zone() -> None:
    stockholm = ZoneInfo("Europe/Stockholm")
    local = Interval(datetime(2024, 1, 1, 1, tzinfo=stockholm), datetime(2024, 1, 2, 1, tzinfo=stockholm))
    utc = Interval("2024-01-01T00:00Z", "2024-01-02T00:00Z")  # type: ignore[arg-type]
    assert local == utc
    assert hash(local) == hash(utc)
    assert str(local) == "[2024-01-01T00:00Z, 2024-01-02T00:00Z)"


def test_the_repeated_hour_is_an_hour_long() -> None:
    zone = ZoneInfo("America/New_York")
    window = Interval(datetime(2024, 11, 3, 1, tzinfo=zone, fold=0), datetime(2024, 11, 3, 1, tzinfo=zone, fold=1))
    assert window.duration == timedelta(hours=1)


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [
        (day(1), day(1), "since 2024-01-01T00:00Z is not before until 2024-01-01T00:00Z: an empty window"),
        (day(2), day(1), "since 2024-01-02T00:00Z is not before until 2024-01-01T00:00Z: an inverted window"),
        (datetime(2024, 1, 1), day(2), "since: 2024-01-01T00:00:00 has no time zone"),
        (day(1), datetime(2024, 1, 2), "until: 2024-01-02T00:00:00 has no time zone"),
    ],
)
def test_an_impossible_window_is_refused(since: datetime, until: datetime, message: str) -> None:
    with pytest.raises(IntervalError) as caught:
        Interval(since, until)
    assert message in str(caught.value)


def test_relations_between_windows() -> None:
    one, next_one, both = Interval(day(1), day(2)), Interval(day(2), day(3)), Interval(day(1), day(3))
    assert one.touches(next_one)
    assert next_one.touches(one)
    assert not one.overlaps(next_one)
    assert one.overlaps(both)
    assert both.contains(one)
    assert not one.contains(both)
    assert one.contains(day(1))
    assert not one.contains(day(2))
    assert one.intersection(next_one) is None
    assert both.intersection(next_one) == next_one
    assert sorted([next_one, both, one]) == [one, both, next_one]


def test_a_window_survives_json_and_pickle() -> None:
    window = Interval(day(1), day(2, 3))
    assert window.to_json() == {"since": "2024-01-01T00:00:00+00:00", "until": "2024-01-02T03:00:00+00:00"}
    assert Interval.from_json(window.to_json()) == window
    assert pickle.loads(pickle.dumps(window)) == window
    with pytest.raises(IntervalError, match="lacks the key 'until'"):
        Interval.from_json({"since": "2024-01-01T00:00Z"})


def test_a_unit_is_a_window_or_the_whole() -> None:
    unit = Unit(Interval(day(1), day(2)))
    assert (unit.since, unit.until, unit.windowless) == (day(1), day(2), False)
    assert (WHOLE.since, WHOLE.until, WHOLE.windowless, WHOLE.label) == (None, None, True, "whole")
    assert str(unit) == "[2024-01-01T00:00Z, 2024-01-02T00:00Z)"
    assert Unit.from_json(unit.to_json()) == unit
    assert Unit.from_json(WHOLE.to_json()) == WHOLE == Unit.from_json(None)
    assert len({unit, Unit(Interval(day(1), day(2))), WHOLE}) == 2
    later = Unit(Interval(day(2), day(3)))
    assert sorted([later, unit], key=lambda one: one.sort_key) == [unit, later]
