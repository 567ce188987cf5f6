"""Which units a model has in a window, and how they stand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from psycopg import sql

from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.state.clock import utc
from bollhav_provider.state.in_work import abandoned, in_work
from bollhav_provider.state.prefill import grain_changed
from bollhav_provider.state.refs import Conn, StateRef
from bollhav_provider.state.rows import declared_edges
from bollhav_provider.state.single import grows
from bollhav_provider.state.sound import APPLIED_AT, SOUND

if TYPE_CHECKING:
    from bollhav_provider.model import Environment, Model


@dataclass(frozen=True, slots=True)
class UnitRow:
    """One unit as its row says.

    Attributes:
        unit: its window, or the windowless unit.
        status: ``pending``, ``running``, ``applied``, ``blocked`` or ``error``.
        applied_at: when it was applied; None unless it is.
        attempt: how often it was claimed.
        blocked_reason: what it waits for; None unless it is blocked.
        in_work: whether somebody works on it: a live lease, or another implementation's ``running``.
        owner: who, as far as known.
        covers: the range that the one row of an unbatched temporal model covers; else the unit's window.
        abandoned: of a unit in work, whether its worker's session is over: it is dead, or lost its connection.
        row: further columns: ``started_at``, ``duration``, ``rows_in``, ``rows_written``, ``rows_changed``,
            ``reason``, ``marked_by``, ``who``, ``dag_id``, ``airflow_run_id``, ``task_id``, ``try_number``,
            ``lease_until``, ``content_hash``.
    """

    unit: Unit
    status: str
    applied_at: datetime | None
    attempt: int
    blocked_reason: str | None
    in_work: bool
    owner: str | None
    covers: Interval | None
    abandoned: bool
    row: dict[str, Any]

    @property
    def outstanding(self) -> bool:
        """Whether it is work for somebody: not applied, and nobody is seen to be at it who lives."""
        return self.status != "applied" and (not self.in_work or self.abandoned)


_EXTRA = (
    "started_at", "duration", "rows_in", "rows_written", "rows_changed", "reason", "marked_by", "who",
    "dag_id", "airflow_run_id", "task_id", "try_number", "lease_until", "content_hash",
)  # fmt: skip
_SELECT = sql.SQL(
    "SELECT s.since, s.until, s.status, {}, s.attempt, s.blocked_reason, s.owner, {}, {}, {} "
    "FROM (SELECT * FROM {} s WHERE {}) s "
)
_THE_WINDOWLESS_ROW = sql.SQL("WHERE s.since IS NULL")
_THE_GROWING_ROW = sql.SQL("WHERE s.since IS NOT NULL ORDER BY s.since, s.until DESC LIMIT 1")


def units(
    conn: Conn,
    model: Model,
    env: Environment,
    window: Interval | None = None,
    *,
    outstanding: bool = True,
    limit: int | None = None,
) -> list[UnitRow]:
    """List a model's units in order of time.

    Execution is window-scoped: a unit belongs to the window when it lies inside it as a whole.
    Rule: Semantics, state.

    Args:
        conn: in autocommit.
        model: registered and prefilled.
        env: names the schema.
        window: what the run covers; None for everything the model has.
        outstanding: leave out what is applied and what somebody works on.
        limit: at most so many.

    Raises:
        GrainChangedError: rows in the window do not lie on a fixed model's grid.
    """
    ref = StateRef.of(model, env)
    if model.is_windowless:
        found = fetch(conn, ref, _THE_GROWING_ROW if grows(model) else _THE_WINDOWLESS_ROW, {}, whole=True)
    elif window is None:
        first, last = declared_edges(model)
        condition = sql.SQL(
            "WHERE s.since >= coalesce(%(first)s::timestamptz, '-infinity') "
            "AND s.since < coalesce(%(last)s::timestamptz, 'infinity') {} ORDER BY s.since, s.until {}"
        ).format(_only(outstanding), _limit(limit))
        found = fetch(conn, ref, condition, {"first": first, "last": last})
    else:
        # the row before the window is looked at too: one of another grain would reach into it
        condition = sql.SQL(
            "WHERE s.since >= coalesce((SELECT p.since FROM {} p WHERE p.since <= %(since)s "
            "ORDER BY p.since DESC LIMIT 1), %(since)s) AND s.since < %(until)s AND s.until > %(since)s "
            "ORDER BY s.since, s.until"
        ).format(ref.ident)
        overlapping = fetch(conn, ref, condition, {"since": window.since, "until": window.until})
        if not model.is_flexible:
            _check_grain(model, ref, window, overlapping)
        found = [row for row in overlapping if row.covers is not None and window.contains(row.covers)]
        first, last = declared_edges(model)
        found = [
            r for r in found
            if r.covers and (first is None or r.covers.since >= first) and (last is None or r.covers.until <= last)
        ]  # fmt: skip
    if outstanding:
        found = [row for row in found if row.outstanding]
    return found if limit is None else found[:limit]


def working(conn: Conn, model: Model, env: Environment, window: Interval | None = None) -> list[UnitRow]:
    """List the units of a window that somebody works on who is not known to be over. Arguments as for :func:`units`."""
    ref = StateRef.of(model, env)
    since, until = (window.since, window.until) if window is not None and not model.is_windowless else (None, None)
    tail = sql.SQL(
        "WHERE s.status = 'running' AND (%(since)s::timestamptz IS NULL OR s.since >= %(since)s) "
        "AND (%(until)s::timestamptz IS NULL OR s.until <= %(until)s) ORDER BY s.since"
    )
    found = fetch(conn, ref, tail, {"since": since, "until": until}, whole=model.is_windowless)
    return [row for row in found if row.in_work and not row.abandoned]


def _only(outstanding: bool) -> sql.SQL:
    return sql.SQL("AND s.status <> 'applied'" if outstanding else "")


def _limit(limit: int | None) -> sql.Composable:
    return sql.SQL("") if limit is None else sql.SQL("LIMIT {}").format(sql.Literal(limit))


def fetch(
    conn: Conn, ref: StateRef, tail: sql.Composable, values: dict[str, Any], *, whole: bool = False
) -> list[UnitRow]:
    """Read rows of a state table that a unit can be made of.

    Args:
        conn: any.
        ref: the state table.
        tail: what follows ``FROM (...) s``: conditions, order and limit over the row ``s``.
        values: of the parameters in ``tail``.
        whole: whether it is the one row of a model without windows.
    """
    columns = sql.SQL(", ").join(sql.SQL("s.") + sql.Identifier(name) for name in _EXTRA)
    query = _SELECT.format(
        APPLIED_AT, in_work(ref, windowless=whole), abandoned(ref, windowless=whole), columns, ref.ident, SOUND
    ) + tail
    found = []
    for since, until, status, applied_at, attempt, blocked_reason, owner, busy, left, *rest in conn.execute(
        query, values
    ):
        covers = Interval(utc(since), utc(until)) if since is not None else None
        found.append(
            UnitRow(
                unit=Unit(None if whole else covers),
                status=status,
                applied_at=utc(applied_at) if applied_at is not None else None,
                attempt=attempt,
                blocked_reason=blocked_reason,
                in_work=bool(busy),
                owner=owner,
                covers=covers,
                abandoned=bool(left),
                row=dict(zip(_EXTRA, rest, strict=True)),
            )
        )
    return found


def _check_grain(model: Model, ref: StateRef, window: Interval, found: list[UnitRow]) -> None:
    grid = model.grid
    if grid is None or not found:
        return
    first, last = declared_edges(model)
    around = Interval(grid.floor(window.since), grid.ceil(window.until))
    cells = set(grid.windows(around))
    for row in found:
        if row.covers is None or row.covers in cells:
            continue
        outside = (first is not None and row.covers.until <= first) or (
            last is not None and row.covers.since >= last
        )
        if not outside and not grid.is_cell(row.covers):
            raise grain_changed(model, ref, row.covers)
