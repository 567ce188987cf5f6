"""Restatement: which units are older than what they were made from, and which would be, if others ran again.

A unit is outdated when an upstream row that its gate selected was applied after it was (Semantics:
restatement). It is found from the library alone, so that models of other pipelines take part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
from psycopg import sql

from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.model import UpstreamContract
from bollhav_provider.state.clock import utc
from bollhav_provider.state.gate_types import OWN_PAST
from bollhav_provider.state.library import LibraryEntry, entries
from bollhav_provider.state.metadata import OURS
from bollhav_provider.state.refs import Conn, StateRef
from bollhav_provider.state.sound import SOUND

if TYPE_CHECKING:
    from bollhav_provider.model import Environment

_WHOLE = UpstreamContract.WHOLE.value
_THROUGH = UpstreamContract.THROUGH.value
_EXACT = UpstreamContract.EXACT.value
_EXISTS = UpstreamContract.EXISTS.value

#: Rows ``m`` of {mine} older than some row ``u`` of {theirs} that their gate selects. Each reads either table once,
#: or a range of its index for each row: a model's whole history is compared.
_OLDER: dict[str, LiteralString] = {
    _EXACT: (
        "SELECT m.since, m.until FROM {mine} m JOIN {theirs} u ON u.since = m.since AND u.until = m.until "
        "WHERE m.status = 'applied' AND u.status = 'applied' AND u.applied_at > m.applied_at"
    ),
    # no row is longer than the longest, so that the search stays near the window
    UpstreamContract.ENCAPSULATE.value: (
        "SELECT m.since, m.until FROM {mine} m WHERE m.status = 'applied' AND EXISTS (SELECT FROM {theirs} u "
        "WHERE u.status = 'applied' AND u.applied_at > m.applied_at AND u.since < m.until AND u.until > m.since "
        "AND u.since > m.since - (SELECT make_interval(secs => max(extract(epoch FROM l.until - l.since))::float8) "
        "FROM {theirs} l WHERE l.status = 'applied' AND isfinite(l.since) AND isfinite(l.until)))"
    ),
    # the newest load so far, in order of time; a window that ends where a row starts does not read it
    _THROUGH: (
        "SELECT r.since, r.until FROM (SELECT e.*, max(e.loaded) OVER (ORDER BY e.at, e.loaded NULLS FIRST) AS newest "
        "FROM (SELECT u.since AS at, u.applied_at AS loaded, NULL::timestamptz AS since, NULL::timestamptz AS until, "
        "NULL::timestamptz AS applied_at FROM {theirs} u WHERE u.status = 'applied' AND u.since IS NOT NULL "
        "UNION ALL SELECT m.until, NULL, m.since, m.until, m.applied_at FROM {mine} m "
        "WHERE m.status = 'applied' AND m.since IS NOT NULL) e) r WHERE r.newest > r.applied_at"
    ),
    _WHOLE: (
        "SELECT m.since, m.until FROM {mine} m WHERE m.status = 'applied' AND m.applied_at < "
        "(SELECT max(u.applied_at) FROM {theirs} u WHERE u.status = 'applied')"
    ),
    OWN_PAST: (
        "SELECT r.since, r.until FROM (SELECT m.*, max(m.applied_at) OVER "
        "(ORDER BY m.since ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS newest "
        "FROM {mine} m WHERE m.status = 'applied' AND m.since IS NOT NULL) r WHERE r.newest > r.applied_at"
    ),
}
#: A windowless unit reads everything, whatever the level.
_OLDER_WINDOWLESS: LiteralString = (
    " UNION ALL SELECT m.since, m.until FROM {mine} m WHERE m.status = 'applied' AND m.since IS NULL "
    "AND m.applied_at < (SELECT max(u.applied_at) FROM {theirs} u WHERE u.status = 'applied')"
)


#: Which windows ``w`` that are loaded again concern a row ``m``.
_TOUCHED_EXACTLY: LiteralString = "w.since = m.since AND w.until = m.until"
_TOUCHED: LiteralString = "w.since < m.until AND w.until > m.since"


@dataclass(frozen=True, slots=True)
class Outdated:
    """One unit that would have to run again.

    Attributes:
        full_name: the model, as the library has it.
        unit: its window.
        because: upstreams that were applied later, or that would run again themselves.
    """

    full_name: str
    unit: Unit
    because: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"model": self.full_name, "unit": self.unit.to_json(), "because": list(self.because)}


@dataclass(frozen=True, slots=True)
class Edge:
    """One gate: what waits for what, and how."""

    upstream: str
    downstream: str
    level: str


@dataclass(slots=True)
class _Affected:
    """What of one model would be new: windows, and whether that is simply everything."""

    windows: list[Interval] = field(default_factory=list)
    whole: bool = False

    def __bool__(self) -> bool:
        return self.whole or bool(self.windows)


def outdated(conn: Conn, env: Environment, full_names: Iterable[str] | None = None) -> list[Outdated]:
    """Return the units that are older than their inputs, in order of model and time.

    Args:
        conn: any.
        env: names the library.
        full_names: models to look at, as the library has them; all when not given.
    """
    known = {entry.full_name: entry for entry in entries(conn, env)}
    wanted = set(full_names) if full_names is not None else set(known)
    found: dict[tuple[str, Unit], list[str]] = {}
    for edge in edges(known.values(), env):
        if edge.downstream not in wanted:
            continue
        for unit in _older(conn, known[edge.downstream].ref, known[edge.upstream].ref, edge.level):
            found.setdefault((edge.downstream, unit), []).append(edge.upstream)
    ordered = sorted(found, key=lambda key: (key[0], key[1].sort_key))
    return [Outdated(name, unit, tuple(found[name, unit])) for name, unit in ordered]


def cascade(
    conn: Conn,
    env: Environment,
    seeds: Mapping[str, Sequence[Interval] | None] | None = None,
    *,
    outdated_too: bool | None = None,
) -> list[Outdated]:
    """Return every unit, across pipelines, that would have to run again, in an order in which they can.

    Args:
        conn: any.
        env: names the library.
        seeds: models, as the library has them, whose windows are going to be loaded again (None: all of
            them).
        outdated_too: whether what is outdated now is to run again as well; so it is where there are no seeds.
    """
    known = {entry.full_name: entry for entry in entries(conn, env)}
    links = edges(known.values(), env)
    affected: dict[str, _Affected] = {}
    reasons: dict[tuple[str, Unit], list[str]] = {}
    for name, windows in (seeds or {}).items():
        affected[name] = _Affected(list(windows or ()), windows is None)
    if seeds is None if outdated_too is None else outdated_too:
        for one in outdated(conn, env):
            reasons[one.full_name, one.unit] = list(one.because)
            _add(affected, one.full_name, one.unit)
    order = in_order(known, links)
    for name in order:
        # what reads its own past comes last: everything else that is new in it counts
        for edge in sorted(links, key=lambda link: link.level == OWN_PAST):
            if edge.downstream != name or not affected.get(edge.upstream):
                continue
            for unit in _reached(conn, known[name].ref, affected[edge.upstream], edge.level):
                because = reasons.setdefault((name, unit), [])
                if edge.upstream not in because:
                    because.append(edge.upstream)
                _add(affected, name, unit)
    place = {name: number for number, name in enumerate(order)}
    ordered = sorted(reasons, key=lambda key: (place[key[0]], key[1].sort_key))
    return [Outdated(name, unit, tuple(reasons[name, unit])) for name, unit in ordered]


def edges(found: Iterable[LibraryEntry], env: Environment) -> list[Edge]:
    """Return the gates between models that have state, as their registrants declared them.

    A model whose windows wait for its own earlier ones has an edge to itself.
    """
    by_name = {entry.full_name: entry for entry in found if entry.ref is not None}
    suffix = env.state_schema.removeprefix("z_bollhav")
    links = []
    for entry in by_name.values():
        declared = entry.metadata.get("upstreams")
        for item in declared if isinstance(declared, list) else ():
            if not isinstance(item, dict) or item.get("contract") in (None, _EXISTS):
                continue
            if suffix and item.get("deactivate_for_dev"):
                continue  # production is read
            for upstream in _meant(str(item.get("name")), suffix, by_name, entry.full_name):
                links.append(Edge(upstream, entry.full_name, str(item["contract"]).lower()))
        ours = entry.metadata.get(OURS)
        if isinstance(ours, dict) and ours.get("sequential"):
            links.append(Edge(entry.full_name, entry.full_name, OWN_PAST))
    return [link for link in links if link.level in _OLDER]


def _meant(name: str, suffix: str, known: Mapping[str, object], mine: str) -> list[str]:
    """Return the library's names that a declared name stands for: it has no suffix, theirs have, on the schema."""
    head, _, table = name.rpartition(".")
    if head == "*":
        return [one for one in known if one.rpartition(".")[2] == table and one != mine]
    there = f"{head}{suffix}.{table}" if head else name
    return [there] if there in known else []


