"""Values come out of PostgreSQL equal to what was put in, in both read paths."""

from __future__ import annotations

import datetime as dt
import ipaddress
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import polars as pl
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from bollhav_provider.data.fetch import fetch, fetch_batches
from bollhav_provider.exceptions import DataError

UTC = dt.UTC
EARLIEST, LATEST = dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)
TABLE = """
CREATE TEMP TABLE every_type (
    i2 smallint, i4 integer, i8 bigint, f4 real, f8 double precision, yes boolean, words text, code varchar(20),
    padded char(3), money numeric(12, 2), free numeric, day date, naive timestamp, instant timestamptz, clock time,
    bytes bytea, id uuid, doc jsonb, span interval, ip inet, "Odd ""name"" 50%" integer
)"""

TEXT = st.text(
    st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=12
) | st.sampled_from(["", "NULL", "\\N", "\\.", '"', ",", "a\r\nb", " ", "é🦆"])
ROW = st.fixed_dictionaries(
    {
        "i2": st.none() | st.integers(-(2**15), 2**15 - 1),
        "i4": st.none() | st.integers(-(2**31), 2**31 - 1),
        "i8": st.none() | st.integers(-(2**63), 2**63 - 1),
        "f4": st.none() | st.floats(width=32),
        "f8": st.none() | st.floats(),
        "yes": st.none() | st.booleans(),
        "words": st.none() | TEXT,
        "code": st.none() | TEXT.filter(lambda t: len(t) <= 20),
        "padded": st.sampled_from([None, "abc", "x  "]),
        "money": st.none() | st.decimals(-(10**9), 10**9, places=2),
        "free": st.none() | st.decimals(-(10**9), 10**9, places=5),
        "day": st.none() | st.dates(),
        "naive": st.none() | st.datetimes(),
        "instant": st.none() | st.datetimes(EARLIEST, LATEST).map(lambda d: d.replace(tzinfo=UTC)),
        "clock": st.none() | st.times(),
        "bytes": st.none() | st.binary(max_size=12),
        "id": st.none() | st.uuids().map(str),
        "doc": st.sampled_from([None, '{"a": [1, null, "x"]}', "[]", '"text"', "null"]),
        "span": st.none() | st.timedeltas(dt.timedelta(-10000), dt.timedelta(10000)),
        "ip": st.none() | st.ip_addresses().map(str),
        'Odd "name" 50%': st.none() | st.integers(0, 9),
    }
)  # fmt: skip


@pytest.fixture(scope="module")
def conn(pg_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(
        pg_dsn, autocommit=True, options="-c timezone=UTC -c search_path=pg_temp"
    ) as connection:
        connection.execute(TABLE)
        yield connection


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(ROW, max_size=4))
def test_every_value_survives_both_read_paths(
    conn: psycopg.Connection[Any], rows: list[dict[str, Any]]
) -> None:
    conn.execute("TRUNCATE every_type")
    for row in rows:
        conn.execute(
            sql.SQL("INSERT INTO every_type ({}) VALUES ({})").format(
                sql.SQL(", ").join(sql.Identifier(name.replace("%", "%%")) for name in row),
                sql.SQL(", ").join([sql.Placeholder()] * len(row)),
            ),
            list(row.values()),
        )
    query = sql.SQL("SELECT * FROM every_type ORDER BY ctid")
    whole = fetch(conn, query)
    batched = pl.concat(list(fetch_batches(conn, query, size=3)))
    for frame in (whole, batched):
        assert frame.height == len(rows)
        for got, put in zip(frame.iter_rows(named=True), rows, strict=True):
            for name, value in put.items():
                expected = value
                if name == "ip" and value is not None:  # the server has its own spelling of some addresses
                    assert ipaddress.ip_address(got[name]) == ipaddress.ip_address(value)
                    continue
                if name == "f4" and value is not None and not math.isnan(value):
                    assert got[name] == pytest.approx(value, rel=1e-6)
                    continue
                assert _same(got[name], expected), (name, got[name], expected)


