"""How a claim ends: applied, failed, released or blocked; and units that are applied without being run.

``apply`` belongs into the transaction that wrote the unit's rows: then both are committed, or neither. The others are
transactions of their own. Every one is conditional on the claim (Semantics: commit).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from psycopg import sql
from psycopg.types.json import Jsonb

from bollhav_provider.exceptions import LeaseLostError
from bollhav_provider.intervals import Unit
from bollhav_provider.state import flexible
from bollhav_provider.state.claims import FILE, Claim
from bollhav_provider.state.clock import utc
from bollhav_provider.state.masking import describe
from bollhav_provider.state.refs import Conn, RunKey, StateRef
from bollhav_provider.state.rows import serialise
from bollhav_provider.state.schema import function

if TYPE_CHECKING:
    from bollhav_provider.model import Environment, Model

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ApplyStats:
    """What a unit moved, kept on its row and in the history.

    Attributes:
        rows_in: rows that the function or query gave.
        rows_written: rows inserted or updated.
        rows_changed: rows that are other than before, where the write mode knows.
        duration: of the work; from the claim to now when not given.
        details: anything else worth keeping with the row, such as upstream windows that a relaxation forgave.
    """

    rows_in: int | None = None
    rows_written: int | None = None
    rows_changed: int | None = None
    duration: timedelta | None = None
    details: Mapping[str, Any] | None = None


class Reason(Protocol):
    """What :func:`block` needs of a gate's report."""

    @property
    def reason(self) -> str: ...


def apply(conn: Conn, claim: Claim, stats: ApplyStats | None = None) -> datetime:
    """Make the unit ``applied``, in the caller's open transaction.

    Args:
        conn: inside the transaction that wrote the unit's rows. From here to its commit nobody else can take the unit.
        claim: held and unexpired at this instant, or nothing happens.
        stats: what was moved.

    Returns:
        ``applied_at``, by the database's clock.

    Raises:
        LeaseLostError: the claim expired, was taken over or was ended; the caller's transaction must be rolled back.
    """
    stats = stats or ApplyStats()
    held, applied_at, status, owner, attempt = _finish(conn, claim, "applied", None, stats=stats)
    if not held or applied_at is None:
        now = "its row is gone" if status is None else f"the row is {status} at attempt {attempt}, owner {owner}"
        raise LeaseLostError(
            f"{claim.state.full_name} {claim.unit.label}: the claim of attempt {claim.attempt} is lost ({now}). Its lease "
            "expired, or the unit was reset or taken over; nothing of this attempt is committed."
        )
    return utc(applied_at)


def fail(conn: Conn, claim: Claim, exc: BaseException, *, details: Mapping[str, Any] | None = None) -> bool:
    """Record an exception and make the unit ``error``, in one transaction of its own.

    The error is recorded in any case. When the claim is no longer held (lost, or applied: a failure after the commit),
    the row stays as it is, which is logged.

    Args:
        conn: in autocommit, no transaction open.
        claim: of the unit that failed.
        exc: what happened; credentials in it are masked, message and traceback bounded.
        details: rows that failed a check and the like.

    Returns:
        Whether the unit is now ``error``.
    """
    kind, message, trace = describe(exc, [conn.info.password or None])
    held, _, status, *_ = _finish(
        conn, claim, "error", message.split("\n", 1)[0][:500],
        stats=ApplyStats(details=details), error=(kind, message, trace),
    )  # fmt: skip
    if not held:
        log.warning(
            "%s %s: %s recorded; the claim is no longer ours, so its row stays %s",
            claim.state.full_name, claim.unit.label, kind, status or "deleted",
        )  # fmt: skip
    return held


def release(conn: Conn, claim: Claim, reason: str) -> bool:
    """Give the unit back as ``pending``: an interrupt, a time-out, a curfew.

    Args:
        conn: in autocommit, no transaction open.
        claim: to be ended.
        reason: kept on the row.

    Returns:
        Whether the claim was still ours.
    """
    return _ended(claim, "released", _finish(conn, claim, "pending", reason)[0])


def block(conn: Conn, claim: Claim, report: Reason | str) -> bool:
    """Make the unit ``blocked``, with the full text of what it waits for.

    Args:
        conn: in autocommit, no transaction open.
        claim: to be ended.
        report: a gate's report, or the text itself.

    Returns:
        Whether the claim was still ours.
    """
    reason = report if isinstance(report, str) else report.reason
    return _ended(claim, "blocked", _finish(conn, claim, "blocked", reason)[0])


def _ended(claim: Claim, what: str, held: bool) -> bool:
    if not held:
        log.warning("%s %s: not %s: the claim is no longer ours", claim.state.full_name, claim.unit.label, what)
    return held


def _finish(
    conn: Conn,
    claim: Claim,
    status: str,
    reason: str | None,
    *,
    stats: ApplyStats | None = None,
    error: tuple[str, str, str] | None = None,
) -> tuple[bool, datetime | None, str | None, str | None, int | None]:
    ref, stats = claim.state, stats or ApplyStats()
    kind, message, trace = error or (None, None, None)
    details = Jsonb(dict(stats.details)) if stats.details is not None else None
    values = (
        ref.table, ref.full_name, claim.id, claim.attempt, claim.owner, claim.lock_pid, claim.lock_key,
        claim.model_key, status, reason, stats.rows_in, stats.rows_written, stats.rows_changed,
        stats.duration, claim.content_hash, details,
        claim.run.run_id, claim.unit.since, claim.unit.until, kind, message, trace,
    )  # fmt: skip
    query = sql.SQL("SELECT held, applied_at, status, owner, attempt FROM {}({})").format(
        function(ref.schema, "finish", FILE), sql.SQL(", ").join([sql.Placeholder()] * len(values))
    )
    row = conn.execute(query, values).fetchone()
    assert row is not None
    held, applied_at, now, owner, attempt = row
    return bool(held), applied_at, now, owner, attempt


