"""How a model stands: how many units are in which status, what is covered, and what is stuck."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from bollhav_provider.intervals import Interval, IntervalSet
from bollhav_provider.state.clock import utc
from bollhav_provider.state.refs import Conn, StateRef
from bollhav_provider.state.sound import APPLIED_AT, WINDOWED

if TYPE_CHECKING:
    from bollhav_provider.model import Environment, Model

STATUSES = ("pending", "running", "applied", "blocked", "error")


@dataclass(frozen=True, slots=True)
class Summary:
    """One model's state in numbers.

    Attributes:
        exists: whether there is a state table; without one all else is empty.
        counts: status to number of units; those that do not occur are 0.
        first: start of the earliest applied window.
        last: end of the latest applied window.
        loaded_at: the newest ``applied_at``.
        expired: units that say ``running`` although their lease is over: their workers died.
        reason: of the earliest blocked unit.
        marked: applied units that were marked and not run.
        gaps: how often what is applied is interrupted between ``first`` and ``last``.
        first_gap: the earliest of the gaps.
    """

    exists: bool
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    first: datetime | None = None
    last: datetime | None = None
    loaded_at: datetime | None = None
    expired: int = 0
    reason: str | None = None
    marked: int = 0
    gaps: int = 0
    first_gap: Interval | None = None

    @property
    def applied_range(self) -> Interval | None:
        """From the first applied window to the last one, holes included."""
        return Interval(self.first, self.last) if self.first and self.last else None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "exists": self.exists,
            "counts": dict(self.counts),
            "first": self.first.isoformat() if self.first else None,
            "last": self.last.isoformat() if self.last else None,
            "loaded_at": self.loaded_at.isoformat() if self.loaded_at else None,
            "expired": self.expired,
            "reason": self.reason,
            "marked": self.marked,
            "gaps": self.gaps,
            "first_gap": self.first_gap.to_json() if self.first_gap else None,
        }


def has_state(conn: Conn, ref: StateRef) -> bool:
    """Return whether the state table was made."""
    row = conn.execute("SELECT to_regclass(%s) IS NOT NULL", (ref.ident.as_string(conn),)).fetchone()
    return bool(row and row[0])


def summary(conn: Conn, model: Model, env: Environment) -> Summary:
    """Count a model's units; reads every row once. Nothing is made when there is no state table yet.

    Args:
        conn: in autocommit.
        model: with state.
        env: names the schema.
    """
    ref = StateRef.of(model, env)
    query = sql.SQL(
        """
        SELECT {counts}, min(s.since) FILTER (WHERE s.status = 'applied' AND {windowed}),
               max(s.until) FILTER (WHERE s.status = 'applied' AND {windowed}),
               max({applied_at}), count(*) FILTER (WHERE s.status = 'running' AND s.lease_until <= clock_timestamp()),
               count(*) FILTER (WHERE s.status = 'applied' AND s.marked_by IS NOT NULL),
               range_agg(tstzrange(s.since, s.until)) FILTER (WHERE s.status = 'applied' AND {windowed}),
               (SELECT b.blocked_reason FROM {state} b WHERE b.status = 'blocked' ORDER BY b.since NULLS FIRST LIMIT 1)
        FROM {state} s
        """
    ).format(
        state=ref.ident,
        windowed=WINDOWED,
        applied_at=APPLIED_AT,
        counts=sql.SQL(", ").join(
            sql.SQL("count(*) FILTER (WHERE s.status = {})").format(sql.Literal(status))
            for status in STATUSES
        ),
    )
    try:
        row = conn.execute(query).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return Summary(False, dict.fromkeys(STATUSES, 0))
    assert row is not None
    counts = dict(zip(STATUSES, row[: len(STATUSES)], strict=True))
    first, last, loaded, expired, marked, applied, reason = row[len(STATUSES) :]
    islands = IntervalSet(Interval(part.lower, part.upper) for part in applied or ())
    gaps = islands.gaps(Interval(first, last)) if len(islands) > 1 else ()
    return Summary(
        True,
        counts,
        utc(first) if first is not None else None,
        utc(last) if last is not None else None,
        utc(loaded) if loaded is not None else None,
        expired,
        reason,
        marked,
        len(gaps),
        gaps[0] if gaps else None,
    )
