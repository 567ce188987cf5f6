"""A unit's window in terms of the partition column: instants, readings of a clock, or local dates.

A daily chunk in America/New_York is a window of instants and, for a column of type ``date``, exactly one local date
(Semantics: time; writing).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from bollhav_provider.data.catalog import Relation, TargetColumn
from bollhav_provider.exceptions import DataError, SchemaMismatchError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Column, Model

if TYPE_CHECKING:
    import polars as pl

_ZONED = "timestamp with time zone"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The window on a partition column, half-open.

    Attributes:
        column: the partition column's name.
        kind: its declared type: ``date``, ``timestamp with time zone`` or ``timestamp without time zone``.
        low: the first value inside, as a parameter for SQL.
        high: the first value after.
        window: the unit's window, for messages.
    """

    column: str
    kind: str
    low: date | datetime
    high: date | datetime
    window: str


def bounds_of(model: Model, unit: Unit) -> Bounds | None:
    """Return a unit's window on the model's partition column; None when rows belong to no window.

    Args:
        model: whose partition column and zone count.
        unit: a windowless one has no bounds.

    Raises:
        DataError: the window cannot be said in the column's type.
    """
    column = model.partition_column
    if column is None or unit.windowless:
        return None
    since, until = unit.since, unit.until
    assert since is not None
    assert until is not None
    kind = column.pg_type.name
    low: date | datetime
    high: date | datetime
    if kind == _ZONED:
        low, high = since, until
    elif kind == "date":
        zone = ZoneInfo(model.tz)
        low, high = (_local_date(model, column, unit, instant, zone) for instant in (since, until))
    else:
        zone = ZoneInfo(column.naive_tz or "UTC")
        low, high = (_reading(model, column, unit, instant, zone) for instant in (since, until))
    return Bounds(column.name, kind, low, high, str(unit.window))


def outside(bounds: Bounds, value: pl.Expr) -> pl.Expr:
    """Which rows of a frame lie outside the window, null ones included.

    Args:
        bounds: the window.
        value: the partition column in the target's physical type.
    """
    return ((value < _literal(bounds.low, bounds.kind)) | (value >= _literal(bounds.high, bounds.kind))).fill_null(True)


def partition_in(model: Model, relation: Relation, bounds: Bounds) -> TargetColumn:
    """Find the partition column in the table.

    Raises:
        SchemaMismatchError: it is not there, or has another type than the declaration.
    """
    column = relation.by_name.get(bounds.column)
    physical = {_ZONED: "timestamptz", "date": "date"}.get(bounds.kind, "timestamp")
    if column is None or column.type.name != physical:
        found = "is missing" if column is None else f"has type {column.type}"
        raise SchemaMismatchError(
            f"{model.full_name}: target {relation.table.full_name}: partition column {bounds.column!r} {found}, the "
            f"model declares {bounds.kind}. Remedy: declare the type that the table has, or change the table."
        )
    return column


def _local_date(model: Model, column: Column, unit: Unit, instant: datetime, zone: ZoneInfo) -> date:
    local = instant.astimezone(zone).date()
    # Where clocks are put forward at midnight a day starts at one o'clock, so the first instant of a date counts.
    if (instant - timedelta(microseconds=1)).astimezone(zone).date() == local:
        raise DataError(
            f"{model.full_name}: partition column {column.name!r} (date): window {unit.window} does not start and "
            f"end at local midnights of {zone.key}, so its rows share a date with other windows. Remedy: declare "
            "the column timestamptz, or chunks of whole days in that zone (TimeChunking(chunk='@daily', tz=...))."
        )
    return local


def _reading(model: Model, column: Column, unit: Unit, instant: datetime, zone: ZoneInfo) -> datetime:
    local = instant.astimezone(zone)
    other = local.replace(fold=1 - local.fold)
    if local.utcoffset() != other.utcoffset():
        raise DataError(
            f"{model.full_name}: partition column {column.name!r} (timestamp, {zone.key}): an end of window "
            f"{unit.window} is a reading of the clock that exists twice, so rows cannot be told from those of "
            "another window. Remedy: declare the column timestamptz."
        )
    return local.replace(tzinfo=None)


def _literal(value: date | datetime, kind: str) -> pl.Expr:
    import polars as pl

    if not isinstance(value, datetime):
        return pl.lit(value, dtype=pl.Date)
    return pl.lit(value, dtype=pl.Datetime("us", "UTC" if kind == _ZONED else None))
