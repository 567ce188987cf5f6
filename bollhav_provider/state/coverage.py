"""Coverage: the islands of a model's applied time and their age, kept by triggers whoever writes the state rows.

Gates and gap filling read one row per gap-free island instead of the rows below it. :func:`install` keeps the
islands of a state table from then on, ours or another implementation's; where that is not allowed, gates read the
rows and answer the same, only not as fast. Not seen by statement triggers: logical replication,
``session_replication_role = replica``, a restore with triggers disabled; :func:`verify` finds, and :func:`rebuild`
repairs, what those leave. Rule: Semantics, gates.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import psycopg
from psycopg import sql

from bollhav_provider.exceptions import StateError
from bollhav_provider.intervals import Interval, IntervalSet, as_utc
from bollhav_provider.model import Environment
from bollhav_provider.state.refs import Conn, StateRef
from bollhav_provider.state.schema import LOCK_CLASS, function
from bollhav_provider.state.shapes import OUTSTANDING, outstanding_index, raw

log = logging.getLogger(__name__)

#: Waiting longer for a lock on another implementation's table would queue its writers behind us.
_LOCK_TIMEOUT = "2s"
#: Above this size of a table its indexes are built without blocking its writers.
_SMALL_BYTES = 16 * 1024 * 1024

#: The tables of which this process has said that their index has to wait.
_told: set[StateRef] = set()


@dataclass(frozen=True, slots=True)
class Differences:
    """What the islands say and the rows do not, and the reverse.

    Attributes:
        used: whether gates read the islands of the table; when not, they read its rows and nothing can differ.
        kept: whether all triggers that keep the islands are in force.
        false_coverage: covered by the islands, by no applied row. Gates open that should be shut.
        false_gaps: covered by applied rows, by no island. Gates stay shut that should be open.
        false_ages: blocks of time whose kept ages are not those of their rows. Freshness is judged wrongly.
    """

    used: bool
    kept: bool
    false_coverage: IntervalSet
    false_gaps: IntervalSet
    false_ages: int = 0

    @property
    def right(self) -> bool:
        """Whether gates can rely on what they read, now and later; if not, :func:`install` and :func:`rebuild`."""
        wrong = self.false_coverage or self.false_gaps or self.false_ages
        return not self.used or (self.kept and not wrong)


def install(conn: Conn, ref: StateRef) -> bool:
    """Keep the islands of a state table from now on, and index it for gates. One look when that is so already.

    Args:
        conn: in autocommit.
        ref: an existing state table, whoever made it.

    Returns:
        Whether the islands are kept. False where this role may not, or the table was busy: gates then read its rows.
    """
    look = sql.SQL(
        "SELECT {kept}(c.oid) AND to_regproc({reader}(c.oid::regclass::text)) IS NOT NULL, "
        "pg_has_role(c.relowner, 'USAGE'), pg_relation_size(c.oid), "
        "ARRAY(SELECT pg_get_expr(i.indpred, i.indrelid) || ' ' || pg_get_indexdef(i.indexrelid, 1, true) "
        "      FROM pg_index i WHERE i.indrelid = c.oid AND i.indpred IS NOT NULL AND i.indisvalid) "
        "FROM pg_class c WHERE c.oid = to_regclass(%s)"
    ).format(kept=_function(ref, "kept"), reader=function(ref.schema, "gate_reader_name", "gates.sql"))
    row = conn.execute(look, (_literal(ref),)).fetchone()
    if row is None:
        raise StateError(
            f"{ref.full_name}: its state table {ref.schema}.{ref.table} does not exist: run the model once."
        )
    kept, owner, size, indexes = row
    if not kept:
        kept = _keep(conn, ref)
    if owner:
        _index(conn, ref, cast(int, size), cast(list[str], indexes))
    return bool(kept)


def install_all(conn: Conn, env: Environment, full_names: Iterable[str] | None = None) -> dict[str, bool]:
    """Keep the islands of every registered model's state table, or of those named.

    For the tables of another implementation, which never installs anything: a downstream calls it for its upstreams.

    Returns:
        By full name, whether the islands are kept.
    """
    query = sql.SQL(
        "SELECT t.full_name, t.state_table, {}(t.rel) AND to_regproc({}(t.rel::text)) IS NOT NULL "
        "FROM (SELECT l.full_name, l.state_table, "
        "             to_regclass(format('%%I.%%I', l.state_schema, l.state_table)) AS rel "
        "      FROM {} l WHERE l.state_schema = %s AND (%s::text[] IS NULL OR l.full_name = ANY(%s)) OFFSET 0) t "
        "WHERE t.rel IS NOT NULL ORDER BY 1"
    ).format(
        sql.Identifier(env.state_schema, "coverage_kept_1"),
        function(env.state_schema, "gate_reader_name", "gates.sql"),
        sql.Identifier(env.state_schema, "library"),
    )
    names = None if full_names is None else list(full_names)
    rows = conn.execute(query, (env.state_schema, names, names)).fetchall()
    return {
        full_name: kept or install(conn, StateRef(env.state_schema, table, full_name))
        for full_name, table, kept in rows
    }


def islands(conn: Conn, ref: StateRef) -> IntervalSet:
    """Return what the islands say, or the rows where nobody keeps islands."""
    query = sql.SQL(
        "SELECT range_agg(tstzrange(since, until)) FROM {} WHERE state = to_regclass(%s) HAVING {}(to_regclass(%s))"
    ).format(sql.Identifier(ref.schema, "coverage"), _function(ref, "kept"))
    row = conn.execute(query, (_literal(ref), _literal(ref))).fetchone()
    return truth(conn, ref) if row is None else _set(row[0])


def truth(conn: Conn, ref: StateRef) -> IntervalSet:
    """Return what is covered as the applied rows say. Reads every row."""
    row = conn.execute(
        sql.SQL("SELECT {}(to_regclass(%s))").format(_function(ref, "truth")), (_literal(ref),)
    ).fetchone()
    return _set(row[0] if row else None)


def verify(conn: Conn, ref: StateRef) -> Differences:
    """Compare what is kept with the rows, in one snapshot. Reads every row."""
    query = sql.SQL(
        "SELECT u.used, {kept}(to_regclass(%(table)s)), "
        "       CASE WHEN u.used THEN i.islands - t.truth END, CASE WHEN u.used THEN t.truth - i.islands END, "
        "       CASE WHEN u.used THEN a.wrong ELSE 0 END "
        "FROM (SELECT EXISTS (SELECT FROM {head} h WHERE h.state = to_regclass(%(table)s) "
        "                     AND h.name = h.state::text) AS used) u, "
        "     (SELECT coalesce(range_agg(tstzrange(since, until)), '{{}}') AS islands FROM {coverage} "
        "       WHERE state = to_regclass(%(table)s)) i, "
        "     (SELECT {truth}(to_regclass(%(table)s)) AS truth) t, "
        "     (SELECT count(*) AS wrong FROM {true_loads}(to_regclass(%(table)s)) t "
        "        FULL JOIN (SELECT * FROM {loads} WHERE state = to_regclass(%(table)s)) l USING (level, block) "
        "       WHERE (t.oldest, t.newest) IS DISTINCT FROM (l.oldest, l.newest)) a"
    ).format(
        kept=_function(ref, "kept"),
        truth=_function(ref, "truth"),
        true_loads=_function(ref, "true_loads"),
        head=sql.Identifier(ref.schema, "coverage_head"),
        coverage=sql.Identifier(ref.schema, "coverage"),
        loads=sql.Identifier(ref.schema, "coverage_loads"),
    )
    row = conn.execute(query, {"table": _literal(ref)}).fetchone()
    assert row is not None
    return Differences(bool(row[0]), bool(row[1]), _set(row[2]), _set(row[3]), int(row[4]))


def rebuild(conn: Conn, ref: StateRef) -> bool:
    """Make the islands what the rows say; writers at work lose nothing. Returns whether they were wrong."""
    with conn.transaction():
        row = conn.execute(
            sql.SQL("SELECT {}(to_regclass(%s))").format(_function(ref, "rebuild")), (_literal(ref),)
        ).fetchone()
    wrong = bool(row and row[0])
    if wrong:
        log.warning("%s: the coverage differed from its rows and was rebuilt", ref.full_name)
    return wrong


def forget_dropped(conn: Conn, env: Environment) -> int:
    """Delete the islands of tables that no longer exist; returns how many tables there were."""
    # a dropped table's regclass is a number that no relation has any more
    statements = [
        sql.SQL("DELETE FROM {} t WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t.state)").format(
            sql.Identifier(env.state_schema, table)
        )
        for table in ("coverage", "coverage_loads", "coverage_head")
    ]
    with conn.transaction():
        return [conn.execute(statement).rowcount for statement in statements][-1]


def _keep(conn: Conn, ref: StateRef) -> bool:
    try:
        with conn.transaction():
            conn.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK_CLASS, ref.schema))
            conn.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(_LOCK_TIMEOUT)))
            conn.execute("SET LOCAL client_min_messages = warning")
            row = conn.execute(
                sql.SQL("SELECT {}(to_regclass(%s))").format(_function(ref, "install")), (_literal(ref),)
            ).fetchone()
            if row and row[0]:
                make = function(ref.schema, "gate_make_reader", "gates.sql")
                conn.execute(sql.SQL("SELECT {}(to_regclass(%s)::text)").format(make), (_literal(ref),))
    except (psycopg.errors.LockNotAvailable, psycopg.errors.InsufficientPrivilege) as exc:
        log.info(
            "%s: its coverage is not kept, gates read its rows (%s)",
            ref.full_name,
            str(exc).strip().splitlines()[0],
        )
        return False
    if not (row and row[0]):
        log.info(
            "%s: this role may not install triggers on %s.%s, gates read its rows",
            ref.full_name, ref.schema, ref.table,
        )  # fmt: skip
        return False
    return True


def _index(conn: Conn, ref: StateRef, size: int, present: list[str]) -> None:
    """Make the index of outstanding rows, without stopping the writers of a table that is large."""
    if any("<> 'applied'" in have and have.endswith(" since") for have in present):
        return
    name = outstanding_index(ref.table)
    concurrently = size >= _SMALL_BYTES
    statement = sql.SQL("CREATE INDEX {} {} ON {} {}").format(
        raw("CONCURRENTLY" if concurrently else ""), sql.Identifier(name), ref.ident, raw(OUTSTANDING)
    )
    try:
        if concurrently:  # one that was interrupted is there, and of no use
            conn.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier(ref.schema, name)))
            conn.execute(statement)
        else:
            with conn.transaction():
                conn.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(_LOCK_TIMEOUT)))
                conn.execute(statement)
    except (psycopg.errors.DuplicateTable, psycopg.errors.UniqueViolation):
        log.debug("%s: another session makes the index %s", ref.full_name, name)
    except psycopg.errors.LockNotAvailable:
        if ref not in _told:
            _told.add(ref)
            log.info(
                "%s: others are writing to its state table, so a later run adds the index that keeps long histories "
                "fast. Nothing is wrong, and nothing has to be done.",
                ref.full_name,
            )


def _function(ref: StateRef, name: str) -> sql.Identifier:
    return sql.Identifier(ref.schema, f"coverage_{name}_1")


def _literal(ref: StateRef) -> str:
    return ref.ident.as_string()


def _set(ranges: Any) -> IntervalSet:
    if ranges is None:
        return IntervalSet()
    return IntervalSet(Interval(_utc(r.lower), _utc(r.upper)) for r in ranges)


def _utc(value: datetime) -> datetime:
    return as_utc(value, "instant")
