"""Every awkward value is stored exactly or refused with its model, column, row and remedy."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator
from typing import Any

import polars as pl
import psycopg
import pytest
from write_cases import ALLOWED, KEPT, REFUSED
from write_helpers import ENV, WHOLE, connect, copying_as, model_of, rows, write

from bollhav_provider import data
from bollhav_provider.data.copy import SLICE_ROWS
from bollhav_provider.exceptions import DataError, RowsRefusedError
from bollhav_provider.model import Column


@pytest.fixture
def conn(module_db: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(module_db) as connection:
        connection.execute(
            """DROP SCHEMA IF EXISTS shop CASCADE; CREATE SCHEMA shop; CREATE TYPE shop.mood AS ENUM ('a"b', 'so so');
            CREATE TYPE shop.point AS (x int, label text);
            CREATE DOMAIN shop.price AS numeric(10,2) CHECK (value >= 0); CREATE DOMAIN shop.tags AS text[]"""
        )
        yield connection


def _model(declared: str, **options: Any) -> Any:
    kind, _, _rest = declared.partition(" NOT NULL")
    nullable = not declared.endswith("NOT NULL")
    return model_of(
        Column("n", "integer", primary_key=True),
        Column("v", kind, nullable=nullable, **options),
        write_mode="truncate",
    )


def _frame(values: pl.Series) -> pl.DataFrame:
    return pl.DataFrame([pl.Series("n", range(len(values)), dtype=pl.Int64), values.alias("v")])


def _skip_what_came_later(conn: psycopg.Connection[Any], declared: str) -> None:
    if ",-" in declared and conn.info.server_version < 150000:
        pytest.skip("negative scales came with PostgreSQL 15")


def _check(
    conn: psycopg.Connection[Any], declared: str, values: pl.Series, expected: list[Any], **options: Any
) -> None:
    _skip_what_came_later(conn, declared)
    model = _model(declared, **options)
    # The shortest text where psycopg has no value for what PostgreSQL holds, the value itself otherwise.
    as_text = any(isinstance(value, str) for value in expected)
    for kind in ("binary", "csv"):
        data.ensure_target(conn, model, ENV)
        with copying_as(kind):
            write(conn, model, _frame(values))
        found = [row[0] for row in rows(conn, model, "v::text" if as_text else "v", "n")]
        wanted = [None if value is None else str(value) if as_text else value for value in expected]
        assert found == wanted, kind
        if declared in ("double precision", "real") and not as_text:
            assert [math.copysign(1, value) for value in found if value is not None] == [
                math.copysign(1, value) for value in wanted if value is not None
            ]


@pytest.mark.parametrize("case", KEPT)
def test_awkward_values_are_stored_as_they_are(conn: psycopg.Connection[Any], case: str) -> None:
    _check(conn, *KEPT[case])


@pytest.mark.parametrize("case", ALLOWED)
def test_changes_that_the_column_allows_are_made(conn: psycopg.Connection[Any], case: str) -> None:
    declared, options, values, expected = ALLOWED[case]
    _check(conn, declared, values, expected, **options)


@pytest.mark.parametrize("case", REFUSED)
def test_values_that_would_change_are_refused(conn: psycopg.Connection[Any], case: str) -> None:
    declared, values, message = REFUSED[case]
    _skip_what_came_later(conn, declared)
    model = _model(declared)
    data.ensure_target(conn, model, ENV)
    for kind in ("binary", "csv"):
        with copying_as(kind), pytest.raises(DataError) as caught:
            write(conn, model, _frame(values))
        text = str(caught.value)
        assert re.search(message, text, re.DOTALL), text
        assert text.startswith("shop.t: ")
        assert "Remedy: " in text
        assert "'v'" in text
        assert rows(conn, model) == []


def test_a_refusal_counts_the_rows_and_shows_five_with_their_keys(conn: psycopg.Connection[Any]) -> None:
    model = _model("integer")
    data.ensure_target(conn, model, ENV)
    count = SLICE_ROWS + 10
    values = pl.Series([1] * (count - 7) + [2**40] * 7)
    with pytest.raises(RowsRefusedError) as caught:
        write(conn, model, iter([_frame(pl.Series([5])), _frame(values)]))
    error = caught.value
    assert (error.model, error.column, error.count, len(error.samples)) == ("shop.t", "v", 7, 5)
    assert error.samples[0] == f"row {count - 7 + 1} (n={count - 7}) holds {2**40}"


def test_a_naive_reading_that_exists_twice_is_refused(conn: psycopg.Connection[Any]) -> None:
    model = _model("timestamptz", naive_tz="Europe/Berlin")
    data.ensure_target(conn, model, ENV)
    with pytest.raises(RowsRefusedError, match=r"exist twice or never in Europe/Berlin.*row 1"):
        write(
            conn,
            model,
            _frame(pl.Series([dt.datetime(2024, 10, 27, 1, 30), dt.datetime(2024, 10, 27, 2, 30)])),
        )


def test_citext_is_written_like_text_where_it_is_installed(conn: psycopg.Connection[Any]) -> None:
    try:
        conn.execute("CREATE EXTENSION citext")
    except psycopg.Error:
        pytest.skip("the server has no citext")
    _check(conn, "citext", pl.Series(["Ab", None]), ["Ab", None])
    model = model_of(Column("k", "citext", primary_key=True), Column("v", "integer"), name="keyed", write_mode="upsert")
    data.ensure_target(conn, model, ENV)
    write(conn, model, pl.DataFrame({"k": ["Ab"], "v": [1]}))
    assert write(conn, model, pl.DataFrame({"k": ["AB"], "v": [1]})).rows_changed == 1
    assert rows(conn, model) == [("AB", 1)]


def test_names_may_be_anything_that_postgresql_can_hold(conn: psycopg.Connection[Any]) -> None:
    names = ["ID", "select", 'a"b', "50%", "%s", "100%%", "😀", "naïve col", "semi;colon", "o'clock", "{x}"]
    for mode in ("append", "upsert", "truncate", "recreate"):
        model = model_of(
            *(Column(name, "integer", primary_key=name == "ID") for name in names),
            schema='Sales "50%"',
            name="Order%Lines😀",
            write_mode=mode,
            checks=[{"kind": "not_null", "columns": names}, {"kind": "unique", "columns": ["50%"]}],
        )
        data.ensure_target(conn, model, ENV)
        for turn in range(2):
            frame = pl.DataFrame({name: [turn * 100 + number] for number, name in enumerate(names)})
            with conn.transaction():
                data.write(conn, model, ENV, WHOLE, frame)
                assert data.run_checks(conn, model, ENV, WHOLE).failures == ()
            assert rows(conn, model)[-1] == tuple(turn * 100 + number for number in range(len(names)))
        conn.execute('DROP SCHEMA "Sales ""50%""" CASCADE')