def mark_applied(
    conn: Conn,
    model: Model,
    env: Environment,
    units: Iterable[Unit],
    run: RunKey,
    reason: str | None = None,
) -> int:
    """Record that units were loaded some other way: state without data.

    It is an assertion, not a verification: a warning is logged, and the rows are flagged with who says so and why.
    ``applied_at`` is the time of the claim. Whoever works on one of the units is fenced: it commits nothing any more.

    Args:
        conn: in autocommit.
        model: registered, with state.
        env: names the schema.
        units: exactly these, and no other.
        run: who says so.
        reason: why.

    Returns:
        How many units are marked.
    """
    ref = StateRef.of(model, env)
    wanted = list(units)
    if not wanted:
        return 0
    log.warning(
        "%s: %d unit(s) are marked applied without being run, by %s: %s. Nothing checks that the data are there.",
        ref.full_name, len(wanted), run.who or "an unknown account", reason or "no reason given",
    )  # fmt: skip
    with conn.transaction():
        serialise(conn, ref)
        if model.is_flexible:
            for unit in wanted:
                if unit.window is not None:
                    flexible.make_room(conn, ref, unit.window)
        count = _mark_windows(conn, model, ref, wanted, run, reason)
        count += _mark_whole(conn, model, ref, wanted, run, reason)
        conn.execute("SELECT pg_notify(%s, %s)", (ref.schema, ref.table))
    return count


_GIVEN = sql.SQL("unnest(%(sinces)s::timestamptz[], %(untils)s::timestamptz[]) AS w (since, until)")
_MARKED = sql.SQL(
    "status = 'applied', applied_at = clock_timestamp(), blocked_reason = NULL, attempt = s.attempt + 1, owner = NULL, "
    "lease_until = NULL, run_id = excluded.run_id, reason = excluded.reason, marked_by = excluded.marked_by, "
    "who = excluded.who, dag_id = excluded.dag_id, airflow_run_id = excluded.airflow_run_id, "
    "task_id = excluded.task_id, try_number = excluded.try_number, content_hash = excluded.content_hash, "
    "started_at = NULL, duration = NULL, rows_in = NULL, rows_written = NULL, rows_changed = NULL, details = NULL"
)
_MARK = sql.SQL(
    """
    WITH marked AS (
        INSERT INTO {state} AS s (model_name, run_id, since, until, status, applied_at, temporality, attempt, reason,
                                  marked_by, content_hash, who, dag_id, airflow_run_id, task_id, try_number)
        SELECT %(name)s, %(run)s, w.since, w.until, 'applied', clock_timestamp(), %(temporality)s, 1, %(reason)s,
               %(marked_by)s, %(content_hash)s, %(who)s, %(dag_id)s, %(airflow_run_id)s, %(task_id)s, %(try_number)s::int
        FROM {windows}
        ON CONFLICT {arbiter} DO UPDATE SET {marked}
        RETURNING s.since, s.until, s.attempt
    )
    INSERT INTO {history} (full_name, since, until, run_id, attempt, outcome, reason, who, dag_id, airflow_run_id,
                           task_id, try_number)
    SELECT %(name)s, m.since, m.until, %(run)s, m.attempt, 'marked', %(reason)s, %(who)s, %(dag_id)s,
           %(airflow_run_id)s, %(task_id)s, %(try_number)s::int
    FROM marked m
    """
)


def _mark_values(model: Model, ref: StateRef, run: RunKey, reason: str | None) -> dict[str, Any]:
    return {
        "name": ref.full_name, "run": run.run_id, "temporality": model.temporality.value, "reason": reason,
        "marked_by": run.who or "unknown", "content_hash": model.content_hash, "who": run.who, "dag_id": run.dag_id,
        "airflow_run_id": run.airflow_run_id, "task_id": run.task_id, "try_number": run.try_number,
    }  # fmt: skip


def _mark_windows(
    conn: Conn, model: Model, ref: StateRef, units: list[Unit], run: RunKey, reason: str | None
) -> int:
    windows = sorted({unit.window for unit in units if unit.window is not None})
    if not windows:
        return 0
    query = _MARK.format(
        state=ref.ident,
        history=sql.Identifier(ref.schema, "history"),
        marked=_MARKED,
        windows=_GIVEN,
        arbiter=sql.SQL("(since, until)"),
    )
    values = _mark_values(model, ref, run, reason)
    values |= {"sinces": [w.since for w in windows], "untils": [w.until for w in windows]}
    return conn.execute(query, values).rowcount


def _mark_whole(
    conn: Conn, model: Model, ref: StateRef, units: list[Unit], run: RunKey, reason: str | None
) -> int:
    if not any(unit.windowless for unit in units):
        return 0
    values = _mark_values(model, ref, run, reason)
    grown = conn.execute(
        sql.SQL("SELECT since, until FROM {} WHERE since IS NOT NULL ORDER BY since LIMIT 1").format(ref.ident)
    ).fetchone()
    if grown is not None and model.is_temporal:
        # the one row of an unbatched temporal model has the window that it grew to
        values |= {"sinces": [grown[0]], "untils": [grown[1]]}
        windows = _GIVEN
        arbiter = sql.SQL("(since, until)")
    else:
        windows = sql.SQL("(SELECT NULL::timestamptz AS since, NULL::timestamptz AS until) w")
        arbiter = sql.SQL("((since IS NULL)) WHERE since IS NULL")
    query = _MARK.format(
        state=ref.ident,
        history=sql.Identifier(ref.schema, "history"),
        marked=_MARKED,
        windows=windows,
        arbiter=arbiter,
    )
    return conn.execute(query, values).rowcount
