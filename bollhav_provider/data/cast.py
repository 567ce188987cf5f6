"""Cast frames to the target's exact physical types, or say why that cannot be done (Semantics: writing)."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from bollhav_provider.data.cast_numbers import nan_as_null, to_bool, to_float, to_integer, to_numeric
from bollhav_provider.data.cast_times import to_date, to_interval, to_time, to_timestamp
from bollhav_provider.data.types import FLOATS, INTEGERS, JSON, PhysicalType
from bollhav_provider.data.values import REPLACE_NUL, STRIP_NUL, Check, Rule, Unconvertible, Value, option

_Converter = Callable[[pl.Expr, pl.DataType, PhysicalType, Rule], Value]

#: Elements whose arrays pgpq writes with the element type that the server expects.
_BINARY_ELEMENTS = frozenset(
    {"bool", "int2", "int4", "int8", "float4", "float8", "text", "bytea", "date", "timestamp", "numeric"}
)
#: A column without a single value: NULL has no bytes in any type. These are compared with windows, so their type
#: matters.
_NULLS: dict[str, pl.DataType] = {
    "date": pl.Date(),
    "timestamp": pl.Datetime("us"),
    "timestamptz": pl.Datetime("us", "UTC"),
}


def convert(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    """Return how a column of one polars type is written into a column of one PostgreSQL type.

    Args:
        e: the column, or an element of it.
        dtype: its polars type.
        target: the physical type of the target's column.
        rule: what the declaration allows.

    Raises:
        Unconvertible: no value of this kind goes into such a column.
    """
    if dtype == pl.Null:
        nothing = e.cast(_NULLS.get(target.name, pl.String()))
        return Value(text=nothing.cast(pl.String), binary=nothing)
    if dtype == pl.Object:
        raise Unconvertible("holds Python objects in the rows", "convert them in the function, for instance to str")
    if isinstance(dtype, pl.Categorical | pl.Enum) and (target.is_textual or target.is_enum):
        e, dtype = e.cast(pl.String), pl.String()
    if target.element is not None:
        return _to_array(e, dtype, target, rule)
    e = nan_as_null(e, dtype, rule)
    return _converter(target)(e, dtype, target, rule)


def _converter(target: PhysicalType) -> _Converter:
    if target.is_enum:
        return _to_enum
    if target.name in INTEGERS:
        return to_integer
    if target.name in FLOATS:
        return to_float
    if target.name in JSON:
        return _to_json
    if target.is_textual:
        return _to_text
    return _OTHERS.get(target.name, _to_parsed)


def _to_text(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    if dtype != pl.String:
        raise Unconvertible(
            f"is {dtype} in the rows, which is no text", "cast it in the function, as in .cast(pl.String)"
        )
    e, checks = _without_nul(e, rule)
    if target.length is not None:
        # PostgreSQL would cut surplus blanks without a word, so they count here.
        long = e.str.len_chars() > target.length
        checks.append(
            Check(
                long.fill_null(False),
                f"holds texts of more than {target.length} characters",
                "declare it text, or cut it in the function",
            )
        )
    limit = {"name": 63, "char": 1}.get(target.name)
    if limit is not None:
        long = e.str.len_bytes() > limit
        checks.append(
            Check(
                long.fill_null(False),
                f"holds texts of more than {limit} bytes, which PostgreSQL would cut",
                "declare it text",
            )
        )
    return Value(text=e, binary=None if target.name == "char" else e, checks=tuple(checks))


def _to_enum(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    if dtype != pl.String:
        raise Unconvertible(f"is {dtype} in the rows, which is no text", f"give one of the labels of {target}")
    unknown = (~e.is_in(list(target.labels))).fill_null(False)
    check = Check(
        unknown,
        f"holds values other than the labels {', '.join(target.labels)}",
        "add the label with ALTER TYPE, or correct the rows",
    )
    return Value(text=e, binary=e, checks=(check,))


def _to_bytes(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    if dtype != pl.Binary:
        raise Unconvertible(
            f"is {dtype} in the rows, which is not binary",
            "encode it in the function, as in .cast(pl.Binary) for UTF-8",
        )
    return Value(text=pl.concat_str(pl.lit("\\x"), e.bin.encode("hex")), binary=e)


def _to_uuid(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    if dtype == pl.Binary:
        broken = (e.bin.size() != 16).fill_null(False)
        return Value(
            e.bin.encode("hex"),
            e,
            checks=(Check(broken, "holds values that are not 16 bytes", "give the UUID as text"),),
        )
    if dtype != pl.String:
        raise Unconvertible(f"is {dtype} in the rows, which is no UUID", "give it as text, or as 16 bytes")
    raw = e.str.replace_all("-", "", literal=True).str.decode("hex", strict=False)
    misspelt = ~e.str.len_bytes().is_in([32, 36]) | raw.is_null() | (raw.bin.size() != 16)
    check = Check(
        (e.is_not_null() & misspelt.fill_null(True)),
        "holds texts that are no UUIDs",
        "correct the rows, or declare it text",
    )
    return Value(text=raw.bin.encode("hex"), binary=raw, checks=(check,))


def _to_parsed(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    """Types that only the server's own parser knows: inet, ranges, bit strings, composites, those of extensions."""
    if target.name == "money":
        raise Unconvertible("is money, whose rounding and notation depend on the server's locale", "declare it numeric")
    if target.name in ("oid", "xid", "cid") and dtype.is_integer():
        return Value(text=e.cast(pl.String))
    if dtype != pl.String:
        raise Unconvertible(
            f"is {dtype} in the rows, which has no counterpart in {target}", "give it as text in PostgreSQL's notation"
        )
    e, checks = _without_nul(e, rule)
    return Value(text=e, checks=tuple(checks))


