"""What happened: errors and ended attempts, over all runs, for a bounded time.

State is bounded by the number of units; these tables would grow with the number of runs, so they have a
retention. Purging never changes what is covered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from psycopg import sql

from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.state.clock import utc
from bollhav_provider.state.refs import Conn

if TYPE_CHECKING:
    from bollhav_provider.model import Environment

#: A window's ends, as far as Python can hold them.
_FINITE = sql.SQL(
    "CASE WHEN since >= '0001-01-01Z' AND since < '10000-01-01Z' THEN since END, "
    "CASE WHEN until >= '0001-01-01Z' AND until < '10000-01-01Z' THEN until END"
)
#: Rows deleted in one transaction: short ones, so that nobody waits for a purge.
_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Retention:
    """How long what happened is kept; None keeps it for ever.

    Attributes:
        errors: the shared errors table.
        history: ended attempts.
        resets: which run reset which window. A run that is retried after that long resets again.
    """

    errors: timedelta | None = timedelta(days=90)
    history: timedelta | None = timedelta(days=90)
    resets: timedelta | None = timedelta(days=365)

    @classmethod
    def of_days(cls, errors: int, history: int) -> Retention:
        """Return what the options of a deployment say; 0 keeps for ever."""
        return cls(timedelta(days=errors) if errors else None, timedelta(days=history) if history else None)

    def to_json(self) -> dict[str, float | None]:
        """Return seconds by name; None for ever."""
        kept = {"errors": self.errors, "history": self.history, "resets": self.resets}
        return {name: age.total_seconds() if age is not None else None for name, age in kept.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, float | None]) -> Retention:
        """Read what :meth:`to_json` wrote."""
        names = ("errors", "history", "resets")
        seconds = {name: value[name] for name in names if name in value}
        return cls(**{name: timedelta(seconds=age) if age is not None else None for name, age in seconds.items()})


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """One failure of one unit."""

    id: int
    full_name: str
    unit: Unit
    run_id: UUID
    error_type: str
    message: str | None
    traceback: str | None
    created_at: datetime
    attempt: int | None
    details: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One ended attempt on a unit: ``applied``, ``error``, ``pending`` (given back), ``marked`` or ``retired``."""

    full_name: str
    unit: Unit
    outcome: str
    reason: str | None
    run_id: UUID | None
    attempt: int | None
    started_at: datetime | None
    finished_at: datetime
    rows_in: int | None
    rows_written: int | None
    rows_changed: int | None
    owner: str | None
    who: str | None
    dag_id: str | None
    airflow_run_id: str | None
    task_id: str | None
    try_number: int | None


def errors(
    conn: Conn, env: Environment, full_name: str | None = None, *, unit: Unit | None = None, limit: int = 100
) -> list[ErrorRecord]:
    """Return recorded failures, newest first.

    Args:
        conn: any.
        env: names the schema.
        full_name: of one model, with the environment's suffix; of all when not given.
        unit: of one unit.
        limit: at most so many.
    """
    query = sql.SQL(
        "SELECT id, full_name, {}, run_id, error_type, error_message, traceback, created_at, "
        "attempt, details "
        "FROM {} WHERE {} ORDER BY created_at DESC, id DESC LIMIT %(limit)s"
    ).format(_FINITE, sql.Identifier(env.state_schema, "errors"), _where(full_name, unit))
    found = []
    for row in conn.execute(query, _values(full_name, unit, limit)):
        identity, name, since, until, run_id, kind, message, trace, created_at, attempt, details = row
        found.append(
            ErrorRecord(
                identity,
                name,
                _unit(since, until),
                run_id,
                kind,
                message,
                trace,
                utc(created_at),
                attempt,
                details or {},
            )
        )
    return found


def attempts(
    conn: Conn, env: Environment, full_name: str | None = None, *, unit: Unit | None = None, limit: int = 100
) -> list[Attempt]:
    """Return ended attempts, newest first. Arguments as for :func:`errors`."""
    query = sql.SQL(
        "SELECT full_name, since, until, outcome, reason, run_id, attempt, started_at, finished_at, rows_in, "
        "rows_written, rows_changed, owner, who, dag_id, airflow_run_id, task_id, try_number "
        "FROM {} WHERE {} ORDER BY finished_at DESC, id DESC LIMIT %(limit)s"
    ).format(sql.Identifier(env.state_schema, "history"), _where(full_name, unit))
    found = []
    for row in conn.execute(query, _values(full_name, unit, limit)):
        name, since, until, outcome, reason, run_id, attempt, started_at, finished_at, *rest = row
        started = utc(started_at) if started_at is not None else None
        found.append(
            Attempt(
                name, _unit(since, until), outcome, reason, run_id, attempt, started, utc(finished_at), *rest
            )
        )
    return found


def purge(
    conn: Conn, env: Environment, retention: Retention | None = None, *, at_most: int | None = None
) -> dict[str, int]:
    """Delete what is older than its retention, by the database's clock.

    Args:
        conn: in autocommit; every batch is a transaction.
        env: names the schema.
        retention: how long is kept; the default when not given.
        at_most: rows of one table, roughly; all of them when not given.

    Returns:
        Deleted rows by table.
    """
    retention = retention or Retention()
    return {
        "errors": _purge(conn, env, "errors", "created_at", retention.errors, at_most),
        "history": _purge(conn, env, "history", "finished_at", retention.history, at_most),
        "resets": _purge(conn, env, "resets", "reset_at", retention.resets, at_most),
    }


def _purge(
    conn: Conn, env: Environment, table: str, column: str, age: timedelta | None, at_most: int | None
) -> int:
    if age is None:
        return 0
    query = sql.SQL(
        "DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} "
        "WHERE {column} < clock_timestamp() - %s ORDER BY {column} LIMIT %s FOR UPDATE SKIP LOCKED))"
    ).format(table=sql.Identifier(env.state_schema, table), column=sql.Identifier(column))
    total = 0
    while True:
        count = conn.execute(query, (age, _BATCH)).rowcount
        total += count
        if count < _BATCH or (at_most is not None and total >= at_most):
            return total


def _where(full_name: str | None, unit: Unit | None) -> sql.Composable:
    parts = [sql.SQL("true")]
    if full_name is not None:
        parts.append(sql.SQL("full_name = %(full_name)s"))
    if unit is not None:
        parts.append(
            sql.SQL("since IS NULL" if unit.window is None else "since = %(since)s AND until = %(until)s")
        )
    return sql.SQL(" AND ").join(parts)


def _values(full_name: str | None, unit: Unit | None, limit: int) -> dict[str, Any]:
    return {
        "full_name": full_name,
        "since": unit.since if unit else None,
        "until": unit.until if unit else None,
        "limit": limit,
    }


def _unit(since: datetime | None, until: datetime | None) -> Unit:
    if since is None or until is None or since >= until:  # the last: another writer's
        return Unit(None)
    return Unit(Interval(utc(since), utc(until)))
