"""Models, connections and a peer for the tests of the state room."""

from __future__ import annotations

import uuid
import warnings
from typing import Any

import psycopg
from psycopg import sql

from bollhav_provider import state
from bollhav_provider.exceptions import DefinitionWarning
from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.model import (
    Batch,
    ChunkFix,
    ChunkFlex,
    Column,
    Contract,
    Environment,
    Model,
    Source,
    SourceModel,
    State,
    Target,
    Temporality,
    TimeChunking,
    UpstreamContract,
)

Conn = psycopg.Connection[Any]

ENV = Environment()


def connect(dsn: str, **options: Any) -> Conn:
    """Connect as the project does: autocommit, UTC."""
    return psycopg.connect(dsn, autocommit=True, options="-c TimeZone=UTC", **options)


def daily(
    name: str = "wh.orders",
    *,
    begin: str | None = "2024-01-01T00:00Z",
    end: str | None = "2024-01-11T00:00Z",
    chunk: str = "@daily",
    tz: str = "UTC",
    flexible: bool | ChunkFlex = False,
    upstream: list[Source] | None = None,
    **state_options: Any,
) -> Model:
    """A windowed model; ten days of January 2024 unless told otherwise."""
    schema, _, table = name.rpartition(".")
    flexibility = flexible if isinstance(flexible, ChunkFlex) else ChunkFlex() if flexible else ChunkFix()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DefinitionWarning)  # a begin off the grid
        return Model(
            target=Target(
                schema=schema,
                name=table,
                write_mode="recreate_partition",
                columns=[Column("at", "timestamptz", partition_on=True), Column("n", "integer")],
            ),
            contract=Contract(begin=begin, end=end),
            batching=Batch(time=TimeChunking(chunk, tz=tz, flexibility=flexibility)),
            upstream=upstream or [],
            state=State(**state_options),
        )


def timeless(name: str = "ref.airlines", **fields: Any) -> Model:
    """A model with one windowless unit."""
    schema, _, table = name.rpartition(".")
    return Model(
        target=Target(schema=schema, name=table, write_mode="truncate", columns=[Column("code", "text")]),
        temporality=Temporality.TIMELESS,
        state=State(),
        **fields,
    )


def unbatched(name: str = "wh.totals", begin: str | None = "2024-01-01T00:00Z", **fields: Any) -> Model:
    """A temporal model without batching: one row that grows with its range."""
    schema, _, table = name.rpartition(".")
    return Model(
        target=Target(schema=schema, name=table, write_mode="truncate", columns=[Column("n", "integer")]),
        contract=Contract(begin=begin),
        state=State(),
        **fields,
    )


def gated_on(upstream: str, level: UpstreamContract = UpstreamContract.ENCAPSULATE) -> list[Source]:
    return [Source(upstream, type=SourceModel(), contract=level)]


def interval(since: str, until: str) -> Interval:
    """``interval("01-03", "01-05")`` in 2024, or full instants."""
    full = [text if "T" in text else f"{text}T00:00Z" for text in (since, until)]
    return Interval(*(text if len(text) > 12 else f"2024-{text}" for text in full))


def unit(since: str, until: str) -> Unit:
    return Unit(interval(since, until))


def set_up(conn: Conn, model: Model, env: Environment = ENV) -> state.StateRef:
    """Bootstrap, register and prefill."""
    state.bootstrap(conn, env)
    state.register(conn, model, env)
    state.prefill(conn, model, env)
    return state.StateRef.of(model, env)


def run_unit(conn: Conn, model: Model, work: Unit, run: state.RunKey | None = None) -> state.Claim:
    """Claim and apply one unit."""
    claim = state.claim(conn, model, ENV, work, run or state.RunKey.ad_hoc("tester"))
    assert claim is not None
    with conn.transaction():
        state.apply(conn, claim, state.ApplyStats(1, 1, 1))
    return claim


def run_window(conn: Conn, model: Model, window: Interval | None = None) -> int:
    """Apply everything outstanding in a window; returns how many units that were."""
    rows = state.units(conn, model, ENV, window)
    for row in rows:
        run_unit(conn, model, row.unit)
    return len(rows)


def statuses(conn: Conn, ref: state.StateRef) -> list[tuple[str, str]]:
    """``("01-03", "applied")`` for every row in order; hours are shown when they are not midnight."""
    rows = conn.execute(sql.SQL("SELECT since, status FROM {} ORDER BY since, until").format(ref.ident))
    return [(short(since), status) for since, status in rows]


def short(at: Any) -> str:
    if at is None:
        return "whole"
    return at.strftime("%m-%d") if (at.hour, at.minute) == (0, 0) else at.strftime("%m-%dT%H:%M")


def count(conn: Conn, ref: state.StateRef, status: str | None = None) -> int:
    query = sql.SQL("SELECT count(*) FROM {} WHERE %s::text IS NULL OR status = %s").format(ref.ident)
    row = conn.execute(query, (status, status)).fetchone()
    assert row is not None
    return int(row[0])


def one(conn: Conn, query: str, *values: Any, ref: state.StateRef | None = None) -> Any:
    """The first column of the first row, or None; ``@state`` in the query is ``ref``'s table."""
    if ref is not None:
        query = query.replace("@state", ref.ident.as_string())
    row = conn.execute(query.encode(), values).fetchone()
    return row[0] if row else None


