"""The mark that a commit leaves in the target's database when the state lives in another one.

Rows and state cannot be one transaction then. The rows' transaction also writes which attempt they belong to,
so that a later attempt of the same unit can see that they are there already and only has to record it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql

from bollhav_provider.intervals import Unit
from bollhav_provider.model import TableId

#: One table in each schema that holds such targets.
TABLE = "bollhav_commits"


@dataclass(frozen=True, slots=True)
class CommitMark:
    """Which attempt's rows the target holds for one unit.

    Attributes:
        claim_row: the claimed row's number, which grows when a model's state is deleted and filled again.
        attempt: the claim's attempt on that row.
        owner: the claim's token; no other claim has it.
        run_id: the run that it belonged to.
        rows_in: rows that were given.
        rows_written: rows that were put into the target.
        rows_changed: rows that were changed by that.
    """

    claim_row: int
    attempt: int
    owner: str
    run_id: UUID
    rows_in: int = 0
    rows_written: int = 0
    rows_changed: int = 0


def ensure_marks(conn: psycopg.Connection[Any], target: TableId) -> None:
    """Make the table of marks beside the target; call it outside of a transaction, once a run.

    Raises:
        psycopg.Error: no privilege to create a table in the target's schema.
    """
    exists = conn.execute(
        "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = %s",
        (target.schema, TABLE),
    ).fetchone()
    if exists:
        return
    with conn.transaction():
        # IF NOT EXISTS alone is not safe from two sessions at once.
        conn.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"{target.schema}.{TABLE}",))
        conn.execute(
            sql.SQL(
                "CREATE TABLE IF NOT EXISTS {} (full_name text NOT NULL, unit text NOT NULL, claim_row "
                "bigint NOT NULL, "
                "attempt bigint NOT NULL, owner text NOT NULL, run_id uuid NOT NULL, rows_in bigint NOT "
                "NULL, rows_written bigint NOT NULL, "
                "rows_changed bigint NOT NULL, committed_at timestamptz NOT NULL DEFAULT now(), "
                "PRIMARY KEY (full_name, unit))"
            ).format(sql.Identifier(target.schema, TABLE))
        )


def read_mark(conn: psycopg.Connection[Any], target: TableId, unit: Unit) -> CommitMark | None:
    """Return the mark of a unit; None when nothing of it was ever committed."""
    row = conn.execute(
        sql.SQL(
            "SELECT claim_row, attempt, owner, run_id, rows_in, rows_written, rows_changed FROM {} WHERE "
            "full_name = %s AND unit = %s"
        ).format(sql.Identifier(target.schema, TABLE)),
        (target.full_name, _key(unit)),
    ).fetchone()
    return CommitMark(*row) if row else None


def open_mark(conn: psycopg.Connection[Any], target: TableId, unit: Unit, mark: CommitMark) -> bool:
    """Begin to write a unit: the first statement of the rows' transaction.

    The mark's row stays locked until the commit, so that two attempts of one unit write one after the other.

    Returns:
        False when a later attempt has written already: this one must not.
    """
    cursor = conn.execute(
        sql.SQL(
            "INSERT INTO {} AS m (full_name, unit, claim_row, attempt, owner, run_id, rows_in, rows_written, "
            "rows_changed) "
            "VALUES (%s, %s, %s, %s, %s, %s, 0, 0, 0) ON CONFLICT (full_name, unit) DO UPDATE SET "
            "claim_row = excluded.claim_row, attempt = excluded.attempt, owner = excluded.owner, run_id = "
            "excluded.run_id "
            "WHERE (m.claim_row, m.attempt) <= (excluded.claim_row, excluded.attempt)"
        ).format(sql.Identifier(target.schema, TABLE)),
        (target.full_name, _key(unit), mark.claim_row, mark.attempt, mark.owner, mark.run_id),
    )
    return cursor.rowcount == 1


def close_mark(conn: psycopg.Connection[Any], target: TableId, unit: Unit, mark: CommitMark) -> None:
    """Record what was written: the last statement of the rows' transaction."""
    conn.execute(
        sql.SQL(
            "UPDATE {} SET rows_in = %s, rows_written = %s, rows_changed = %s, committed_at = "
            "clock_timestamp() "
            "WHERE full_name = %s AND unit = %s AND owner = %s"
        ).format(sql.Identifier(target.schema, TABLE)),
        (mark.rows_in, mark.rows_written, mark.rows_changed, target.full_name, _key(unit), mark.owner),
    )


def _key(unit: Unit) -> str:
    if unit.window is None:
        return "whole"
    return f"{unit.window.since.isoformat()}|{unit.window.until.isoformat()}"
