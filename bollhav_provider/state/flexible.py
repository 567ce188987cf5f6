"""Flexible models: the state is what is covered, and the chunk only slices the work.

The rows stay disjoint and tile the contract's range. Invalidating a window cuts the applied rows at its
edges: the remainders keep the ``applied_at`` of their load, the inside is sliced anew. A unit that somebody
works on is never cut (Semantics: flexible models).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from psycopg import sql

from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.intervals import Grid, Interval, contract_range
from bollhav_provider.state import retire
from bollhav_provider.state.cells import Cells
from bollhav_provider.state.clock import utc
from bollhav_provider.state.in_work import free, idle
from bollhav_provider.state.refs import Conn, RunKey, StateRef
from bollhav_provider.state.rows import (
    declared_edges,
    insert_cells,
    insert_windows,
    look,
    remember,
    serialise,
)
from bollhav_provider.state.sound import WINDOWED

if TYPE_CHECKING:
    from bollhav_provider.model import Environment, Model

#: In place of a grid in the table of what is known: to a flexible model every slicing of a range is the same.
KEY = ("flexible", "")

#: What a piece that is cut off keeps of its row; the bounds are its own.
_KEPT = sql.SQL(
    "model_name, run_id, status, blocked_reason, applied_at, temporality, attempt, started_at, reason, "
    "marked_by, content_hash, who, dag_id, airflow_run_id, task_id, try_number, details"
)


def prefill(
    conn: Conn, model: Model, ref: StateRef, window: Interval | None, run: RunKey, chunk: Grid | None
) -> int:
    """Give every gap of the contract its rows, and make the window's outstanding rows fit the window and the chunk."""
    assert model.grid is not None
    check_override(model, chunk)
    bounds = declared_edges(model)
    known = look(conn, ref, bounds)
    if known.left_behind:
        with conn.transaction():
            serialise(conn, ref)
            for edge in bounds:
                if edge is not None:
                    cut(conn, ref, edge, idle(ref))
            retire.left_behind(conn, ref, bounds, windowless=False)
    begin = model.contract.begin
    wanted = window
    edges: list[Interval] | None = None
    if begin is not None:
        wanted = contract_range(model.grid, begin, model.contract.end, known.now, flexible=True)
        edges = known.edges(wanted, KEY) if wanted is not None else []
    if wanted is None or (edges == [] and window is None):
        return 0
    inside = wanted.intersection(window) if window is not None else None
    count = 0
    with conn.transaction():
        serialise(conn, ref)
        if edges is None or edges:
            for part in edges or [wanted]:
                count += fill_gaps(conn, model, ref, run, part, model.grid)
            if begin is not None:
                remember(conn, ref, KEY, known.joined(wanted) if edges else wanted)
        if inside is not None:
            for edge in (inside.since, inside.until):
                cut(conn, ref, edge, idle(ref))
            if chunk is not None and not chunk.same_as(model.grid):
                _delete_inside(conn, ref, inside, idle(ref))
                count += fill_gaps(conn, model, ref, run, inside, chunk)
    return count


def invalidate(
    conn: Conn, model: Model, ref: StateRef, run: RunKey, window: Interval, chunk: Grid | None
) -> int:
    """Subtract a window from the coverage and slice it anew; inside a transaction.

    Returns:
        How many units the window is now cut into.
    """
    assert model.grid is not None
    check_override(model, chunk)
    serialise(conn, ref)
    for edge in (window.since, window.until):
        cut(conn, ref, edge, free(ref))
    _delete_inside(conn, ref, window, free(ref))
    return fill_gaps(conn, model, ref, run, window, chunk or model.grid)


def make_room(conn: Conn, ref: StateRef, window: Interval) -> None:
    """Take a window out of every row that overlaps it, also of one that is being worked on: its worker is fenced."""
    conn.execute(
        sql.SQL(
            "UPDATE {} s SET status = 'pending', attempt = s.attempt + 1, owner = NULL, lease_until = NULL "
            "WHERE s.status = 'running' AND s.since < %s AND s.until > %s"
        ).format(ref.ident),
        (window.until, window.since),
    )
    anything = sql.Composed([sql.SQL("true")])
    for edge in (window.since, window.until):
        cut(conn, ref, edge, anything)
    _delete_inside(conn, ref, window, anything)


def check_override(model: Model, chunk: Grid | None) -> None:
    """Refuse an override that is finer than the model's ``floor_chunk``.

    Raises:
        ConfigurationError: it has a tick that is no tick of the floor.
    """
    time = model.batching.time if model.batching else None
    floor = getattr(time.flexibility, "floor_chunk", None) if time is not None else None
    if chunk is None or floor is None or time is None:
        return
    finest = Grid(floor, time.tz)
    if not finest.refines(chunk):
        raise ConfigurationError(
            f"{model.full_name}: interval_override {chunk.cron!r} cuts finer than, or across, the "
            f"floor_chunk {floor!r}: "
            "take a chunk whose ticks are all ticks of the floor, or lower ChunkFlex(floor_chunk=...)."
        )


