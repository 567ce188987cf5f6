"""Bootstrap and registration: any number of first runs at once, old shapes, no lock on existing tables."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from database_pool import Databases
from psycopg import sql
from state_support import ENV, Conn, Peer, connect, count, daily, gated_on, interval, one, set_up, timeless

from bollhav_provider import state
from bollhav_provider.exceptions import StateError
from bollhav_provider.model import Column, Environment, Model, Target
from bollhav_provider.state import schema

_SHAPE = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped
"""


@pytest.fixture
def db(databases: Databases) -> Iterator[str]:
    """DSN of an empty database: what is tested here is how the library comes into it."""
    with databases.empty() as dsn:
        yield dsn


def shape(conn: Conn, table: str) -> set[tuple[object, ...]]:
    return {tuple(row) for row in conn.execute(_SHAPE, (table,))}


@pytest.mark.parametrize("round_", range(3))
def test_sixteen_first_runs_at_once_on_an_empty_database_all_succeed(db: str, round_: int) -> None:
    barrier = threading.Barrier(16)
    models = [daily("wh.orders"), daily("wh.lines"), timeless("ref.airlines")]

    def first_run(number: int) -> int:
        with connect(db) as conn:
            barrier.wait()
            state.bootstrap(conn, ENV)
            done = 0
            for model in models[number % 3 :] + models[: number % 3]:
                state.register(conn, model, ENV)
                done += state.prefill(conn, model, ENV)
            return done

    with ThreadPoolExecutor(16) as pool:
        inserted = list(pool.map(first_run, range(16)))
    assert sum(inserted) == 10 + 10 + 1
    with connect(db) as conn:
        assert count(conn, state.StateRef.of(models[0], ENV)) == 10
        assert [e.full_name for e in state.entries(conn, ENV)] == ["ref.airlines", "wh.lines", "wh.orders"]
        assert state.coverage.verify(conn, state.StateRef.of(models[0], ENV)).kept


