"""Instants are aware and in UTC from the moment they are constructed."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from bollhav_provider.exceptions import IntervalError
from bollhav_provider.intervals import as_utc, instant_text

NEW_YORK = ZoneInfo("America/New_York")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)),
        (datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-5))), datetime(2024, 1, 1, 5, tzinfo=UTC)),
        (datetime(2024, 7, 1, tzinfo=NEW_YORK), datetime(2024, 7, 1, 4, tzinfo=UTC)),
        ("2013-01-01T00:00-05:00", datetime(2013, 1, 1, 5, tzinfo=UTC)),
        ("2024-01-01T00:00Z", datetime(2024, 1, 1, tzinfo=UTC)),
        (" 2024-01-01T00:00:00.25+01:00 ", datetime(2023, 12, 31, 23, 0, 0, 250000, tzinfo=UTC)),
    ],
)
def test_an_instant_becomes_utc(value: object, expected: datetime) -> None:
    found = as_utc(value, "begin")
    assert found == expected
    assert found.tzinfo is UTC


def test_the_two_instants_of_a_repeated_hour_differ() -> None:
    first = datetime(2024, 11, 3, 1, 0, tzinfo=NEW_YORK, fold=0)
    second = datetime(2024, 11, 3, 1, 0, tzinfo=NEW_YORK, fold=1)
    assert first == second  # Python compares the wall clocks of one zone
    assert as_utc(second, "at") - as_utc(first, "at") == timedelta(hours=1)


def test_a_subclass_of_datetime_becomes_a_plain_one() -> None:
    class Special(datetime):
        pass

    found = as_utc(Special(2024, 1, 1, tzinfo=UTC), "at")
    assert type(found) is datetime


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (datetime(2024, 1, 1), "begin: 2024-01-01T00:00:00 has no time zone; write it with a zone"),
        ("2024-01-01T00:00", "begin: 2024-01-01T00:00:00 has no time zone"),
        ("2024-01-01", "begin: 2024-01-01T00:00:00 has no time zone"),
        ("2023-02-29T00:00Z", "begin: '2023-02-29T00:00Z' is not an ISO 8601 instant"),
        ("2016-12-31T23:59:60Z", "begin: '2016-12-31T23:59:60Z' is not an ISO 8601 instant"),
        ("infinity", "begin: 'infinity' is not an ISO 8601 instant"),
        (date(2024, 1, 1), "begin: expected an instant, got datetime.date(2024, 1, 1) (date)"),
        (None, "begin: expected an instant, got None (NoneType)"),
        (1704067200, "begin: expected an instant, got 1704067200 (int)"),
        ("0001-01-01T00:00+01:00", "lies outside the years 1 to 9999 in UTC; leave an open end out instead"),
        ("9999-12-31T23:59-01:00", "lies outside the years 1 to 9999 in UTC"),
    ],
)
def test_what_is_no_instant_is_refused_by_field(value: object, message: str) -> None:
    with pytest.raises(IntervalError) as caught:
        as_utc(value, "begin")
    assert message in str(caught.value)


def test_pendulum_becomes_a_plain_datetime() -> None:
    pendulum = pytest.importorskip("pendulum")
    found = as_utc(pendulum.datetime(2024, 3, 31, 2, 30, tz="Europe/Stockholm"), "at")
    assert type(found) is datetime
    assert found == datetime(2024, 3, 31, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2024-01-01T03:00Z", "2024-01-01T03:00Z"),
        ("2024-01-01T03:00:07Z", "2024-01-01T03:00:07Z"),
        ("2024-01-01T03:00:00.000010Z", "2024-01-01T03:00:00.000010Z"),
        ("0099-01-01T00:00Z", "0099-01-01T00:00Z"),
    ],
)
def test_instants_show_only_the_precision_they_have(text: str, shown: str) -> None:
    assert instant_text(as_utc(text, "at")) == shown
