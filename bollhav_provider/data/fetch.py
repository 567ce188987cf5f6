"""Rows out of PostgreSQL into polars frames, exactly and with the types of the relation's columns.

Values cross as integers, floats and text that both sides agree on to the bit: an instant as microseconds, a
date as days, bytes as hex. What a polars type cannot hold (an infinite timestamp, a numeric NaN, ``24:00``)
is an error that names the column, never another value.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from bollhav_provider.data.carriage import Field, from_csv, from_rows
from bollhav_provider.exceptions import DataError

if TYPE_CHECKING:
    import polars as pl

Query = sql.SQL | sql.Composed
Params = Sequence[Any] | None

_BATCH_CURSOR = "bollhav_batches"


#: Type OIDs of pg_type.dat that are carried as something else than their text. They are fixed for ever.
_KINDS = {
    16: "bool", 17: "bytea", 20: "int8", 21: "int2", 23: "int4", 26: "oid", 700: "float4", 701: "float8",
    25: "text", 1043: "text", 1082: "date", 1083: "time", 1114: "timestamp", 1184: "timestamptz",
    1186: "interval", 1700: "numeric",
}  # fmt: skip

#: Array OID to its elements' kind; other arrays are carried as their text.
_ARRAYS = {
    1000: "bool", 1001: "bytea", 1005: "int2", 1007: "int4", 1016: "int8", 1021: "float4", 1022: "float8",
    1009: "text", 1015: "text", 1014: "text", 1182: "date", 1115: "timestamp", 1185: "timestamptz",
}  # fmt: skip


def describe(conn: psycopg.Connection[Any], query: Query, params: Params = None) -> tuple[Field, ...]:
    """Return the columns of a query's result. One round trip; no row is read.

    Raises:
        psycopg.Error: whatever the server says to the query.
        DataError: two columns of one name.
    """
    cursor = conn.execute(sql.SQL("SELECT * FROM ({}) AS q LIMIT 0").format(query), params, prepare=False)
    fields = []
    for column in cursor.description or ():
        kind = _KINDS.get(column.type_code, "other")
        if column.type_code in _ARRAYS:
            fields.append(Field(column.name, "array", element=_ARRAYS[column.type_code]))
        elif kind == "numeric":
            fields.append(Field(column.name, kind, column.precision, column.scale))
        else:
            fields.append(Field(column.name, kind))
    names = [field.name for field in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(
            f"the query gives two columns named {', '.join(map(repr, twice))}: name each column once with AS."
        )
    return tuple(fields)


def fetch(
    conn: psycopg.Connection[Any],
    query: Query,
    params: Params = None,
    *,
    fields: tuple[Field, ...] | None = None,
    what: str = "the query",
) -> pl.DataFrame:
    """Read a query's whole result.

    Args:
        conn: any connection that is not in the middle of a COPY.
        query: a SELECT.
        params: its parameters.
        fields: what :func:`describe` said, when it was asked before.
        what: named by errors.

    Raises:
        DataError: a value that polars cannot hold.
        psycopg.Error: whatever the server says.
    """
    fields = fields if fields is not None else describe(conn, query, params)
    with _errors_named(what):
        if not fields or any(field.kind == "array" for field in fields):
            cursor = conn.execute(_carried(fields, query, params), params, binary=True, prepare=False)
            return from_rows(cursor.fetchall(), fields, what)
        return from_csv(_copy_out(conn, _carried(fields, query, params, sentinel=True), params), fields, what)


def fetch_batches(
    conn: psycopg.Connection[Any],
    query: Query,
    params: Params = None,
    size: int = 100_000,
    *,
    fields: tuple[Field, ...] | None = None,
    what: str = "the query",
) -> Iterator[pl.DataFrame]:
    """Read a query's result in frames of at most ``size`` rows; memory is bounded by one of them.

    The rows are held by a server-side cursor that outlives its statement (``WITH HOLD``), so that the
    connection is free for other short statements between two batches; in an open transaction it lasts as long as
    that. At least one frame is given, with its columns and types.

    Raises:
        DataError: a value that polars cannot hold, or ``size`` under 1.
        psycopg.Error: whatever the server says.
    """
    if size < 1:
        raise DataError(f"{what}: a batch of {size} rows: ask for at least 1.")
    fields = fields if fields is not None else describe(conn, query, params)
    with _errors_named(what):
        fields = _with_scales(conn, fields, query, params)
        name = f"{_BATCH_CURSOR}_{next(_numbers)}"
        alone = conn.info.transaction_status == TransactionStatus.IDLE
        with psycopg.ServerCursor(conn, name, withhold=alone) as cursor:
            cursor.execute(_carried(fields, query, params), params, binary=True)
            empty = True
            while rows := cursor.fetchmany(size):
                empty = False
                yield from_rows(rows, fields, what)
                if len(rows) < size:
                    break
            if empty:
                yield from_rows([], fields, what)


def _with_scales(
    conn: psycopg.Connection[Any], fields: tuple[Field, ...], query: Query, params: Params
) -> tuple[Field, ...]:
    """Settle the decimals of numerics that declare none, so that every batch has the same type.

    A scale of its own for each batch would make joining them lose decimals. It takes one more pass over the rows, and
    only where there is such a column.
    """
    open_ones = [field for field in fields if field.kind == "numeric" and (field.scale is None or field.scale < 0)]
    if not open_ones:
        return fields
    longest = sql.SQL(", ").join(
        sql.SQL("max(pg_catalog.scale(q.{}))").format(
            sql.Identifier(field.name if params is None else field.name.replace("%", "%%"))
        )
        for field in open_ones
    )
    found = conn.execute(sql.SQL("SELECT {} FROM ({}) AS q").format(longest, query), params, prepare=False).fetchone()
    scales = dict(zip((field.name for field in open_ones), found or (), strict=True))
    return tuple(replace(field, scale=scales[field.name] or 0) if field.name in scales else field for field in fields)


def _count() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


_numbers = _count()


def _carried(fields: Sequence[Field], query: Query, params: Params, *, sentinel: bool = False) -> sql.Composed:
    columns: list[sql.Composable] = [field.expression(with_params=params is not None) for field in fields]
    if sentinel:
        # A line is never empty, so that a single NULL is not taken for a blank line.
        columns.append(sql.SQL("0"))
    return sql.SQL("SELECT {} FROM ({}) AS q").format(sql.SQL(", ").join(columns), query)


def _copy_out(conn: psycopg.Connection[Any], query: Query, params: Params) -> io.BytesIO:
    buffer = io.BytesIO()
    with (
        conn.cursor() as cursor,
        cursor.copy(sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(query), params) as copy,
    ):
        for chunk in copy:
            buffer.write(chunk)
    buffer.seek(0)
    return buffer


_INFINITE = (
    psycopg.errors.DatetimeFieldOverflow,
    psycopg.errors.NumericValueOutOfRange,
    psycopg.errors.FeatureNotSupported,
)


class _errors_named:
    """Say which column rule was broken when the server refuses a value that cannot be carried."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, _: object) -> None:
        if isinstance(exc, _INFINITE) and any(sign in str(exc) for sign in ("infin", "out of range")):
            raise DataError(
                f"{self.what}: a date or timestamp is infinite, which polars cannot hold: filter such rows "
                f"out or read the "
                f"column as text. The server says: {exc.diag.message_primary}."
            ) from exc
