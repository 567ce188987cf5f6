"""Everything that an execute function may return, with the same rows in the end."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterator
from decimal import Decimal
from ipaddress import ip_address
from typing import Any
from uuid import UUID

import polars as pl
import psycopg
import pytest
from write_helpers import ENV, connect, model_of, rows, write

from bollhav_provider import data
from bollhav_provider.exceptions import DataError, RowsRefusedError, SchemaMismatchError
from bollhav_provider.model import Column, Model

FRAME = pl.DataFrame({"id": [1, 2, 3], "v": ["a", None, "c"]})
HELD = [(1, "a"), (2, None), (3, "c")]


class Colour(enum.Enum):
    RED = "red"


@pytest.fixture
def conn(module_db: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(module_db) as connection:
        connection.execute("DROP SCHEMA IF EXISTS shop CASCADE")
        yield connection


@pytest.fixture
def model(conn: psycopg.Connection[Any]) -> Model:
    made = model_of(Column("id", "bigint"), Column("v", "text"), write_mode="truncate")
    data.ensure_target(conn, made, ENV)
    return made


def _frames() -> Iterator[pl.DataFrame]:
    yield FRAME[:1]
    yield FRAME[:0]
    yield FRAME[1:].select("v", "id")


PAYLOADS: dict[str, Any] = {
    "frame": lambda: FRAME,
    "lazy frame": lambda: FRAME.lazy(),
    "generator of frames": _frames,
    "list of frames": lambda: list(_frames()),
    "iterator of lazy frames": lambda: iter([FRAME[:2].lazy(), FRAME[2:].lazy()]),
    "arrow table": lambda: FRAME.to_arrow(),
    "arrow record batch": lambda: FRAME.to_arrow().combine_chunks().to_batches()[0],
    "arrow reader": lambda: FRAME.to_arrow().to_reader(max_chunksize=2),
    "list of dicts": lambda: FRAME.to_dicts(),
    "tuple of dicts": lambda: tuple(FRAME.to_dicts()),
    "generator of dicts": lambda: (row for row in FRAME.to_dicts()),
    "generator of lists of dicts": lambda: iter([FRAME.to_dicts()[:2], FRAME.to_dicts()[2:]]),
    "frames whose types differ": lambda: iter(
        [FRAME[:1].cast({"id": pl.Int8}), FRAME[1:2].with_columns(v=None), FRAME[2:]]
    ),
}


@pytest.mark.parametrize("kind", PAYLOADS)
def test_every_kind_of_payload_is_written(conn: psycopg.Connection[Any], model: Model, kind: str) -> None:
    stats = write(conn, model, PAYLOADS[kind]())
    assert (stats.rows_in, stats.rows_written) == (3, 3)
    assert rows(conn, model) == HELD


@pytest.mark.parametrize("payload", ["text", 5, {"id": 1}, [1, 2], iter(["x"]), object()], ids=type)
def test_anything_else_is_refused_with_what_is_taken(conn: psycopg.Connection[Any], model: Model, payload: Any) -> None:
    with pytest.raises(DataError, match=r"shop.t: .*a polars DataFrame or LazyFrame.*list of dicts"):
        write(conn, model, payload)


def test_frames_of_a_generator_are_pulled_one_by_one_in_the_callers_thread(
    conn: psycopg.Connection[Any], model: Model
) -> None:
    import gc
    import threading
    import weakref

    alive: list[weakref.ref[pl.DataFrame]] = []
    most = 0

    def frames() -> Iterator[pl.DataFrame]:
        nonlocal most
        for number in range(8):
            assert threading.current_thread() is threading.main_thread()
            gc.collect()
            most = max(most, sum(ref() is not None for ref in alive))
            frame = pl.DataFrame({"id": range(number * 10, number * 10 + 10), "v": ["x"] * 10})
            alive.append(weakref.ref(frame))
            yield frame
            del frame

    assert write(conn, model, frames()).rows_written == 80
    assert most <= 4  # the one being sent, the one encoded ahead, and what the loop still holds


def test_an_error_in_a_generator_passes_as_it_is_and_leaves_nothing(
    conn: psycopg.Connection[Any], model: Model
) -> None:
    def frames() -> Iterator[pl.DataFrame]:
        yield FRAME
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        write(conn, model, frames())
    assert rows(conn, model) == []
    assert write(conn, model, FRAME).rows_written == 3


def test_all_rows_count_for_the_type_of_a_column(conn: psycopg.Connection[Any]) -> None:
    model = model_of(Column("v", "double precision"), write_mode="truncate")
    data.ensure_target(conn, model, ENV)
    write(conn, model, [{"v": 1}] * 150 + [{"v": 1.5}])
    assert rows(conn, model, "max(v), count(*)") == [(1.5, 151)]
    write(conn, model, [{"v": None}] * 150 + [{"v": 1.5}])
    assert rows(conn, model, "max(v), count(v)") == [(1.5, 1)]


PYTHON: dict[str, tuple[str, list[Any], list[Any]]] = {
    "integers of any size": ("numeric", [1, 2**70, None], [Decimal(1), Decimal(2**70), None]),
    "decimals of any scale": (
        "numeric",
        [Decimal("1.10"), Decimal("2.345"), 3],
        [Decimal("1.10"), Decimal("2.345"), Decimal(3)],
    ),
    "decimals into integer": ("integer", [Decimal("7.0"), 8], [7, 8]),
    "dicts of different keys": (
        "jsonb",
        [{"a": 1}, {"b": [2, {"c": None}]}, None, [1, "x"], 5, True],
        [{"a": 1}, {"b": [2, {"c": None}]}, None, [1, "x"], 5, True],
    ),
    "values inside JSON": (
        "jsonb",
        [{"d": dt.date(2024, 1, 1), "n": Decimal("1.10"), "u": UUID(int=1), "e": Colour.RED, "t": ("x",)}],
        [{"d": "2024-01-01", "n": "1.10", "u": str(UUID(int=1)), "e": "red", "t": ["x"]}],
    ),
    "UUID objects": ("uuid", [UUID(int=5), None], [UUID(int=5), None]),
    "addresses": ("inet", [ip_address("::1")], [ip_address("::1")]),
    "enum members": ("text", [Colour.RED], ["red"]),
    "datetimes of several zones": (
        "timestamptz",
        [
            dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        ],
        [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2023, 12, 31, 22, tzinfo=dt.UTC)],
    ),
    "dates, times and durations": (
        "interval",
        [dt.timedelta(days=1, microseconds=1)],
        [dt.timedelta(days=1, microseconds=1)],
    ),
    "lists and sets": ("integer[]", [[1, None], (2,), set()], [[1, None], [2], []]),
    "lists of integers and floats": ("double precision[]", [[1], [1.5]], [[1.0], [1.5]]),
    "lists of decimals": ("numeric[]", [[Decimal("1.5"), 2]], [[Decimal("1.5"), Decimal(2)]]),
    "bytes": ("bytea", [b"\0x", bytearray(b"y")], [b"\0x", b"y"]),
}


@pytest.mark.parametrize("case", PYTHON)
def test_python_values_in_dicts_are_kept(conn: psycopg.Connection[Any], case: str) -> None:
    declared, values, expected = PYTHON[case]
    model = model_of(Column("n", "integer"), Column("v", declared), write_mode="truncate")
    data.ensure_target(conn, model, ENV)
    write(conn, model, [{"n": number, "v": value} for number, value in enumerate(values)])
    assert [row[0] for row in rows(conn, model, "v", "n")] == expected


MIXED: dict[str, tuple[str, list[Any], str]] = {
    "number and text": ("text", [1, "x"], r"mixes int \(row 0\) and str \(row 1\)"),
    "boolean and integer": ("integer", [True, 2], r"mixes bool \(row 0\) and int \(row 1\)"),
    "naive and aware": (
        "timestamptz",
        [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1)],
        r"mixes datetime \(row 0\) and naive datetime \(row 1\)",
    ),
    "date and datetime": (
        "date",
        [dt.date(2024, 1, 1), dt.datetime(2024, 1, 1)],
        "mixes date .* and naive datetime",
    ),
    "a large integer and a float": ("double precision", [2**53 + 1, 0.5], "mixes int .* and float"),
    "decimal and float": ("numeric", [Decimal("1.1"), 0.1], "mixes Decimal .* and float"),
    "NaN inside JSON": (
        "jsonb",
        [{"a": float("nan")}],
        r"holds NaN or an infinite number, which JSON cannot \(row 0\).*nan_as_null",
    ),
    "keys that are no text": ("jsonb", [{1: 2}], r"holds the key 1, which is no text \(row 0\)"),
    "an object inside JSON": ("jsonb", [{"a": object()}], r"holds object, which JSON has nothing for"),
    "an object": ("text", [object()], "Python objects"),
    "a dict where none belongs": ("text", [{"a": 1}], r"is Struct\(.*which is no text"),
}


@pytest.mark.parametrize("case", MIXED)
def test_values_in_dicts_are_never_bent_to_one_type(conn: psycopg.Connection[Any], case: str) -> None:
    declared, values, message = MIXED[case]
    model = model_of(Column("v", declared), write_mode="truncate")
    data.ensure_target(conn, model, ENV)
    with pytest.raises(RowsRefusedError, match=f"(?s)shop.t: column 'v' .*{message}"):
        write(conn, model, [{"v": value} for value in values])


def test_a_key_that_some_dicts_lack_is_null_there(conn: psycopg.Connection[Any], model: Model) -> None:
    write(conn, model, [{"id": 1, "v": "a"}, {"id": 2}])
    assert rows(conn, model) == [(1, "a"), (2, None)]


def test_frames_of_one_unit_have_to_bring_the_same_columns(conn: psycopg.Connection[Any]) -> None:
    model = model_of(Column("id", "bigint"), Column("v", "text", default="'none'"), write_mode="truncate")
    data.ensure_target(conn, model, ENV)
    with pytest.raises(SchemaMismatchError, match="frames of one unit differ in their columns: v"):
        write(conn, model, iter([FRAME, FRAME.select("id")]))
