"""Putting units back that have to run again because what they were made from is loaded again.

It works on the library alone, so that models of other pipelines take part, and is recorded like every reset:
a retry of the same run does not put back what was made again meanwhile (Semantics: restatement).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from bollhav_provider.intervals import Interval, Unit, as_utc
from bollhav_provider.state.library import entries
from bollhav_provider.state.refs import Conn, RunKey, StateRef
from bollhav_provider.state.reset import PENDING
from bollhav_provider.state.restatement import Outdated, edges, in_order
from bollhav_provider.state.rows import serialise

if TYPE_CHECKING:
    from bollhav_provider.model import Environment

log = logging.getLogger(__name__)

MODE = "cascade"
_KEY = "cascade|"

_RESTATE = sql.SQL(
    """
    WITH first_time AS (
        INSERT INTO {resets} (full_name, run_id, window_key, mode, units, who)
        SELECT %(name)s, %(run)s, k, %(mode)s, 1, %(who)s FROM unnest(%(keys)s::text[]) k
        ON CONFLICT DO NOTHING RETURNING window_key
    )
    UPDATE {state} s SET {pending}
      FROM unnest(%(sinces)s::timestamptz[], %(untils)s::timestamptz[], %(keys)s::text[]) AS w (since, until, key)
      JOIN first_time f ON f.window_key = w.key
     WHERE s.status = 'applied' AND {same}
    """
)
_SAME_WINDOW = sql.SQL("s.since = w.since AND s.until = w.until")
_WHOLE = sql.SQL("s.since IS NULL AND w.since IS NULL")


def restate(conn: Conn, env: Environment, run: RunKey, units: Iterable[Outdated]) -> int:
    """Put applied units back to ``pending``, of whatever pipeline, each at most once for the run.

    Args:
        conn: in autocommit.
        env: names the library.
        run: on whose behalf.
        units: what :func:`cascade` returned.

    Returns:
        How many units were put back.
    """
    refs = {entry.full_name: entry.ref for entry in entries(conn, env)}
    by_model: dict[str, list[Unit]] = {}
    for one in units:
        by_model.setdefault(one.full_name, []).append(one.unit)
    total = 0
    for name, found in by_model.items():
        if (ref := refs.get(name)) is not None:
            total += _restate(conn, ref, env, run, found)
    return total


def restated(conn: Conn, env: Environment, run: RunKey) -> list[tuple[str, Unit]]:
    """Return what the run put back by :func:`restate`, in an order in which it can run again."""
    known = {entry.full_name: entry for entry in entries(conn, env)}
    query = sql.SQL(
        "SELECT full_name, window_key FROM {} WHERE full_name = ANY(%s) AND run_id = %s AND mode = %s"
    ).format(sql.Identifier(env.state_schema, "resets"))
    rows = conn.execute(query, (list(known), run.run_id, MODE)).fetchall()
    place = {name: number for number, name in enumerate(in_order(known, edges(known.values(), env)))}
    found = [(name, _unit(key)) for name, key in rows]
    return sorted(found, key=lambda one: (place[one[0]], one[1].sort_key))


def _restate(conn: Conn, ref: StateRef, env: Environment, run: RunKey, units: Sequence[Unit]) -> int:
    count = 0
    windowed = [unit for unit in units if unit.window is not None]
    windowless = [unit for unit in units if unit.window is None]
    try:
        with conn.transaction():
            serialise(conn, ref)
            for some, same in ((windowed, _SAME_WINDOW), (windowless, _WHOLE)):
                if not some:
                    continue
                query = _RESTATE.format(
                    resets=sql.Identifier(env.state_schema, "resets"), state=ref.ident, pending=PENDING, same=same
                )
                values = {
                    "name": ref.full_name, "run": run.run_id, "mode": MODE, "who": run.who,
                    "keys": [_key(unit) for unit in some],
                    "sinces": [unit.since for unit in some], "untils": [unit.until for unit in some],
                }  # fmt: skip
                count += conn.execute(query, values).rowcount
    except psycopg.errors.UndefinedTable:
        return 0  # registered, and its table was dropped
    if count:
        log.info("%s: %d unit(s) are pending again: what they were made from is loaded again", ref.full_name, count)
    return count


def _key(unit: Unit) -> str:
    if unit.window is None:
        return f"{_KEY}whole"
    return f"{_KEY}{unit.window.since.isoformat()}|{unit.window.until.isoformat()}"


def _unit(key: str) -> Unit:
    since, _, until = key.removeprefix(_KEY).partition("|")
    return Unit(Interval(as_utc(since, "since"), as_utc(until, "until")) if until else None)
