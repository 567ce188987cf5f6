"""Errors and ended attempts: recorded with the transition, masked, listed, and kept for a bounded time."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from state_support import (
    ENV,
    Conn,
    connect,
    count,
    daily,
    interval,
    one,
    run_unit,
    run_window,
    set_up,
    statuses,
    unit,
)

from bollhav_provider import state
from bollhav_provider.state import history, upkeep

DAY = unit("01-03", "01-04")
RUN = state.RunKey.ad_hoc("tester")


def failed(conn: Conn, exc: BaseException, **details: object) -> None:
    claim = state.claim(conn, daily(), ENV, DAY, RUN)
    assert claim is not None
    assert state.fail(conn, claim, exc, details=details or None)


def test_an_error_is_recorded_with_type_message_traceback_and_details(conn: Conn) -> None:
    ref = set_up(conn, daily())
    try:
        raise psycopg.OperationalError("connection to postgresql://etl:s3cr3t@db/wh failed")
    except psycopg.OperationalError as exc:
        failed(conn, exc, keys=[1, 2])
    (error,) = state.errors(conn, ENV, "wh.orders")
    assert error.error_type == "psycopg.OperationalError"
    assert error.message == "connection to postgresql://etl:***@db/wh failed"
    assert error.traceback is not None
    assert "test_state_history.py" in error.traceback
    assert "s3cr3t" not in error.traceback
    assert (error.unit, error.run_id, error.attempt, error.details) == (DAY, RUN.run_id, 1, {"keys": [1, 2]})
    reason = one(conn, "SELECT reason FROM @state WHERE since = '2024-01-03Z'", ref=ref)
    assert reason == "connection to postgresql://etl:***@db/wh failed"


def test_text_that_postgresql_refuses_does_not_keep_an_error_from_being_recorded(conn: Conn) -> None:
    set_up(conn, daily())
    failed(conn, ValueError("nul \x00 and surrogate \udcff"))
    assert state.errors(conn, ENV)[0].message == "nul \\x00 and surrogate \\udcff"


def test_the_row_and_the_record_of_an_error_are_one_transaction(conn: Conn) -> None:
    ref = set_up(conn, daily())
    claim = state.claim(conn, daily(), ENV, DAY, RUN)
    assert claim is not None
    conn.execute("ALTER TABLE z_bollhav.errors ADD CONSTRAINT full_disk CHECK (error_type <> 'ValueError')")
    with pytest.raises(psycopg.errors.CheckViolation):
        state.fail(conn, claim, ValueError("x"))
    assert ("01-03", "running") in statuses(conn, ref)
    conn.execute("ALTER TABLE z_bollhav.errors DROP CONSTRAINT full_disk")
    assert state.fail(conn, claim, ValueError("x"))


def test_history_is_listed_newest_first_by_model_and_unit(conn: Conn) -> None:
    set_up(conn, daily())
    failed(conn, ValueError("first"))
    run_unit(conn, daily(), DAY)
    run_unit(conn, daily(), unit("01-04", "01-05"))
    outcomes = [(a.unit, a.outcome, a.attempt) for a in state.attempts(conn, ENV, "wh.orders")]
    assert outcomes == [(unit("01-04", "01-05"), "applied", 1), (DAY, "applied", 2), (DAY, "error", 1)]
    assert [a.outcome for a in state.attempts(conn, ENV, "wh.orders", unit=DAY)] == ["applied", "error"]
    assert state.attempts(conn, ENV, "wh.nobody") == []
    assert len(state.attempts(conn, ENV, limit=1)) == 1


def test_purging_keeps_what_is_young_and_never_changes_coverage(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    failed(conn, ValueError("old"))
    state.reset(conn, model, ENV, RUN, interval("01-01", "01-02"), "bulldozer")
    run_window(conn, model, interval("01-01", "01-06"))
    conn.execute("UPDATE z_bollhav.errors SET created_at = now() - interval '91 days'")
    conn.execute(
        "UPDATE z_bollhav.history SET finished_at = now() - interval '40 days' WHERE since < '2024-01-04Z'"
    )
    before = (count(conn, ref, "applied"), state.coverage.islands(conn, ref))
    deleted = state.purge(conn, ENV, state.Retention(history=timedelta(days=30)))
    assert deleted == {"errors": 1, "history": 4, "resets": 0}
    assert len(state.attempts(conn, ENV)) == 2
    assert (count(conn, ref, "applied"), state.coverage.islands(conn, ref)) == before
    assert state.purge(conn, ENV, state.Retention(None, None, None)) == {
        "errors": 0,
        "history": 0,
        "resets": 0,
    }


def test_a_long_past_is_purged_in_batches_that_block_nobody(db: str, conn: Conn, other: Conn) -> None:
    state.bootstrap(conn, ENV)
    conn.execute(
        "INSERT INTO z_bollhav.errors (full_name, run_id, error_type, created_at) "
        "SELECT 'wh.x', gen_random_uuid(), 'E', now() - interval '1 year' FROM generate_series(1, 25000)"
    )
    other.execute("BEGIN")
    other.execute("UPDATE z_bollhav.errors SET error_type = 'held' WHERE id = 5")
    assert state.purge(conn, ENV)["errors"] == 24_999
    other.execute("COMMIT")
    assert state.purge(conn, ENV)["errors"] == 1


def test_state_is_bounded_by_units_not_by_runs(conn: Conn) -> None:
    model = daily(end="2024-01-03T00:00Z")
    ref = set_up(conn, model)
    for _ in range(20):
        state.reset(conn, model, ENV, state.RunKey.ad_hoc(), None, "bulldozer")
        run_window(conn, model)
    assert count(conn, ref) == 2
    assert one(conn, "SELECT count(*) FROM z_bollhav.coverage_delta") == 0
    assert one(conn, "SELECT max(attempt) FROM @state", ref=ref) == 20


def test_renewing_a_lease_makes_no_index_entries(db: str, conn: Conn) -> None:
    """A heartbeat is a row version on the same page: the table does not grow with the length of the work."""
    model = daily()
    ref = set_up(conn, model)
    claim = state.claim(conn, model, ENV, DAY, RUN)
    assert claim is not None
    with connect(db) as heart:
        for _ in range(200):
            state.renew(heart, claim, timedelta(minutes=1))
    size = one(conn, "SELECT pg_relation_size(%s::regclass)", ref.ident.as_string())
    assert size <= 2 * 8192


def test_runs_purge_now_and_then_a_bounded_number_of_rows(conn: Conn, monkeypatch: pytest.MonkeyPatch) -> None:
    state.bootstrap(conn, ENV)
    day = timedelta(days=1)
    conn.execute(
        "INSERT INTO z_bollhav.errors (full_name, run_id, error_type, created_at) "
        "SELECT 'x', gen_random_uuid(), 'E', now() - interval '91 days' FROM generate_series(1, 25)"
    )
    monkeypatch.setattr(upkeep, "_AT_MOST", 10)
    monkeypatch.setattr(history, "_BATCH", 10)
    assert upkeep.keep_up(conn, ENV, state.Retention(), day) == {"errors": 10, "history": 0, "resets": 0}
    left = [upkeep.keep_up(conn, ENV, state.Retention(), day) for _ in range(3)]
    assert [gone["errors"] if gone else None for gone in left] == [10, 5, None]
    assert upkeep.keep_up(conn, ENV, state.Retention(), timedelta(0)) is not None


def test_a_purge_that_may_not_delete_disturbs_nobody(db: str, conn: Conn, caplog: pytest.LogCaptureFixture) -> None:
    state.bootstrap(conn, ENV)
    role = f"r_{conn.info.dbname}"
    conn.execute(f'CREATE ROLE "{role}" LOGIN')
    try:
        conn.execute(f'GRANT USAGE ON SCHEMA z_bollhav TO "{role}"')
        conn.execute(f'GRANT ALL ON z_bollhav.upkeep TO "{role}"')
        with connect(db, user=role) as weak:
            assert upkeep.keep_up(weak, ENV, state.Retention()) is None
        assert "were not deleted: permission denied" in caplog.text
    finally:
        conn.execute(f'DROP OWNED BY "{role}"')
        conn.execute(f'DROP ROLE "{role}"')
