"""Lists of dicts as frames: every row counts for a column's type, and no value is bent to fit another's.

Frames guess a column's type from its first rows and turn what comes later into it; here all values are looked at, and
a column that mixes kinds of values is refused with the rows that show it.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from typing import TYPE_CHECKING, Any
from uuid import UUID

from bollhav_provider.data.catalog import Relation
from bollhav_provider.data.plan import rule_of
from bollhav_provider.data.types import JSON, PhysicalType
from bollhav_provider.data.values import NAN_AS_NULL, Rule, option
from bollhav_provider.exceptions import RowsRefusedError
from bollhav_provider.model import Model

if TYPE_CHECKING:
    import polars as pl

_TEXT_LIKE = (UUID, IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network)
#: Integers up to here are floating point numbers exactly.
_EXACT_FLOAT = 2**53


class _Mixed(Exception):
    """A column with two kinds of values; holds the kinds, each with the number of a row."""


def frame_of(model: Model, relation: Relation, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Make a frame of dicts.

    Args:
        model: for messages and for what columns allow.
        relation: the target, whose types decide how nested values are read.
        rows: all of them; a key that some rows lack is null there.

    Raises:
        RowsRefusedError: a column mixes kinds of values, or holds one that has no place in a frame.
    """
    import polars as pl

    names: dict[str, None] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise RowsRefusedError(
                model.full_name,
                "*",
                f"row {number} is {type(row).__name__}, not a dict",
                remedy="give dicts of column name and value",
            )
        names.update(dict.fromkeys(row))
    columns: dict[str, pl.Series] = {}
    for name in names:
        column = relation.by_name.get(name)
        values = [row.get(name) for row in rows]
        columns[name] = _series(model, name, column.type if column else None, values)
    return pl.DataFrame(columns)


def _series(model: Model, name: str, target: PhysicalType | None, values: list[Any]) -> pl.Series:
    import polars as pl

    rule = rule_of(model, name)
    try:
        if target is not None and target.name in JSON:
            return pl.Series(
                name,
                [_document(model, name, number, value, rule) for number, value in enumerate(values)],
                dtype=pl.String,
            )
        prepared = _unify([_plain(value) for value in values], target)
        return pl.Series(name, prepared, strict=True)
    except _Mixed as problem:
        kinds = " and ".join(f"{kind} (row {number})" for kind, number in problem.args[0].items())
        raise RowsRefusedError(
            model.full_name, name, f"mixes {kinds}", remedy="convert the values in the function to one type"
        ) from None
    except (TypeError, OverflowError, pl.exceptions.PolarsError) as problem:
        raise RowsRefusedError(
            model.full_name,
            name,
            f"cannot become one column: {problem}",
            remedy="convert the values in the function to one type",
        ) from problem


def _plain(value: Any) -> Any:
    """Take wrappers off that polars has no type for."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, _TEXT_LIKE):
        return str(value)
    if isinstance(value, tuple | set | frozenset | list):
        return [_plain(item) for item in value]
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    return value


def _unify(values: list[Any], target: PhysicalType | None) -> list[Any]:
    """Make one kind of all values, without changing any."""
    leaves: dict[str, int] = {}
    for number, value in enumerate(values):
        _collect(value, number, leaves)
    kinds = set(leaves)
    numeric = target is not None and (target.element or target).name == "numeric"
    if (kinds <= {"int", "Decimal", "float"} and "Decimal" in kinds) or (kinds == {"int"} and numeric):
        if "float" in kinds:
            raise _Mixed(leaves)
        # A numeral says every digit, of any number of them, and NaN; the server reads it exactly.
        return _each(values, str) if numeric else _each(values, Decimal)
    if kinds == {"int", "float"}:
        return _each(values, lambda item: _as_float(item, leaves))
    if kinds == {"naive datetime", "datetime"} or len(kinds) > 1:
        raise _Mixed(leaves)
    if kinds == {"datetime"}:
        return _each(values, lambda item: item.astimezone(dt.UTC))
    return values


def _collect(value: Any, number: int, leaves: dict[str, int]) -> None:
    if value is None:
        return
    if isinstance(value, list):
        for item in value:
            _collect(item, number, leaves)
        return
    leaves.setdefault(_kind(value), number)


def _kind(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return "datetime" if value.tzinfo else "naive datetime"
    for kind in (bool, int, float, Decimal, str, bytes, dt.date, dt.time, dt.timedelta):
        if isinstance(value, kind):
            return kind.__name__
    return "dict" if isinstance(value, Mapping) else type(value).__name__


def _as_float(value: Any, leaves: dict[str, int]) -> float:
    if isinstance(value, int) and abs(value) > _EXACT_FLOAT:
        raise _Mixed(leaves)
    return float(value)


def _each(values: list[Any], change: Any) -> list[Any]:
    return [
        None if value is None else _each(value, change) if isinstance(value, list) else change(value)
        for value in values
    ]


def _document(model: Model, name: str, number: int, value: Any, rule: Rule) -> str | None:
    """A Python value as a JSON document; text is taken for one already."""
    if value is None or isinstance(value, str):
        return value

    def refuse(what: str, remedy: str) -> RowsRefusedError:
        return RowsRefusedError(model.full_name, name, f"holds {what} (row {number})", remedy=remedy)

    def clean(item: Any) -> Any:
        item = _plain(item)
        if isinstance(item, float) and not math.isfinite(item):
            if math.isnan(item) and rule.allows(NAN_AS_NULL):
                return None
            raise refuse(
                "NaN or an infinite number, which JSON cannot", f"replace it in the function, or {option(NAN_AS_NULL)}"
            )
        if isinstance(item, Mapping):
            if bad := next((key for key in item if not isinstance(key, str)), None):
                raise refuse(f"the key {bad!r}, which is no text", "make the keys texts in the function")
            return {key: clean(inner) for key, inner in item.items()}
        if isinstance(item, list):
            return [clean(inner) for inner in item]
        if isinstance(item, dt.datetime | dt.date | dt.time):
            return item.isoformat()
        if isinstance(item, Decimal):
            return str(item)
        if item is None or isinstance(item, str | int | float):
            return item
        raise refuse(
            f"{type(item).__name__}, which JSON has nothing for", "convert it in the function, for instance to text"
        )

    return json.dumps(clean(value), ensure_ascii=False, allow_nan=False)
