"""What became of a claim whose holder does not know: the connection broke while it was committing.

The answer is read, never guessed: the history row of an apply is written by the transaction that applies.
"""

from __future__ import annotations

import psycopg
from psycopg import sql

from bollhav_provider.intervals import Unit
from bollhav_provider.state.claims import Claim
from bollhav_provider.state.refs import Conn, StateRef

#: How long the row's lock is waited for before the session that may still hold it is ended.
_PATIENCE = "3s"


def was_applied(conn: Conn, claim: Claim) -> bool:
    """Return whether the transaction that ended a claim as ``applied`` was committed.

    While the server may still be working on it, this waits for the row. A session of the claim that is still
    there after that, because the server has not noticed that its client is gone, is ended: its transaction can
    then only be rolled back, and nothing is left open.

    Args:
        conn: in autocommit; not the connection that broke.
        claim: whose transaction it was.

    Raises:
        psycopg.Error: it cannot be told now; asking again may help.
    """
    try:
        with conn.transaction():
            conn.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(_PATIENCE)))
            conn.execute(
                sql.SQL("SELECT 1 FROM {} WHERE id = %s FOR UPDATE").format(claim.state.ident), (claim.id,)
            )
    except psycopg.errors.LockNotAvailable:
        _end_session(conn, claim)
        raise
    return is_applied_by(conn, claim.state, claim.unit, claim.owner)


def is_applied_by(conn: Conn, ref: StateRef, unit: Unit, owner: str) -> bool:
    """Return whether the claim of ``owner`` on a unit ended as ``applied``.

    Args:
        conn: any.
        ref: the model's state.
        unit: which unit.
        owner: the claim's owner, which no other claim has.
    """
    # The one row of a model that grows with its range has a window, although its unit has none.
    window = sql.SQL("true") if unit.window is None else sql.SQL("since = %(since)s")
    query = sql.SQL(
        "SELECT 1 FROM {} WHERE full_name = %(name)s AND {} AND owner = %(owner)s AND outcome = 'applied' "
        "LIMIT 1"
    ).format(sql.Identifier(ref.schema, "history"), window)
    values = {"name": ref.full_name, "since": unit.since, "owner": owner}
    return conn.execute(query, values).fetchone() is not None


def _end_session(conn: Conn, claim: Claim) -> None:
    """End the claim's session, if it still holds the claim's advisory lock: then it is that session."""
    if claim.lock_pid is None:
        return
    conn.execute(
        "SELECT pg_terminate_backend(l.pid) FROM pg_catalog.pg_locks l WHERE l.locktype = 'advisory' AND "
        "l.granted "
        "AND l.pid = %s AND l.pid <> pg_backend_pid() AND l.objsubid = 1 "
        "AND l.classid = CASE WHEN hashtext(%s) < 0 THEN 4294967295 ELSE 0 END::bigint::oid "
        "AND l.objid = (hashtext(%s)::bigint & 4294967295)::oid LIMIT 1",
        (claim.lock_pid, claim.lock_key, claim.lock_key),
    )
