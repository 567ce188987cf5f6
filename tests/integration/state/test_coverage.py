"""The coverage table equals what the rows say, whoever writes them and however."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from gate_support import SCHEMA, Library, Row, Upstream, at, insert, own_database, right, state_sql, window
from state_support import connect

from bollhav_provider.intervals import IntervalSet
from bollhav_provider.state import GateRequest, StateRef, coverage
from bollhav_provider.state.gate_rules import Facts
from bollhav_provider.state.gates import Exchange


@pytest.fixture(scope="module")
def library(pg_dsn: str) -> Iterator[Library]:
    with own_database(pg_dsn, "coverage") as conn:
        yield Library(conn)


@pytest.fixture
def ref(library: Library, request: pytest.FixtureRequest) -> StateRef:
    """A state table of this test's own, kept and empty."""
    name = f"c.t{abs(hash(request.node.name)) % 10**12}"
    return library.put(name, Upstream())


@pytest.mark.parametrize("seed", range(6))
def test_random_operations_leave_the_islands_right(library: Library, ref: StateRef, seed: int) -> None:
    chance = random.Random(seed)
    conn = library.conn
    spread = 1 if seed % 2 else 1000  # within a block of ages, and over many

    def once() -> None:
        since = chance.randint(0, 60) / 2 * spread
        until = since + chance.choice([0.5, 1, 1, 1, 2, 7])
        kind = chance.choice(
            ["insert"] * 4 + ["bulk", "unapply", "reapply", "delete", "move", "touch", "truncate"]
        )
        if kind == "insert":
            insert(conn, ref, since, until, chance.choice(["applied", "applied", "pending"]))
        elif kind == "bulk":
            state_sql(
                conn, ref,
                "INSERT INTO {} (model_name, run_id, since, until, status) SELECT 'x', gen_random_uuid(), t, "
                "t + interval '1 hour', (ARRAY['applied', 'error'])[1 + (random() < 0.3)::int] "
                "FROM generate_series(%s::timestamptz, %s, '1 hour') t ON CONFLICT DO NOTHING",
                at(since), at(since + 9),
            )  # fmt: skip
        elif kind == "unapply":
            state_sql(
                conn,
                ref,
                "UPDATE {} SET status = 'pending' WHERE since < %s AND until > %s",
                at(until),
                at(since),
            )
        elif kind == "reapply":
            state_sql(
                conn,
                ref,
                "UPDATE {} SET status = 'applied' WHERE since >= %s AND since < %s",
                at(since),
                at(since + 5),
            )
        elif kind == "delete":
            state_sql(conn, ref, "DELETE FROM {} WHERE since >= %s AND since < %s", at(since), at(until))
        elif kind == "move":
            state_sql(
                conn, ref,
                "UPDATE {0} t SET until = until + interval '30 minutes' "
                "WHERE id = (SELECT min(id) FROM {0} WHERE since >= %s) AND NOT EXISTS "
                "(SELECT FROM {0} o WHERE o.since = t.since AND o.until = t.until + interval '30 minutes')",
                at(since),
            )  # fmt: skip
        elif kind == "touch":
            statement = chance.choice(
                [
                    "UPDATE {} SET blocked_reason = 'x' WHERE since >= %s",
                    "UPDATE {} SET applied_at = NULL WHERE since >= %s",
                    "UPDATE {} SET applied_at = now() - interval '1 day' WHERE since >= %s",
                ]
            )
            state_sql(conn, ref, statement, at(since))
        elif chance.random() < 0.2:
            state_sql(conn, ref, "TRUNCATE {}")

    for _ in range(60):
        if chance.random() < 0.3:
            with conn.transaction():
                for _ in range(chance.randint(2, 4)):
                    try:
                        with conn.transaction(force_rollback=chance.random() < 0.3):
                            once()
                    except psycopg.errors.UniqueViolation:
                        pass
        else:
            once()
        right(conn, ref)