def _to_json(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    from bollhav_provider.data.cast_nested import json_checks, json_text

    if dtype == pl.String:
        return Value(text=e, binary=e, jsonb=target.name == "jsonb", checks=tuple(_without_nul(e, Rule())[1]))
    checks = json_checks(e, dtype, rule)
    text = json_text(e)
    return Value(text=text, binary=text, jsonb=target.name == "jsonb", checks=checks)


def _to_array(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    from bollhav_provider.data.cast_nested import array_text, ragged

    assert target.element is not None
    if dtype == pl.String:
        raise Unconvertible("is text in the rows, which is no list", "split it in the function, as in .str.split(',')")
    if isinstance(dtype, pl.Array):
        inner, e = dtype.inner, e.arr.to_list()
    elif isinstance(dtype, pl.List):
        inner = dtype.inner
    else:
        raise Unconvertible(
            f"is {dtype} in the rows, which is no list", "make it a list in the function, as in pl.concat_list(...)"
        )
    inner_type = inner if isinstance(inner, pl.DataType) else inner()
    nested = isinstance(inner_type, pl.List | pl.Array)
    # PostgreSQL's array types have no depth: int[] holds int[][] as well.
    item = convert(pl.element(), inner_type, target if nested else target.element, rule)
    checks = tuple(Check(_any(e, check.broken), check.what, check.remedy) for check in item.checks)
    if nested:
        checks += ragged(e, inner_type)
        return Value(text=array_text(e, item.text, quoted=False), checks=checks)
    binary = None
    if item.binary is not None and target.element.name in _BINARY_ELEMENTS and inner_type != pl.Null:
        binary = e.list.eval(item.binary)
    return Value(text=array_text(e, item.text, quoted=True), binary=binary, checks=checks)


def _any(e: pl.Expr, broken: pl.Expr) -> pl.Expr:
    return ((e.list.len() > 0) & e.list.eval(broken).list.any()).fill_null(False)


def _without_nul(e: pl.Expr, rule: Rule) -> tuple[pl.Expr, list[Check]]:
    if rule.allows(STRIP_NUL):
        return e.str.replace_all("\0", "", literal=True), []
    if rule.allows(REPLACE_NUL):
        return e.str.replace_all("\0", "\ufffd", literal=True), []
    broken = e.str.contains("\0", literal=True).fill_null(False)
    remedy = f"remove them in the function, or {option(STRIP_NUL)} or {option(REPLACE_NUL)}"
    return e, [Check(broken, "holds texts with NUL characters, which PostgreSQL cannot store", remedy)]


_OTHERS: dict[str, _Converter] = {
    "bool": to_bool,
    "numeric": to_numeric,
    "date": to_date,
    "timestamp": to_timestamp,
    "timestamptz": to_timestamp,
    "time": to_time,
    "interval": to_interval,
    "bytea": _to_bytes,
    "uuid": _to_uuid,
}
