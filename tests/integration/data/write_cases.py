"""Awkward values: those that are kept, those that are refused, and those that a column may allow to be changed."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any
from uuid import UUID

import polars as pl

UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1)


def us(count: int, zone: str | None = "UTC", unit: str = "us") -> pl.Series:
    return pl.Series([count], dtype=pl.Datetime(unit, zone))  # type: ignore[arg-type]


#: what is shown, the column's type, the values, and what the table holds afterwards.
KEPT: dict[str, tuple[str, Any, Any]] = {
    "int64 into integer": ("integer", pl.Series([2**31 - 1, -(2**31), None]), [2**31 - 1, -(2**31), None]),
    "uint64 into bigint": ("bigint", pl.Series([2**63 - 1], dtype=pl.UInt64), [2**63 - 1]),
    "uint64 beyond bigint into numeric": (
        "numeric",
        pl.Series([2**64 - 1], dtype=pl.UInt64),
        [Decimal(2**64 - 1)],
    ),
    "38 nines": ("numeric(38,0)", pl.Series([Decimal("9" * 38)]), [Decimal("9" * 38)]),
    "more digits than polars has, as text": (
        "numeric(60,20)",
        pl.Series(["1" * 40 + ".5"]),
        [Decimal("1" * 40 + ".5")],
    ),
    "numeric of negative scale": ("numeric(5,-2)", pl.Series([1200]), [Decimal(1200)]),
    "whole floats into integer": ("integer", pl.Series([1.0, None]), [1, None]),
    "whole decimals into bigint": ("bigint", pl.Series([Decimal("7.00")]), [7]),
    "floats of few places into numeric": (
        "numeric(6,2)",
        pl.Series([2.675 * 100, 0.1, 3.7]),
        [Decimal("267.50"), Decimal("0.10"), Decimal("3.70")],
    ),
    "trailing zeros beyond the scale": ("numeric(6,2)", pl.Series([Decimal("1.1000")]), [Decimal("1.10")]),
    "NaN and infinity into numeric": ("numeric", pl.Series([math.nan, math.inf]), ["NaN", "Infinity"]),
    "NaN and infinities into float": (
        "double precision",
        pl.Series([math.inf, -math.inf, -0.0, 5e-324]),
        [math.inf, -math.inf, -0.0, 5e-324],
    ),
    "exact float64 into real": ("real", pl.Series([0.5, 1e10]), [0.5, 1e10]),
    "zero and one into boolean": ("boolean", pl.Series([0, 1, None]), [False, True, None]),
    "empty string is not NULL": ("text", pl.Series(["", None, "NULL", "\\N"]), ["", None, "NULL", "\\N"]),
    "a lone end-of-data mark": ("text", pl.Series(["a", "\\.", "b"]), ["a", "\\.", "b"]),
    "quotes and line ends": (
        "text",
        pl.Series(['"', "a\nb", "a\r\nb", "\\.\n", ","]),
        ['"', "a\nb", "a\r\nb", "\\.\n", ","],
    ),
    "first and last date": (
        "date",
        pl.Series([dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    ),
    "a date before our era": ("date", pl.Series([-800_000], dtype=pl.Int32).cast(pl.Date), ["0222-09-04 BC"]),
    "a date after year 9999": ("date", pl.Series([5_000_000], dtype=pl.Int32).cast(pl.Date), ["15659-07-15"]),
    "a naive midnight into date": ("date", pl.Series([dt.datetime(2024, 2, 29)]), [dt.date(2024, 2, 29)]),
    "last instant": (
        "timestamptz",
        pl.Series([dt.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)]),
        [dt.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)],
    ),
    "an instant before our era": ("timestamptz", us(-100_000_000_000_000_000), ["1200-02-15 14:13:20+00 BC"]),
    "both halves of a repeated hour": (
        "timestamptz",
        pl.Series(
            [dt.datetime(2024, 10, 27, 0, 30, tzinfo=UTC), dt.datetime(2024, 10, 27, 1, 30, tzinfo=UTC)]
        ).dt.convert_time_zone("Europe/Berlin"),
        [dt.datetime(2024, 10, 27, 0, 30, tzinfo=UTC), dt.datetime(2024, 10, 27, 1, 30, tzinfo=UTC)],
    ),
    "whole microseconds in nanoseconds": (
        "timestamptz",
        us(1_000, unit="ns"),
        [EPOCH.replace(microsecond=1, tzinfo=UTC)],
    ),
    "UTC into timestamp": ("timestamp", us(5), [EPOCH.replace(microsecond=5)]),
    "few digits of a second": ("timestamptz(3)", us(5_000), [EPOCH.replace(microsecond=5000, tzinfo=UTC)]),
    "the last microsecond of a day": (
        "time",
        pl.Series([dt.time(23, 59, 59, 999999)]),
        [dt.time(23, 59, 59, 999999)],
    ),
    "24:00 as text": ("time", pl.Series(["24:00"]), ["24:00:00"]),
    "a negative duration": (
        "interval",
        pl.Series([dt.timedelta(microseconds=-1)]),
        [dt.timedelta(microseconds=-1)],
    ),
    "months as text": ("interval", pl.Series(["1 mon -2 days"]), ["1 mon -2 days"]),
    "a list of nulls": (
        "integer[]",
        pl.Series([[None, 1], [], None], dtype=pl.List(pl.Int64)),
        [[None, 1], [], None],
    ),
    "awkward elements": (
        "text[]",
        pl.Series([["NULL", "", "{", '"', "\\", None, "a,b"]]),
        [["NULL", "", "{", '"', "\\", None, "a,b"]],
    ),
    "nested lists": ("integer[][]", pl.Series([[[1, 2], [3, None]]]), [[[1, 2], [3, None]]]),
    "arrays of varchar": ("varchar(3)[]", pl.Series([["abc"]]), [["abc"]]),
    "structs": (
        "jsonb",
        pl.Series([{"a": 1, "b": [None, {"c": "é"}]}, None]),
        [{"a": 1, "b": [None, {"c": "é"}]}, None],
    ),
    "a struct of nulls is not NULL": (
        "jsonb",
        pl.Series([{"a": None}], dtype=pl.Struct({"a": pl.Int64})),
        [{"a": None}],
    ),
    "numbers and lists into jsonb": ("jsonb", pl.Series([[1.5, 2.0]]), [[1.5, 2.0]]),
    "a JSON null in text": ("jsonb", pl.Series(["null", None]), ["null", None]),
    "bytes of all kinds": ("bytea", pl.Series([bytes(range(256)), b""]), [bytes(range(256)), b""]),
    "UUIDs in capitals": (
        "uuid",
        pl.Series(["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"]),
        [UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")],
    ),
    "a network": ("inet", pl.Series(["10.0.0.1/24", "::1"]), ["10.0.0.1/24", "::1/128"]),
    "ranges": ("int4range", pl.Series(["[1,5)", "empty"]), ["[1,5)", "empty"]),
    "bit strings": ("bit(4)", pl.Series(["1010"]), ["1010"]),
    "a column without any value": ("date", pl.Series([None, None]), [None, None]),
    "a column without any value, as an array": ("integer[]", pl.Series([[], [None]]), [[], [None]]),
    "enum labels": ("shop.mood", pl.Series(['a"b', "so so"]), ['a"b', "so so"]),
    "a domain's values": ("shop.price", pl.Series([Decimal("1.50")]), [Decimal("1.50")]),
    "a domain over an array": ("shop.tags", pl.Series([["a", "b"]]), [["a", "b"]]),
    "composites as text": ("shop.point", pl.Series(['(1,"a b")']), ['(1,"a b")']),
    "categories": ("text", pl.Series(["x", "y"], dtype=pl.Categorical), ["x", "y"]),
    "fixed-width text": ("char(3)", pl.Series(["ab", "abc"]), ["ab", "abc"]),
}

#: what is shown, the column's type, the values (of two the second is at fault), what the error says.
REFUSED: dict[str, tuple[str, Any, str]] = {
    "NUL in text": ("text", pl.Series(["a", "b\0c"]), r"NUL characters.*row 1 .*holds 'b\\x00c'.*strip_nul"),
    "NUL in an array": ("text[]", pl.Series([["a"], ["\0"]]), "NUL characters.*row 1"),
    "NUL in a struct": (
        "jsonb",
        pl.Series([{"a": "x"}, {"a": "\0"}]),
        "NUL characters, which jsonb cannot.*row 1",
    ),
    "an escaped NUL in JSON text": (
        "jsonb",
        pl.Series(['{"a": "\\u0000"}']),
        "writing: .*Unicode.*Remedy: remove the character",
    ),
    "broken JSON": (
        "jsonb",
        pl.Series(["{"]),
        "writing: invalid input syntax for type json.*row 0.*Remedy: correct the value",
    ),
    "NaN in JSON": (
        "jsonb",
        pl.Series([{"a": 1.0}, {"a": math.nan}]),
        "NaN or infinite numbers, which JSON cannot.*row 1.*nan_as_null",
    ),
    "infinity deep in JSON": (
        "jsonb",
        pl.Series([{"a": [{"b": 1.0}]}, {"a": [{"b": math.inf}]}]),
        "NaN or infinite.*row 1",
    ),
    "binary in JSON": (
        "jsonb",
        pl.Series([{"a": b"x"}]),
        "holds Binary in the rows, which JSON has nothing for",
    ),
    "scale loss": (
        "numeric(10,2)",
        pl.Series([Decimal("1.230"), Decimal("1.239")]),
        "more than 2 decimal places.*row 1.*1.239.*allow='round'",
    ),
    "scale loss of a float": ("numeric(10,2)", pl.Series([1.005]), "more than 2 decimal places.*1.005"),
    "scale loss of a tiny float": ("numeric(10,2)", pl.Series([1e-7]), "more than 2 decimal places"),
    "scale loss of text": ("numeric(10,2)", pl.Series(["1.239"]), "more than 2 decimal places"),
    "scale loss at a negative scale": ("numeric(5,-2)", pl.Series([1250]), "more than -2 decimal places"),
    "numeric overflow": (
        "numeric(4,2)",
        pl.Series([99, 100]),
        "more than 2 digits before the decimal point.*row 1.*100",
    ),
    "numeric overflow of decimals": (
        "numeric(4,2)",
        pl.Series([Decimal("99.99"), Decimal("100.00")]),
        "more than 2 digits.*row 1",
    ),
    "numeric overflow of floats": ("numeric(4,2)", pl.Series([-100.0]), "more than 2 digits before"),
    "infinity in bounded numeric": ("numeric(4,2)", pl.Series([math.inf]), "more than 2 digits before"),
    "no number": ("numeric", pl.Series(["1", "one"]), "texts that are no numbers.*row 1.*'one'"),
    "integer overflow": (
        "integer",
        pl.Series([1, 2**31]),
        r"out of its range \(-2147483648 to 2147483647\) .*row 1.*2147483648",
    ),
    "smallint underflow": ("smallint", pl.Series([-32769]), "out of its range"),
    "uint64 beyond bigint": (
        "bigint",
        pl.Series([1, 2**63], dtype=pl.UInt64),
        "out of its range.*row 1.*9223372036854775808",
    ),
    "int128 beyond bigint": ("bigint", pl.Series([-(2**63) - 1], dtype=pl.Int128), "out of its range"),
    "a fraction into integer": (
        "integer",
        pl.Series([1.0, 1.5]),
        "numbers with a fraction.*row 1.*1.5.*allow='round'",
    ),
    "NaN into integer": (
        "integer",
        pl.Series([1.0, math.nan]),
        "NaN or infinite numbers, which no integer is.*row 1.*nan_as_null",
    ),
    "a large float into bigint": ("bigint", pl.Series([2.0**63]), "out of its range"),
    "a large integer into float": (
        "double precision",
        pl.Series([2**53, 2**53 + 1]),
        "not exact in double precision.*row 1",
    ),
    "a float64 into real": ("real", pl.Series([0.5, 0.1]), "not exact in real.*row 1.*0.1"),
    "two into boolean": ("boolean", pl.Series([0, 2]), "numbers other than 0 and 1.*row 1"),
    "text into boolean": ("boolean", pl.Series(["yes"]), "is String in the rows, which is no boolean"),
    "a number into text": ("text", pl.Series([1]), "is Int64 in the rows, which is no text"),
    "text into integer": ("integer", pl.Series(["1"]), "is String in the rows, which is no number"),
    "text into date": (
        "date",
        pl.Series(["2024-01-01"]),
        "is String in the rows, which is not a date.*str.to_date",
    ),
    "a list into text": ("text", pl.Series([["a"]]), r"is List\(String\) in the rows"),
    "text into an array": ("text[]", pl.Series(["a"]), "is text in the rows, which is no list"),
    "a naive datetime into timestamptz": ("timestamptz", pl.Series([EPOCH]), "without a zone.*naive_tz"),
    "a date into timestamptz": ("timestamptz", pl.Series([dt.date(2024, 1, 1)]), "without a zone"),
    "a zone into timestamp": ("timestamp", us(0, "Europe/Berlin"), "has no zone, which would be lost"),
    "an instant into date": ("date", us(0), "which date an instant has depends on a zone"),
    "a time of day into date": ("date", pl.Series([EPOCH, EPOCH.replace(hour=1)]), "no midnights.*row 1"),
    "nanoseconds": ("timestamptz", us(1_001, unit="ns"), "finer than the 6 digits.*allow='round'"),
    "microseconds into timestamptz(3)": ("timestamptz(3)", us(5_001), "finer than the 3 digits"),
    "nanoseconds of a time": (
        "time",
        pl.Series([1_001], dtype=pl.Int64).cast(pl.Time),
        "finer than the 6 digits",
    ),
    "a time as free text": ("time", pl.Series(["noon"]), "no times of the form"),
    "nanoseconds of a duration": (
        "interval",
        pl.Series([1], dtype=pl.Duration("ns")),
        "finer than the 6 digits",
    ),
    "fields of an interval": (
        "interval year to month",
        pl.Series([dt.timedelta(days=1)]),
        "drops the other fields",
    ),
    "a date beyond the calendar": (
        "date",
        pl.Series([2_145_042_906], dtype=pl.Int32).cast(pl.Date),
        "after the end of PostgreSQL's calendar",
    ),
    "an instant before the calendar": ("timestamptz", us(-210_866_803_200_000_001), "before 4714 BC"),
    "text too long": ("varchar(3)", pl.Series(["abc", "abcd"]), "more than 3 characters.*row 1.*'abcd'"),
    "blanks too long": ("varchar(3)", pl.Series(["abc "]), "more than 3 characters"),
    "a name too long": ("name", pl.Series(["a" * 64]), "more than 63 bytes"),
    "no label": ("shop.mood", pl.Series(["so so", "bad"]), "other than the labels a\"b, so so.*row 1.*'bad'"),
    "no UUID": ("uuid", pl.Series(["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "x"]), "no UUIDs.*row 1"),
    "fifteen bytes": ("uuid", pl.Series([b"123456789012345"]), "not 16 bytes"),
    "no address": (
        "inet",
        pl.Series(["10.0.0.0", "10.0.0.300"]),
        "writing: invalid input syntax for type inet.*column 'v'",
    ),
    "bits that do not fit": ("bit(4)", pl.Series(["101"]), "writing: bit string length 3 does not match"),
    "ragged lists": ("integer[]", pl.Series([[[1], [2, 3]]]), "nested lists of different lengths"),
    "empty lists in a list": (
        "integer[]",
        pl.Series([[[], []]], dtype=pl.List(pl.List(pl.Int64))),
        "empty or null ones",
    ),
    "a broken domain": (
        "shop.price",
        pl.Series([Decimal("-1.00")]),
        "writing: value for domain shop.price violates.*constraint 'price_check'",
    ),
    "money": ("money", pl.Series(["1.239"]), "declare it numeric"),
    "text into bytea": ("bytea", pl.Series(["a"]), "is String in the rows, which is not binary"),
    "objects": ("text", pl.Series([object()], dtype=pl.Object), "holds Python objects"),
    "null in a NOT NULL column": ("integer NOT NULL", pl.Series([1, None]), "is NOT NULL but null .*row 1"),
    "an element out of range": ("smallint[]", pl.Series([[1], [2, 40000]]), "out of its range.*row 1"),
}

#: allowances: the column's type, the declaration's arguments, the values, what the table holds.
ALLOWED: dict[str, tuple[str, dict[str, Any], Any, Any]] = {
    "round a decimal": (
        "numeric(10,2)",
        {"allow": "round"},
        pl.Series([Decimal("1.235")]),
        [Decimal("1.24")],
    ),
    "round a float": ("numeric(10,2)", {"allow": "round"}, pl.Series([1.235]), [Decimal("1.24")]),
    "round to an integer": ("integer", {"allow": "round"}, pl.Series([1.4, 2.6]), [1, 3]),
    "round to real": ("real", {"allow": "round"}, pl.Series([0.1]), [0.1]),
    "round to microseconds": (
        "timestamptz",
        {"allow": "round"},
        us(1_500, unit="ns"),
        [EPOCH.replace(microsecond=2, tzinfo=UTC)],
    ),
    "round to milliseconds": (
        "timestamptz(3)",
        {"allow": "round"},
        us(5_600),
        [EPOCH.replace(microsecond=6000, tzinfo=UTC)],
    ),
    "strip NUL": ("text", {"allow": "strip_nul"}, pl.Series(["a\0b"]), ["ab"]),
    "replace NUL": ("text", {"allow": "replace_nul"}, pl.Series(["a\0b"]), ["a\ufffdb"]),
    "NaN as NULL in float": (
        "double precision",
        {"allow": "nan_as_null"},
        pl.Series([math.nan, 1.0]),
        [None, 1.0],
    ),
    "NaN as NULL in integer": ("integer", {"allow": "nan_as_null"}, pl.Series([math.nan, 1.0]), [None, 1]),
    "NaN as null in JSON": ("jsonb", {"allow": "nan_as_null"}, pl.Series([{"a": math.nan}]), [{"a": None}]),
    "naive datetimes of a zone": (
        "timestamptz",
        {"naive_tz": "Europe/Berlin"},
        pl.Series([dt.datetime(2024, 7, 1, 12)]),
        [dt.datetime(2024, 7, 1, 10, tzinfo=UTC)],
    ),
    "instants as readings of a clock": (
        "timestamp",
        {"naive_tz": "Europe/Berlin"},
        pl.Series([dt.datetime(2024, 7, 1, 10, tzinfo=UTC)]),
        [dt.datetime(2024, 7, 1, 12)],
    ),
}
