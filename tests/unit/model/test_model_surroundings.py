"""Tags, people, curfews, checks and what is asked of Airflow."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from bollhav_provider import (
    AcceptedValues,
    AirflowOptions,
    ColumnFreshness,
    Curfew,
    Expression,
    InRange,
    Model,
    NotNull,
    People,
    Relationship,
    RowCount,
    Severity,
    Tags,
    Target,
    Unique,
)
from bollhav_provider.model import Check


def test_tags_keep_their_order_and_lose_doubles() -> None:
    assert Tags("b", "a", "b") == ("b", "a")
    assert Tags(["b", "a"]) == ("b", "a")
    assert pickle.loads(pickle.dumps(Tags("b", "a"))) == Tags("b", "a")
    assert Model(target=Target(schema="a", name="b"), tags="daily").tags == ("daily",)
    assert Model(target=Target(schema="a", name="b"), tags=["x", "y"]).tags == Tags("x", "y")


def test_one_address_needs_no_list() -> None:
    assert People(email="a@example.org").email == ("a@example.org",)


@pytest.mark.parametrize(
    ("local", "closed"),
    [
        ("2024-01-01T21:59", False),  # a Monday
        ("2024-01-01T22:00", True),
        ("2024-01-02T05:59", True),
        ("2024-01-02T06:00", False),
        ("2024-01-02T22:00", False),  # Tuesday has none
        ("2024-01-01T05:00", False),  # nor has Sunday, whose night this would be
        ("2024-01-01T12:30", True),
        ("2024-01-01T13:00", False),
    ],
)
def test_a_curfew_closes_its_ranges_on_the_days_they_start(local: str, closed: bool) -> None:
    curfew = Curfew(ranges=[("22:00", "06:00"), ("12:00", "13:00")], days=["Monday"], reason="backups")
    answer = curfew.closed_at(datetime.fromisoformat(local).replace(tzinfo=UTC))
    assert (answer is not None) is closed
    if answer is not None:
        assert "curfew from" in answer
        assert answer.endswith(": backups")


def test_a_curfew_is_read_in_its_zone() -> None:
    curfew = Curfew(ranges=[("22:00", "06:00")], tz="America/New_York")
    assert curfew.closed_at(datetime(2024, 7, 2, 2, tzinfo=UTC)) == (
        "curfew from 22:00 to 06:00 (America/New_York), and it is Mon 22:00"
    )
    assert curfew.closed_at(datetime(2024, 7, 2, 1, 59, tzinfo=UTC)) is None


def test_days_are_brought_into_the_order_of_the_week() -> None:
    assert Curfew(ranges=[("01:00", "02:00")], days=["Sunday", "mon"]).days == ("mon", "sun")
    assert Curfew(ranges=[("01:00", "02:00")], days="fri").days == ("fri",)


@pytest.mark.parametrize(
    ("check", "kind", "columns", "label"),
    [
        (NotNull("a"), "not_null", ("a",), "not_null(a)"),
        (Unique(["a", "b"]), "unique", ("a", "b"), "unique(a, b)"),
        (AcceptedValues("a", ["x", 1]), "accepted_values", ("a",), "accepted_values(a)"),
        (InRange("a", min=0, max=Decimal("1.5")), "in_range", ("a",), "in_range(a)"),
        (Relationship("a", "ref.airports", to_column="faa"), "relationship", ("a",), "relationship(a)"),
        (RowCount(min=1), "row_count", (), "row_count"),
        (ColumnFreshness("a", "36h"), "column_freshness", ("a",), "column_freshness(a)"),
        (Expression("a > 0"), "expression", (), "expression(a > 0)"),
        (Expression("a > 0", name="positive"), "expression", (), "positive"),
    ],
)
def test_checks_say_what_they_look_at(check: Check, kind: str, columns: tuple[str, ...], label: str) -> None:
    assert check.kind == kind  # type: ignore[attr-defined]
    assert check.column_names == columns
    assert check.label == label
    assert check.severity is Severity.ERROR
    assert list(check.problems()) == []


@pytest.mark.parametrize("bound", [1, 1.5, Decimal("1.10"), date(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), "a"])
def test_bounds_keep_their_type(bound: object) -> None:
    check = InRange("a", min=bound)
    assert check.min == bound
    assert type(check.min) is type(bound)
    assert AcceptedValues("a", [bound, True]).values == (bound, True)


def test_a_semicolon_within_a_string_is_no_statement() -> None:
    assert list(Expression("a <> ';'").problems()) == []


def notify(context: object) -> None: ...


def test_options_are_pure_data() -> None:
    options = AirflowOptions(
        retries=2,
        retry_delay=timedelta(minutes=5),
        execution_timeout="2h",  # type: ignore[arg-type]
        start_date="2024-01-01T00:00+01:00",  # type: ignore[arg-type]
        on_failure_callback=[notify, "package.module:other"],  # type: ignore[arg-type]
        schedule=None,
    )
    assert options.given() == {
        "retries": 2,
        "retry_delay": timedelta(minutes=5),
        "execution_timeout": timedelta(hours=2),
        "start_date": datetime(2023, 12, 31, 23, tzinfo=UTC),
        "on_failure_callback": (f"{__name__}:notify", "package.module:other"),
    }
    assert options.cron is None
    assert AirflowOptions(schedule="0 4 * * *").cron == "0 4 * * *"
    assert AirflowOptions().cron is None
