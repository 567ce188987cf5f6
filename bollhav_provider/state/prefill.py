"""Prefill: the state table as a mirror of the contract (Semantics: state).

Every window from the contract's begin to its end, or to the latest complete tick, has a row. A run normally
adds only the new edge; what is known to be complete already is remembered, so that it costs the same whatever
the length of the history is. Holes that somebody else tore are mended by reconciliation, and whenever an edge
of the known range is gone.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from psycopg import sql

from bollhav_provider.exceptions import GrainChangedError
from bollhav_provider.intervals import Grid, Interval, contract_range
from bollhav_provider.state import flexible, retire, single
from bollhav_provider.state.cells import ROWS, Cells
from bollhav_provider.state.clock import db_now, utc
from bollhav_provider.state.refs import Conn, RunKey, StateRef
from bollhav_provider.state.rows import (
    append_cells,
    declared_edges,
    grid_key,
    insert_cells,
    is_empty,
    look,
    remember,
    serialise,
)
from bollhav_provider.state.sound import WINDOWED

if TYPE_CHECKING:
    from bollhav_provider.model import Environment, Model

log = logging.getLogger(__name__)

#: So many new windows are inserted and remembered in one statement, without a transaction around it.
_SMALL = 1_000


def prefill(
    conn: Conn,
    model: Model,
    env: Environment,
    window: Interval | None = None,
    *,
    run: RunKey | None = None,
    chunk: Grid | None = None,
) -> int:
    """Insert the rows that the contract asks for and that do not exist. No row of a fixed model is changed.

    Args:
        conn: in autocommit.
        model: registered, with state.
        env: names the schema.
        window: what the run covers; all that is prefilled when the contract has no begin.
        run: recorded on new rows; a run of its own when not given.
        chunk: another grid for slicing this run's window of a flexible model; ignored on others, with a
        warning.

    Returns:
        How many rows were inserted.

    Raises:
        GrainChangedError: rows of a fixed model do not lie on its grid.
        ConfigurationError: ``chunk`` is finer than the model allows.
    """
    ref = StateRef.of(model, env)
    run = run or RunKey.ad_hoc()
    if chunk is not None and not model.is_flexible:
        log.warning(
            "%s: an interval override re-slices flexible models only; the grid %s is kept. To move the model "
            "to another grid, change its chunk and run once with STATE_MODE=torch.",
            model.full_name, model.grid,
        )  # fmt: skip
    if model.is_windowless:
        return single.prefill(conn, model, ref, window, run)
    if model.is_flexible:
        return flexible.prefill(conn, model, ref, window, run, chunk)
    return _prefill_grid(conn, model, ref, window, run)


def _prefill_grid(conn: Conn, model: Model, ref: StateRef, window: Interval | None, run: RunKey) -> int:
    grid = model.grid
    assert grid is not None
    bounds = declared_edges(model)
    known = look(conn, ref, bounds)
    if known.left_behind:
        retire.left_behind(conn, ref, bounds, windowless=False)
    begin = model.contract.begin
    if begin is None:
        return fill_grid(conn, model, ref, window, run, grid) if window is not None else 0
    wanted = contract_range(grid, begin, model.contract.end, known.now)
    if wanted is None:
        return 0
    edges = known.edges(wanted, grid_key(grid))
    if edges is None:
        return fill_grid(conn, model, ref, wanted, run, grid, complete=True)
    if not edges:
        return 0
    cells = sum((Cells.of(grid, edge) for edge in edges), Cells())
    complete = known.joined(wanted)
    if len(cells) <= _SMALL:
        return append_cells(conn, model, ref, run, cells, grid_key(grid), complete)
    with conn.transaction():
        serialise(conn, ref)
        count = insert_cells(conn, model, ref, run, cells, nothing_there=True)
        remember(conn, ref, grid_key(grid), complete)
    return count


def fill_grid(
    conn: Conn,
    model: Model,
    ref: StateRef,
    within: Interval,
    run: RunKey,
    grid: Grid,
    *,
    complete: bool = False,
) -> int:
    """Insert the cells of ``within`` that have no row, after a look at what is there. Returns how many.

    Args:
        conn: in autocommit.
        model: fixed.
        ref: its state table.
        within: what is filled.
        run: recorded on new rows.
        grid: the model's.
        complete: remember that this is all of the contract.

    Raises:
        GrainChangedError: a row there is no cell of the grid.
    """
    cells = Cells.of(grid, within)
    if not cells:
        return 0
    with conn.transaction():
        serialise(conn, ref)
        empty = is_empty(conn, ref)
        if not empty:
            check_grain(conn, model, ref, within, cells)
        count = insert_cells(conn, model, ref, run, cells, nothing_there=empty)
        if complete:
            remember(conn, ref, grid_key(grid), within)
    return count


def check_grain(conn: Conn, model: Model, ref: StateRef, within: Interval, cells: Cells) -> None:
    """Compare every row that overlaps ``within`` with the grid.

    Raises:
        GrainChangedError: one of them is no cell of it.
    """
    query = sql.SQL(
        "SELECT s.since, s.until FROM {} s WHERE s.since < %(within_until)s AND s.until > %(within_since)s "
        "AND {} AND NOT EXISTS (SELECT FROM {} c WHERE c.since = s.since AND c.until = s.until) ORDER BY s.since "
        "LIMIT 1"
    ).format(ref.ident, WINDOWED, ROWS)
    values: dict[str, Any] = {"within_since": within.since, "within_until": within.until, **cells.parameters}
    row = conn.execute(query, values).fetchone()
    if row is None:
        return
    found = Interval(utc(row[0]), utc(row[1]))
    if model.grid is not None and model.grid.is_cell(found):
        return  # a cell that the window cuts
    raise grain_changed(model, ref, found)


def grain_changed(model: Model, ref: StateRef, found: Interval) -> GrainChangedError:
    """Return the error for a row that does not lie on the model's grid."""
    return GrainChangedError(
        f"{model.full_name}: batching.time.chunk: the state table {ref.schema}.{ref.table} has a row {found} "
        f"that is no window of the grid {model.grid}. The chunk is the identity of a fixed model's state, so two "
        "grains cannot be mixed: put the old chunk back, or run once with STATE_MODE=torch, which deletes every "
        "state row and refills the contract (the whole model is then loaded again)."
    )


def declared_range(conn: Conn, model: Model) -> Interval | None:
    """Return the model's declared range as of the database's clock; None without begin or before its first cell."""
    grid, begin = model.grid, model.contract.begin
    if grid is None or begin is None:
        return None
    return contract_range(grid, begin, model.contract.end, db_now(conn), flexible=model.is_flexible)