@pytest.mark.parametrize("seed", range(3))
def test_the_age_of_a_prefix_and_of_everything_is_that_of_its_rows(
    library: Library, ref: StateRef, seed: int
) -> None:
    chance = random.Random(seed)
    span = 30 * 365 if seed else 40
    days = sorted(chance.sample(range(-span, span), 60))
    rows = [
        Row(24 * d, 24 * d + chance.choice([1, 24]), age=chance.choice([None, *range(1, 4000)])) for d in days
    ]
    begin = chance.choice([None, 24 * days[5] + 5])
    library.put(ref.full_name, Upstream(rows, begin=begin, fixed=False))
    low = begin if begin is not None else 24 * days[0]
    for scope in ("latest", "all"):
        for limit in (30, 600, 2000, 3990):
            for until in [24 * chance.randint(-span, span) + chance.randint(0, 23) for _ in range(12)]:
                start = min(low, until - 1)
                chosen = [
                    r.age
                    for r in rows
                    if r.since is not None and r.until and r.since < until and r.until > start
                ]
                ages = [float("inf") if age is None else age for age in chosen]
                fresh = bool(ages) and (min(ages) if scope == "latest" else max(ages)) <= limit
                asked = GateRequest(
                    ref.full_name, "through", window(until - 1, until), timedelta(minutes=limit), scope
                )
                facts = Exchange(SCHEMA, [asked], {})
                query = facts.query()
                assert query is not None
                found = Facts.from_row(library.conn.execute(*query).fetchall()[0])
                age = None if not found.selected or not found.selected[0] else found.now - found.selected[0]
                assert (found.selected is not None) == bool(ages)
                assert (age is not None and age <= timedelta(minutes=limit)) == fresh


def test_islands_join_part_and_vanish(library: Library, ref: StateRef) -> None:
    conn = library.conn
    insert(conn, ref, 0, 1)
    insert(conn, ref, 2, 3)
    assert right(conn, ref) == IntervalSet([window(0, 1), window(2, 3)])
    insert(conn, ref, 1, 2)
    assert right(conn, ref) == IntervalSet([window(0, 3)])
    state_sql(conn, ref, "UPDATE {} SET status = 'pending' WHERE since = %s", at(1))
    assert right(conn, ref) == IntervalSet([window(0, 1), window(2, 3)])
    state_sql(conn, ref, "DELETE FROM {}")
    assert right(conn, ref) == IntervalSet()


def test_what_an_overlapping_row_covers_stays_covered(library: Library, ref: StateRef) -> None:
    insert(library.conn, ref, 0, 10)
    insert(library.conn, ref, 4, 5)
    state_sql(library.conn, ref, "DELETE FROM {} WHERE since = %s", at(4))
    assert right(library.conn, ref) == IntervalSet([window(0, 10)])
    insert(library.conn, ref, 4, 5)
    state_sql(library.conn, ref, "DELETE FROM {} WHERE since = %s", at(0))
    assert right(library.conn, ref) == IntervalSet([window(4, 5)])


def test_a_row_grown_in_place_is_found_when_its_neighbour_goes(library: Library, ref: StateRef) -> None:
    insert(library.conn, ref, 0, 1)
    insert(library.conn, ref, 1, 2)
    state_sql(library.conn, ref, "UPDATE {} SET until = %s WHERE since = %s", at(2), at(0))
    state_sql(library.conn, ref, "DELETE FROM {} WHERE since = %s", at(1))
    assert right(library.conn, ref) == IntervalSet([window(0, 2)])


def test_windows_that_are_none_cover_nothing_and_stop_nobody(library: Library, ref: StateRef) -> None:
    conn = library.conn
    insert(conn, ref, 5, 5)
    insert(conn, ref, 7, 6)
    insert(conn, ref, 8, None)
    state_sql(
        conn, ref,
        "INSERT INTO {} (run_id, since, until, status) VALUES (gen_random_uuid(), '-infinity', 'infinity', 'applied')",
    )  # fmt: skip
    state_sql(conn, ref, "INSERT INTO {} (run_id, status) VALUES (gen_random_uuid(), 'applied')")
    state_sql(conn, ref, "UPDATE {} SET status = 'pending'")
    state_sql(conn, ref, "UPDATE {} SET status = 'applied'")
    assert right(conn, ref) == IntervalSet()