def test_types_are_those_of_the_columns_even_without_rows(conn: psycopg.Connection[Any]) -> None:
    for frame in (
        fetch(conn, sql.SQL("SELECT * FROM every_type WHERE false")),
        next(fetch_batches(conn, sql.SQL("SELECT * FROM every_type WHERE false"))),
    ):
        assert frame.height == 0
        assert frame.schema["i2"] == pl.Int16
        assert frame.schema["money"] == pl.Decimal(12, 2)
        assert frame.schema["instant"] == pl.Datetime("us", "UTC")
        assert frame.schema["naive"] == pl.Datetime("us")
        assert frame.schema["span"] == pl.Duration("us")
        assert frame.schema["bytes"] == pl.Binary
        assert frame.schema["doc"] == pl.String
        assert frame.columns[-1] == 'Odd "name" 50%'


def test_a_single_column_of_nulls_keeps_its_rows(conn: psycopg.Connection[Any]) -> None:
    frame = fetch(conn, sql.SQL("SELECT NULL::text AS only FROM generate_series(1, 3)"))
    assert frame["only"].to_list() == [None, None, None]


def test_arrays_are_read_as_lists(conn: psycopg.Connection[Any]) -> None:
    query = sql.SQL(
        "SELECT ARRAY[1, NULL, 3]::bigint[] AS a, ARRAY[['x', 'y']]::text[] AS b, ARRAY[]::real[] AS c, 1.5 "
        "AS d"
    )
    frame = fetch(conn, query)
    assert frame.row(0) == ([1, None, 3], [["x", "y"]], [], Decimal("1.5"))
    assert frame.schema["a"] == pl.List(pl.Int64)


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("'infinity'::timestamptz", "infinite"),
        ("'-infinity'::date", "infinite"),
        ("'NaN'::numeric", "holds NaN"),
        ("'24:00'::time", "24:00:00"),
        ("'1 month'::interval", "no fixed length"),
        ("repeat('9', 40)::numeric", "digits"),
    ],
)
def test_what_polars_cannot_hold_is_an_error(
    conn: psycopg.Connection[Any], expression: str, says: str
) -> None:
    query = sql.SQL("SELECT " + expression + " AS odd")
    with pytest.raises(DataError, match=says):
        fetch(conn, query, what="shop.orders")
    with pytest.raises(DataError, match=says):
        list(fetch_batches(conn, query, what="shop.orders"))


def test_two_columns_of_one_name_are_refused(conn: psycopg.Connection[Any]) -> None:
    with pytest.raises(DataError, match="named 'x'"):
        fetch(conn, sql.SQL("SELECT 1 AS x, 2 AS x"))


def test_batches_are_bounded_and_leave_the_connection_free_between_them(
    conn: psycopg.Connection[Any],
) -> None:
    batches = fetch_batches(conn, sql.SQL("SELECT i FROM generate_series(1, 25) i ORDER BY i"), size=10)
    sizes = []
    for frame in batches:
        sizes.append(frame.height)
        assert conn.execute("SELECT 1").fetchone() == (1,)
    assert sizes == [10, 10, 5]


def test_a_reader_who_stops_early_leaves_no_cursor_behind(conn: psycopg.Connection[Any]) -> None:
    batches = fetch_batches(conn, sql.SQL("SELECT i FROM generate_series(1, 25) i"), size=10)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert conn.execute("SELECT count(*) FROM pg_cursors WHERE name LIKE 'bollhav%'").fetchone() == (0,)


def test_batches_of_a_numeric_without_a_scale_have_one_type(conn: psycopg.Connection[Any]) -> None:
    query = sql.SQL("SELECT v::numeric FROM (VALUES (1, '1'), (2, '0.00001'), (3, '12.5')) AS t(i, v) ORDER BY i")
    joined = pl.concat(list(fetch_batches(conn, query, size=1)))
    assert joined["v"].to_list() == [Decimal("1"), Decimal("0.00001"), Decimal("12.5")]
