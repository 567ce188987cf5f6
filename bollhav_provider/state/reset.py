"""Reset: how much of the state a run invalidates first, at most once per run and window (Semantics: state).

``discover`` invalidates nothing, ``bulldozer`` the run's window, ``torch`` everything. That a run reset a window is
recorded in the same transaction, so that a retry, or another task of the same run, goes on with what is left.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

from psycopg import sql

from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.intervals import Grid, Interval, contract_range
from bollhav_provider.state import flexible, single
from bollhav_provider.state.cells import Cells
from bollhav_provider.state.clock import db_now
from bollhav_provider.state.in_work import free
from bollhav_provider.state.refs import Conn, RunKey, StateRef
from bollhav_provider.state.rows import forget, grid_key, insert_cells, remember, serialise

if TYPE_CHECKING:
    from bollhav_provider.model import Environment, Model

log = logging.getLogger(__name__)

Mode = Literal["discover", "bulldozer", "torch"]
MODES = ("discover", "bulldozer", "torch")

#: A row back to the start of its life. The attempt stays: a worker that still holds the old one is fenced.
PENDING = sql.SQL(
    "status = 'pending', applied_at = NULL, blocked_reason = NULL, owner = NULL, lease_until = NULL, reason = NULL, "
    "marked_by = NULL"
)


def reset(
    conn: Conn,
    model: Model,
    env: Environment,
    run: RunKey,
    window: Interval | None,
    mode: str,
    *,
    chunk: Grid | None = None,
) -> int:
    """Invalidate what the mode says, unless this run did so already.

    Call it after :func:`prefill`. Units that somebody works on are left to them.

    Args:
        conn: in autocommit.
        model: registered, with state.
        env: names the schema.
        run: whose reset this is; the same ``run_id`` and window reset once, whoever asks and however often.
        window: what the run covers; None for the whole of the model.
        mode: ``discover``, ``bulldozer`` or ``torch``.
        chunk: another grid for slicing a flexible model's window; ignored on others.

    Returns:
        How many units were put back to ``pending`` (``torch``: how many rows were deleted).

    Raises:
        ConfigurationError: an unknown mode, or an override finer than the model allows.
    """
    ref = StateRef.of(model, env)
    if mode not in MODES:
        raise ConfigurationError(f"{model.full_name}: mode {mode!r} is none of {', '.join(MODES)}.")
    with conn.transaction():
        if mode == "discover":
            return _changed_content(conn, model, ref)
        if not _first_time(conn, ref, run, window, mode):
            log.info("%s: run %s has reset %s already", ref.full_name, run.run_id, window or "everything")
            return 0
        if mode == "torch":
            count = _torch(conn, model, ref, run, window, chunk)
        elif model.is_windowless:
            count = _reset_single(conn, model, ref, window)
        elif model.is_flexible:
            count = _reset_flexible(conn, model, ref, run, window, chunk)
        else:
            count = _reset_grid(conn, ref, window)
        conn.execute(
            sql.SQL(
                "UPDATE {} SET units = %s WHERE full_name = %s AND run_id = %s AND window_key = %s"
            ).format(sql.Identifier(ref.schema, "resets")),
            (count, ref.full_name, run.run_id, _window_key(window, mode)),
        )
    log.info("%s: %s of %s reset %d unit(s)", ref.full_name, mode, window or "everything", count)
    return count


def _window_key(window: Interval | None, mode: str) -> str:
    if mode == "torch":
        return "torch"  # it is total, whatever the window
    return "whole" if window is None else f"{window.since.isoformat()}|{window.until.isoformat()}"


def _first_time(conn: Conn, ref: StateRef, run: RunKey, window: Interval | None, mode: str) -> bool:
    """Record the reset; another transaction that does the same is waited for, and then was first."""
    query = sql.SQL(
        "INSERT INTO {} (full_name, run_id, window_key, mode, who) VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
    ).format(sql.Identifier(ref.schema, "resets"))
    values = (ref.full_name, run.run_id, _window_key(window, mode), mode, run.who)
    return conn.execute(query, values).rowcount == 1


def _reset_grid(conn: Conn, ref: StateRef, window: Interval | None) -> int:
    query = sql.SQL("UPDATE {} s SET {} WHERE s.status <> 'pending' AND {}").format(
        ref.ident, PENDING, free(ref)
    )
    if window is None:
        return conn.execute(query).rowcount
    inside = sql.SQL(" AND s.since >= %s AND s.since < %s AND s.until <= %s")
    return conn.execute(query + inside, (window.since, window.until, window.until)).rowcount


def _reset_single(conn: Conn, model: Model, ref: StateRef, window: Interval | None) -> int:
    query = sql.SQL("UPDATE {} s SET {} WHERE s.status <> 'pending' AND {}").format(
        ref.ident, PENDING, free(ref, windowless=True)
    )
    if not single.grows(model):
        return conn.execute(query + sql.SQL(" AND s.since IS NULL")).rowcount
    if window is None:
        return conn.execute(query).rowcount
    # days that the row covers already are not loaded again, except the last of them: that is the run's own
    return conn.execute(
        query + sql.SQL(" AND (s.status <> 'applied' OR s.until <= %s)"), (window.until,)
    ).rowcount


def _reset_flexible(
    conn: Conn, model: Model, ref: StateRef, run: RunKey, window: Interval | None, chunk: Grid | None
) -> int:
    window = window or _contract(conn, model)
    declared = _contract(conn, model)
    inside = window.intersection(declared) if window is not None and declared is not None else window
    return flexible.invalidate(conn, model, ref, run, inside, chunk) if inside is not None else 0


def _contract(conn: Conn, model: Model) -> Interval | None:
    grid, begin = model.grid, model.contract.begin
    if grid is None or begin is None:
        return None
    return contract_range(grid, begin, model.contract.end, db_now(conn), flexible=model.is_flexible)


def _torch(
    conn: Conn, model: Model, ref: StateRef, run: RunKey, window: Interval | None, chunk: Grid | None
) -> int:
    """Delete every row and refill the contract, in the caller's transaction."""
    serialise(conn, ref)
    count = conn.execute(sql.SQL("DELETE FROM {}").format(ref.ident)).rowcount
    forget(conn, ref)
    if model.is_windowless:
        single.prefill(conn, model, ref, window, run)
        return count
    grid = model.grid
    assert grid is not None
    whole = _contract(conn, model) or window
    if whole is None:
        return count
    if model.is_flexible:
        inside = window.intersection(whole) if window is not None else None
        if inside is not None:
            flexible.fill_gaps(conn, model, ref, run, inside, chunk or grid)
        flexible.fill_gaps(conn, model, ref, run, whole, grid)
    else:
        insert_cells(conn, model, ref, run, Cells.of(grid, whole), nothing_there=True)
    if model.contract.begin is not None:
        remember(conn, ref, flexible.KEY if model.is_flexible else grid_key(grid), whole)
    return count


def _changed_content(conn: Conn, model: Model, ref: StateRef) -> int:
    """Put a timeless model whose inline content changed back to ``pending``, also where nothing else is invalidated."""
    if not model.is_windowless or model.content_hash is None:
        return 0
    query = sql.SQL(
        "UPDATE {} s SET {} WHERE s.status = 'applied' AND s.content_hash IS NOT NULL AND s.content_hash <> %s"
    ).format(ref.ident, PENDING)
    return conn.execute(query, (model.content_hash,)).rowcount
