"""The coverage table equals what the rows say, whoever writes them and however."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from gate_support import ENV, PLAIN, SCHEMA, Library, Row, Upstream, at, own_database, window
from psycopg import sql
from state_support import Conn, connect

from bollhav_provider.exceptions import StateError
from bollhav_provider.intervals import IntervalSet
from bollhav_provider.state import GateRequest, StateRef, check_gates, coverage
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


def right(conn: Conn, ref: StateRef) -> IntervalSet:
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


def insert(conn: Conn, ref: StateRef, since: float, until: float | None, status: str = "applied") -> None:
    conn.execute(
        sql.SQL(
            "INSERT INTO {} (model_name, run_id, since, until, status, applied_at) VALUES "
            "('x', gen_random_uuid(), %s, %s, %s, now()) "
            "ON CONFLICT (since, until) DO UPDATE SET status = excluded.status"
        ).format(ref.ident),
        (at(since), None if until is None else at(until), status),
    )


def run(conn: Conn, ref: StateRef, statement: str, *values: Any) -> None:
    conn.execute(sql.SQL(statement).format(ref.ident), values)  # type: ignore[arg-type]


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
            run(
                conn, ref,
                "INSERT INTO {} (model_name, run_id, since, until, status) SELECT 'x', gen_random_uuid(), t, "
                "t + interval '1 hour', (ARRAY['applied', 'error'])[1 + (random() < 0.3)::int] "
                "FROM generate_series(%s::timestamptz, %s, '1 hour') t ON CONFLICT DO NOTHING",
                at(since), at(since + 9),
            )  # fmt: skip
        elif kind == "unapply":
            run(
                conn,
                ref,
                "UPDATE {} SET status = 'pending' WHERE since < %s AND until > %s",
                at(until),
                at(since),
            )
        elif kind == "reapply":
            run(
                conn,
                ref,
                "UPDATE {} SET status = 'applied' WHERE since >= %s AND since < %s",
                at(since),
                at(since + 5),
            )
        elif kind == "delete":
            run(conn, ref, "DELETE FROM {} WHERE since >= %s AND since < %s", at(since), at(until))
        elif kind == "move":
            run(
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
            run(conn, ref, statement, at(since))
        elif chance.random() < 0.2:
            run(conn, ref, "TRUNCATE {}")

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
    run(conn, ref, "UPDATE {} SET status = 'pending' WHERE since = %s", at(1))
    assert right(conn, ref) == IntervalSet([window(0, 1), window(2, 3)])
    run(conn, ref, "DELETE FROM {}")
    assert right(conn, ref) == IntervalSet()


def test_what_an_overlapping_row_covers_stays_covered(library: Library, ref: StateRef) -> None:
    insert(library.conn, ref, 0, 10)
    insert(library.conn, ref, 4, 5)
    run(library.conn, ref, "DELETE FROM {} WHERE since = %s", at(4))
    assert right(library.conn, ref) == IntervalSet([window(0, 10)])
    insert(library.conn, ref, 4, 5)
    run(library.conn, ref, "DELETE FROM {} WHERE since = %s", at(0))
    assert right(library.conn, ref) == IntervalSet([window(4, 5)])


def test_a_row_grown_in_place_is_found_when_its_neighbour_goes(library: Library, ref: StateRef) -> None:
    insert(library.conn, ref, 0, 1)
    insert(library.conn, ref, 1, 2)
    run(library.conn, ref, "UPDATE {} SET until = %s WHERE since = %s", at(2), at(0))
    run(library.conn, ref, "DELETE FROM {} WHERE since = %s", at(1))
    assert right(library.conn, ref) == IntervalSet([window(0, 2)])


def test_windows_that_are_none_cover_nothing_and_stop_nobody(library: Library, ref: StateRef) -> None:
    conn = library.conn
    insert(conn, ref, 5, 5)
    insert(conn, ref, 7, 6)
    insert(conn, ref, 8, None)
    run(
        conn, ref,
        "INSERT INTO {} (run_id, since, until, status) VALUES (gen_random_uuid(), '-infinity', 'infinity', 'applied')",
    )  # fmt: skip
    run(conn, ref, "INSERT INTO {} (run_id, status) VALUES (gen_random_uuid(), 'applied')")
    run(conn, ref, "UPDATE {} SET status = 'pending'")
    run(conn, ref, "UPDATE {} SET status = 'applied'")
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
    run(conn, ref, "GRANT INSERT, UPDATE, DELETE, SELECT, TRUNCATE ON {} TO narrow_writer")
    sequence = conn.execute("SELECT pg_get_serial_sequence(%s, 'id')", (ref.ident.as_string(),)).fetchone()
    assert sequence is not None
    conn.execute(f"GRANT USAGE ON SEQUENCE {sequence[0]} TO narrow_writer")
    conn.execute("SET ROLE narrow_writer")
    try:
        insert(conn, ref, 0, 1)
        insert(conn, ref, 1, 2)
        run(conn, ref, "UPDATE {} SET status = 'pending' WHERE since = %s", at(0))
        run(conn, ref, "DELETE FROM {} WHERE since = %s", at(0))
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
                            run(conn, table, "UPDATE {} SET status = 'applied' WHERE since = %s", at(hour))
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
            run(slow, ref, "UPDATE {} SET status = 'applied' WHERE since = %s", at(0))
            run(fast, ref, "UPDATE {} SET status = 'applied' WHERE since = %s", at(1))
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


def test_a_table_that_another_program_made_and_filled_is_taken_over(library: Library) -> None:
    ref = library.put("c.foreign", Upstream([Row(0, 1), Row(1, 2), Row(5, 6)]), kept=False, plain=True)
    assert not coverage.verify(library.conn, ref).used
    assert coverage.islands(library.conn, ref) == IntervalSet([window(0, 2), window(5, 6)])
    assert coverage.install_all(library.conn, ENV, ["c.foreign"]) == {"c.foreign": True}
    assert right(library.conn, ref) == IntervalSet([window(0, 2), window(5, 6)])
    insert(library.conn, ref, 2, 3)
    assert right(library.conn, ref) == IntervalSet([window(0, 3), window(5, 6)])
    assert coverage.install(library.conn, ref)


def test_installing_waits_for_open_writers_and_counts_them(library: Library) -> None:
    ref = library.put("c.busy", Upstream([Row(0, 1)]), kept=False)
    with connect(library.conn.info.dsn) as writer, connect(library.conn.info.dsn) as installer:
        writer.execute("BEGIN")
        insert(writer, ref, 1, 2)
        done: list[bool] = []
        thread = threading.Thread(target=lambda: done.append(coverage.install(installer, ref)))
        thread.start()
        thread.join(0.3)
        assert not done
        writer.execute("COMMIT")
        thread.join()
        assert done == [True]
    assert right(library.conn, ref) == IntervalSet([window(0, 2)])


def test_a_busy_table_is_left_for_later_instead_of_queueing_its_writers(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage, "_LOCK_TIMEOUT", "100ms")
    ref = library.put("c.held", Upstream([Row(0, 1)]), kept=False)
    with connect(library.conn.info.dsn) as writer:
        writer.execute("BEGIN")
        insert(writer, ref, 1, 2)
        assert coverage.install(library.conn, ref) is False
        writer.execute("COMMIT")
    assert check_gates(library.conn, ENV, [GateRequest("c.held", "encapsulate", window(0, 2))])[0].satisfied


def test_what_the_triggers_could_not_see_is_found_and_repaired(library: Library, ref: StateRef) -> None:
    conn = library.conn
    insert(conn, ref, 0, 1)
    conn.execute("SET session_replication_role = replica")
    insert(conn, ref, 1, 2)
    run(conn, ref, "UPDATE {} SET status = 'pending' WHERE since = %s", at(0))
    conn.execute("RESET session_replication_role")
    found = coverage.verify(conn, ref)
    assert not found.right
    assert found.false_coverage == IntervalSet([window(0, 1)])
    assert found.false_gaps == IntervalSet([window(1, 2)])
    assert coverage.rebuild(conn, ref) is True
    assert right(conn, ref) == IntervalSet([window(1, 2)])
    assert coverage.rebuild(conn, ref) is False


def test_triggers_that_somebody_disabled_are_found_and_put_back(library: Library, ref: StateRef) -> None:
    run(library.conn, ref, "ALTER TABLE {} DISABLE TRIGGER USER")
    insert(library.conn, ref, 0, 1)
    assert not coverage.verify(library.conn, ref).right
    assert coverage.install(library.conn, ref)
    assert right(library.conn, ref) == IntervalSet([window(0, 1)])


def test_a_table_that_was_dropped_and_made_again_is_not_answered_for_by_the_old_islands(
    library: Library,
) -> None:
    ref = library.put("c.again", Upstream([Row(0, 1)], begin=0, end=1))
    asked = [
        GateRequest("c.again", level, window(0, 1)) for level in ("exact", "encapsulate", "through", "whole")
    ]
    assert all(r.satisfied for r in check_gates(library.conn, ENV, asked))
    library.conn.execute(sql.SQL("DROP TABLE {}").format(ref.ident))
    assert not any(r.satisfied for r in check_gates(library.conn, ENV, asked))
    library.conn.execute(sql.SQL(PLAIN).format(ref.ident))
    assert not any(r.satisfied for r in check_gates(library.conn, ENV, asked))
    assert coverage.forget_dropped(library.conn, ENV) == 1
    insert(library.conn, ref, 0, 1)
    assert all(r.satisfied for r in check_gates(library.conn, ENV, asked))
    assert coverage.install(library.conn, ref)
    assert all(r.satisfied for r in check_gates(library.conn, ENV, asked))


def test_a_moved_state_table_is_followed_by_a_connection_that_knew_the_old_one(library: Library) -> None:
    conn = library.conn
    ref = library.put("c.moved", Upstream([Row(0, 1)], begin=0, end=1))
    asked = [
        GateRequest("c.moved", level, window(0, 1)) for level in ("exact", "encapsulate", "through", "whole")
    ]
    assert all(r.satisfied for r in check_gates(conn, ENV, asked))
    assert all(r.satisfied for r in check_gates(conn, ENV, asked))
    run(conn, ref, "ALTER TABLE {} RENAME TO s_c_moved_away")
    conn.execute("UPDATE z_bollhav.library SET state_table = 's_c_moved_away' WHERE full_name = 'c.moved'")
    moved = StateRef(SCHEMA, "s_c_moved_away", "c.moved")
    assert all(r.satisfied for r in check_gates(conn, ENV, asked))
    assert coverage.install(conn, moved)
    insert(conn, moved, 0, 1, "pending")
    assert not any(r.satisfied for r in check_gates(conn, ENV, asked))


def test_installing_for_a_table_that_does_not_exist_says_so(library: Library) -> None:
    with pytest.raises(StateError, match=r"c\.none: its state table z_bollhav\.nowhere does not exist"):
        coverage.install(library.conn, StateRef(SCHEMA, "nowhere", "c.none"))


def test_a_role_that_may_not_install_leaves_the_rows_to_be_read(library: Library, pg_dsn: str) -> None:
    conn = library.conn
    ref = library.put("c.owned", Upstream([Row(0, 1)]), kept=False)
    conn.execute("DROP ROLE IF EXISTS stranger")
    conn.execute("CREATE ROLE stranger LOGIN")
    conn.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO stranger")
    conn.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO stranger")
    with connect(psycopg.conninfo.make_conninfo(conn.info.dsn, user="stranger")) as stranger:
        assert coverage.install(stranger, ref) is False
        request = GateRequest("c.owned", "encapsulate", window(0, 1), within=timedelta(hours=1))
        assert check_gates(stranger, ENV, [request])[0].satisfied
    assert not coverage.verify(conn, ref).used
    conn.execute("DROP OWNED BY stranger")
    conn.execute("DROP ROLE stranger")
