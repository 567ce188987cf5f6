"""Units that are applied without being run: state without data (Semantics: STATE_MARK_APPLIED)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from psycopg import sql

from bollhav_provider.exceptions import StateError
from bollhav_provider.intervals import Unit
from bollhav_provider.state import flexible
from bollhav_provider.state.refs import Conn, RunKey, StateRef
from bollhav_provider.state.rows import serialise
from bollhav_provider.state.single import grows
from bollhav_provider.state.sound import WINDOWED

if TYPE_CHECKING:
    from bollhav_provider.model import Environment, Model

log = logging.getLogger(__name__)

_GIVEN = sql.SQL("unnest(%(sinces)s::timestamptz[], %(untils)s::timestamptz[]) AS w (since, until)")
_WHOLE = sql.SQL("(SELECT NULL::timestamptz AS since, NULL::timestamptz AS until) w")
_BY_WINDOW = sql.SQL("(since, until)")
_BY_LACK_OF_WINDOW = sql.SQL("((since IS NULL)) WHERE since IS NULL")

_MARK = sql.SQL(
    """
    WITH marked AS (
        INSERT INTO {state} AS s (
            model_name, run_id, since, until, status, applied_at, temporality, attempt, reason, marked_by,
            content_hash, who, dag_id, airflow_run_id, task_id, try_number)
        SELECT %(name)s, %(run)s, w.since, w.until, 'applied', clock_timestamp(), %(temporality)s, 1, %(reason)s,
            %(marked_by)s, %(content_hash)s, %(who)s, %(dag_id)s, %(airflow_run_id)s, %(task_id)s,
            %(try_number)s::int
        FROM {windows}
        ON CONFLICT {arbiter} DO UPDATE SET
            status = excluded.status, applied_at = excluded.applied_at, temporality = excluded.temporality,
            attempt = s.attempt + 1, reason = excluded.reason, marked_by = excluded.marked_by,
            content_hash = excluded.content_hash, who = excluded.who, dag_id = excluded.dag_id,
            airflow_run_id = excluded.airflow_run_id, task_id = excluded.task_id,
            try_number = excluded.try_number, run_id = excluded.run_id, blocked_reason = NULL, owner = NULL,
            lease_until = NULL, started_at = NULL, duration = NULL, rows_in = NULL, rows_written = NULL,
            rows_changed = NULL, details = NULL
        RETURNING s.since, s.until, s.attempt
    )
    INSERT INTO {history} (full_name, since, until, run_id, attempt, outcome, reason, who, dag_id,
                           airflow_run_id, task_id, try_number)
    SELECT %(name)s, m.since, m.until, %(run)s, m.attempt, 'marked', %(reason)s, %(who)s, %(dag_id)s,
           %(airflow_run_id)s, %(task_id)s, %(try_number)s::int
    FROM marked m
    """
)


def mark_applied(
    conn: Conn,
    model: Model,
    env: Environment,
    units: Iterable[Unit],
    run: RunKey,
    reason: str | None = None,
    *,
    content_hash: str | None = None,
    warn: bool = True,
) -> int:
    """Record that units were loaded some other way.

    It is an assertion, not a verification: a warning is logged, and the rows are flagged with who says so and
    why. ``applied_at`` is the time of the claim. Whoever works on one of the units is fenced: it commits nothing
    any more.

    Args:
        conn: in autocommit.
        model: registered, with state.
        env: names the schema.
        units: exactly these, and no other.
        run: who says so.
        reason: why.
        content_hash: of the inline inputs that the units stand for, where ``model`` is a stand-in, which has none; by
            default the model's. A later run compares its own with it.
        warn: log the warning; False for who says it in other words, which must be said once.

    Returns:
        How many units are marked.

    Raises:
        StateError: a window is none of a fixed model's grid, or a windowless model is given one.
    """
    ref = StateRef.of(model, env)
    wanted = list(units)
    if not wanted:
        return 0
    _check(model, wanted)
    if warn:
        log.warning(
            "%s: %d unit(s) are marked applied without being run, by %s: %s. Nothing checks that the data are there.",
            ref.full_name, len(wanted), run.who or "an unknown account", reason or "no reason given",
        )  # fmt: skip
    windows = sorted({unit.window for unit in wanted if unit.window is not None})
    values: dict[str, Any] = {
        "name": ref.full_name,
        "run": run.run_id,
        "temporality": model.temporality.value,
        "reason": reason,
        "marked_by": run.who or "unknown",
        "content_hash": content_hash if content_hash is not None else model.content_hash,
        "who": run.who,
        "dag_id": run.dag_id,
        "airflow_run_id": run.airflow_run_id,
        "task_id": run.task_id,
        "try_number": run.try_number,
        "sinces": [w.since for w in windows],
        "untils": [w.until for w in windows],
    }
    with conn.transaction():
        serialise(conn, ref)
        count = 0
        if windows:
            if model.is_flexible:
                for window in windows:
                    flexible.make_room(conn, ref, window)
            count += conn.execute(_statement(ref, _GIVEN, _BY_WINDOW), values).rowcount
        if any(unit.windowless for unit in wanted):
            count += _mark_whole(conn, model, ref, values)
        conn.execute("SELECT pg_notify(%s, %s)", (ref.schema, ref.table))
    return count


def _check(model: Model, units: list[Unit]) -> None:
    for unit in units:
        if unit.windowless != model.is_windowless:
            kind = "one windowless unit" if model.is_windowless else "windows"
            raise StateError(f"{model.full_name}: {unit.label} cannot be marked applied: the model has {kind}.")
        if unit.window is None or model.is_flexible or model.grid is None:
            continue
        if not model.grid.is_cell(unit.window):
            raise StateError(
                f"{model.full_name}: {unit.label} cannot be marked applied: it is no window of the grid "
                f"{model.grid}; the one that its start lies in is {model.grid.cell(unit.window.since)}. Two grains "
                "in one state table cannot be told apart."
            )


def _mark_whole(conn: Conn, model: Model, ref: StateRef, values: dict[str, Any]) -> int:
    look = sql.SQL("SELECT s.since, s.until FROM {} s WHERE {} ORDER BY s.since, s.until DESC LIMIT 1")
    grown = conn.execute(look.format(ref.ident, WINDOWED)).fetchone() if grows(model) else None
    if grown is None:
        return conn.execute(_statement(ref, _WHOLE, _BY_LACK_OF_WINDOW), values).rowcount
    # the one row of an unbatched temporal model has the window that it grew to
    given = values | {"sinces": [grown[0]], "untils": [grown[1]]}
    return conn.execute(_statement(ref, _GIVEN, _BY_WINDOW), given).rowcount


def _statement(ref: StateRef, windows: sql.SQL, arbiter: sql.SQL) -> sql.Composed:
    return _MARK.format(
        state=ref.ident, history=sql.Identifier(ref.schema, "history"), windows=windows, arbiter=arbiter
    )
