"""Dates, times, instants and durations, to the microsecond."""

from __future__ import annotations

import polars as pl

from bollhav_provider.data.types import PhysicalType
from bollhav_provider.data.values import ROUND, Check, Rule, Unconvertible, Value, option

#: PostgreSQL's range, counted from 1970: days of ``date``; microseconds of ``timestamp`` (its upper end lies beyond
#: int64).
_FIRST_DAY, _LAST_DAY = -2_440_588, 2_145_042_905
_FIRST_MICROSECOND = -210_866_803_200_000_000
_PER_MICROSECOND = {"ns": 1000, "us": 1, "ms": 1}
_TIME = r"^\d\d:\d\d(:\d\d(\.\d{1,6})?)?$"


def to_date(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    """Convert to date: dates, and naive datetimes that are midnights."""
    checks: list[Check] = []
    if isinstance(dtype, pl.Datetime):
        if dtype.time_zone:
            raise Unconvertible(
                f"is {dtype} in the rows: which date an instant has depends on a zone",
                "convert it in the function, as in .dt.convert_time_zone(...).dt.date()",
            )
        midnight = e.dt.truncate("1d") == e
        checks.append(
            Check(
                (~midnight).fill_null(False), "holds datetimes that are no midnights", "use .dt.date() in the function"
            )
        )
    elif dtype != pl.Date:
        raise _no_time(dtype, "a date", "parse it in the function, as in .str.to_date('%Y-%m-%d')")
    out = e.cast(pl.Date)
    day = out.to_physical()
    checks.append(_range(((day < _FIRST_DAY) | (day > _LAST_DAY)).fill_null(False)))
    return Value(text=_with_era(out, "%m-%d"), binary=out, checks=tuple(checks))


def to_timestamp(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    """Convert to timestamptz or timestamp: the same instant, or the same reading of the clock."""
    if not isinstance(dtype, pl.Datetime | pl.Date):
        remedy = "parse it in the function, as in .str.to_datetime(time_zone='UTC')"
        raise _no_time(dtype, "a datetime", remedy)
    if isinstance(dtype, pl.Date):
        zone, unit = None, "us"
        out: pl.Expr = e.cast(pl.Datetime("us"))
    else:
        zone, unit = dtype.time_zone, str(dtype.time_unit)
        out = e
    aware = target.name == "timestamptz"
    checks = _finer(e.to_physical(), _PER_MICROSECOND[unit], target, rule) if isinstance(dtype, pl.Datetime) else []
    out = _microseconds(out, unit)
    if aware and zone is None:
        if rule.naive_tz is None:
            raise Unconvertible(
                f"is {dtype} in the rows, without a zone: which instants are meant is unknown",
                "say it in the function with .dt.replace_time_zone('...'), or declare Column(..., naive_tz='...')",
            )
        naive = out
        out = naive.dt.replace_time_zone(rule.naive_tz, ambiguous="null", non_existent="null")
        checks.append(
            Check(
                naive.is_not_null() & out.is_null(),
                f"holds readings of the clock that exist twice or never in {rule.naive_tz}",
                "give the column a zone in the function, where ambiguous= and non_existent= can be said",
            )
        )
    elif not aware and zone is not None:
        if zone != "UTC" and rule.naive_tz is None:
            raise Unconvertible(
                f"is {dtype} in the rows and {target} has no zone, which would be lost",
                "declare the column timestamptz, convert it to UTC in the function, or declare Column(..., "
                "naive_tz='...')",
            )
        out = out.dt.convert_time_zone(rule.naive_tz or "UTC").dt.replace_time_zone(None)
    if aware:
        out = out.dt.convert_time_zone("UTC")
    checks.append(_range((out.to_physical() < _FIRST_MICROSECOND).fill_null(False)))
    return Value(text=_with_era(out, "%m-%d %H:%M:%S%.6f", "+00" if aware else ""), binary=out, checks=tuple(checks))


def to_time(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    """Convert to time: times of day, and texts such as ``24:00`` that polars has no value for."""
    if dtype == pl.String:
        form = Check(
            (~e.str.contains(_TIME)).fill_null(False),
            "holds texts that are no times of the form 13:30 or 13:30:00.123456",
            "parse it in the function, as in .str.to_time()",
        )
        return Value(text=e, checks=(form, *_short(e, target, rule)))
    if dtype != pl.Time:
        raise _no_time(dtype, "a time of day", "parse it in the function, as in .str.to_time()")
    # The binary form of time is a 64-bit count of microseconds, so an integer carries it.
    nanoseconds = e.to_physical()
    return Value(
        text=e.dt.to_string("%H:%M:%S%.6f"),
        binary=nanoseconds // 1000 if not rule.allows(ROUND) else (nanoseconds + 500) // 1000,
        checks=tuple(_finer(nanoseconds, 1000, target, rule)),
    )


def to_interval(e: pl.Expr, dtype: pl.DataType, target: PhysicalType, rule: Rule) -> Value:
    """Convert to interval: durations, and texts in PostgreSQL's notation, which has months too."""
    if target.is_cut:
        raise Unconvertible(f"is {target}, which drops the other fields of what it is given", "declare it interval")
    if dtype == pl.String:
        return Value(text=e, checks=())
    if not isinstance(dtype, pl.Duration):
        raise _no_time(dtype, "a duration", "make it a pl.Duration in the function, or text as in '1 month'")
    unit = str(dtype.time_unit)
    checks = _finer(e.to_physical(), _PER_MICROSECOND[unit], target, rule)
    out = _microseconds(e, unit)
    return Value(text=_clock(out.to_physical()), binary=out, checks=tuple(checks))


def _clock(count: pl.Expr) -> pl.Expr:
    """Microseconds as ``-30:15:00.000001``: hours are never made days, and all servers read it in full length."""
    size = count.abs()
    parts = [
        pl.when(count < 0).then(pl.lit("-")).otherwise(pl.lit("")),
        (size // 3_600_000_000).cast(pl.String),
        pl.lit(":"),
        (size // 60_000_000 % 60).cast(pl.String).str.zfill(2),
        pl.lit(":"),
        (size // 1_000_000 % 60).cast(pl.String).str.zfill(2),
        pl.lit("."),
        (size % 1_000_000).cast(pl.String).str.zfill(6),
    ]
    return pl.concat_str(parts)


def _microseconds(e: pl.Expr, unit: str) -> pl.Expr:
    """The same in microseconds; nanoseconds that are none are refused before, or rounded where that is allowed."""
    if unit != "ns":
        return e.dt.cast_time_unit("us")
    # Half up, which is what the nearest microsecond is; without an allowance nothing is left to round.
    return (e + pl.duration(nanoseconds=500)).dt.cast_time_unit("us")


def _finer(count: pl.Expr, per_microsecond: int, target: PhysicalType, rule: Rule) -> list[Check]:
    """The check that no digit of a second is lost."""
    if rule.allows(ROUND):
        return []
    digits = target.fraction
    step = per_microsecond * 10 ** (6 - digits)
    if step == 1:
        return []
    what = f"holds fractions of a second finer than the {digits} digits that {target} keeps"
    return [Check((count % step != 0).fill_null(False), what, f"truncate it in the function, or {option(ROUND)}")]


def _short(text: pl.Expr, target: PhysicalType, rule: Rule) -> list[Check]:
    if rule.allows(ROUND) or target.fraction == 6:
        return []
    digits = text.str.extract(r"\.(\d+)$", 1).str.strip_chars_end("0").str.len_bytes().fill_null(0)
    what = f"holds fractions of a second finer than the {target.fraction} digits that {target} keeps"
    return [Check(digits > target.fraction, what, f"cut it in the function, or {option(ROUND)}")]


def _with_era(e: pl.Expr, rest: str, zone: str = "") -> pl.Expr:
    """ISO text with the year as PostgreSQL reads it: at least four digits, years before 1 as ``BC``."""
    year = e.dt.year()
    digits = pl.when(year > 0).then(year).otherwise(1 - year).cast(pl.String).str.zfill(4)
    era = pl.when(year > 0).then(pl.lit("")).otherwise(pl.lit(" BC"))
    return pl.concat_str(digits, pl.lit("-"), e.dt.to_string(rest), pl.lit(zone), era)


def _range(broken: pl.Expr) -> Check:
    return Check(broken, "holds times before 4714 BC or after the end of PostgreSQL's calendar", "correct the rows")


def _no_time(dtype: pl.DataType, what: str, remedy: str) -> Unconvertible:
    return Unconvertible(f"is {dtype} in the rows, which is not {what}", remedy)
