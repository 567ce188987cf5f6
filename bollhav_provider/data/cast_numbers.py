"""Integers, floating point numbers, decimals and booleans, without losing a digit."""

from __future__ import annotations

import polars as pl

from bollhav_provider.data.types import INTEGERS, PhysicalType
from bollhav_provider.data.values import NAN_AS_NULL, ROUND, Check, Rule, Unconvertible, Value, option

_NUMERAL = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$|^\s*(?i:nan|[+-]?inf(inity)?)\s*$"


def to_integer(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    """Convert to int2, int4 or int8: whole numbers in range."""
    bits = INTEGERS[target.name]
    physical = {16: pl.Int16(), 32: pl.Int32(), 64: pl.Int64()}[bits]
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    checks: list[Check] = []
    number = e
    if dtype.is_integer():
        if (outside := _outside(e, dtype, low, high)) is not None:
            checks.append(_overflow(outside, low, high))
    elif dtype.is_float() or isinstance(dtype, pl.Decimal):
        number, found = _whole(e, dtype, rule)
        checks += found
        limit = pl.lit(float(high + 1)) if dtype.is_float() else pl.lit(high + 1).cast(pl.Decimal(38, 0))
        below = pl.lit(float(low)) if dtype.is_float() else pl.lit(low).cast(pl.Decimal(38, 0))
        compared = number if dtype.is_float() else number.cast(pl.Decimal(38, 0), strict=False)
        checks.append(_overflow(((compared >= limit) | (compared < below)).fill_null(False), low, high))
    else:
        raise _no_number(dtype, "cast it to an integer in the function")
    number = number.cast(physical, strict=False)
    return Value(text=number.cast(pl.String), binary=number, checks=tuple(checks))


def to_float(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    """Convert to float4 or float8: the same number, NaN and the infinities included."""
    physical = pl.Float32() if target.name == "float4" else pl.Float64()
    narrow = target.name == "float4"
    out = e.cast(physical, strict=False)
    broken: pl.Expr | None = None
    if dtype.is_float():
        if narrow and dtype == pl.Float64:
            broken = e.is_not_nan() & (out.cast(pl.Float64) != e)
    elif dtype.is_integer() or isinstance(dtype, pl.Decimal):
        exact_bits = 16 if narrow else 32
        if not (dtype.is_integer() and _bits(dtype) <= exact_bits):
            back = out.cast(dtype, strict=False)
            broken = e.is_not_null() & (back.is_null() | (back != e).fill_null(True))
    else:
        raise _no_number(dtype, "cast it to a float in the function")
    checks: list[Check] = []
    if broken is not None:
        if rule.allows(ROUND):
            checks.append(_overflow((out.is_infinite() & _finite(e, dtype)).fill_null(False), None, None))
        else:
            checks.append(
                Check(
                    broken.fill_null(False),
                    f"holds numbers that are not exact in {target}",
                    f"declare the column {'double precision or numeric' if narrow else 'numeric'}, or {option(ROUND)}",
                )
            )
    return Value(text=out.cast(pl.String), binary=out, checks=tuple(checks))


def to_bool(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    """Convert to boolean: booleans, and integers that are 0 or 1."""
    checks: tuple[Check, ...] = ()
    if dtype.is_integer():
        broken = (e.is_not_null() & (e != 0) & (e != 1)).fill_null(False)
        checks = (Check(broken, "holds numbers other than 0 and 1", "compare in the function, as in pl.col(...) != 0"),)
    elif dtype != pl.Boolean:
        raise Unconvertible(
            f"is {dtype} in the rows, which is no boolean", "compare in the function, as in pl.col(...) == 'yes'"
        )
    out = e.cast(pl.Boolean)
    return Value(text=out.cast(pl.String), binary=out, checks=checks)


def to_numeric(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    """Convert to numeric: every digit, and the number of decimal places where the column leaves that open."""
    text = e.cast(pl.String)
    checks: list[Check] = []
    precision, scale = target.precision, target.scale
    whole = None if precision is None or scale is None else precision - scale
    if dtype.is_integer():
        if whole is not None and (outside := _outside(e, dtype, -(10**whole) + 1, 10**whole - 1)) is not None:
            checks.append(_digits(outside, whole, target))
        if scale is not None and scale < 0:
            checks += _places_check(~text.str.contains(f"^-?(0|[0-9]*0{{{-scale}}})$"), scale, rule)
        small = _bits(dtype) <= 64
        return Value(text, e.cast(pl.Decimal(38, 0), strict=False) if small else None, checks=tuple(checks))
    if isinstance(dtype, pl.Decimal):
        digits, places = dtype.precision or 38, dtype.scale or 0
        if whole is not None and whole < digits - places:
            wide = pl.Decimal(38, places)
            bound = pl.lit(10 ** max(whole, 0)).cast(pl.Decimal(38, 0)).cast(wide) if whole >= 0 else None
            large = e.cast(wide).abs() >= bound if bound is not None else e.cast(pl.Float64).abs() >= 10.0**whole
            checks.append(_digits(large, whole, target))
        if scale is not None and scale < places:
            checks += _places_check(_places(text) > scale if scale >= 0 else _no_tail(text, -scale), scale, rule)
        return Value(text, e, checks=tuple(checks))
    if dtype.is_float():
        if whole is not None and scale is not None:
            too_large = (e.abs() >= 10.0**whole) & e.is_not_nan()
            checks.append(_digits(too_large, whole, target))
            checks += _places_check(e.is_finite() & (_places(text) > scale), scale, rule)
        return Value(text, checks=tuple(checks))
    if dtype == pl.String:
        checks.append(
            Check(
                (~text.str.contains(_NUMERAL)).fill_null(False),
                "holds texts that are no numbers",
                "parse it in the function",
            )
        )
        if scale is not None:
            checks += _places_check(_places(text) > scale, scale, rule)
        return Value(text, checks=tuple(checks))
    raise _no_number(dtype, "cast it to pl.Decimal in the function")


def nan_as_null(e: pl.Expr, dtype: pl.DataType, rule: Rule) -> pl.Expr:
    """Turn NaN into null where the column allows it."""
    return e.fill_nan(None) if dtype.is_float() and rule.allows(NAN_AS_NULL) else e


def _bits(dtype: pl.DataType) -> int:
    return int("".join(c for c in str(dtype) if c.isdigit()))


def _outside(e: pl.Expr, dtype: pl.DataType, low: int, high: int) -> pl.Expr | None:
    """Which integers lie outside; None when those of this width never do. No literal leaves the column's own range."""
    bits = _bits(dtype)
    signed = dtype.is_signed_integer()
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    parts = []
    if low > least:
        parts.append(e < pl.lit(low, dtype=dtype))
    if high < most:
        parts.append(e > pl.lit(high, dtype=dtype))
    if not parts:
        return None
    return (parts[0] if len(parts) == 1 else parts[0] | parts[1]).fill_null(False)


def _overflow(broken: pl.Expr, low: int | None, high: int | None) -> Check:
    span = "" if low is None else f" ({low} to {high})"
    return Check(broken, f"holds numbers out of its range{span}", "declare a wider type, or correct the rows")


def _digits(broken: pl.Expr, whole: int, target: PhysicalType) -> Check:
    digits = "digit" if whole == 1 else "digits"
    return Check(
        broken.fill_null(False),
        f"holds numbers with more than {whole} {digits} before the decimal point",
        f"declare it wider than {target}, or correct the rows",
    )


def _places(text: pl.Expr) -> pl.Expr:
    """Decimal places that a numeral needs: ``1.50`` one, ``2e-7`` seven."""
    fraction = text.str.extract(r"\.(\d+)", 1).str.strip_chars_end("0").str.len_bytes().cast(pl.Int64).fill_null(0)
    exponent = (
        text.str.extract(r"[eE]([+-]?\d+)\s*$", 1).str.strip_chars_start("+").cast(pl.Int64, strict=False).fill_null(0)
    )
    return pl.max_horizontal(fraction - exponent, pl.lit(0, dtype=pl.Int64))


def _no_tail(text: pl.Expr, zeros: int) -> pl.Expr:
    return ~text.str.contains(f"^-?(0|[0-9]*0{{{zeros}}})(\\.0*)?$")


def _places_check(broken: pl.Expr, scale: int, rule: Rule) -> list[Check]:
    if rule.allows(ROUND):
        return []  # the server rounds to the column's scale, half away from zero
    return [
        Check(
            broken.fill_null(False),
            f"holds numbers with more than {scale} decimal places, which PostgreSQL would round",
            f"round it in the function, declare a larger scale, or {option(ROUND)}",
        )
    ]


def _whole(e: pl.Expr, dtype: pl.DataType, rule: Rule) -> tuple[pl.Expr, list[Check]]:
    """Whole numbers of a float or decimal column, and the check that they are."""
    rounded = e.round(0)
    checks = []
    if dtype.is_float():
        checks.append(
            Check(
                (~e.is_finite()).fill_null(False),
                "holds NaN or infinite numbers, which no integer is",
                f"drop or replace them in the function, or {option(NAN_AS_NULL)} for NaN",
            )
        )
    if not rule.allows(ROUND):
        differs = (rounded != e) & e.is_finite() if dtype.is_float() else rounded != e
        checks.append(
            Check(
                differs.fill_null(False),
                "holds numbers with a fraction",
                f"round it in the function, declare it numeric, or {option(ROUND)}",
            )
        )
    return rounded, checks


def _finite(e: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    return e.is_finite() if dtype.is_float() else e.is_not_null()


def _no_number(dtype: pl.DataType, remedy: str) -> Unconvertible:
    return Unconvertible(f"is {dtype} in the rows, which is no number", remedy)
