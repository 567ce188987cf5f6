"""When which part of a model was loaded: the applied rows of a range of time."""

from __future__ import annotations

from datetime import datetime

from psycopg import sql

from bollhav_provider.intervals import Interval
from bollhav_provider.state.clock import utc
from bollhav_provider.state.refs import Conn, StateRef
from bollhav_provider.state.sound import APPLIED_AT, SOUND


def loads(
    conn: Conn, ref: StateRef, since: datetime | None = None, until: datetime | None = None
) -> tuple[tuple[Interval | None, datetime], ...]:
    """Return the applied windows that touch a range, each with its ``applied_at``, in order of time.

    Args:
        conn: any.
        ref: the model's state.
        since: start of the range; None for no bound.
        until: end of the range; None for no bound.
    """
    query = sql.SQL(
        "SELECT s.since, s.until, s.applied_at FROM {state} s WHERE s.status = 'applied' AND s.applied_at IS "
        "NOT NULL AND {applied_at} IS NOT NULL AND {sound} AND "
        "(s.since IS NULL OR (s.since >= coalesce((SELECT p.since FROM {state} p WHERE p.since <= %(since)s "
        "ORDER BY p.since DESC LIMIT 1), '-infinity') AND s.since < coalesce(%(until)s::timestamptz, "
        "'infinity') "
        "AND s.until > coalesce(%(since)s::timestamptz, '-infinity'))) ORDER BY s.since NULLS FIRST, s.until"
    ).format(state=ref.ident, sound=SOUND, applied_at=APPLIED_AT)
    rows = conn.execute(query, {"since": since, "until": until}).fetchall()
    return tuple(
        (Interval(utc(start), utc(end)) if start is not None else None, utc(at)) for start, end, at in rows
    )
