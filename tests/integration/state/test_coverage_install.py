"""Who keeps the coverage of a table: taken over from others, refused, repaired, and found to be no longer kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from gate_support import (
    ENV,
    PLAIN,
    SCHEMA,
    Library,
    Row,
    Upstream,
    at,
    insert,
    own_database,
    right,
    state_sql,
    window,
)
from psycopg import sql
from state_support import connect

from bollhav_provider.exceptions import StateError
from bollhav_provider.intervals import IntervalSet
from bollhav_provider.state import GateRequest, StateRef, check_gates, coverage
from bollhav_provider.state.schema import ensure_state_table


@pytest.fixture(scope="module")
def library(pg_dsn: str) -> Iterator[Library]:
    with own_database(pg_dsn, "coverage_install") as conn:
        yield Library(conn)


@pytest.fixture
def ref(library: Library, request: pytest.FixtureRequest) -> StateRef:
    """A state table of this test's own, kept and empty."""
    name = f"c.t{abs(hash(request.node.name)) % 10**12}"
    return library.put(name, Upstream())


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


def test_a_new_table_has_its_index_from_the_start_and_nothing_is_said(
    library: Library, caplog: pytest.LogCaptureFixture
) -> None:
    ref = library.ref("c.new")
    with caplog.at_level("INFO"):
        ensure_state_table(library.conn, ref)
        assert outstanding(library, ref) == 1
        with connect(library.conn.info.dsn) as writer:
            writer.execute("BEGIN")
            insert(writer, ref, 1, 2)
            with connect(library.conn.info.dsn) as late:
                late.execute("SET lock_timeout = '100ms'")
                ensure_state_table(late, ref)
            writer.execute("COMMIT")
        for _ in range(2):
            assert coverage.install(library.conn, ref)
    assert outstanding(library, ref) == 1
    assert "index" not in caplog.text


def test_a_busy_table_of_others_gets_its_index_later_and_that_is_said_once(
    library: Library, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage, "_LOCK_TIMEOUT", "50ms")
    ref = library.put("c.taken", Upstream([Row(0, 1)]), kept=False, plain=True)
    with connect(library.conn.info.dsn) as writer, caplog.at_level("INFO"):
        writer.execute("BEGIN")
        insert(writer, ref, 1, 2)
        for _ in range(2):
            coverage.install(library.conn, ref)
        writer.execute("COMMIT")
    told = [record.message for record in caplog.records if "index" in record.message]
    assert len(told) == 1
    assert told[0].startswith("c.taken: others are writing to its state table")
    assert "Nothing is wrong" in told[0]
    assert outstanding(library, ref) == 0
    coverage.install(library.conn, ref)
    assert outstanding(library, ref) == 1


def outstanding(library: Library, ref: StateRef) -> int:
    """How many indexes of outstanding rows a state table has."""
    row = library.conn.execute(
        "SELECT count(*) FROM pg_index WHERE indrelid = to_regclass(%s) AND pg_get_expr(indpred, indrelid) LIKE %s",
        (ref.ident.as_string(), "%<> 'applied'%"),
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_what_the_triggers_could_not_see_is_found_and_repaired(library: Library, ref: StateRef) -> None:
    conn = library.conn
    insert(conn, ref, 0, 1)
    conn.execute("SET session_replication_role = replica")
    insert(conn, ref, 1, 2)
    state_sql(conn, ref, "UPDATE {} SET status = 'pending' WHERE since = %s", at(0))
    conn.execute("RESET session_replication_role")
    found = coverage.verify(conn, ref)
    assert not found.right
    assert found.false_coverage == IntervalSet([window(0, 1)])
    assert found.false_gaps == IntervalSet([window(1, 2)])
    assert coverage.rebuild(conn, ref) is True
    assert right(conn, ref) == IntervalSet([window(1, 2)])
    assert coverage.rebuild(conn, ref) is False


def test_triggers_that_somebody_disabled_are_found_and_put_back(library: Library, ref: StateRef) -> None:
    state_sql(library.conn, ref, "ALTER TABLE {} DISABLE TRIGGER USER")
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
    state_sql(conn, ref, "ALTER TABLE {} RENAME TO s_c_moved_away")
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
