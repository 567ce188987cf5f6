"""Rows out of PostgreSQL into polars frames, exactly and with the types of the relation's columns.

Values cross as integers, floats and text that both sides agree on to the bit: an instant as microseconds, a
date as days, bytes as hex. What a polars type cannot hold (an infinite timestamp, a numeric NaN, ``24:00``)
is an error that names the column, never another value.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from bollhav_provider.exceptions import DataError

if TYPE_CHECKING:
    import polars as pl

Query = sql.SQL | sql.Composed
Params = Sequence[Any] | None

_BATCH_CURSOR = "bollhav_batches"


@dataclass(frozen=True, slots=True)
class Field:
    """How one column travels.

    Attributes:
        name: the column's name.
        kind: how its values are carried and turned back.
        precision: digits of a numeric; None when it has no limit.
        scale: decimals of a numeric; None when it has no limit.
        element: kind of an array's elements.
    """

    name: str
    kind: str
    precision: int | None = None
    scale: int | None = None
    element: str | None = None

    def expression(self, *, with_params: bool) -> sql.Composed:
        """SQL that turns the column into what is carried; its percent signs are doubled beside parameters."""
        name = self.name.replace("%", "%%") if with_params else self.name
        column = sql.SQL("q.{}").format(sql.Identifier(name))
        return sql.SQL(_EXPRESSIONS[self.kind]).format(column)


_EXPRESSIONS = {
    "int2": "{}",
    "int4": "{}",
    "int8": "{}",
    "oid": "{}::bigint",
    "float4": "{}",
    "float8": "{}",
    "bool": "{}::int",
    "text": "{}",
    # The type's own output: a cast to text differs for inet and char(n). num_nulls, because a composite value
    # of NULLs "IS NULL" without being NULL.
    "other": "CASE WHEN pg_catalog.num_nulls({0}) = 0 THEN pg_catalog.concat({0}) END",
    "numeric": "{}::text",
    "date": "({} - DATE '1970-01-01')",
    "timestamp": "(EXTRACT(EPOCH FROM {}) * 1000000)::bigint",
    "timestamptz": "(EXTRACT(EPOCH FROM {}) * 1000000)::bigint",
    "time": "(EXTRACT(EPOCH FROM {}) * 1000000)::bigint",
    # Months and years have no fixed length, so they must not turn into one.
    "interval": "CASE WHEN {0} IS NULL THEN NULL"
    " WHEN EXTRACT(YEAR FROM {0}) = 0 AND EXTRACT(MONTH FROM {0}) = 0"
    " THEN (EXTRACT(EPOCH FROM {0}) * 1000000)::bigint::text ELSE 'months' END",
    "bytea": "encode({}, 'hex')",
    "array": "{}",
}

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

_TIME_END = 86_400_000_000
_DECIMAL_DIGITS = 38


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
            return _from_rows(cursor.fetchall(), fields, what)
        return _from_csv(
            _copy_out(conn, _carried(fields, query, params, sentinel=True), params), fields, what
        )


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
    connection is free for other short statements between two batches. At least one frame is given, with its
    columns and types.

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
        with psycopg.ServerCursor(conn, name, withhold=True) as cursor:
            cursor.execute(_carried(fields, query, params), params, binary=True)
            empty = True
            while rows := cursor.fetchmany(size):
                empty = False
                yield _from_rows(rows, fields, what)
                if len(rows) < size:
                    break
            if empty:
                yield _from_rows([], fields, what)


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
    return tuple(
        replace(field, scale=scales[field.name] or 0) if field.name in scales else field for field in fields
    )


def _count() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


_numbers = _count()


def _carried(
    fields: Sequence[Field], query: Query, params: Params, *, sentinel: bool = False
) -> sql.Composed:
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


def _carried_type(field: Field) -> Any:
    import polars as pl

    return {
        "int2": pl.Int16, "int4": pl.Int32, "int8": pl.Int64, "oid": pl.Int64, "float4": pl.Float32,
        "float8": pl.Float64, "bool": pl.Int8, "date": pl.Int32, "timestamp": pl.Int64, "timestamptz": pl.Int64,
        "time": pl.Int64,
    }.get(field.kind, pl.String)  # fmt: skip


def _from_csv(data: io.BytesIO, fields: Sequence[Field], what: str) -> pl.DataFrame:
    import polars as pl

    # Numbered, because a column's own name may be anything at all.
    schema = {str(i): _carried_type(field) for i, field in enumerate(fields)}
    if data.getbuffer().nbytes == 0:
        frame = pl.DataFrame(schema=schema)
    else:
        frame = pl.read_csv(data, has_header=False, schema={**schema, "end": pl.Int8}).drop("end")
    return pl.DataFrame([_restore(frame[str(i)], field, what) for i, field in enumerate(fields)])


def _from_rows(rows: Sequence[Sequence[Any]], fields: Sequence[Field], what: str) -> pl.DataFrame:
    import polars as pl

    columns = list(zip(*rows, strict=True)) if rows else [()] * len(fields)
    series = []
    for field, values in zip(fields, columns, strict=True):
        if field.kind == "array":
            series.append(_array(field, values, what))
        else:
            series.append(
                _restore(pl.Series("", values, dtype=_carried_type(field), strict=True), field, what)
            )
    if not fields:
        return pl.DataFrame()
    return pl.DataFrame(series)


def _restore(series: pl.Series, field: Field, what: str) -> pl.Series:
    """Turn what was carried back into the column's own type."""
    import polars as pl

    series = series.rename(field.name)
    match field.kind:
        case "bool":
            return series.cast(pl.Boolean)
        case "oid":
            return series.cast(pl.UInt32)
        case "date":
            return series.cast(pl.Date)
        case "timestamp":
            return series.cast(pl.Datetime("us"))
        case "timestamptz":
            return series.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
        case "time":
            if series.len() and (series.max() or 0) >= _TIME_END:  # type: ignore[operator]
                raise DataError(
                    f"{what}: column {field.name!r} holds 24:00:00, which a polars Time cannot: read it as "
                    f"text with "
                    f'"{field.name}"::text.'
                )
            return (series * 1000).cast(pl.Time)
        case "interval":
            if (series == "months").any():
                raise DataError(
                    f"{what}: column {field.name!r} holds an interval with months, which have no fixed "
                    f"length: read it as "
                    f'text with "{field.name}"::text.'
                )
            return series.cast(pl.Int64).cast(pl.Duration("us"))
        case "bytea":
            return series.str.decode("hex")
        case "numeric":
            return _decimal(series, field, what)
    return series


