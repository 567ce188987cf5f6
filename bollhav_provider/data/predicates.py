"""Each check as SQL: what is true of a row that fails it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from bollhav_provider.data.session import Connection, escaped
from bollhav_provider.model import Environment, Model, TableId
from bollhav_provider.model.checks import (
    AcceptedValues,
    Check,
    ColumnFreshness,
    Expression,
    InRange,
    NotNull,
    Relationship,
)
from bollhav_provider.model.names import quote


@dataclass(frozen=True, slots=True)
class Condition:
    """What is counted.

    Attributes:
        value: true for a failing row; with ``aggregate``, an aggregate over all rows.
        parameters: named so that no two checks share one.
        columns: the columns that are worth showing with the key.
        aggregate: whether ``value`` is an aggregate.
    """

    value: sql.Composable
    parameters: dict[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    aggregate: bool = False


def condition_of(
    conn: Connection, model: Model, env: Environment, check: Check, tables: Mapping[str, TableId]
) -> Condition | None:
    """Return a check's condition on the rows ``n``; None for one that is no condition on rows (unique, row count)."""
    number = model.checks.index(check)
    if isinstance(check, NotNull):
        parts = [sql.SQL("{} IS NULL").format(_column(conn, name)) for name in check.columns]
        return Condition(sql.SQL(" OR ").join(parts), columns=check.columns)
    if isinstance(check, AcceptedValues):
        given = {f"check_{number}_{i}": value for i, value in enumerate(check.values)}
        marks = sql.SQL(", ").join(map(sql.Placeholder, given))
        return Condition(sql.SQL("{} NOT IN ({})").format(_column(conn, check.column), marks), given, (check.column,))
    if isinstance(check, InRange):
        limits = {"min": ("<", check.min), "max": (">", check.max)}
        given = {f"check_{number}_{end}": value for end, (_, value) in limits.items() if value is not None}
        parts = [
            sql.SQL("{} {} {}").format(
                _column(conn, check.column), sql.SQL(sign), sql.Placeholder(f"check_{number}_{end}")
            )
            for end, (sign, value) in limits.items()
            if value is not None
        ]
        return Condition(sql.SQL(" OR ").join(parts), given, (check.column,))
    if isinstance(check, Relationship):
        column = _column(conn, check.column)
        there = escaped(sql.Identifier("o", check.to_column or check.column), conn)
        other = _raw(_other(model, env, check, tables))
        value = sql.SQL(
            "{column} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {other} AS o WHERE {there} = {column})"
        ).format(column=column, other=other, there=there)
        return Condition(value, columns=(check.column,))
    if isinstance(check, Expression):
        return Condition(sql.SQL("({}) IS FALSE").format(_raw(check.sql)))
    if isinstance(check, ColumnFreshness):
        return Condition(fresh_value(conn, model, check), aggregate=True)
    return None


def fresh_value(conn: Connection, model: Model, check: ColumnFreshness) -> sql.Composable:
    """The age of a column's newest value, by the database's clock; naive values are in the column's zone, else UTC."""
    column = model.target.column(check.column)
    newest = sql.SQL("max({})").format(_column(conn, check.column))
    if column is not None and column.pg_type.name in ("date", "timestamp without time zone"):
        zone = column.naive_tz or (model.tz if column.pg_type.name == "date" else "UTC")
        newest = sql.SQL("({}::timestamp AT TIME ZONE {})").format(newest, sql.Literal(zone))
    return sql.SQL("pg_catalog.clock_timestamp() - {}").format(newest)


def _other(model: Model, env: Environment, check: Relationship, tables: Mapping[str, TableId]) -> str:
    """The other relation, quoted: a declared input follows its suffix, any other name is taken as it is."""
    for source in model.inputs:
        if check.to in (source.alias_name, *source.keys) and source.is_relation:
            return model.ref(check.to, env, table=tables.get(source.alias_name))
    if check.to == model.full_name:
        return env.table(model.identity).quoted
    return (
        TableId.parse(check.to).quoted
        if "." in check.to
        else f"{quote(env.schema(model.target.schema))}.{quote(check.to)}"
    )


def _column(conn: Connection, name: str) -> sql.SQL:
    return escaped(sql.Identifier("n", name), conn)


def _raw(text: str) -> sql.SQL:
    """SQL that the declaration gives, for a statement with parameters."""
    return sql.SQL(text.replace("%", "%%"))
