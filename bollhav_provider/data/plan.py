"""Match a frame's columns with the target's, by name, and plan how each one is written."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bollhav_provider.data.bounds import Bounds, outside
from bollhav_provider.data.catalog import Relation, TargetColumn
from bollhav_provider.data.values import Check, Rule, Unconvertible, Value
from bollhav_provider.exceptions import RowsRefusedError, SchemaMismatchError
from bollhav_provider.model import Model
from bollhav_provider.model.enums import OnSchemaChange

if TYPE_CHECKING:
    import polars as pl

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """A check with the column that it is about; ``window`` marks the one for rows outside the unit's window."""

    column: TargetColumn
    check: Check
    window: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """How frames of one schema are written.

    Attributes:
        columns: the target's columns that get values, in the frame's order.
        values: for each of them its expressions.
        checks: everything that must hold before a slice is sent.
        binary: whether every column has a binary form.
    """

    columns: tuple[TargetColumn, ...]
    values: tuple[Value, ...]
    checks: tuple[PlannedCheck, ...]

    @property
    def binary(self) -> bool:
        return all(value.binary is not None for value in self.values)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def match_columns(
    model: Model, relation: Relation, given: Sequence[str], what: str = "rows"
) -> tuple[TargetColumn, ...]:
    """Match names with the target's columns; position never matters.

    Args:
        model: whose ``on_schema_change`` decides about columns that one side lacks.
        relation: the target as it is.
        given: the names of the frame's (or the query's) columns.
        what: how to call what has these columns.

    Returns:
        The columns to write, in the order of ``given``. With ``ignore``, columns that the target lacks are left out,
        and the log says so.

    Raises:
        SchemaMismatchError: a column is missing on either side, or may not be given. All of them are named.
    """
    target, known = model.target, relation.by_name
    ignore = target.on_schema_change is OnSchemaChange.IGNORE
    problems: list[str] = []
    surplus = [name for name in given if name not in known]
    lacking = [
        column.name
        for column in relation.columns
        if column.name not in given and not column.fills_itself and _is_required(model, column, ignore)
    ]
    if surplus and ignore:
        logger.warning(
            "%s: the %s have columns that the target lacks; left out: %s", model.full_name, what, ", ".join(surplus)
        )
    elif surplus:
        problems.append(
            f"the {what} have {_columns(surplus)} that the target lacks: declare {_them(surplus)} in "
            f"Target(columns=...) with on_schema_change='add', drop {_them(surplus)} in the function, or leave "
            f"{_them(surplus)} out with on_schema_change='ignore'"
        )
    if lacking:
        hint = " (renamed?)" if surplus else ""
        problems.append(
            f"the {what} lack {_columns(lacking)} of the target{hint}: add {_them(lacking)} in the function, or "
            "declare a default"
            + ("" if ignore else ", or let NULL stand for nullable ones with on_schema_change='ignore'")
        )
    for name in given:
        column = known.get(name)
        if column is not None and not column.writable:
            made = "generated" if column.generated else "an identity, generated always"
            problems.append(f"column {name!r} is {made}: PostgreSQL makes its values; drop it in the function")
    if problems:
        raise SchemaMismatchError(f"{model.full_name}: target {relation.table.full_name}: " + "; ".join(problems) + ".")
    return tuple(known[name] for name in given if name in known)


def plan_frame(model: Model, relation: Relation, schema: pl.Schema, bounds: Bounds | None = None) -> Plan:
    """Plan how frames of a schema go into the target.

    Args:
        model: the declaration, for what each column allows.
        relation: the target as it is.
        schema: names and polars types.
        bounds: the unit's window; None when rows may be of any time.

    Raises:
        SchemaMismatchError: the columns do not match.
        RowsRefusedError: a column's type cannot go into the target's.
    """
    import polars as pl

    from bollhav_provider.data.cast import convert

    columns = match_columns(model, relation, tuple(schema))
    keys = {column.name for column in model.key_columns if not column.nullable}
    values, checks = [], []
    for column in columns:
        source = pl.col(column.name)
        try:
            value = convert(source, schema[column.name], column.type, rule_of(model, column.name))
        except Unconvertible as problem:
            raise RowsRefusedError(
                model.full_name, column.name, f"({column.type}) {problem.what}", remedy=problem.remedy
            ) from None
        values.append(value)
        checks += [PlannedCheck(column, check) for check in value.checks]
        if (column.not_null and column.type.domain is None) or column.name in keys:
            part = "a key column" if column.name in keys else "NOT NULL"
            null = Check(source.is_null(), f"is {part} but null", "fill it in the function, or drop the rows")
            checks.append(PlannedCheck(column, null))
        if bounds is not None and column.name == bounds.column:
            checks.append(_inside(bounds, column, value))
    return Plan(columns, tuple(values), tuple(checks))


def rule_of(model: Model, name: str) -> Rule:
    """What the declaration of a column allows; nothing for a column that is not declared."""
    column = model.target.column(name)
    return Rule() if column is None else Rule(frozenset(map(str, column.allow)), column.naive_tz)


def _inside(bounds: Bounds, column: TargetColumn, value: Value) -> PlannedCheck:
    assert value.binary is not None  # dates and times always have a binary form
    remedy = "give only rows of the unit's window, or leave partition_on off the column"
    return PlannedCheck(
        column, Check(outside(bounds, value.binary), f"lies outside the window {bounds.window}", remedy), window=True
    )


def _is_required(model: Model, column: TargetColumn, ignore: bool) -> bool:
    """Whether rows must bring the column: not where NULL may stand and nobody asked for it."""
    if column.not_null:
        return True
    return not ignore and model.target.column(column.name) is not None


def _columns(names: Sequence[str]) -> str:
    return ("column " if len(names) == 1 else "columns ") + ", ".join(map(repr, names))


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"
