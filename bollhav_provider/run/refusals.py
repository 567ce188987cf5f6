"""What the server says when it cannot do its part just now, in words that name the unit and what helps."""

from __future__ import annotations

import psycopg

from bollhav_provider.exceptions import ServerRefusedError

#: SQLSTATE, or its class, to what to do about it. Everything of the unit was rolled back in each case.
_REMEDIES = {
    "53100": "free space on the server's disk, or give the table a tablespace that has some",
    "53200": "give the server more memory, or let the unit write fewer rows at once",
    "53400": "raise the server's limit that the message names",
    "55P03": "find the session that holds the lock in pg_locks and pg_stat_activity, or allow a longer wait with the "
    "option lock_timeout",
    "57014": "let the statement do less at once, or allow it more time with the option statement_timeout",
    "40P01": "run it again; when it happens often, let the writers of the table lock its rows in one order",
    "40001": "run it again",
    "25006": "connect to the primary server, or lift default_transaction_read_only of the role or database",
}
#: Classes of refusals that every further unit would meet as well.
_EVERYWHERE = ("53", "25", "57P", "58")


def refused(exc: BaseException, model: str, unit: str) -> ServerRefusedError | None:
    """Return what to raise instead of an error of the server that is nobody's fault; None for all others.

    Args:
        exc: what was raised.
        model: the model's full name.
        unit: the unit's label.
    """
    if not isinstance(exc, psycopg.Error) or exc.sqlstate is None:
        return None
    remedy = _REMEDIES.get(exc.sqlstate)
    if remedy is None:
        return None
    told = " ".join(part for part in (exc.diag.message_primary, exc.diag.message_hint) if part) or str(exc)
    return ServerRefusedError(model, unit, exc.sqlstate, told, remedy)


def met_by_all(sqlstate: str) -> bool:
    """Return whether a refusal is of the server as a whole, not of one unit's statement."""
    return sqlstate.startswith(_EVERYWHERE)
