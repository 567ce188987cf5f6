"""How a claim ends: applied, failed, released or blocked.

``apply`` belongs into the transaction that wrote the unit's rows: then both are committed, or neither. The
others are transactions of their own. Every one is conditional on the claim (Semantics: commit).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from psycopg import sql
from psycopg.types.json import Jsonb

from bollhav_provider.exceptions import LeaseLostError
from bollhav_provider.state.claims import FILE, Claim
from bollhav_provider.state.clock import utc
from bollhav_provider.state.masking import describe
from bollhav_provider.state.refs import Conn
from bollhav_provider.state.schema import function

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
        conn: inside the transaction that wrote the unit's rows. Until its commit nobody else can take the unit.
        claim: held and unexpired at this instant, or nothing happens.
        stats: what was moved.

    Returns:
        ``applied_at``, by the database's clock.

    Raises:
        LeaseLostError: the claim expired, was taken over or was ended; the transaction must be rolled back.
    """
    stats = stats or ApplyStats()
    held, applied_at, status, owner, attempt = _finish(conn, claim, "applied", None, stats=stats)
    if not held or applied_at is None:
        now = (
            "its row is gone"
            if status is None
            else f"the row is {status} at attempt {attempt}, owner {owner}"
        )
        raise LeaseLostError(
            f"{claim.state.full_name} {claim.unit.label}: the claim of attempt {claim.attempt} is lost "
            f"({now}). Its lease expired, or the unit was reset or taken over; nothing of this attempt is committed."
        )
    return utc(applied_at)


def fail(conn: Conn, claim: Claim, exc: BaseException, *, details: Mapping[str, Any] | None = None) -> bool:
    """Record an exception and make the unit ``error``, in one transaction of its own.

    The error is recorded in any case. When the claim is no longer held (lost, or applied: a failure after the
    commit), the row stays as it is, which is logged.

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
        log.warning(
            "%s %s: not %s: the claim is no longer ours", claim.state.full_name, claim.unit.label, what
        )
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
