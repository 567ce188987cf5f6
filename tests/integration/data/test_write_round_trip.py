"""Random values of every supported type come back equal, in every write mode, by binary COPY and by CSV."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from ipaddress import ip_address
from typing import Any
from uuid import UUID

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from write_helpers import ENV, NOON, connect, copying_as, model_of, rows, write

from bollhav_provider import data
from bollhav_provider.model import Column

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=12) | st.sampled_from(
    ["", "\\.", "NULL", "\\N", '"', "a,b", "line\nfeed", "tab\t\r", "  ", "é😀", "{}", "'"]
)
DATES = st.dates()
NAIVE = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999))
AWARE = NAIVE.map(lambda value: value.replace(tzinfo=dt.UTC))
FLOATS = st.floats(width=64)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | TEXT
    | st.integers(-(10**6), 10**6).map(lambda value: value / 64 or 0.0),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def numbers(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda value: Decimal(f"{value}e-{scale}"))


def integers(bits: int, signed: bool = True) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


#: name of the column: PostgreSQL's type, polars' type, values.
CASES: dict[str, tuple[str, Any, st.SearchStrategy[Any]]] = {
    "i1": ("smallint", pl.Int8, integers(8)),
    "i2": ("smallint", pl.Int16, integers(16)),
    "i4": ("integer", pl.Int64, integers(32)),
    "i8": ("bigint", pl.Int64, integers(64)),
    "u8": ("smallint", pl.UInt8, st.integers(0, 255)),
    "u16": ("integer", pl.UInt16, st.integers(0, 65535)),
    "u32": ("bigint", pl.UInt32, integers(32, False)),
    "u64": ("numeric", pl.UInt64, integers(64, False)),
    "i128": ("numeric", pl.Int128, integers(127)),
    "f4": ("real", pl.Float32, st.floats(width=32)),
    "f8": ("double precision", pl.Float64, FLOATS),
    "dec": ("numeric(20,6)", pl.Decimal(20, 6), numbers(20, 6)),
    "any_dec": ("numeric", pl.Decimal(38, 9), numbers(38, 9)),
    "float_dec": ("numeric", pl.Float64, FLOATS),
    "truth": ("boolean", pl.Boolean, st.booleans()),
    "txt": ("text", pl.String, TEXT),
    "short": ("varchar(12)", pl.String, TEXT),
    "blob": ("bytea", pl.Binary, st.binary(max_size=9)),
    "day": ("date", pl.Date, DATES),
    "at": ("timestamptz", pl.Datetime("us", "Europe/Berlin"), AWARE),
    "at_ms": (
        "timestamptz",
        pl.Datetime("ms", "UTC"),
        AWARE.map(lambda v: v.replace(microsecond=v.microsecond // 1000 * 1000)),
    ),
    "clock": ("timestamp", pl.Datetime("us"), NAIVE),
    "tod": ("time", pl.Time, st.times()),
    "span": (
        "interval",
        pl.Duration("us"),
        st.timedeltas(dt.timedelta(days=-(10**6)), dt.timedelta(days=10**6)),
    ),
    "uid": ("uuid", pl.String, st.uuids().map(str)),
    "uid_raw": ("uuid", pl.Binary, st.uuids().map(lambda value: value.bytes)),
    "doc": ("jsonb", pl.String, JSON.map(json.dumps)),
    "doc_text": ("json", pl.String, JSON.map(json.dumps)),
    "rec": (
        "jsonb",
        pl.Struct({"a": pl.Int64, "b": pl.List(pl.String), "c": pl.Struct({"d": pl.Boolean})}),
        st.fixed_dictionaries(
            {
                "a": st.none() | integers(50),
                "b": st.none() | st.lists(st.none() | TEXT, max_size=3),
                "c": st.fixed_dictionaries({"d": st.none() | st.booleans()}),
            }
        ),
    ),
    "list_doc": ("jsonb", pl.List(pl.Int64), st.lists(st.none() | integers(50), max_size=3)),
    "mood": ("shop.mood", pl.Enum(["sad", "so so", "glad"]), st.sampled_from(["sad", "so so", "glad"])),
    "mood_cat": ("shop.mood", pl.Categorical, st.sampled_from(["sad", "so so", "glad"])),
    "price": ("shop.price", pl.Decimal(10, 2), numbers(10, 2).map(abs)),
    "ip": ("inet", pl.String, st.ip_addresses().map(str)),
    "ints": ("bigint[]", pl.List(pl.Int64), st.lists(st.none() | integers(64), max_size=4)),
    "texts": ("text[]", pl.List(pl.String), st.lists(st.none() | TEXT, max_size=4)),
    "floats": ("double precision[]", pl.List(pl.Float64), st.lists(st.none() | FLOATS, max_size=4)),
    "truths": ("boolean[]", pl.List(pl.Boolean), st.lists(st.none() | st.booleans(), max_size=4)),
    "days": ("date[]", pl.List(pl.Date), st.lists(st.none() | DATES, max_size=4)),
    "ats": ("timestamptz[]", pl.List(pl.Datetime("us", "UTC")), st.lists(st.none() | AWARE, max_size=4)),
    "decs": ("numeric[]", pl.List(pl.Decimal(20, 4)), st.lists(st.none() | numbers(20, 4), max_size=4)),
    "blobs": ("bytea[]", pl.List(pl.Binary), st.lists(st.none() | st.binary(max_size=5), max_size=4)),
    "uids": ("uuid[]", pl.List(pl.String), st.lists(st.none() | st.uuids().map(str), max_size=4)),
    "grid": (
        "integer[]",
        pl.List(pl.List(pl.Int32)),
        st.integers(1, 3).flatmap(
            lambda n: st.lists(st.lists(st.none() | integers(32), min_size=n, max_size=n), max_size=3)
        ),
    ),
    "pair": ("smallint[]", pl.Array(pl.Int16, 2), st.lists(integers(16), min_size=2, max_size=2)),
    "tods": ("time[]", pl.List(pl.Time), st.lists(st.none() | st.times(), max_size=3)),
    "spans": (
        "interval[]",
        pl.List(pl.Duration("us")),
        st.lists(st.timedeltas(dt.timedelta(days=-9), dt.timedelta(days=9)), max_size=3),
    ),
    "moods": ("shop.mood[]", pl.List(pl.String), st.lists(st.sampled_from(["sad", "so so"]), max_size=3)),
    "docs": ("jsonb[]", pl.List(pl.String), st.lists(JSON.map(json.dumps), max_size=3)),
}
#: Types that binary COPY cannot carry; a frame with one of them goes as CSV altogether.
TEXT_ONLY = {
    "i128", "float_dec", "ip", "ats", "uids", "grid", "tods", "spans", "moods", "docs",
}  # fmt: skip
MODES = ("append", "upsert", "recreate_partition", "truncate", "recreate")


def expected(name: str, value: Any) -> Any:
    """What psycopg reads for a value that was written."""
    if value is None:
        return None
    if name in ("uid", "uid_raw"):
        return UUID(value) if isinstance(value, str) else UUID(bytes=value)
    if name == "uids":
        return [None if item is None else UUID(item) for item in value]
    if name == "ip":
        return ip_address(value)
    if name in ("doc", "doc_text"):
        return json.loads(value)
    if name == "docs":
        return [json.loads(item) for item in value]
    if name in ("u64", "i128"):
        return Decimal(value)
    if name == "float_dec":
        return Decimal(repr(value))
    return value


def same(one: Any, other: Any) -> bool:
    """Equality in which NaN equals NaN and -0.0 is not 0.0."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return (one.is_nan() and other.is_nan()) or one == other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def _read(name: str) -> str:
    """How to read a column back with psycopg: as its own type, or as one that loses nothing."""
    return {"f4": "f4::float8", "moods": "moods::text[]", "docs": "docs::jsonb[]"}.get(name, name)


