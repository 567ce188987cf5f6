"""Reconciliation: everything outstanding is looked at again, whatever left it so (Semantics: discover without
a window).

error → pending, orphaned running → pending, blocked → pending where the gates now open, pending → blocked
where they closed. Holes that somebody tore into the prefilled range are mended, rows that the contract no
longer has are retired.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from bollhav_provider.state import flexible, retire
from bollhav_provider.state.in_work import idle
from bollhav_provider.state.observe import GateWatch, observe_all
from bollhav_provider.state.prefill import declared_range, fill_grid, prefill
from bollhav_provider.state.refs import Conn, RunKey, StateRef
from bollhav_provider.state.rows import declared_edges, serialise
from bollhav_provider.state.units import UnitRow, units

if TYPE_CHECKING:
    from bollhav_provider.model import Environment, Model, TableId

log = logging.getLogger(__name__)

#: Units whose gates are checked in one statement.
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What a reconciliation changed, in numbers of units.

    Attributes:
        inserted: rows that were missing.
        retired: rows that the contract no longer has.
        errors: from ``error`` to ``pending``.
        orphans: from ``running`` to ``pending``: their worker died.
        opened: from ``blocked`` to ``pending``.
        closed: from ``pending`` to ``blocked``.
        outstanding: what is left to do now, blocked units included.
    """

    inserted: int = 0
    retired: int = 0
    errors: int = 0
    orphans: int = 0
    opened: int = 0
    closed: int = 0
    outstanding: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the numbers by name."""
        return asdict(self)


def reconcile(
    conn: Conn,
    model: Model,
    env: Environment,
    run: RunKey,
    bound: Mapping[str, Sequence[TableId]] | None = None,
) -> Reconciled:
    """Bring every outstanding unit of the model up to date.

    Args:
        conn: in autocommit.
        model: registered, with state.
        env: names the schema.
        run: recorded on new rows.
        bound: as in :func:`gate_requests`.

    Raises:
        GrainChangedError: rows of a fixed model do not lie on its grid.
    """
    ref = StateRef.of(model, env)
    retired = retire.left_behind(conn, ref, declared_edges(model), windowless=model.is_windowless)
    inserted = prefill(conn, model, env, run=run) + _mend(conn, model, ref, run)
    errors, orphans = _recover(conn, model, ref)
    waiting = [row for row in units(conn, model, env) if row.status in ("pending", "blocked")]
    opened, closed = _gates(conn, model, env, waiting, bound)
    result = Reconciled(inserted, retired, errors, orphans, opened, closed, len(waiting))
    log.info("%s: reconciled: %s", ref.full_name, result.to_json())
    return result


def _mend(conn: Conn, model: Model, ref: StateRef, run: RunKey) -> int:
    """Fill the holes of the declared range, wherever they are."""
    if model.is_windowless or model.grid is None:
        return 0
    whole = declared_range(conn, model)
    if whole is None:
        return 0
    if not model.is_flexible:
        return fill_grid(conn, model, ref, whole, run, model.grid, complete=True)
    with conn.transaction():
        serialise(conn, ref)
        return flexible.fill_gaps(conn, model, ref, run, whole, model.grid)


def _recover(conn: Conn, model: Model, ref: StateRef) -> tuple[int, int]:
    query = sql.SQL(
        """
        WITH old AS (
            SELECT s.id, s.status FROM {state} s WHERE s.status IN ('error', 'running') AND {idle} FOR UPDATE
        ), changed AS (
            UPDATE {state} t SET status = 'pending', owner = NULL, lease_until = NULL
            FROM old o WHERE t.id = o.id RETURNING o.status
        )
        SELECT count(*) FILTER (WHERE c.status = 'error'), count(*) FILTER (WHERE c.status = 'running') FROM
        changed c
        """
    ).format(state=ref.ident, idle=idle(ref, windowless=model.is_windowless))
    row = conn.execute(query).fetchone()
    return (int(row[0]), int(row[1])) if row else (0, 0)


def _gates(
    conn: Conn,
    model: Model,
    env: Environment,
    waiting: list[UnitRow],
    bound: Mapping[str, Sequence[TableId]] | None,
) -> tuple[int, int]:
    opened = closed = 0
    for start in range(0, len(waiting), _BATCH):
        batch = waiting[start : start + _BATCH]
        reports = observe_all(conn, [GateWatch.of(model, env, row.unit, bound) for row in batch])
        for row, report in zip(batch, reports, strict=True):
            opened += row.status == "blocked" and report.open
            closed += row.status == "pending" and not report.open
    return opened, closed
