"""Rows of a state table in bulk: inserted as cells or windows, and what is known to be complete.

Shared by prefill, reset and reconciliation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from bollhav_provider.intervals import Grid, Interval, align_begin
from bollhav_provider.state import retire
from bollhav_provider.state.cells import ROWS, Cells
from bollhav_provider.state.clock import utc
from bollhav_provider.state.refs import Conn, RunKey, StateRef
from bollhav_provider.state.schema import LOCK_CLASS

if TYPE_CHECKING:
    from bollhav_provider.model import Model


@dataclass(frozen=True, slots=True)
class Known:
    """What is remembered of a table.

    Attributes:
        now: the database's clock.
        grid: cron and zone of the range below.
        range: known to mirror the contract; None when nothing is known.
        intact: whether both edges of that range are still there.
        left_behind: whether outstanding rows lie outside the contract.
    """

    now: datetime
    grid: tuple[str, str] | None
    range: Interval | None
    intact: bool
    left_behind: bool

    def edges(self, wanted: Interval, grid: tuple[str, str]) -> list[Interval] | None:
        """Return the parts of ``wanted`` beyond what is known; None when all of it has to be looked at."""
        if self.range is None or self.grid != grid or not self.intact:
            return None
        candidates = (
            (wanted.since, min(self.range.since, wanted.until)),
            (max(self.range.until, wanted.since), wanted.until),
        )
        return [Interval(since, until) for since, until in candidates if since < until]

    def joined(self, wanted: Interval) -> Interval:
        """Return the range that is complete once the edges of ``wanted`` are filled."""
        if self.range is None:
            return wanted
        return Interval(min(wanted.since, self.range.since), max(wanted.until, self.range.until))


def declared_edges(model: Model) -> tuple[datetime | None, datetime | None]:
    """Return the first and last instant that rows of the model may have by its contract; None where it does not say."""
    begin, end = model.contract.begin, model.contract.end
    grid = model.grid
    if grid is None or model.is_flexible:
        return begin, end
    return (
        align_begin(grid, begin)[0] if begin is not None else None,
        grid.floor(end) if end is not None else None,
    )


def serialise(conn: Conn, ref: StateRef) -> None:
    """One writer of a model's set of rows at a time, to the end of the transaction.

    Two of them would otherwise wait for each other's keys in opposite order. Claims of models whose units may
    overlap take the same lock.
    """
    conn.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK_CLASS, ref.table))


def look(conn: Conn, ref: StateRef, bounds: tuple[datetime | None, datetime | None]) -> Known:
    """Return what is known of the table, in one round trip that does not grow with its length."""
    query = sql.SQL(
        """
        SELECT clock_timestamp(), p.chunk, p.tz, p.since, p.until,
               EXISTS (SELECT FROM {state} s WHERE s.since = p.since)
               AND coalesce((SELECT s.until >= p.until FROM {state} s WHERE s.since < p.until
                             ORDER BY s.since DESC LIMIT 1), false),
               {left_behind}
        FROM (SELECT) x LEFT JOIN {prefilled} p ON p.state_table = %(table)s
        """
    ).format(
        state=ref.ident,
        prefilled=sql.Identifier(ref.schema, "prefilled"),
        left_behind=retire.exists(ref, windowless=False),
    )
    row = conn.execute(query, {"table": ref.table, "first": bounds[0], "last": bounds[1]}).fetchone()
    assert row is not None
    now, chunk, tz, since, until, intact, left_behind = row
    known = Interval(utc(since), utc(until)) if since is not None else None
    return Known(utc(now), (chunk, tz) if known else None, known, bool(intact), left_behind)


def is_empty(conn: Conn, ref: StateRef) -> bool:
    """Return whether the state table has no row at all."""
    return conn.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(ref.ident)).fetchone() is None


def remember(conn: Conn, ref: StateRef, grid: tuple[str, str], complete: Interval) -> None:
    """Remember that every window of ``complete`` has its row."""
    conn.execute(
        sql.SQL(
            "INSERT INTO {} (state_table, chunk, tz, since, until) VALUES (%s, %s, %s, %s, %s) "
            "ON CONFLICT (state_table) DO UPDATE SET chunk = excluded.chunk, tz = excluded.tz, "
            "since = excluded.since, until = excluded.until"
        ).format(sql.Identifier(ref.schema, "prefilled")),
        (ref.table, *grid, complete.since, complete.until),
    )


def forget(conn: Conn, ref: StateRef) -> None:
    """Forget what is known to be complete, so that the next prefill looks at everything."""
    conn.execute(
        sql.SQL("DELETE FROM {} WHERE state_table = %s").format(sql.Identifier(ref.schema, "prefilled")),
        (ref.table,),
    )


#: From so many windows on it pays to try without looking for conflicts.
_LARGE = 1_000


def grid_key(grid: Grid) -> tuple[str, str]:
    """Return what identifies a grid in the table of what is known."""
    return grid.expression, grid.tz


def insert_cells(
    conn: Conn, model: Model, ref: StateRef, run: RunKey, cells: Cells, *, nothing_there: bool = False
) -> int:
    """Insert the windows of ``cells`` that have no row, ``pending``, in one statement; returns how many.

    Args:
        conn: in a transaction that holds the model's lock.
        model: whose rows.
        ref: its state table.
        run: recorded on the rows.
        cells: the windows.
        nothing_there: whether none of them is expected to have a row; right either way, only faster when it is so.
    """
    if not cells:
        return 0
    query = sql.SQL(
        "INSERT INTO {} (model_name, run_id, since, until, status, temporality) "
        "SELECT %(name)s, %(run)s, c.since, c.until, 'pending', %(temporality)s FROM {} c "
    ).format(ref.ident, ROWS)
    values = {"name": ref.full_name, "run": run.run_id, "temporality": model.temporality.value}
    values |= cells.parameters
    if nothing_there and len(cells) >= _LARGE:
        # looking for a conflict costs half as much again as inserting
        try:
            with conn.transaction():
                return conn.execute(query, values).rowcount
        except psycopg.errors.UniqueViolation:
            pass  # another implementation prefills at the same time
    return conn.execute(query + sql.SQL("ON CONFLICT (since, until) DO NOTHING"), values).rowcount


def append_cells(
    conn: Conn,
    model: Model,
    ref: StateRef,
    run: RunKey,
    cells: Cells,
    grid: tuple[str, str],
    complete: Interval,
) -> int:
    """Insert the new edge and remember what is complete now, in one statement: a run's usual prefill.

    Args:
        conn: in autocommit.
        model, ref, run, cells: as for :func:`insert_cells`.
        grid, complete: as for :func:`remember`.
    """
    query = sql.SQL(
        """
        WITH alone AS MATERIALIZED (
            SELECT pg_advisory_xact_lock(%(class)s, hashtext(%(table)s))::text AS held
        ), inserted AS (
            INSERT INTO {state} (model_name, run_id, since, until, status, temporality)
            SELECT %(name)s, %(run)s, c.since, c.until, 'pending', %(temporality)s FROM alone a, {cells} c
            ON CONFLICT (since, until) DO NOTHING RETURNING 1
        ), remembered AS (
            INSERT INTO {prefilled} AS p (state_table, chunk, tz, since, until)
            SELECT %(table)s, %(chunk)s, %(tz)s, %(whole_since)s, %(whole_until)s FROM alone a
            ON CONFLICT (state_table) DO UPDATE SET since = least(p.since, excluded.since),
                until = greatest(p.until, excluded.until)
                WHERE (p.chunk, p.tz) = (excluded.chunk, excluded.tz)
        )
        SELECT count(*) FROM inserted
        """
    ).format(state=ref.ident, cells=ROWS, prefilled=sql.Identifier(ref.schema, "prefilled"))
    values = {
        "class": LOCK_CLASS, "table": ref.table, "name": ref.full_name, "run": run.run_id,
        "temporality": model.temporality.value, "chunk": grid[0], "tz": grid[1],
        "whole_since": complete.since, "whole_until": complete.until, **cells.parameters,
    }  # fmt: skip
    row = conn.execute(query, values).fetchone()
    return int(row[0]) if row else 0


def insert_windows(conn: Conn, model: Model, ref: StateRef, run: RunKey, windows: Sequence[Interval]) -> int:
    """Insert windows that have no row, ``pending``. Returns how many there were."""
    if not windows:
        return 0
    query = sql.SQL(
        "INSERT INTO {} (model_name, run_id, since, until, status, temporality) "
        "SELECT %s, %s, w.since, w.until, 'pending', %s "
        "FROM unnest(%s::timestamptz[], %s::timestamptz[]) AS w (since, until) "
        "ON CONFLICT (since, until) DO NOTHING"
    ).format(ref.ident)
    values = (
        ref.full_name, run.run_id, model.temporality.value, [w.since for w in windows], [w.until for w in
        windows],
    )  # fmt: skip
    return conn.execute(query, values).rowcount
