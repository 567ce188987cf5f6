"""Is somebody working on a row? The one answer that reset, retirement, listing and reconciliation share.

A ``running`` row is worked on while its lease lives. Without a live lease it may still be another
implementation's, which knows no leases: then it is, as long as that implementation's session holds the unit's
advisory lock.
"""

from __future__ import annotations

from psycopg import sql

from bollhav_provider.state.refs import StateRef
from bollhav_provider.state.schema import function


def in_work(ref: StateRef, *, windowless: bool = False) -> sql.Composed:
    """Return an expression over the state row ``s``.

    Args:
        ref: the state table.
        windowless: whether the model has one row whose lock has the windowless key, whatever the row's
        window.
    """
    return sql.SQL("(s.status = 'running' AND {}(s.lease_until, {}, s.since, s.until, {}))").format(
        function(ref.schema, "in_work", "claims.sql"), sql.Literal(ref.full_name), sql.Literal(windowless)
    )


def abandoned(ref: StateRef, *, windowless: bool = False) -> sql.Composed:
    """Return an expression over ``s``: its lease runs on, and the session that held its lock is over.

    Its worker is dead, or lost its connection. Nobody else may touch the row before the lease ends; whoever claims it
    finds out which.
    """
    held = sql.SQL("{}(NULL, {}, s.since, s.until, {})").format(
        function(ref.schema, "in_work", "claims.sql"), sql.Literal(ref.full_name), sql.Literal(windowless)
    )
    return sql.SQL(
        "(s.status = 'running' AND s.lock_pid <> pg_backend_pid() AND s.lease_until > clock_timestamp() AND NOT {})"
    ).format(held)


def idle(ref: StateRef, *, windowless: bool = False) -> sql.Composed:
    """Return an expression over ``s``: outstanding, and nobody works on it."""
    return sql.SQL("(s.status <> 'applied' AND NOT {})").format(in_work(ref, windowless=windowless))


def free(ref: StateRef, *, windowless: bool = False) -> sql.Composed:
    """Return an expression over ``s``: nobody works on it, applied or not."""
    return sql.SQL("(NOT {})").format(in_work(ref, windowless=windowless))