class Peer:
    """The other implementation, in plain SQL: only the columns it knows, its session locks, one row at a time."""

    def __init__(self, dsn: str, schema: str = "z_bollhav") -> None:
        self.conn = connect(dsn)
        self.schema = schema
        self.run_id = uuid.uuid4()

    def close(self) -> None:
        self.conn.close()

    def make_library(self) -> None:
        """Make the tables as it does on an empty database."""
        s = sql.Identifier(self.schema)
        self.conn.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(s))
        self.conn.execute(
            sql.SQL(
                "CREATE TABLE IF NOT EXISTS {}.library (full_name TEXT PRIMARY KEY, upstream TEXT[] NOT NULL, "
                "sources JSONB NOT NULL DEFAULT '[]', model_type TEXT NOT NULL, state_schema TEXT, state_table TEXT, "
                "temporality TEXT NOT NULL DEFAULT 'temporal', fixed_intervals BOOLEAN NOT NULL DEFAULT true, "
                "metadata JSONB NOT NULL DEFAULT '{{}}', last_seen TIMESTAMPTZ NOT NULL DEFAULT now())"
            ).format(s)
        )
        self.conn.execute(
            sql.SQL(
                "CREATE TABLE IF NOT EXISTS {}.errors (id BIGSERIAL PRIMARY KEY, full_name TEXT NOT NULL, "
                "run_id UUID NOT NULL, since TIMESTAMPTZ, until TIMESTAMPTZ, error_type TEXT NOT NULL, "
                "error_message TEXT, traceback TEXT, created_at TIMESTAMPTZ NOT NULL DEFAULT now())"
            ).format(s)
        )
        self.conn.execute(sql.SQL("CREATE INDEX IF NOT EXISTS ix1 ON {}.errors (full_name)").format(s))
        self.conn.execute(sql.SQL("CREATE INDEX IF NOT EXISTS ix2 ON {}.errors (created_at DESC)").format(s))

    def make_state_table(self, table: str) -> None:
        name = sql.Identifier(self.schema, table)
        self.conn.execute(
            sql.SQL(
                "CREATE TABLE IF NOT EXISTS {} (id BIGSERIAL PRIMARY KEY, model_name TEXT, run_id UUID NOT NULL, "
                "since TIMESTAMPTZ, until TIMESTAMPTZ, status TEXT NOT NULL, blocked_reason TEXT, "
                "applied_at TIMESTAMPTZ, temporality TEXT NOT NULL DEFAULT 'temporal', UNIQUE (since, until))"
            ).format(name)
        )
        self.conn.execute(
            sql.SQL(
                "CREATE UNIQUE INDEX IF NOT EXISTS {} ON {} ((since IS NULL)) WHERE since IS NULL"
            ).format(sql.Identifier(f"u_{table}"[:60]), name)
        )

    def register(self, full_name: str, table: str, upstream: list[str] | None = None) -> None:
        self.conn.execute(
            sql.SQL(
                "INSERT INTO {} (full_name, upstream, sources, model_type, state_schema, state_table, last_seen) "
                "VALUES (%s, %s, '[]', 'TABLE', %s, %s, now()) ON CONFLICT (full_name) DO UPDATE SET "
                "upstream = excluded.upstream, last_seen = excluded.last_seen"
            ).format(sql.Identifier(self.schema, "library")),
            (full_name, upstream or [], self.schema, table),
        )

    def prefill(self, full_name: str, table: str, windows: list[Interval]) -> None:
        query = sql.SQL(
            "INSERT INTO {} (model_name, run_id, since, until, status) VALUES (%s, %s, %s, %s, 'pending') "
            "ON CONFLICT (since, until) DO NOTHING"
        ).format(sql.Identifier(self.schema, table))
        for window in windows:
            self.conn.execute(query, (full_name, self.run_id, window.since, window.until))

    def key(self, full_name: str, window: Interval | None) -> str:
        if window is None:
            return f"{full_name}|oneshot"
        return f"{full_name}|{window.since.isoformat()}|{window.until.isoformat()}"

    def lock(self, full_name: str, window: Interval | None) -> bool:
        return bool(one(self.conn, "SELECT pg_try_advisory_lock(hashtext(%s))", self.key(full_name, window)))

    def unlock(self, full_name: str, window: Interval | None) -> bool:
        return bool(one(self.conn, "SELECT pg_advisory_unlock(hashtext(%s))", self.key(full_name, window)))

    def lock_model(self, full_name: str) -> bool:
        return bool(one(self.conn, "SELECT pg_try_advisory_lock(hashtext(%s))", full_name))

    def set_status(self, table: str, window: Interval | None, status: str) -> int:
        where = sql.SQL("since IS NULL" if window is None else "since = %(since)s AND until = %(until)s")
        query = sql.SQL(
            "UPDATE {} SET status = %(status)s, applied_at = CASE WHEN %(status)s = 'applied' THEN now() "
            "ELSE applied_at END WHERE {}"
        ).format(sql.Identifier(self.schema, table), where)
        values = {"status": status}
        if window is not None:
            values |= {"since": window.since, "until": window.until}  # type: ignore[dict-item]
        return self.conn.execute(query, values).rowcount