def test_a_savepoint_that_is_rolled_back_leaves_nothing(library: Library, ref: StateRef) -> None:
    with library.conn.transaction():
        insert(library.conn, ref, 0, 1)
        with library.conn.transaction(force_rollback=True):
            insert(library.conn, ref, 1, 2)
    assert right(library.conn, ref) == IntervalSet([window(0, 1)])


def test_a_writer_with_rights_on_its_table_alone_succeeds(
    library: Library, ref: StateRef, pg_dsn: str
) -> None:
    conn = library.conn
    conn.execute("DROP ROLE IF EXISTS narrow_writer")
    conn.execute("CREATE ROLE narrow_writer")
    conn.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO narrow_writer")
    state_sql(conn, ref, "GRANT INSERT, UPDATE, DELETE, SELECT, TRUNCATE ON {} TO narrow_writer")
    sequence = conn.execute("SELECT pg_get_serial_sequence(%s, 'id')", (ref.ident.as_string(),)).fetchone()
    assert sequence is not None
    conn.execute(f"GRANT USAGE ON SEQUENCE {sequence[0]} TO narrow_writer")
    conn.execute("SET ROLE narrow_writer")
    try:
        insert(conn, ref, 0, 1)
        insert(conn, ref, 1, 2)
        state_sql(conn, ref, "UPDATE {} SET status = 'pending' WHERE since = %s", at(0))
        state_sql(conn, ref, "DELETE FROM {} WHERE since = %s", at(0))
    finally:
        conn.execute("RESET ROLE")
    assert right(conn, ref) == IntervalSet([window(1, 2)])
    conn.execute("DROP OWNED BY narrow_writer")
    conn.execute("DROP ROLE narrow_writer")


def test_many_writers_make_neither_deadlocks_nor_gaps(library: Library, ref: StateRef) -> None:
    other = library.put("c.second", Upstream())
    dsn = library.conn.info.dsn
    for table in (ref, other):
        library.fill(table, [Row(h, h + 1, "pending") for h in range(120)])
    failures: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            with connect(dsn) as conn:
                for hour in range(worker, 120, 4):
                    tables = [ref, other] if (worker + hour) % 2 else [other, ref]
                    with conn.transaction():
                        for table in tables:
                            state_sql(
                                conn, table, "UPDATE {} SET status = 'applied' WHERE since = %s", at(hour)
                            )
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for table in (ref, other):
        assert right(library.conn, table) == IntervalSet([window(0, 120)])


def test_a_writer_that_has_not_committed_holds_up_no_other_writer(library: Library, ref: StateRef) -> None:
    library.fill(ref, [Row(h, h + 1, "pending") for h in range(3)])
    with connect(library.conn.info.dsn) as slow, connect(library.conn.info.dsn) as fast:
        fast.execute("SET lock_timeout = '2s'")
        with slow.transaction():
            state_sql(slow, ref, "UPDATE {} SET status = 'applied' WHERE since = %s", at(0))
            state_sql(fast, ref, "UPDATE {} SET status = 'applied' WHERE since = %s", at(1))
            assert coverage.islands(fast, ref) == IntervalSet([window(1, 2)])
    assert right(library.conn, ref) == IntervalSet([window(0, 2)])


def test_a_repeatable_read_writer_fails_instead_of_folding_what_it_cannot_see(
    library: Library, ref: StateRef
) -> None:
    with connect(library.conn.info.dsn) as stale:
        stale.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        stale.autocommit = False
        stale.execute("SELECT 1")
        insert(library.conn, ref, 0, 1)
        insert(stale, ref, 1, 2)
        with pytest.raises(psycopg.errors.SerializationFailure):
            stale.commit()
    assert right(library.conn, ref) == IntervalSet([window(0, 1)])