def _older(conn: Conn, mine: StateRef | None, theirs: StateRef | None, level: str) -> list[Unit]:
    assert mine is not None
    assert theirs is not None
    parts = [sql.SQL(_OLDER[level]), sql.SQL("" if level in (_WHOLE, OWN_PAST) else _OLDER_WINDOWLESS)]
    return _units(
        conn, sql.Composed([part.format(mine=mine.ident, theirs=theirs.ident) for part in parts]), {}
    )


def _reached(conn: Conn, ref: StateRef | None, affected: _Affected, level: str) -> list[Unit]:
    """Return the applied units of a model whose gate selects what is affected of an upstream."""
    assert ref is not None
    where: sql.Composable = sql.SQL("true")
    values: dict[str, Any] = {}
    if not affected.whole and level != _WHOLE:
        windows = affected.windows
        first = min(window.since for window in windows)
        if level == _THROUGH:
            where = sql.SQL("(m.since IS NULL OR m.until > %(first)s)")
            values = {"first": first}
        elif level == OWN_PAST:
            where, values = sql.SQL("m.since > %(first)s"), {"first": first}
        else:
            touch = sql.SQL(_TOUCHED_EXACTLY if level == _EXACT else _TOUCHED)
            where = sql.SQL(
                "(m.since IS NULL OR EXISTS (SELECT FROM unnest(%(sinces)s::timestamptz[], "
                "%(untils)s::timestamptz[]) "
                "AS w (since, until) WHERE {}))"
            ).format(touch)
            values = {"sinces": [w.since for w in windows], "untils": [w.until for w in windows]}
    query = sql.SQL("SELECT m.since, m.until FROM {} m WHERE m.status = 'applied' AND {}").format(
        ref.ident, where
    )
    return _units(conn, query, values)


def _units(conn: Conn, query: sql.Composed, values: dict[str, Any]) -> list[Unit]:
    sound = sql.SQL("SELECT s.since, s.until FROM ({}) s WHERE {}").format(query, SOUND)
    try:
        rows = conn.execute(sound, values).fetchall()
    except psycopg.errors.UndefinedTable:
        return []  # registered, and its table was dropped
    return [Unit(Interval(utc(s), utc(u)) if s is not None else None) for s, u in rows]


def _add(affected: dict[str, _Affected], name: str, unit: Unit) -> None:
    known = affected.setdefault(name, _Affected())
    if unit.window is None:
        known.whole = True
    else:
        known.windows.append(unit.window)


def in_order(known: Mapping[str, LibraryEntry], links: Sequence[Edge]) -> list[str]:
    """Return the models so that each comes after what it waits for; those of a cycle by name, at the end."""
    waits = {name: {link.upstream for link in links if link.downstream == name != link.upstream} for name in known}
    order: list[str] = []
    done: set[str] = set()
    while len(order) < len(known):
        ready = sorted(name for name in known if name not in done and waits[name] <= done)
        if not ready:
            ready = sorted(name for name in known if name not in done)
        order += ready
        done.update(ready)
    return order