def fill_gaps(conn: Conn, model: Model, ref: StateRef, run: RunKey, within: Interval, grid: Grid) -> int:
    """Insert rows for the parts of ``within`` that no row covers, cut at the grid's ticks. Returns how many."""
    count = 0
    for gap in gaps(conn, ref, within):
        first = min(grid.ceil(gap.since), gap.until)
        last = max(grid.floor(gap.until), first)
        pieces = [(gap.since, first), (last, gap.until)]
        count += insert_windows(conn, model, ref, run, [Interval(a, b) for a, b in pieces if a < b])
        if first < last:
            count += insert_cells(
                conn, model, ref, run, Cells.of(grid, Interval(first, last)), nothing_there=True
            )
    return count


def gaps(conn: Conn, ref: StateRef, within: Interval) -> list[Interval]:
    """Return the parts of ``within`` that no row covers, whatever its status."""
    query = sql.SQL(
        """
        SELECT lower(r), upper(r) FROM unnest(
            tstzmultirange(tstzrange(%(since)s, %(until)s)) - coalesce((
                SELECT range_agg(tstzrange(s.since, s.until)) FROM {state} s
                WHERE s.since < %(until)s AND s.until > %(since)s AND {windowed}
                  AND s.since >= coalesce((SELECT p.since FROM {state} p WHERE p.since <= %(since)s
                                           ORDER BY p.since DESC LIMIT 1), '-infinity')), '{{}}')) r
        """
    ).format(state=ref.ident, windowed=WINDOWED)
    rows = conn.execute(query, {"since": within.since, "until": within.until}).fetchall()
    return [Interval(utc(since), utc(until)) for since, until in rows]


def cut(conn: Conn, ref: StateRef, at: datetime, condition: sql.Composed) -> int:
    """Cut the row that straddles an instant in two; both parts keep what they were.

    Args:
        conn: in a transaction that holds the model's lock.
        ref: the state table.
        at: where to cut.
        condition: on the row ``s``; others are left whole.
    """
    query = sql.SQL(
        """
        WITH whole AS (
            SELECT s.* FROM {state} s
            WHERE s.since < %(at)s AND s.until > %(at)s AND {windowed} AND {condition}
              AND s.since >= (SELECT p.since FROM {state} p WHERE p.since < %(at)s ORDER BY p.since DESC LIMIT 1)
            FOR UPDATE
        ), left_part AS (
            UPDATE {state} t SET until = %(at)s FROM whole w WHERE t.id = w.id
        )
        INSERT INTO {state} (since, until, {kept}) SELECT %(at)s, w.until, {kept} FROM whole w
        """
    ).format(state=ref.ident, condition=condition, windowed=WINDOWED, kept=_KEPT)
    return conn.execute(query, {"at": at}).rowcount


def _delete_inside(conn: Conn, ref: StateRef, window: Interval, condition: sql.Composed) -> int:
    query = sql.SQL("DELETE FROM {} s WHERE s.since >= %s AND s.since < %s AND s.until <= %s AND {}").format(
        ref.ident, condition
    )
    return conn.execute(query, (window.since, window.until, window.until)).rowcount


def prune(conn: Conn, model: Model, env: Environment, older_than: timedelta) -> int:
    """Fold touching applied rows that were loaded long ago into one, which keeps the oldest ``applied_at``.

    Args:
        conn: in autocommit.
        model: flexible.
        env: names the schema.
        older_than: rows whose load is younger stay as they are, so that their freshness stays exact.

    Returns:
        By how many the rows became fewer.
    """
    ref = StateRef.of(model, env)
    query = sql.SQL(
        """
        WITH old AS (
            SELECT s.id, s.since, s.until, s.applied_at,
                   lag(s.until) OVER (ORDER BY s.since) IS DISTINCT FROM s.since AS starts
            FROM {state} s
            WHERE s.status = 'applied' AND {windowed} AND s.applied_at < clock_timestamp() - %(age)s
        ), grouped AS (
            SELECT o.*, count(*) FILTER (WHERE o.starts) OVER (ORDER BY o.since) AS island FROM old o
        ), islands AS (
            SELECT g.island, min(g.since) AS since, max(g.until) AS until, min(g.applied_at) AS applied_at,
                   (array_agg(g.id ORDER BY g.since))[1] AS keeper
            FROM grouped g GROUP BY g.island HAVING count(*) > 1
        ), gone AS (
            DELETE FROM {state} t USING grouped g JOIN islands i ON i.island = g.island
            WHERE t.id = g.id AND g.id <> i.keeper RETURNING t.id
        ), widened AS (
            UPDATE {state} t
               SET until = i.until, applied_at = i.applied_at, rows_in = NULL, rows_written = NULL,
                   rows_changed = NULL, duration = NULL, reason = 'folded'
            FROM islands i WHERE t.id = i.keeper
        )
        SELECT count(*) FROM gone
        """
    ).format(state=ref.ident, windowed=WINDOWED)
    with conn.transaction():
        serialise(conn, ref)
        row = conn.execute(query, {"age": older_than}).fetchone()
    return int(row[0]) if row else 0
