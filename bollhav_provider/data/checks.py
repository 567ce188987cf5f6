"""Checks on the rows that a unit wrote, in its transaction and before it counts as applied (Semantics: writing)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import sql
from psycopg.rows import tuple_row

from bollhav_provider.data.bounds import bounds_of
from bollhav_provider.data.errors import translated
from bollhav_provider.data.predicates import Condition, condition_of
from bollhav_provider.data.session import Connection, Statement, escaped, name_of, names, run_all, stage_of
from bollhav_provider.exceptions import CheckFailedError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Environment, Model, TableId, WriteMode
from bollhav_provider.model.checks import Check, ColumnFreshness, RowCount, Unique
from bollhav_provider.model.enums import Severity

#: Keys of failing rows that are named.
SAMPLES = 20


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """A check that did not hold.

    Attributes:
        check: what was checked.
        count: how many rows (for unique: keys) failed; None where it is about all of them.
        message: what was found.
        samples: up to twenty keys of failing rows, as text.
    """

    check: Check
    count: int | None
    message: str
    samples: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = f": {'; '.join(self.samples)}" if self.samples else ""
        return f"{self.check.label}: {self.message}{shown}"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The outcome of a unit's checks.

    Attributes:
        model: the model's full name.
        unit: the unit's label.
        checked: how many checks were made.
        failures: those that did not hold, in the order of declaration.
    """

    model: str
    unit: str
    checked: int = 0
    failures: tuple[CheckFailure, ...] = ()

    @property
    def errors(self) -> tuple[CheckFailure, ...]:
        """The failures that keep the rows from being published."""
        return tuple(failure for failure in self.failures if failure.check.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[CheckFailure, ...]:
        """The failures that are recorded only."""
        return tuple(failure for failure in self.failures if failure.check.severity is not Severity.ERROR)

    def require_passed(self) -> None:
        """Refuse the rows if a check of severity ``error`` failed.

        Raises:
            CheckFailedError: it names each failed check with its count and sample keys.
        """
        if self.errors:
            listed = "".join(f"\n  - {failure}" for failure in self.errors)
            raise CheckFailedError(
                f"{self.model} {self.unit}: {len(self.errors)} of {self.checked} checks failed and nothing was "
                f"published:{listed}\n"
                "Remedy: correct the rows, or declare severity='warn' to publish and record."
            )


def run_checks(
    conn: Connection, model: Model, env: Environment, unit: Unit, *, tables: Mapping[str, TableId] | None = None
) -> CheckReport:
    """Run all checks of a model on the rows that its unit just wrote.

    New rows are, by write mode: those of the window; those with the keys that were merged; those that this
    transaction appended; the whole table. All checks take one round trip, and one more when something failed.

    Args:
        conn: in the transaction in which the rows were written.
        model: whose checks to run.
        env: the environment.
        unit: the unit that was written.
        tables: relations that the graph bound to aliases, without suffix, for relationships.

    Raises:
        DataError: PostgreSQL could not run a check.
    """
    if not model.checks:
        return CheckReport(model.full_name, unit.label)
    scope = _Scope(conn, model, env, unit)
    conditions = [condition_of(conn, model, env, check, tables or {}) for check in model.checks]
    with translated(model, "running the checks"):
        uniques = [check for check in model.checks if isinstance(check, Unique)]
        counted, *doubles = run_all(
            conn, [scope.count(conditions), *(scope.duplicates(check.columns) for check in uniques)]
        )
        row = counted.fetchone()
        assert row is not None
        total, *found = row
        duplicates = {id(check): cursor.fetchall() for check, cursor in zip(uniques, doubles, strict=True)}
        failures = []
        for check, condition, value in zip(model.checks, conditions, found, strict=True):
            if isinstance(check, Unique):
                failure = _not_unique(check, duplicates[id(check)])
            elif isinstance(check, RowCount):
                failure = _row_count(check, total)
            elif isinstance(check, ColumnFreshness):
                failure = _not_fresh(check, value)
            elif value:
                assert condition is not None
                failure = CheckFailure(check, value, f"{value} of {total} rows fail", scope.sample(condition))
            else:
                failure = None
            if failure is not None:
                failures.append(failure)
    return CheckReport(model.full_name, unit.label, len(model.checks), tuple(failures))


class _Scope:
    """The new rows, as the FROM and WHERE of a statement."""

    def __init__(self, conn: Connection, model: Model, env: Environment, unit: Unit) -> None:
        self._conn = conn
        table = env.table(model.identity)
        target = escaped(name_of(table), conn)
        self._target = target
        self._parameters: dict[str, Any] = {}
        self._keys = [column.name for column in model.key_columns] or [column.name for column in model.target.columns]
        key = escaped(names([column.name for column in model.key_columns]), conn)
        self._order = sql.SQL(" ORDER BY {}").format(key) if model.key_columns else sql.SQL("")
        where: list[sql.Composable] = []
        bounds = bounds_of(model, unit)
        if bounds is not None:
            column = sql.SQL("n.{}").format(escaped(sql.Identifier(bounds.column), conn))
            where.append(sql.SQL("{0} >= %(low)s AND {0} < %(high)s").format(column))
            self._parameters |= {"low": bounds.low, "high": bounds.high}
        mode = model.target.write_mode
        loose = any(column.nullable for column in model.key_columns)
        if mode is WriteMode.UPSERT and not loose:
            where.append(
                sql.SQL("({key}) IN (SELECT {key} FROM {stage})").format(key=key, stage=escaped(stage_of(table), conn))
            )
        elif mode in (WriteMode.APPEND, WriteMode.UPSERT):
            # Written by this transaction, savepoints included; a row of a later transaction may be among them, which
            # is harmless.
            where.append(sql.SQL("pg_catalog.age(n.xmin) <= 0"))
        self._where = sql.SQL(" AND ").join(where) if where else sql.SQL("true")

    def count(self, conditions: list[Condition | None]) -> Statement:
        parts: list[sql.Composable] = [sql.SQL("count(*)")]
        parameters = dict(self._parameters)
        for condition in conditions:
            if condition is None:
                parts.append(sql.SQL("NULL"))
                continue
            parameters |= condition.parameters
            parts.append(
                condition.value
                if condition.aggregate
                else sql.SQL("count(*) FILTER (WHERE {})").format(condition.value)
            )
        statement = sql.SQL("SELECT {} FROM {} AS n WHERE {}").format(
            sql.SQL(", ").join(parts), self._target, self._where
        )
        return statement, parameters

    def duplicates(self, columns: tuple[str, ...]) -> Statement:
        listed = escaped(names(columns), self._conn)
        statement = sql.SQL(
            "SELECT {columns}, count(*), count(*) OVER () FROM {target} AS t WHERE ({columns}) IN (SELECT "
            "{columns} FROM {target} AS n WHERE {where}) GROUP BY {columns} HAVING count(*) > 1 ORDER BY {columns} "
            "LIMIT {limit}"
        ).format(columns=listed, target=self._target, where=self._where, limit=sql.Literal(SAMPLES))
        return statement, dict(self._parameters)

    def sample(self, condition: Condition) -> tuple[str, ...]:
        """The keys of failing rows; all columns of a table without key."""
        shown = list(dict.fromkeys([*self._keys, *condition.columns]))
        statement = sql.SQL("SELECT {} FROM {} AS n WHERE {} AND ({}){} LIMIT {}").format(
            escaped(names(shown), self._conn),
            self._target,
            self._where,
            condition.value,
            self._order,
            sql.Literal(SAMPLES),
        )
        with self._conn.cursor(row_factory=tuple_row) as cursor:
            rows = cursor.execute(statement, {**self._parameters, **condition.parameters}, prepare=False).fetchall()
        return tuple(_key(shown, row) for row in rows)


def _key(columns: list[str] | tuple[str, ...], row: tuple[Any, ...]) -> str:
    text = ", ".join(f"{name}={value}" for name, value in zip(columns, row, strict=False))
    return text if len(text) <= 200 else text[:197] + "..."


def _not_unique(check: Unique, rows: list[tuple[Any, ...]]) -> CheckFailure | None:
    if not rows:
        return None
    width = len(check.columns)
    samples = tuple(f"{_key(check.columns, row[:width])} ({row[width]} times)" for row in rows)
    count = rows[0][width + 1]
    return CheckFailure(check, count, f"{count} {'value is' if count == 1 else 'values are'} in several rows", samples)


def _row_count(check: RowCount, total: int) -> CheckFailure | None:
    if check.min is not None and total < check.min:
        return CheckFailure(check, None, f"{total} rows, the least is {check.min}")
    if check.max is not None and total > check.max:
        return CheckFailure(check, None, f"{total} rows, the most is {check.max}")
    return None


def _not_fresh(check: ColumnFreshness, age: timedelta | None) -> CheckFailure | None:
    if age is None:
        return CheckFailure(check, None, "there is no value whose age could be told")
    if age > check.within:
        return CheckFailure(check, None, f"the newest value is {age} old, the limit is {check.within}")
    return None