def _columns(names: list[str], mode: str) -> list[Column]:
    key = [Column("key", "bigint", primary_key=True)]
    window = (
        [Column("window_at", "timestamptz", partition_on=True, nullable=False)] if mode == "recreate_partition" else []
    )
    return [*key, *window, *(Column(name, CASES[name][0]) for name in names)]


@pytest.mark.parametrize("kind", ["binary", "csv"])
@pytest.mark.parametrize("mode", MODES)
def test_random_values_of_every_type_come_back_equal(db: str, mode: str, kind: str) -> None:
    names = [name for name in CASES if kind == "csv" or name not in TEXT_ONLY]
    model = model_of(*_columns(names, mode), write_mode=mode)
    row = st.fixed_dictionaries({name: st.none() | CASES[name][2] for name in names})
    with connect(db) as conn:
        conn.execute(
            "CREATE SCHEMA shop; CREATE TYPE shop.mood AS ENUM ('sad', 'so so', 'glad');CREATE DOMAIN shop.price "
            "AS numeric(10,2) CHECK (value >= 0)"
        )
        data.ensure_target(conn, model, ENV)
        used = 0

        @given(st.lists(row, min_size=1, max_size=5))
        @settings(max_examples=30, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        def round_trip(given_rows: list[dict[str, Any]]) -> None:
            nonlocal used
            start, used = used, used + len(given_rows)
            frame = pl.DataFrame(
                [
                    pl.Series("key", range(start, used), dtype=pl.Int64),
                    *(
                        pl.Series(name, [r[name] for r in given_rows], dtype=CASES[name][1], strict=True)
                        for name in names
                    ),
                    *([pl.Series("window_at", [NOON] * len(given_rows))] if mode == "recreate_partition" else []),
                ]
            )
            with copying_as(kind):
                stats = write(conn, model, frame)
            assert stats.rows_in == stats.rows_written == stats.rows_changed == len(given_rows)
            found = {r[0]: r[1:] for r in rows(conn, model, ", ".join(["key", *map(_read, names)]))}
            if mode in ("append", "upsert"):
                found = {key: value for key, value in found.items() if key >= start}
            assert len(found) == len(given_rows)
            for number, given_row in enumerate(given_rows):
                for name, value in zip(names, found[start + number], strict=True):
                    assert same(expected(name, given_row[name]), value), (name, given_row[name], value)
            if mode == "upsert":
                with copying_as(kind):
                    assert write(conn, model, frame).rows_changed == 0

        round_trip()


@pytest.mark.parametrize("name", sorted(set(CASES) - TEXT_ONLY))
def test_types_that_binary_copy_can_carry_use_it(name: str) -> None:
    from bollhav_provider.data.cast import convert
    from bollhav_provider.data.types import PhysicalType
    from bollhav_provider.data.values import Rule

    kinds = {
        "shop.mood": PhysicalType(1, "mood", kind="e", labels=("sad",)),
        "shop.price": PhysicalType(1700, "numeric"),
    }
    declared, dtype, _ = CASES[name]
    target = kinds.get(declared) or _physical(declared)
    frame_type = dtype if isinstance(dtype, pl.DataType) else dtype()
    assert convert(pl.col("x"), frame_type, target, Rule()).binary is not None


def _physical(declared: str) -> Any:
    from bollhav_provider.data.types import PhysicalType

    internal = {
        "smallint": "int2", "integer": "int4", "bigint": "int8", "real": "float4",
        "double precision": "float8", "boolean": "bool",
    }  # fmt: skip
    base = declared.removesuffix("[]").partition("(")[0]
    element = PhysicalType(1, internal.get(base, base))
    return PhysicalType(2, f"_{element.name}", element=element) if declared.endswith("[]") else element
