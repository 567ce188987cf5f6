"""A library written with plain SQL, as any other program writes it, for the tests of gates and coverage."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from psycopg import sql
from state_support import connect

from bollhav_provider.intervals import Interval, IntervalSet
from bollhav_provider.model import Environment
from bollhav_provider.state import GateReport, GateRequest, StateRef, check_gates, coverage
from bollhav_provider.state.schema import bootstrap, ensure_state_table

ENV = Environment()
SCHEMA = ENV.state_schema
DAY = datetime(2024, 1, 1, tzinfo=UTC)

#: A plain state table, as the other implementation makes it.
PLAIN = """
    CREATE TABLE {} (
        id BIGSERIAL PRIMARY KEY, model_name TEXT, run_id UUID NOT NULL, since TIMESTAMPTZ, until TIMESTAMPTZ,
        status TEXT NOT NULL, blocked_reason TEXT, applied_at TIMESTAMPTZ, temporality TEXT NOT NULL DEFAULT 'temporal',
        UNIQUE (since, until))
"""


def at(hours: float) -> datetime:
    """An instant so many hours after the first of January 2024."""
    return DAY + timedelta(hours=hours)


def window(since: float, until: float) -> Interval:
    """A window in hours after the first of January 2024."""
    return Interval(at(since), at(until))


@dataclass(frozen=True)
class Row:
    """One state row; times in hours, None for no window; ``age`` in minutes before now, None for no applied_at."""

    since: float | None
    until: float | None
    status: str = "applied"
    age: float | None = 1


@dataclass
class Upstream:
    """What is registered, and with which rows."""

    rows: list[Row] = field(default_factory=list)
    begin: float | None = None
    end: float | None = None
    chunk: str | None = "@hourly"
    tz: str | None = None
    timeless: bool = False
    fixed: bool = True
    stateful: bool = True


@contextmanager
def own_database(dsn: str, name: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database of one test module's own, which making one for each test would slow down."""
    with connect(dsn) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} STRATEGY FILE_COPY").format(sql.Identifier(name)))
        try:
            with connect(psycopg.conninfo.make_conninfo(dsn, dbname=name)) as conn:
                yield conn
        finally:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


class Library:
    """An upstream at a time under one name, with the coverage kept or not."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self.conn = conn
        bootstrap(conn, ENV)
        self._made: set[str] = set()

    def ref(self, name: str) -> StateRef:
        return StateRef(SCHEMA, f"s_{name.replace('.', '_')}", name)

    def put(self, name: str, upstream: Upstream, *, kept: bool = True, plain: bool = False) -> StateRef:
        """Register ``upstream`` as ``name`` and replace its rows."""
        ref = self.ref(name)
        if upstream.stateful and name not in self._made:
            if plain:
                self.conn.execute(sql.SQL(PLAIN).format(ref.ident))
            else:
                ensure_state_table(self.conn, ref)
            if kept:
                assert coverage.install(self.conn, ref)
            self._made.add(name)
        contract = {
            "begin": None if upstream.begin is None else at(upstream.begin).isoformat(),
            "end": None if upstream.end is None else at(upstream.end).isoformat(),
        }
        metadata: dict[str, Any] = {"contract": contract}
        if upstream.chunk is not None:
            metadata["batching"] = {"chunk": upstream.chunk, "fixed_intervals": upstream.fixed}
        if upstream.tz is not None:
            metadata["tz"] = upstream.tz
        self.conn.execute(
            sql.SQL(
                "INSERT INTO {} (full_name, upstream, model_type, state_schema, state_table, temporality, "
                "fixed_intervals, metadata) VALUES (%s, '{{}}', 'TABLE', %s, %s, %s, %s, %s) "
                "ON CONFLICT (full_name) DO UPDATE SET "
                "state_schema = excluded.state_schema, state_table = excluded.state_table, "
                "temporality = excluded.temporality, fixed_intervals = excluded.fixed_intervals, "
                "metadata = excluded.metadata"
            ).format(sql.Identifier(SCHEMA, "library")),
            (
                name,
                ref.schema if upstream.stateful else None,
                ref.table if upstream.stateful else None,
                "timeless" if upstream.timeless else "temporal",
                upstream.fixed,
                json.dumps(metadata),
            ),
        )
        if upstream.stateful:
            self.fill(ref, upstream.rows)
        return ref

    def fill(self, ref: StateRef, rows: Iterable[Row]) -> None:
        """Replace the rows of a state table."""
        with self.conn.transaction(), self.conn.cursor() as cursor:
            cursor.execute(sql.SQL("DELETE FROM {}").format(ref.ident))
            cursor.executemany(
                sql.SQL(
                    "INSERT INTO {} (model_name, run_id, since, until, status, applied_at) "
                    "VALUES (%s, %s, %s, %s, %s, now() - %s * interval '1 minute')"
                ).format(ref.ident),
                [
                    (
                        ref.full_name,
                        uuid.uuid4(),
                        None if row.since is None else at(row.since),
                        None if row.until is None else at(row.until),
                        row.status,
                        None if row.age is None else float(row.age),
                    )
                    for row in rows
                ],
            )


class Counting:
    """Counts what any connection sends to the server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent = 0
        execute = psycopg.Cursor.execute

        def count(cursor: Any, *arguments: Any, **options: Any) -> Any:
            self.sent += 1
            return execute(cursor, *arguments, **options)

        monkeypatch.setattr(psycopg.Cursor, "execute", count)


def state_sql(conn: psycopg.Connection[Any], ref: StateRef, statement: str, *values: Any) -> psycopg.Cursor[Any]:
    """Run a statement in which ``{}`` stands for a state table."""
    return conn.execute(sql.SQL(statement).format(ref.ident), values)  # type: ignore[arg-type]


def right(conn: psycopg.Connection[Any], ref: StateRef) -> IntervalSet:
    """The islands, after making sure that they are what the rows say, one row an island."""
    found = coverage.verify(conn, ref)
    assert found.used
    assert found.right, found
    rows = conn.execute(
        sql.SQL("SELECT since, until FROM {} WHERE state = %s::regclass ORDER BY since").format(
            sql.Identifier(SCHEMA, "coverage")
        ),
        (ref.ident.as_string(),),
    ).fetchall()
    assert all(a[1] < b[0] for a, b in pairwise(rows)), "islands touch or overlap"
    islands = coverage.islands(conn, ref)
    assert islands == coverage.truth(conn, ref)
    assert len(islands) == len(rows)
    return islands


def insert(
    conn: psycopg.Connection[Any], ref: StateRef, since: float, until: float | None, status: str = "applied"
) -> None:
    """Write one row as a peer does, or change the status of the one that is there."""
    conn.execute(
        sql.SQL(
            "INSERT INTO {} (model_name, run_id, since, until, status, applied_at) VALUES "
            "('x', gen_random_uuid(), %s, %s, %s, now()) "
            "ON CONFLICT (since, until) DO UPDATE SET status = excluded.status"
        ).format(ref.ident),
        (at(since), None if until is None else at(until), status),
    )


def put(library: Library, name: str, upstream: Upstream) -> None:
    """Write an upstream; whether its coverage is kept goes by its name."""
    library.put(name, upstream, kept=name.endswith("kept"))


def ask(library: Library, *requests: GateRequest) -> GateReport:
    """Check gates in one statement."""
    return GateReport(tuple(check_gates(library.conn, ENV, requests)))
