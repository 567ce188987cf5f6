"""Rows that a changed definition left behind: they are retired, so that they never keep a gate shut.

A moved begin or end, or a changed temporality, leaves rows that nobody will ever run. Those that are still
outstanding are deleted and noted in the history; applied ones stay, for they are true and hold nobody up. A
row that is being worked on is left alone (Semantics: state; gates read outstanding rows).
"""

from __future__ import annotations

import logging
from datetime import datetime

from psycopg import sql

from bollhav_provider.state.in_work import idle
from bollhav_provider.state.refs import Conn, StateRef

log = logging.getLogger(__name__)


def _outside(*, windowless: bool) -> sql.SQL:
    if windowless:
        return sql.SQL("s.since IS NOT NULL")
    return sql.SQL(
        "(s.since IS NULL OR s.since < %(first)s::timestamptz OR s.since >= %(last)s::timestamptz)"
    )


def exists(ref: StateRef, *, windowless: bool) -> sql.Composed:
    """Return an expression that says whether a row was left behind. Its values are ``first`` and ``last``."""
    if windowless:
        parts = [_outside(windowless=True)]
    else:  # one probe of the index of outstanding rows each
        parts = [
            sql.SQL("s.since IS NULL"),
            sql.SQL("s.since < %(first)s::timestamptz"),
            sql.SQL("s.since >= %(last)s::timestamptz"),
        ]
    return sql.SQL("({})").format(
        sql.SQL(" OR ").join(
            sql.SQL("EXISTS (SELECT FROM {} s WHERE {} AND {})").format(
                ref.ident, idle(ref, windowless=windowless), part
            )
            for part in parts
        )
    )


def left_behind(
    conn: Conn, ref: StateRef, bounds: tuple[datetime | None, datetime | None], *, windowless: bool
) -> int:
    """Delete the outstanding rows outside the contract, and note them in the history.

    Args:
        conn: in autocommit, or in a transaction.
        ref: the state table.
        bounds: first and last instant of the contract; None where it does not say.
        windowless: whether the model has the windowless row alone.

    Returns:
        How many rows were retired.
    """
    query = sql.SQL(
        """
        WITH gone AS (
            DELETE FROM {state} s WHERE {idle} AND {outside}
            RETURNING s.since, s.until, s.run_id, s.attempt, s.status
        )
        INSERT INTO {history} (full_name, since, until, run_id, attempt, outcome, reason)
        SELECT %(name)s, g.since, g.until, g.run_id, g.attempt, 'retired',
               'was ' || g.status || '; the contract no longer has this window'
        FROM gone g
        """
    ).format(
        state=ref.ident,
        idle=idle(ref, windowless=windowless),
        outside=_outside(windowless=windowless),
        history=sql.Identifier(ref.schema, "history"),
    )
    values = {"name": ref.full_name, "first": bounds[0], "last": bounds[1]}
    count = conn.execute(query, values).rowcount
    if count:
        log.info("%s: retired %d outstanding row(s) outside the contract", ref.full_name, count)
    return count
