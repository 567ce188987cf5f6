"""Models with one row: timeless ones, and temporal ones without batching.

A timeless model's row has no window. A temporal model without batching has one row as well; where its
contract has a begin, that row's window is the range that is loaded and grows with it, so that others can gate
on it by coverage. Its unit is windowless all the same: it is loaded as a whole. A run over days that the row
covers already loads nothing again (Semantics: state).
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from psycopg import sql

from bollhav_provider.intervals import Interval
from bollhav_provider.state import retire
from bollhav_provider.state.clock import utc
from bollhav_provider.state.in_work import idle, in_work
from bollhav_provider.state.refs import Conn, RunKey, StateRef
from bollhav_provider.state.schema import LOCK_CLASS
from bollhav_provider.state.sound import SOUND

if TYPE_CHECKING:
    from bollhav_provider.model import Model


def grows(model: Model) -> bool:
    """Return whether the model's one row has a window that grows."""
    return model.is_temporal and model.is_windowless and model.contract.begin is not None


def would_load(
    model: Model, row: tuple[str, Interval | None] | None, window: Interval | None, now: datetime, *, again: bool
) -> bool:
    """Return whether a run would load the model's one unit. Looks at nothing, changes nothing.

    Args:
        model: windowless.
        row: status and window of its row; None without one.
        window: what the run covers; None for everything up to now.
        now: the database's clock.
        again: whether the run invalidates what it covers.
    """
    if row is None:
        return not grows(model) or _reach(window, model.contract.end, now) > _begin(model)
    status, covers = row
    if status != "applied":
        return True
    if not grows(model):
        return again
    if covers is None or _wanted(model, covers, _reach(window, model.contract.end, now)) != covers:
        return True
    return again and (window is None or covers.until <= window.until)


def prefill(conn: Conn, model: Model, ref: StateRef, window: Interval | None, run: RunKey) -> int:
    """Make the model's one row, or let it grow; returns how many rows were inserted."""
    if grows(model):
        return _grow(conn, model, ref, window, run)
    look = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE since IS NULL), {}").format(
        ref.ident, retire.exists(ref, windowless=True)
    )
    row = conn.execute(look).fetchone()
    assert row is not None
    present, left_behind = row
    if left_behind:
        retire.left_behind(conn, ref, (None, None), windowless=True)
    if present:
        return 0
    query = sql.SQL(
        "INSERT INTO {} (model_name, run_id, status, temporality) VALUES (%s, %s, 'pending', %s) "
        "ON CONFLICT ((since IS NULL)) WHERE since IS NULL DO NOTHING"
    ).format(ref.ident)
    return conn.execute(query, (ref.full_name, run.run_id, str(model.temporality.value))).rowcount


def _grow(conn: Conn, model: Model, ref: StateRef, window: Interval | None, run: RunKey) -> int:
    begin = _begin(model)
    with conn.transaction():
        conn.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK_CLASS, ref.table))
        row = conn.execute(
            sql.SQL(
                "SELECT clock_timestamp(), s.id, s.since, s.until, {} "
                "FROM (SELECT) x LEFT JOIN "
                "(SELECT * FROM {} s WHERE {} ORDER BY since NULLS LAST, until DESC LIMIT 1 FOR UPDATE) s ON true"
            ).format(in_work(ref, windowless=True), ref.ident, SOUND)
        ).fetchone()
        assert row is not None
        now, row_id, since, until, busy = row
        reach = _reach(window, model.contract.end, utc(now))
        if row_id is None:
            if reach <= begin:
                return 0
            conn.execute(
                sql.SQL(
                    "INSERT INTO {} (model_name, run_id, since, until, status, temporality) "
                    "VALUES (%s, %s, %s, %s, 'pending', %s)"
                ).format(ref.ident),
                (ref.full_name, run.run_id, begin, reach, str(model.temporality.value)),
            )
            return 1
        _retire_others(conn, ref, row_id)
        if busy:
            return 0
        covers = Interval(utc(since), utc(until)) if since is not None else None
        wanted = _wanted(model, covers, reach)
        if wanted is not None and wanted != covers:
            conn.execute(
                sql.SQL(
                    "UPDATE {} SET since = %s, until = %s, status = 'pending', applied_at = NULL, "
                    "blocked_reason = NULL, owner = NULL, lease_until = NULL WHERE id = %s"
                ).format(ref.ident),
                (wanted.since, wanted.until, row_id),
            )
        return 0


def _wanted(model: Model, covers: Interval | None, reach: datetime) -> Interval | None:
    """Return the window that the row is to have: it never shrinks, except to a contract that ends sooner."""
    begin, end = _begin(model), model.contract.end
    until = reach if covers is None else max(reach, covers.until)
    until = until if end is None else min(until, end)
    return Interval(begin, until) if begin < until else covers


def _begin(model: Model) -> datetime:
    begin = model.contract.begin
    assert begin is not None
    return begin


def _retire_others(conn: Conn, ref: StateRef, keep: int) -> None:
    """Delete outstanding rows beside the one, left behind by a time when the model had windows."""
    query = sql.SQL("DELETE FROM {} s WHERE s.id <> %s AND {}")
    conn.execute(query.format(ref.ident, idle(ref)), (keep,))


def _reach(window: Interval | None, end: datetime | None, now: datetime) -> datetime:
    reach = now if window is None else window.until
    return reach if end is None else min(reach, end)
