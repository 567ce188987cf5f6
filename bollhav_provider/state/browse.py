"""What people look at: one model's units, the newest first, and many models in numbers. Nothing is changed.

Unlike :func:`~bollhav_provider.state.units.units`, which says what a run would do, this shows what is there: also rows
of an older grain, and those outside the contract. All of it works on the library's entries, without definitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from bollhav_provider.model import Environment
from bollhav_provider.state.clock import utc
from bollhav_provider.state.library import LibraryEntry, entries, get_entry
from bollhav_provider.state.refs import Conn, StateRef
from bollhav_provider.state.sound import APPLIED_AT, SOUND, WINDOWED
from bollhav_provider.state.summary import STATUSES
from bollhav_provider.state.units import UnitRow, fetch

#: State tables that one statement counts.
_AT_ONCE = 50
_NO_LIBRARY = (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)


@dataclass(frozen=True, slots=True)
class Standing:
    """How one model stands.

    Attributes:
        counts: status to number of units; those that do not occur are 0.
        until: end of the latest applied window; None for a model without windows, or without an applied one.
        loaded_at: the newest ``applied_at``.
        stuck: units that say ``running`` although their lease is over.
    """

    counts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(STATUSES, 0), hash=False)
    until: datetime | None = None
    loaded_at: datetime | None = None
    stuck: int = 0

    @property
    def troubled(self) -> bool:
        """Whether somebody should look: something failed, waits, or is held by a worker that is gone."""
        return bool(self.counts["error"] or self.counts["blocked"] or self.stuck)


def registered(conn: Conn, env: Environment) -> list[LibraryEntry]:
    """Return the whole library, in order of the names; empty where there is none yet."""
    try:
        return entries(conn, env)
    except _NO_LIBRARY:
        return []


def find_entry(conn: Conn, env: Environment, full_name: str) -> LibraryEntry | None:
    """Return one entry by its name in the environment; None where there is none, or no library yet."""
    try:
        return get_entry(conn, env, full_name)
    except _NO_LIBRARY:
        return None


def windowless(entry: LibraryEntry) -> bool:
    """Return whether a model has one row for its whole table: it is timeless, or is not cut into windows."""
    return entry.temporality == "timeless" or not (entry.metadata.get("batching") or {}).get("chunk")


def recent(
    conn: Conn,
    entry: LibraryEntry,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    status: str | None = None,
    before: datetime | None = None,
    limit: int = 100,
) -> list[UnitRow]:
    """Return units of a model, those of the latest windows first.

    Args:
        conn: any.
        entry: the model as the library has it.
        since, until: only those whose window overlaps this one; either side may be open.
        status: only those that have it.
        before: only those whose window starts before it, which is the next page.
        limit: at most so many.
    """
    ref = entry.ref
    if ref is None:
        return []
    whole = windowless(entry)
    wanted = [sql.SQL("true")]
    if since is not None and not whole:
        wanted.append(sql.SQL("s.until > %(since)s"))
    if until is not None and not whole:
        wanted.append(sql.SQL("s.since < %(until)s"))
    if status is not None:
        wanted.append(sql.SQL("s.status = %(status)s"))
    if before is not None:
        wanted.append(sql.SQL("s.since < %(before)s"))
    tail = sql.SQL("WHERE {} ORDER BY s.since DESC, s.until DESC LIMIT %(limit)s").format(sql.SQL(" AND ").join(wanted))
    values = {"since": since, "until": until, "status": status, "before": before, "limit": limit}
    try:
        return fetch(conn, ref, tail, values, whole=whole)
    except _NO_LIBRARY:  # registered, and its state table dropped since
        return []


def standings(conn: Conn, refs: Iterable[StateRef]) -> dict[StateRef, Standing]:
    """Count the units of many models; reads each state table once. A table that is missing is left out.

    Args:
        conn: any.
        refs: state tables.
    """
    names = {ref.ident.as_string(conn): ref for ref in refs}
    query = "SELECT name FROM unnest(%s::text[]) AS t (name) WHERE to_regclass(name) IS NOT NULL"
    there = [names[name] for (name,) in conn.execute(query, (list(names),))]
    found: dict[StateRef, Standing] = {}
    for start in range(0, len(there), _AT_ONCE):
        found |= _count(conn, there[start : start + _AT_ONCE])
    return found


def _count(conn: Conn, refs: Sequence[StateRef]) -> dict[StateRef, Standing]:
    one = sql.SQL(
        "SELECT {number}, s.status, count(*), max(s.until) FILTER (WHERE s.status = 'applied' AND {windowed}), "
        "max({applied_at}), count(*) FILTER (WHERE s.status = 'running' AND s.lease_until <= clock_timestamp()) "
        "FROM {state} s WHERE {sound} GROUP BY s.status"
    )
    query = sql.SQL(" UNION ALL ").join(
        one.format(number=sql.Literal(number), windowed=WINDOWED, applied_at=APPLIED_AT, state=ref.ident, sound=SOUND)
        for number, ref in enumerate(refs)
    )
    rows: dict[int, list[Any]] = {number: [] for number in range(len(refs))}
    for number, *row in conn.execute(query):
        rows[number].append(row)
    return {ref: _standing(rows[number]) for number, ref in enumerate(refs)}


def _standing(rows: Sequence[Any]) -> Standing:
    counts = dict.fromkeys(STATUSES, 0) | {status: number for status, number, *_ in rows}
    ends = [utc(until) for _, _, until, _, _ in rows if until is not None]
    loads = [utc(at) for _, _, _, at, _ in rows if at is not None]
    return Standing(counts, max(ends, default=None), max(loads, default=None), sum(stuck for *_, stuck in rows))
