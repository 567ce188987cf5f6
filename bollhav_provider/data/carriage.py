"""How a column's values travel from PostgreSQL to polars, and back into the column's own type, exactly."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from bollhav_provider.exceptions import DataError

if TYPE_CHECKING:
    import polars as pl

_TIME_END = 86_400_000_000
_DECIMAL_DIGITS = 38


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


def _carried_type(field: Field) -> Any:
    import polars as pl

    return {
        "int2": pl.Int16, "int4": pl.Int32, "int8": pl.Int64, "oid": pl.Int64, "float4": pl.Float32,
        "float8": pl.Float64, "bool": pl.Int8, "date": pl.Int32, "timestamp": pl.Int64, "timestamptz": pl.Int64,
        "time": pl.Int64,
    }.get(field.kind, pl.String)  # fmt: skip


def from_csv(data: io.BytesIO, fields: Sequence[Field], what: str) -> pl.DataFrame:
    import polars as pl

    # Numbered, because a column's own name may be anything at all.
    schema = {str(i): _carried_type(field) for i, field in enumerate(fields)}
    if data.getbuffer().nbytes == 0:
        frame = pl.DataFrame(schema=schema)
    else:
        frame = pl.read_csv(data, has_header=False, schema={**schema, "end": pl.Int8}).drop("end")
    return pl.DataFrame([_restore(frame[str(i)], field, what) for i, field in enumerate(fields)])


def from_rows(rows: Sequence[Sequence[Any]], fields: Sequence[Field], what: str) -> pl.DataFrame:
    import polars as pl

    columns = list(zip(*rows, strict=True)) if rows else [()] * len(fields)
    series = []
    for field, values in zip(fields, columns, strict=True):
        if field.kind == "array":
            series.append(_array(field, values, what))
        else:
            series.append(_restore(pl.Series("", values, dtype=_carried_type(field), strict=True), field, what))
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