def test_a_new_library_is_told_in_one_line_and_once(conn: Conn, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        for _ in range(2):
            state.bootstrap(conn, ENV)
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("the library z_bollhav is made, or brought up to date, with claims.sql ")


def test_the_second_bootstrap_only_looks(conn: Conn) -> None:
    set_up(conn, daily())
    before = one(conn, "SELECT pg_current_xact_id()::text::bigint")
    state.bootstrap(conn, ENV)
    # this look itself is the one transaction with an id in between
    assert one(conn, "SELECT pg_current_xact_id()::text::bigint") == before + 1


def test_an_idle_reader_in_a_transaction_blocks_nobody(db: str, conn: Conn, other: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    other.execute("BEGIN")
    other.execute(sql.SQL("SELECT * FROM {}").format(ref.ident))
    for table in ("library", "errors", "coverage", "history", "resets"):
        other.execute(sql.SQL("SELECT * FROM z_bollhav.{}").format(sql.Identifier(table)))
    conn.execute("SET lock_timeout = '500ms'")
    set_up(conn, model)
    set_up(conn, daily("wh.another"))
    state.reset(conn, model, ENV, state.RunKey.ad_hoc(), None, "torch")
    assert count(conn, ref) == 10


def test_a_migration_that_a_reader_holds_up_steps_back_and_says_so(
    db: str, conn: Conn, other: Conn, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer.make_library()
    other.execute("BEGIN")
    other.execute("SELECT * FROM z_bollhav.errors")
    monkeypatch.setattr(schema, "_GIVE_UP_AFTER_S", 1.5)
    failed: list[BaseException] = []

    def migrate() -> None:
        try:
            state.bootstrap(conn, ENV)
        except StateError as exc:
            failed.append(exc)

    thread = threading.Thread(target=migrate)
    thread.start()
    with connect(db) as reader:  # newcomers pass in between
        reader.execute("SET statement_timeout = '3s'")
        for _ in range(10):
            reader.execute("SELECT * FROM z_bollhav.errors")
    thread.join()
    assert "idle in a transaction" in str(failed[0])
    other.execute("ROLLBACK")
    state.bootstrap(conn, ENV)
    assert one(conn, "SELECT count(*) FROM z_bollhav.installed") == len(schema.function_files())


OLD_LIBRARY = """
    CREATE SCHEMA z_bollhav;
    CREATE TABLE z_bollhav.library (
        full_name TEXT PRIMARY KEY, upstream TEXT[] NOT NULL, state_schema TEXT NOT NULL, state_table TEXT NOT NULL,
        last_seen TIMESTAMPTZ NOT NULL DEFAULT now());
"""


def test_an_old_library_is_completed_and_its_old_writer_still_succeeds(db: str, conn: Conn) -> None:
    conn.execute(OLD_LIBRARY)
    old_write = (
        "INSERT INTO z_bollhav.library (full_name, upstream, state_schema, state_table) VALUES (%s, '{}', "
        "'z_bollhav', 't') ON CONFLICT (full_name) DO UPDATE SET upstream = excluded.upstream, last_seen = now()"
    )
    conn.execute(old_write, ("old.before",))
    state.bootstrap(conn, ENV)
    conn.execute(old_write, ("old.after",))
    conn.execute(old_write, ("old.before",))
    view = Model(
        target=Target(schema="wh", name="v"), materialization="view", query="SELECT 1 AS a", library=True
    )
    entry = state.register(conn, view, ENV)
    assert entry is not None
    assert (entry.model_type, entry.state_schema, entry.state_table) == ("VIEW", None, None)
    found = state.get_entry(conn, ENV, "old.after")
    assert found is not None
    assert (found.model_type, found.temporality, found.fixed_intervals) == ("TABLE", "temporal", True)
    assert (found.sources, found.metadata) == ((), {})


def test_a_fresh_library_and_an_upgraded_one_have_one_shape(
    db: str, conn: Conn, pg_dsn: str, peer: Peer
) -> None:
    state.bootstrap(conn, ENV)
    state.register(conn, daily(), ENV)
    table = state.StateRef.of(daily(), ENV).table
    names = ["library", "errors", "history", "resets", "prefilled", "model_locks", "installed", table]
    fresh = {name: shape(conn, f"z_bollhav.{name}") for name in names}
    conn.execute("DROP SCHEMA z_bollhav CASCADE")
    peer.make_library()
    peer.make_state_table(table)
    peer.register("wh.orders", table)
    state.bootstrap(conn, ENV)
    state.register(conn, daily(), ENV)
    for name, columns in fresh.items():
        upgraded = shape(conn, f"z_bollhav.{name}")
        # the peer's library has no default where ours has one: a writer that leaves it out is older than both
        differing = {c[0] for c in columns ^ upgraded}
        assert differing <= {"model_type"}, name


def test_the_shapes_of_a_fresh_library_are_the_shared_ones(conn: Conn) -> None:
    ref = set_up(conn, daily())
    state_columns = {c[0]: (c[1], c[2]) for c in shape(conn, f"z_bollhav.{ref.table}")}
    for name, kind, not_null in (
        ("id", "bigint", True),
        ("model_name", "text", False),
        ("run_id", "uuid", True),
        ("since", "timestamp with time zone", False),
        ("until", "timestamp with time zone", False),
        ("status", "text", True),
        ("blocked_reason", "text", False),
        ("applied_at", "timestamp with time zone", False),
        ("temporality", "text", True),
    ):
        assert state_columns[name] == (kind, not_null)
    assert ref.table == "wh_orders_36949adfcd2526d1"
    with pytest.raises(psycopg.errors.UniqueViolation):
        conn.execute(
            sql.SQL(
                "INSERT INTO {} (model_name, run_id, status) SELECT 'x', gen_random_uuid(), 'pending' "
                "FROM generate_series(1, 2)"
            ).format(ref.ident)
        )


def test_an_old_state_table_is_completed_and_written_to_by_its_old_writer(conn: Conn, peer: Peer) -> None:
    model = daily()
    ref = state.StateRef.of(model, ENV)
    peer.make_library()
    conn.execute(
        sql.SQL(
            "CREATE TABLE {} (id BIGSERIAL PRIMARY KEY, model_name TEXT, run_id UUID NOT NULL, "
            "since TIMESTAMPTZ NOT NULL, until TIMESTAMPTZ NOT NULL, status TEXT NOT NULL, applied_at TIMESTAMPTZ, "
            "UNIQUE (since, until))"
        ).format(ref.ident)
    )
    assert model.grid is not None
    windows = list(model.grid.windows(interval("01-01", "01-11")))
    peer.prefill(ref.full_name, ref.table, windows[:3])
    peer.set_status(ref.table, windows[0], "applied")
    set_up(conn, model)
    peer.prefill(ref.full_name, ref.table, windows)
    peer.set_status(ref.table, windows[1], "applied")
    assert count(conn, ref) == 10
    assert count(conn, ref, "applied") == 2
    assert state.coverage.verify(conn, ref).right


def test_a_role_without_rights_is_told_which_grants_it_needs(db: str, conn: Conn) -> None:
    role = f"poor_{db[-8:]}"
    conn.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
    try:
        with (
            connect(psycopg.conninfo.make_conninfo(db, user=role)) as poor,
            pytest.raises(StateError, match="GRANT CREATE ON DATABASE"),
        ):
            state.bootstrap(poor, ENV)
    finally:
        conn.execute(sql.SQL("DROP OWNED BY {role}").format(role=sql.Identifier(role)))
        conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_functions_of_another_version_stay_beside_ours(conn: Conn) -> None:
    state.bootstrap(conn, ENV)
    conn.execute("CREATE FUNCTION z_bollhav.claim_00000000() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    conn.execute("DELETE FROM z_bollhav.installed WHERE file = 'claims.sql'")
    state.bootstrap(conn, ENV)
    assert one(conn, "SELECT z_bollhav.claim_00000000()") == 1
    assert one(conn, "SELECT count(*) FROM z_bollhav.installed") == len(schema.function_files())


def test_a_suffixed_run_has_its_own_library(conn: Conn) -> None:
    model = daily()
    dev = Environment("pr123")
    set_up(conn, model)
    ref = set_up(conn, model, dev)
    assert (ref.schema, ref.table, ref.full_name) == (
        "z_bollhav_pr123",
        "wh_orders_36949adfcd2526d1",
        "wh_pr123.orders",
    )
    assert [e.full_name for e in state.entries(conn, dev)] == ["wh_pr123.orders"]
    assert [e.full_name for e in state.entries(conn, ENV)] == ["wh.orders"]


def test_registering_again_propagates_what_changed_and_keeps_what_others_wrote(conn: Conn) -> None:
    set_up(conn, daily("wh.marts", upstream=gated_on("wh.orders")))
    conn.execute("UPDATE z_bollhav.library SET metadata = metadata || '{\"theirs\": 1}'")
    conn.execute("UPDATE z_bollhav.library SET state_table = 'moved', last_seen = 'epoch'")
    entry = state.register(conn, daily("wh.marts", upstream=gated_on("wh.lines")), ENV)
    assert entry is not None
    assert entry.upstream == ("wh.lines",)
    assert entry.ref is not None
    assert entry.ref.table == state.StateRef.of(daily("wh.marts"), ENV).table
    assert entry.metadata["theirs"] == 1
    assert entry.metadata["upstreams"] == [
        {"name": "wh.lines", "contract": "encapsulate", "freshness": None, "deactivate_for_dev": False}
    ]
    assert entry.metadata["batching"]["chunk"] == "@daily"
    assert entry.metadata["contract"]["begin"] == "2024-01-01T00:00:00+00:00"
    assert entry.last_seen.year > 2020


def test_a_model_without_state_registers_only_when_it_asks_to(conn: Conn) -> None:
    state.bootstrap(conn, ENV)
    table = Target(schema="wh", name="countries", columns=[Column("code", "text")])
    assert state.register(conn, Model(target=table), ENV) is None
    entry = state.register(conn, Model(target=table, library=True), ENV)
    assert entry is not None
    assert (entry.model_type, entry.state_table) == ("TABLE", None)
    with pytest.raises(StateError, match="not registered"):
        state.require_entry(conn, ENV, "wh.nobody")
