"""SQL models: the query runs inside PostgreSQL, in every write mode, by name, and no assignment loses a digit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from write_helpers import ENV, NOON, UNTIL, WHOLE, WINDOW, connect, model_of, rows, waits

from bollhav_provider import data
from bollhav_provider.data import WriteStats
from bollhav_provider.exceptions import (
    DataError,
    DuplicateKeyError,
    RowsOutsideWindowError,
    RowsRefusedError,
    SchemaMismatchError,
)
from bollhav_provider.model import Column, Model, Source

ID = Column("id", "bigint", primary_key=True)
AT = Column("at", "timestamptz", partition_on=True)


@pytest.fixture
def conn(module_db: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(module_db) as connection:
        connection.execute(
            "DROP SCHEMA IF EXISTS shop CASCADE; CREATE SCHEMA shop; CREATE TABLE shop.src (id bigint, at "
            "timestamptz, v text)"
        )
        connection.execute("INSERT INTO shop.src VALUES (1, %s, 'a'), (2, %s, 'b'), (3, %s, 'c')", [NOON, NOON, UNTIL])
        yield connection


def run(conn: psycopg.Connection[Any], model: Model, **kwargs: Any) -> WriteStats:
    data.ensure_target(conn, model, ENV)
    with conn.transaction():
        return data.write_query(conn, model, ENV, WINDOW if model.partition_column else WHOLE, **kwargs)


def sql_model(query: str, *columns: Column, **fields: Any) -> Model:
    return model_of(*columns, query=query, upstream=[Source("shop.src")], **fields)


WINDOWED = "SELECT v, at, id FROM {src} WHERE at >= %(since)s AND at < %(until)s"


def test_a_query_replaces_its_window(conn: psycopg.Connection[Any]) -> None:
    model = sql_model(WINDOWED, ID, AT, Column("v", "text"), write_mode="recreate_partition")
    assert run(conn, model) == WriteStats(2, 2, 2, 0)
    conn.execute("DELETE FROM shop.src WHERE id = 1")
    assert run(conn, model) == WriteStats(1, 1, 1, 2)
    assert rows(conn, model) == [(2, NOON, "b")]


def test_a_query_appends(conn: psycopg.Connection[Any]) -> None:
    model = sql_model(WINDOWED, Column("id", "bigint"), AT, Column("v", "text"), write_mode="append")
    run(conn, model)
    assert run(conn, model) == WriteStats(2, 2, 2, 0)
    assert rows(conn, model, "count(*)") == [(4,)]


def test_a_query_upserts_and_leaves_unchanged_rows_alone(conn: psycopg.Connection[Any]) -> None:
    model = sql_model("SELECT id, v FROM {src} WHERE id < 3", ID, Column("v", "text"), write_mode="upsert")
    assert run(conn, model) == WriteStats(2, 2, 2, 0)
    conn.execute("UPDATE shop.src SET v = 'x' WHERE id = 2")
    assert run(conn, model) == WriteStats(2, 2, 1, 0)
    assert rows(conn, model) == [(1, "a"), (2, "x")]
    conn.execute("DELETE FROM shop.src")
    assert run(conn, model) == WriteStats(0, 0, 0, 0)


@pytest.mark.parametrize("mode", ["truncate", "recreate"])
def test_a_query_replaces_the_table(conn: psycopg.Connection[Any], mode: str) -> None:
    model = sql_model("SELECT id FROM {src}", ID, write_mode=mode)
    run(conn, model)
    conn.execute("DELETE FROM shop.src WHERE id > 1")
    assert run(conn, model).rows_written == 1
    assert rows(conn, model) == [(1,)]


def test_a_query_may_read_the_rows_that_its_upsert_changes(conn: psycopg.Connection[Any]) -> None:
    query = "SELECT 1::bigint AS id, coalesce(max(v), 0)::integer + 1 AS v FROM shop.t, (SELECT 1 FROM {src} LIMIT 1) x"
    model = sql_model(query, ID, Column("v", "integer"), write_mode="upsert")
    for expected in (1, 2, 3):
        run(conn, model)
        assert rows(conn, model) == [(1, expected)]


def test_columns_are_matched_by_name_and_problems_are_named(conn: psycopg.Connection[Any]) -> None:
    model = sql_model("SELECT v AS name, id FROM {src}", ID, Column("v", "text"), write_mode="truncate")
    with pytest.raises(
        SchemaMismatchError, match=r"query's rows have column 'name' that the target lacks.*lack column 'v'"
    ):
        run(conn, model)
    with pytest.raises(DataError, match="the query gives 'id' twice"):
        run(conn, model.replace(query="SELECT id, id, v FROM {src}"))


def test_a_query_that_is_wrong_says_what_postgresql_says(conn: psycopg.Connection[Any]) -> None:
    model = sql_model("SELECT nope FROM {src}", ID, write_mode="truncate")
    with pytest.raises(SchemaMismatchError, match=r'shop\.t: running the query: column "nope" does not exist'):
        run(conn, model)
    with pytest.raises(DataError, match="running the query: division by zero"):
        run(conn, model.replace(query="SELECT id / 0 AS id FROM {src}"))


def test_rows_outside_the_window_are_counted(conn: psycopg.Connection[Any]) -> None:
    for mode in ("append", "recreate_partition", "upsert"):
        model = sql_model("SELECT id, at FROM {src} WHERE at >= %(since)s", ID, AT, write_mode=mode, name=mode)
        with pytest.raises(
            RowsOutsideWindowError,
            match=r"'at' lies outside the window \[2024-01-01T00:00Z.*\(1 row\): 2024-01-02 00:00:00\+00",
        ):
            run(conn, model)
        assert rows(conn, model) == []
    nulls = sql_model(
        "SELECT id, NULL::timestamptz AS at FROM {src} WHERE %(since)s < now()",
        ID,
        AT,
        write_mode="append",
        name="nulls",
    )
    with pytest.raises(RowsOutsideWindowError, match=r"\(3 rows\)"):
        run(conn, nulls)


def test_duplicate_keys_of_a_query_are_named(conn: psycopg.Connection[Any]) -> None:
    model = sql_model("SELECT 7::bigint AS id, v FROM {src}", ID, Column("v", "text"), write_mode="upsert")
    with pytest.raises(DuplicateKeyError, match=r"\(7\) 3 times"):
        run(conn, model)


def test_percent_signs_quotes_comments_and_semicolons_in_a_query(conn: psycopg.Connection[Any]) -> None:
    query = """
    -- 100% of 'it'
    SELECT id, '50%' || v || '%(since)' AS v FROM {src} /* {nothing} */ WHERE v LIKE '%a%' OR 5 % 2 = 0 ; -- done
    """
    model = sql_model(query.replace("; -- done", ""), ID, Column("v", "text"), write_mode="truncate")
    run(conn, model)
    assert rows(conn, model) == [(1, "50%a%(since)")]
    run(conn, model.replace(query="SELECT id, v FROM {src} WHERE id = 1;\n"))
    assert rows(conn, model) == [(1, "a")]
    run(conn, model.replace(query="SELECT id, v FROM {src} WHERE id = 2 -- the second"))
    assert rows(conn, model) == [(2, "b")]


def test_the_graphs_bindings_say_which_relation_an_alias_means(conn: psycopg.Connection[Any]) -> None:
    conn.execute("CREATE TABLE shop.other AS SELECT 9::bigint AS id")
    model = sql_model("SELECT id FROM {src}", ID, write_mode="truncate")
    run(conn, model, tables={"src": model_of(ID, name="other").identity})
    assert rows(conn, model) == [(9,)]


def test_awkward_names_in_a_query_model(conn: psycopg.Connection[Any]) -> None:
    model = sql_model(
        'SELECT id AS "50%", at AS "%s", v AS "Select" FROM {src} WHERE at >= %(since)s AND at < %(until)s',
        Column("50%", "bigint", primary_key=True),
        Column("%s", "timestamptz", partition_on=True),
        Column("Select", "text"),
        name='T%"able',
        write_mode="upsert",
        checks=[
            {"kind": "not_null", "columns": ["50%", "%s"]},
            {"kind": "expression", "sql": "\"Select\" NOT LIKE 'z%'"},
        ],
    )
    data.ensure_target(conn, model, ENV)
    with conn.transaction():
        assert data.write_query(conn, model, ENV, WINDOW).rows_changed == 2
        assert data.run_checks(conn, model, ENV, WINDOW).failures == ()


#: the expression in the query, the target's type, and what the error says; None where the value is kept.
ASSIGNMENTS: dict[str, tuple[str, str, str | None, Any]] = {
    "numeric that fits": ("1.50::numeric", "numeric(10,2)", None, Decimal("1.50")),
    "trailing zeros": ("1.5000::numeric(10,4)", "numeric(10,2)", None, Decimal("1.50")),
    "numeric that would be rounded": ("1.239::numeric", "numeric(10,2)", "1.239", None),
    "average": ("10 / 3::numeric", "numeric(10,2)", "3.33333", None),
    "an explicit cast": ("1.239::numeric(10,2)", "numeric(10,2)", None, Decimal("1.24")),
    "double into numeric": ("1.239::float8", "numeric(10,2)", "1.239", None),
    "double that fits": ("1.25::float8", "numeric(10,2)", None, Decimal("1.25")),
    "double into integer": ("1.5::float8", "integer", "1.5", None),
    "whole double into integer": ("2::float8", "integer", None, 2),
    "numeric into integer": ("2.5::numeric", "bigint", "2.5", None),
    "sum of integers into integer": ("sum(id)", "integer", None, 1),
    "bigint beyond numeric(4,2)": ("100::bigint", "numeric(4,2)", "holds? |100", None),
    "NaN into integer": ("'NaN'::float8", "integer", "NaN", None),
    "double into real": ("0.1::float8", "real", "0.1", None),
    "count": ("count(*)", "integer", None, 1),
    "bigint out of range": ("2147483648::bigint", "integer", "2147483648", None),
    "instant into date": ("now()", "date", "means another thing in every zone", None),
    "instant into timestamp": ("now()", "timestamp", "means another thing in every zone", None),
    "date into timestamptz": ("current_date", "timestamptz", "means another thing in every zone", None),
    "timestamp into date": ("timestamp '2024-01-01 12:00'", "date", "2024-01-01 12:00", None),
    "midnight into date": ("timestamp '2024-01-01'", "date", None, dt.date(2024, 1, 1)),
    "timestamp into time": ("timestamp '2024-01-01 12:00'", "time", "would be cut", None),
    "microseconds": ("timestamp '2024-01-01 00:00:00.123456'", "timestamp(3)", "00:00:00.123456", None),
    "text into varchar": ("'abcd'::text", "varchar(3)", "too long", None),
    "text into numeric": ("'1'::text", "numeric", "type numeric but expression is of type text", None),
    "NULL of a kind": ("NULL::numeric", "numeric(10,2)", None, None),
    "NaN": ("'NaN'::float8", "numeric(10,2)", None, Decimal("NaN")),
}


@pytest.mark.parametrize("case", ASSIGNMENTS)
def test_assignments_that_would_change_a_value_are_refused(conn: psycopg.Connection[Any], case: str) -> None:
    expression, declared, message, expected = ASSIGNMENTS[case]
    model = sql_model(
        f"SELECT {expression} AS v FROM {{src}} WHERE id = 1 GROUP BY id",  # noqa: S608
        Column("v", declared),
        write_mode="truncate",
    )
    if message is not None:
        with pytest.raises(DataError, match=message) as caught:
            run(conn, model)
        assert str(caught.value).startswith("shop.t: ")
        return
    run(conn, model)
    (found,) = rows(conn, model)[0]
    assert (
        (found.is_nan() and expected.is_nan()) if isinstance(found, Decimal) and found.is_nan() else found == expected
    )


def test_rounding_in_an_assignment_can_be_allowed(conn: psycopg.Connection[Any]) -> None:
    model = sql_model(
        "SELECT 1.239 AS v FROM {src}", Column("v", "numeric(10,2)", allow="round"), write_mode="truncate"
    )
    run(conn, model)
    assert rows(conn, model, "DISTINCT v") == [(Decimal("1.24"),)]
    with pytest.raises(RowsRefusedError) as caught:
        run(
            conn,
            sql_model(
                "SELECT 1 AS a, 1.239 AS v FROM {src}",
                Column("a", "integer"),
                Column("v", "numeric(10,2)"),
                name="u",
            ),
        )
    assert (caught.value.column, caught.value.samples) == ("v", ("1.239",))


def test_a_query_takes_two_round_trips(conn: psycopg.Connection[Any], tmp_path: Any) -> None:
    model = sql_model(WINDOWED, ID, AT, Column("v", "text"), write_mode="recreate_partition")
    data.ensure_target(conn, model, ENV)
    assert waits(conn, tmp_path / "trace", lambda: data.write_query(conn, model, ENV, WINDOW)) == 2