def _decimal(series: pl.Series, field: Field, what: str) -> pl.Series:
    import polars as pl

    odd = series.filter(series.str.contains("[A-Za-z]"))
    if odd.len():
        raise DataError(
            f"{what}: column {field.name!r} holds {odd[0]}, which a polars Decimal cannot: read it as double "
            f"precision with "
            f'"{field.name}"::float8, or as text.'
        )
    decimals = _longest(series.str.split(".").list.get(1, null_on_oob=True))
    scale = decimals if field.scale is None or field.scale < 0 else field.scale
    if decimals > scale:
        raise DataError(
            f"{what}: column {field.name!r} holds a value with {decimals} decimals that was written while it was being "
            f"read; the batches before have {scale}: run again."
        )
    digits = _longest(series.str.replace_all(r"^-?0*|\.", ""))
    whole = _longest(series.str.extract(r"^-?0*(\d*)")) + scale
    if max(whole, digits) > _DECIMAL_DIGITS:
        raise DataError(
            f"{what}: column {field.name!r} needs {max(whole, digits)} digits and a polars Decimal holds "
            f'{_DECIMAL_DIGITS}: read it as text with "{field.name}"::text.'
        )
    precision = field.precision if field.precision and field.precision <= _DECIMAL_DIGITS else _DECIMAL_DIGITS
    return series.str.to_decimal(scale=scale).cast(pl.Decimal(max(precision, scale), scale))


def _longest(series: pl.Series) -> int:
    lengths = series.str.len_bytes().drop_nulls()
    return int(lengths.max()) if lengths.len() else 0  # type: ignore[arg-type]


def _array(field: Field, values: Sequence[Any], what: str) -> pl.Series:
    import polars as pl

    inner: Any = {
        "bool": pl.Boolean, "bytea": pl.Binary, "int2": pl.Int16, "int4": pl.Int32, "int8": pl.Int64,
        "float4": pl.Float32, "float8": pl.Float64, "text": pl.String, "date": pl.Date,
        "timestamp": pl.Datetime("us"), "timestamptz": pl.Datetime("us", "UTC"),
    }[field.element or "text"]  # fmt: skip
    depth = max((_depth(value) for value in values if value is not None), default=1)
    for _ in range(max(depth, 1)):
        inner = pl.List(inner)
    try:
        return pl.Series(field.name, values, dtype=inner, strict=True)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as exc:
        raise DataError(
            f"{what}: column {field.name!r}: arrays of unequal depth, or values out of range: {exc}."
        ) from exc


def _depth(value: Any) -> int:
    depth = 0
    while isinstance(value, list):
        depth += 1
        value = next((item for item in value if item is not None), None)
    return depth


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
