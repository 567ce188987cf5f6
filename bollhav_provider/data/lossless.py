"""Which assignments of one PostgreSQL type to another keep every value, and how to catch those that do not.

PostgreSQL assigns ``1.239`` to ``numeric(10,2)`` and an instant to a ``date`` without a word. Here such assignments
are guarded value by value, or refused where the result would depend on a zone that nobody named (Semantics: writing).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

import psycopg
from psycopg import sql

from bollhav_provider.data.catalog import TargetColumn
from bollhav_provider.data.types import FLOATS, INTEGERS, PhysicalType
from bollhav_provider.data.values import ROUND, Rule

#: OIDs of PostgreSQL's own types, fixed since they were made.
_NAMES = {
    16: "bool", 20: "int8", 21: "int2", 23: "int4", 700: "float4", 701: "float8", 1082: "date", 1083: "time",
    1114: "timestamp", 1184: "timestamptz", 1186: "interval", 1266: "timetz", 1700: "numeric",
}  # fmt: skip

#: Assignments that need a zone, or cut the date off.
_NEED_A_ZONE = {
    ("timestamptz", "date"),
    ("timestamptz", "timestamp"),
    ("timestamp", "timestamptz"),
    ("date", "timestamptz"),
}
_CUT = {
    ("timestamptz", "time"),
    ("timestamp", "time"),
    ("interval", "time"),
    ("timestamptz", "timetz"),
    ("timetz", "time"),
}
_NUMBERS = frozenset(INTEGERS) | FLOATS | {"numeric"}
_MARK = "bollhav: assignment {} changes "
_MARKED = re.compile(r"bollhav: assignment (\d+) changes (.*)\"?$", re.DOTALL)


def assignment(
    source: sql.Identifier, oid: int, modifier: int, target: TargetColumn, rule: Rule, number: int
) -> tuple[sql.Composable, bool] | str:
    """Return the expression that assigns a query's column to the target's.

    Args:
        source: the query's column.
        oid: its type.
        modifier: its type modifier.
        target: the target's column.
        rule: what the declaration allows.
        number: marks the guard, so that its error can be told from others.

    Returns:
        The expression and whether it is guarded; or what is wrong, as the end of a sentence, with the remedy.
    """
    given, wanted = _NAMES.get(oid, ""), target.type.name
    if (given, wanted) in _NEED_A_ZONE:
        if rule.naive_tz and "timestamp" in given and "timestamp" in wanted:
            return sql.SQL("({} AT TIME ZONE {})").format(source, rule.naive_tz), False
        return (
            f"gets {given} from the query, which means another thing in every zone: write the conversion, as in AT "
            "TIME ZONE '...'"
        )
    if (given, wanted) in _CUT:
        return f"gets {given} from the query, which would be cut: write an explicit cast"
    kind = sql.SQL(target.type.display)
    mark = sql.SQL("({mark} || {source}::text)::{kind}").format(
        mark=sql.Literal(_MARK.format(number)), source=source, kind=kind
    )
    cases = []
    if (limits := _limits(given, modifier, target.type)) is not None:
        cases.append(sql.SQL("WHEN {} NOT BETWEEN {} AND {} THEN {}").format(source, *map(_exactly, limits), mark))
    if not rule.allows(ROUND) and _may_lose(given, modifier, target.type):
        compared = _compared(source, given, target.type)
        cases.append(sql.SQL("WHEN {}::{} IS DISTINCT FROM {} THEN {}").format(source, kind, compared, mark))
    if not cases:
        return source, False
    return sql.SQL("CASE {} ELSE {}::{} END").format(sql.SQL(" ").join(cases), source, kind), True


def _limits(given: str, modifier: int, target: PhysicalType) -> tuple[Decimal, Decimal] | None:
    """The least and the greatest number that fits, where one of the given type may not; NaN is above all."""
    if given not in _NUMBERS:
        return None
    if target.name in INTEGERS:
        bits = INTEGERS[target.name]
        fits = given in INTEGERS and INTEGERS[given] <= bits
        return None if fits else (Decimal(-(2 ** (bits - 1))), Decimal(2 ** (bits - 1) - 1))
    if target.name == "numeric" and target.precision is not None and target.scale is not None and given in INTEGERS:
        most = Decimal(10) ** (target.precision - target.scale) - 1
        return None if most >= 2 ** (INTEGERS[given] - 1) else (-most, most)
    return None


def _exactly(limit: Decimal) -> sql.Literal:
    return sql.Literal(limit)


def _compared(source: sql.Identifier, given: str, target: PhysicalType) -> sql.Composable:
    # Widened to double precision or numeric both sides of the comparison are exact; a float4 would be compared as one.
    if given == "float8" and target.name == "float4":
        return sql.SQL("{}::float8").format(source)
    return source


def _may_lose(given: str, modifier: int, target: PhysicalType) -> bool:
    wanted = target.name
    if given in _NUMBERS and wanted in INTEGERS:
        return given not in INTEGERS
    if wanted == "numeric" and given in _NUMBERS:
        if target.scale is None:
            return False
        if given == "numeric" and modifier >= 0:
            same = PhysicalType(0, "numeric", modifier=modifier)
            return (same.scale or 0) > target.scale
        return given not in INTEGERS or target.scale < 0
    if wanted == "float4":
        return given == "float8"
    if (given, wanted) == ("timestamp", "date"):
        return True
    if given == wanted and target.fraction < 6:
        return PhysicalType(0, given, modifier=modifier).fraction > target.fraction
    return False


def lossy_value(error: psycopg.Error, guarded: Sequence[str]) -> tuple[str, str] | None:
    """Return the column and the value that a guard found; None when the error is another."""
    found = _MARKED.search(error.diag.message_primary or "")
    if found is None or int(found[1]) >= len(guarded):
        return None
    return guarded[int(found[1])], found[2].rstrip('"')
