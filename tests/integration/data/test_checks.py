"""Checks look at the new rows inside the transaction; errors publish nothing, warnings are recorded."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from write_helpers import ENV, NOON, SINCE, WHOLE, WINDOW, connect, model_of, rows, waits

from bollhav_provider import data
from bollhav_provider.exceptions import CheckFailedError, DataError
from bollhav_provider.model import (
    AcceptedValues,
    Column,
    ColumnFreshness,
    Expression,
    InRange,
    Model,
    NotNull,
    Relationship,
    RowCount,
    Source,
    Unique,
)

ID = Column("id", "bigint", primary_key=True)
AT = Column("at", "timestamptz", partition_on=True)
V = Column("v", "integer")


@pytest.fixture
def conn(module_db: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(module_db) as connection:
        connection.execute("DROP SCHEMA IF EXISTS shop CASCADE")
        yield connection


def report_of(conn: psycopg.Connection[Any], model: Model, payload: Any) -> data.CheckReport:
    unit = WINDOW if model.partition_column else WHOLE
    data.ensure_target(conn, model, ENV)
    with conn.transaction():
        data.write(conn, model, ENV, unit, payload)
        return data.run_checks(conn, model, ENV, unit)


def said(report: data.CheckReport) -> list[str]:
    return [str(failure) for failure in report.failures]


#: the check, rows (id, v, w) that pass, rows that fail, and what is said.
KINDS: dict[str, tuple[Any, list[tuple[Any, ...]], list[tuple[Any, ...]], str]] = {
    "not null": (
        NotNull(["v", "w"]),
        [(1, 1, "a")],
        [(1, 1, None), (2, 2, "b")],
        "not_null(v, w): 1 of 2 rows fail: id=1, v=1, w=None",
    ),
    "unique": (
        Unique("v"),
        [(1, 1, "a"), (2, None, "a"), (3, None, "a")],
        [(1, 5, ""), (2, 5, "")],
        "unique(v): 1 value is in several rows: v=5 (2 times)",
    ),
    "accepted values": (
        AcceptedValues("w", ["a", "50%"]),
        [(1, 1, "50%"), (2, 1, None)],
        [(1, 1, "c")],
        "accepted_values(w): 1 of 1 rows fail: id=1, w=c",
    ),
    "accepted numbers": (
        AcceptedValues("v", [1, 2]),
        [(1, 2, "")],
        [(1, 3, "")],
        "accepted_values(v): 1 of 1 rows fail: id=1, v=3",
    ),
    "range": (
        InRange("v", min=0, max=10),
        [(1, 0, ""), (2, 10, ""), (3, None, "")],
        [(1, -1, ""), (2, 11, "")],
        "in_range(v): 2 of 2 rows fail: id=1, v=-1; id=2, v=11",
    ),
    "at least": (
        InRange("v", min=0),
        [(1, 0, "")],
        [(1, -1, "")],
        "in_range(v): 1 of 1 rows fail: id=1, v=-1",
    ),
    "expression": (
        Expression("v > 0 OR w LIKE 'x%'"),
        [(1, 1, "a"), (2, -1, "x%"), (3, None, "z")],
        [(1, -1, "z")],
        "expression(v > 0 OR w LIKE 'x%'): 1 of 1 rows fail: id=1",
    ),
    "few rows": (
        RowCount(min=2),
        [(1, 1, ""), (2, 2, "")],
        [(1, 1, "")],
        "row_count: 1 rows, the least is 2",
    ),
    "many rows": (
        RowCount(max=1),
        [(1, 1, "")],
        [(1, 1, ""), (2, 1, "")],
        "row_count: 2 rows, the most is 1",
    ),
    "relationship": (
        Relationship("w", "shop.codes", to_column="code"),
        [(1, 1, "a"), (2, 2, None)],
        [(1, 1, "b")],
        "relationship(w): 1 of 1 rows fail: id=1, w=b",
    ),
}


@pytest.mark.parametrize("mode", ["truncate", "upsert", "append", "recreate"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_check(conn: psycopg.Connection[Any], kind: str, mode: str) -> None:
    check, good, bad, message = KINDS[kind]
    conn.execute("CREATE SCHEMA shop; CREATE TABLE shop.codes (code text); INSERT INTO shop.codes VALUES ('a')")
    model = model_of(ID, V, Column("w", "text"), write_mode=mode, checks=[check], name="good")
    as_rows = partial(map, lambda row: dict(zip(("id", "v", "w"), row, strict=True)))
    assert said(report_of(conn, model, list(as_rows(good)))) == []
    failing = model.replace(target=model.target.replace(name="bad"))
    report = report_of(conn, failing, list(as_rows(bad)))
    assert said(report) == [message]
    with pytest.raises(CheckFailedError, match="1 of 1 checks failed and nothing was published"):
        report.require_passed()


def test_a_failing_check_publishes_nothing(conn: psycopg.Connection[Any]) -> None:
    model = model_of(ID, V, checks=[NotNull("v")])
    data.ensure_target(conn, model, ENV)
    with pytest.raises(CheckFailedError), conn.transaction():  # noqa: PT012
        data.write(conn, model, ENV, WHOLE, [{"id": 1, "v": None}])
        data.run_checks(conn, model, ENV, WHOLE).require_passed()
    assert rows(conn, model) == []


def test_warnings_do_not_stop_and_are_told_apart(conn: psycopg.Connection[Any]) -> None:
    model = model_of(ID, V, checks=[NotNull("v", severity="warn", name="v given"), RowCount(min=1)])
    report = report_of(conn, model, [{"id": 1, "v": None}])
    report.require_passed()
    assert [str(failure) for failure in report.warnings] == ["v given: 1 of 1 rows fail: id=1, v=None"]
    assert report.errors == ()
    assert report.checked == 2


def test_up_to_twenty_rows_are_shown(conn: psycopg.Connection[Any]) -> None:
    report = report_of(
        conn, model_of(ID, V, checks=[NotNull("v")]), [{"id": number, "v": None} for number in range(50)]
    )
    assert report.failures[0].count == 50
    assert len(report.failures[0].samples) == 20


def test_only_the_window_is_looked_at(conn: psycopg.Connection[Any]) -> None:
    model = model_of(ID, AT, V, write_mode="recreate_partition", checks=[NotNull("v"), RowCount(max=1)])
    data.ensure_target(conn, model, ENV)
    conn.execute("INSERT INTO shop.t VALUES (100, %s, NULL)", [SINCE - dt.timedelta(seconds=1)])
    assert said(report_of(conn, model, [{"id": 1, "at": NOON, "v": 1}])) == []


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_only_new_rows_are_looked_at(conn: psycopg.Connection[Any], mode: str) -> None:
    model = model_of(ID, V, write_mode=mode, checks=[NotNull("v"), RowCount(max=1)])
    data.ensure_target(conn, model, ENV)
    conn.execute("INSERT INTO shop.t VALUES (100, NULL), (101, NULL)")
    assert said(report_of(conn, model, [{"id": 1, "v": 1}])) == []


def test_rows_that_an_upsert_left_unchanged_are_new_rows_too(conn: psycopg.Connection[Any]) -> None:
    model = model_of(ID, V, write_mode="upsert", checks=[NotNull("v")])
    data.ensure_target(conn, model, ENV)
    conn.execute("INSERT INTO shop.t VALUES (1, NULL)")
    assert len(said(report_of(conn, model, [{"id": 1, "v": None}]))) == 1


def test_rows_written_under_a_savepoint_are_looked_at(conn: psycopg.Connection[Any]) -> None:
    model = model_of(ID, V, write_mode="append", checks=[NotNull("v")])
    data.ensure_target(conn, model, ENV)
    with conn.transaction():
        with conn.transaction():
            data.write(conn, model, ENV, WHOLE, [{"id": 1, "v": None}])
        assert len(data.run_checks(conn, model, ENV, WHOLE).failures) == 1


def test_uniqueness_is_against_old_rows_too(conn: psycopg.Connection[Any]) -> None:
    model = model_of(ID, V, write_mode="append", checks=[Unique("v")])
    data.ensure_target(conn, model, ENV)
    conn.execute("INSERT INTO shop.t VALUES (100, 5), (101, 6), (102, 6)")
    assert said(report_of(conn, model, [{"id": 1, "v": 5}])) == ["unique(v): 1 value is in several rows: v=5 (2 times)"]


def test_a_relationship_to_a_declared_input_and_to_the_own_schema(conn: psycopg.Connection[Any]) -> None:
    conn.execute("CREATE SCHEMA shop; CREATE TABLE shop.codes (v integer); INSERT INTO shop.codes VALUES (1)")
    for to in ("shop.codes", "codes"):
        model = model_of(ID, V, name=f"t_{len(to)}", upstream=[Source("shop.codes")], checks=[Relationship("v", to)])
        assert len(report_of(conn, model, [{"id": 1, "v": 1}, {"id": 2, "v": 2}]).failures) == 1


def test_the_freshness_of_a_column(conn: psycopg.Connection[Any]) -> None:
    columns = (ID, Column("seen", "timestamptz"), Column("day", "date"))
    checks = [ColumnFreshness("seen", dt.timedelta(hours=1)), ColumnFreshness("day", dt.timedelta(days=2))]
    model = model_of(*columns, checks=checks, write_mode="truncate")
    now = dt.datetime.now(dt.UTC)
    assert said(report_of(conn, model, [{"id": 1, "seen": now, "day": now.date()}])) == []
    report = report_of(
        conn,
        model,
        [{"id": 1, "seen": now - dt.timedelta(hours=2), "day": now.date() - dt.timedelta(days=4)}],
    )
    assert [text.partition(" is ")[0] for text in said(report)] == [
        "column_freshness(seen): the newest value",
        "column_freshness(day): the newest value",
    ]
    assert said(report_of(conn, model, None)) == [
        "column_freshness(seen): there is no value whose age could be told",
        "column_freshness(day): there is no value whose age could be told",
    ]


def test_a_check_that_cannot_run_names_the_model(conn: psycopg.Connection[Any]) -> None:
    model = model_of(ID, V, checks=[Expression("nope > 0")])
    with pytest.raises(DataError, match=r'shop\.t: running the checks: column "nope" does not exist'):
        report_of(conn, model, [{"id": 1, "v": 1}])
    with pytest.raises(DataError, match=r'relation "shop.gone" does not exist'):
        report_of(conn, model.replace(checks=[Relationship("v", "shop.gone")]), [{"id": 1, "v": 1}])


def test_all_checks_take_one_round_trip(conn: psycopg.Connection[Any], tmp_path: Any) -> None:
    model = model_of(
        ID,
        V,
        write_mode="upsert",
        checks=[NotNull("v"), Unique("v"), Unique("id"), InRange("v", min=0), RowCount(min=1)],
    )
    data.ensure_target(conn, model, ENV)
    with conn.transaction():
        data.write(conn, model, ENV, WHOLE, [{"id": 1, "v": 1}])
        assert waits(conn, tmp_path / "trace", lambda: data.run_checks(conn, model, ENV, WHOLE)) == 1
