"""Claims: one holder at a time, leases on the database's clock, fencing of every transition."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql
from state_support import (
    ENV,
    Conn,
    Peer,
    connect,
    count,
    daily,
    interval,
    one,
    run_unit,
    set_up,
    statuses,
    timeless,
    unit,
)

from bollhav_provider import state
from bollhav_provider.exceptions import ConfigurationError, LeaseLostError, ModelLockedError, StateError
from bollhav_provider.intervals import WHOLE

DAY = unit("01-03", "01-04")
RUN = state.RunKey.ad_hoc("tester")
LONG = timedelta(minutes=10)


def expire(conn: Conn, ref: state.StateRef) -> None:
    """What the passing of time does."""
    conn.execute(sql.SQL("UPDATE {} SET lease_until = clock_timestamp() - interval '1ms'").format(ref.ident))


def advisory_locks(conn: Conn) -> int:
    return int(one(conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"))


def test_a_unit_has_one_holder(conn: Conn, other: Conn) -> None:
    model = daily()
    set_up(conn, model)
    claim = state.claim(conn, model, ENV, DAY, RUN)
    assert claim is not None
    assert (claim.attempt, claim.unit) == (1, DAY)
    assert state.claim(other, model, ENV, DAY, RUN) is None
    assert state.claim(conn, model, ENV, DAY, RUN) is None
    assert state.claim(other, model, ENV, unit("01-04", "01-05"), RUN) is not None


def test_losing_the_race_is_logged(conn: Conn, other: Conn, caplog: pytest.LogCaptureFixture) -> None:
    model = daily()
    set_up(conn, model)
    claim = state.claim(conn, model, ENV, DAY, RUN, locks="off")
    assert claim is not None
    with caplog.at_level("INFO"):
        assert state.claim(other, model, ENV, DAY, RUN, locks="off") is None
    assert f"wh.orders {DAY.label}: not ours: {claim.owner} works on it" in caplog.text


def test_an_applied_unit_or_one_without_a_row_is_nobodys_work(conn: Conn) -> None:
    model = daily()
    set_up(conn, model)
    run_unit(conn, model, DAY)
    assert state.claim(conn, model, ENV, DAY, RUN) is None
    assert state.claim(conn, model, ENV, unit("2025-01-01", "2025-01-02"), RUN) is None
    assert advisory_locks(conn) == 0


def test_a_refusal_says_whether_waiting_can_help(conn: Conn, other: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    claim = state.claim(conn, model, ENV, DAY, RUN, LONG, locks="off")
    assert claim is not None
    busy = state.try_claim(other, model, ENV, DAY, RUN)
    assert isinstance(busy, state.Refusal)
    assert (busy.outcome, busy.detail, busy.lease_until, busy.final) == (
        "busy", claim.owner, claim.expires_at, False,
    )  # fmt: skip
    with conn.transaction():
        state.apply(conn, claim)
    applied = state.try_claim(other, model, ENV, DAY, RUN)
    assert isinstance(applied, state.Refusal)
    assert (applied.outcome, applied.final, applied.reason) == ("applied", True, "it is applied already")
    conn.execute(sql.SQL("DELETE FROM {}").format(ref.ident))
    missing = state.try_claim(other, model, ENV, DAY, RUN)
    assert isinstance(missing, state.Refusal)
    assert missing.final


def test_the_row_says_who_works_and_then_what_was_done(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    import uuid

    run = state.RunKey(uuid.uuid4(), "dag", "scheduled__1", "unit.execute", 2, "anna")
    claim = state.claim(conn, model, ENV, DAY, run, timedelta(seconds=30))
    assert claim is not None
    query = sql.SQL(
        "SELECT status, owner, attempt, run_id, who, dag_id, airflow_run_id, task_id, try_number, "
        "extract(epoch FROM lease_until - started_at)::int, applied_at FROM {} WHERE since = '2024-01-03Z'"
    ).format(ref.ident)
    assert conn.execute(query).fetchone() == (
        "running", claim.owner, 1, run.run_id, "anna", "dag", "scheduled__1", "unit.execute", 2, 30, None,
    )  # fmt: skip
    with conn.transaction():
        applied_at = state.apply(conn, claim, state.ApplyStats(5, 4, 3, details={"lagging": ["wh.x"]}))
    query = sql.SQL(
        "SELECT status, owner, lease_until, applied_at, rows_in, rows_written, rows_changed, details, duration > '0' "
        "FROM {} WHERE since = '2024-01-03Z'"
    ).format(ref.ident)
    assert conn.execute(query).fetchone() == (
        "applied", None, None, applied_at, 5, 4, 3, {"lagging": ["wh.x"]}, True,
    )  # fmt: skip
    (attempt,) = state.attempts(conn, ENV, "wh.orders", unit=DAY)
    assert (attempt.outcome, attempt.rows_in, attempt.try_number, attempt.owner) == (
        "applied",
        5,
        2,
        claim.owner,
    )


def test_a_live_lease_is_never_taken_over_and_an_expired_one_is(conn: Conn, other: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    first = state.claim(conn, model, ENV, DAY, RUN, LONG, locks="off")
    assert first is not None
    assert state.claim(other, model, ENV, DAY, RUN, locks="off") is None
    assert [r.unit for r in state.units(other, model, ENV, interval("01-03", "01-04"))] == []
    expire(conn, ref)
    assert [r.unit for r in state.units(other, model, ENV, interval("01-03", "01-04"))] == [DAY]
    second = state.claim(other, model, ENV, DAY, RUN, LONG, locks="off")
    assert second is not None
    assert second.attempt == 2


def test_a_zombie_that_wakes_after_its_lease_commits_nothing(conn: Conn, other: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    conn.execute("CREATE TABLE target (n int)")
    zombie = state.claim(conn, model, ENV, DAY, RUN, timedelta(milliseconds=100), locks="off")
    assert zombie is not None
    conn.execute("BEGIN")
    conn.execute("INSERT INTO target VALUES (1)")
    time.sleep(0.15)
    winner = state.claim(other, model, ENV, DAY, RUN, LONG, locks="off")
    assert winner is not None
    with pytest.raises(LeaseLostError, match="at attempt 2"):
        state.apply(conn, zombie)
    conn.execute("ROLLBACK")
    for ending in (
        lambda: state.fail(conn, zombie, ValueError("late")),
        lambda: state.release(conn, zombie, "late"),
        lambda: state.block(conn, zombie, "late"),
    ):
        assert ending() is False
    with pytest.raises(LeaseLostError, match="lease of attempt 1 is lost"):
        state.renew(conn, zombie, LONG)
    with other.transaction():
        other.execute("INSERT INTO target VALUES (2)")
        state.apply(other, winner)
    assert one(conn, "SELECT array_agg(n) FROM target") == [2]
    assert ("01-03", "applied") in statuses(conn, ref)


def test_even_untaken_an_expired_lease_applies_nothing_and_is_not_renewed(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    claim = state.claim(conn, model, ENV, DAY, RUN)
    assert claim is not None
    expire(conn, ref)
    with pytest.raises(LeaseLostError), conn.transaction():
        state.apply(conn, claim)
    with pytest.raises(LeaseLostError):
        state.renew(conn, claim, LONG)
    assert state.fail(conn, claim, TimeoutError("slow")) is True
    assert ("01-03", "error") in statuses(conn, ref)
    assert advisory_locks(conn) == 0


def test_a_heartbeat_keeps_a_lease_alive(conn: Conn, other: Conn) -> None:
    model = daily()
    set_up(conn, model)
    claim = state.claim(conn, model, ENV, DAY, RUN, timedelta(milliseconds=400), locks="off")
    assert claim is not None
    for _ in range(4):
        time.sleep(0.15)
        assert state.renew(other, claim, timedelta(milliseconds=400)) > claim.expires_at
    with conn.transaction():
        state.apply(conn, claim)


def test_nobody_takes_a_unit_between_apply_and_commit(db: str, conn: Conn, other: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    claim = state.claim(conn, model, ENV, DAY, RUN, timedelta(milliseconds=200), locks="off")
    assert claim is not None
    conn.execute("BEGIN")
    state.apply(conn, claim)
    time.sleep(0.3)  # the lease is over by the clock, the commit still to come
    got: list[object] = []
    taker = threading.Thread(target=lambda: got.append(state.claim(other, model, ENV, DAY, RUN, locks="off")))
    taker.start()
    time.sleep(0.1)
    conn.execute("COMMIT")
    taker.join()
    assert got == [None]
    assert ("01-03", "applied") in statuses(conn, ref)


def test_the_session_lock_is_held_to_the_end_of_the_claim_and_no_longer(conn: Conn, other: Conn) -> None:
    model = daily()
    set_up(conn, model)
    key = "wh.orders|2024-01-03T00:00:00+00:00|2024-01-04T00:00:00+00:00"

    def taken() -> bool:
        if one(other, "SELECT pg_try_advisory_lock(hashtext(%s))", key):
            one(other, "SELECT pg_advisory_unlock(hashtext(%s))", key)
            return False
        return True

    for end in (
        lambda c: state.fail(conn, c, ValueError("x")),
        lambda c: state.release(conn, c, "interrupted"),
        lambda c: state.block(conn, c, "STATE_002"),
    ):
        claim = state.claim(conn, model, ENV, DAY, RUN)
        assert claim is not None
        assert taken()
        end(claim)
        assert not taken()
    claim = state.claim(conn, model, ENV, DAY, RUN)
    assert claim is not None
    conn.execute("BEGIN")
    state.apply(conn, claim)
    assert taken()  # to the commit
    conn.execute("COMMIT")
    assert not taken()


def test_a_rolled_back_apply_leaves_no_lock_and_the_failure_is_recorded(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    claim = state.claim(conn, model, ENV, DAY, RUN)
    assert claim is not None
    conn.execute("BEGIN")
    state.apply(conn, claim)
    conn.execute("ROLLBACK")
    assert state.fail(conn, claim, ZeroDivisionError("after"))
    assert ("01-03", "error") in statuses(conn, ref)
    assert advisory_locks(conn) == 0


def test_a_failure_after_the_commit_is_recorded_and_leaves_applied(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    claim = run_unit(conn, model, DAY)
    assert state.fail(conn, claim, RuntimeError("archiving failed")) is False
    assert ("01-03", "applied") in statuses(conn, ref)
    (error,) = state.errors(conn, ENV, "wh.orders")
    assert (error.error_type, error.message, error.unit, error.attempt) == (
        "RuntimeError", "archiving failed", DAY, 1,
    )  # fmt: skip


def test_an_interrupt_is_pending_again(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    claim = state.claim(conn, model, ENV, DAY, RUN)
    assert claim is not None
    assert state.release(conn, claim, "interrupted")
    assert ("01-03", "pending") in statuses(conn, ref)
    assert one(conn, "SELECT reason FROM @state WHERE since = '2024-01-03Z'", ref=ref) == "interrupted"
    assert state.claim(conn, model, ENV, DAY, RUN) is not None


def test_a_blocked_reason_goes_when_it_no_longer_holds(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    reason = "SELECT blocked_reason FROM @state WHERE since = '2024-01-03Z'"
    claim = state.claim(conn, model, ENV, DAY, RUN)
    assert claim is not None
    state.block(conn, claim, "STATE_002: upstream 'x' (exact) missing")
    assert one(conn, reason, ref=ref) == "STATE_002: upstream 'x' (exact) missing"
    claim = state.claim(conn, model, ENV, DAY, RUN)
    assert claim is not None
    assert one(conn, reason, ref=ref) is None


def test_two_workers_in_different_time_zones_exclude_each_other(db: str, conn: Conn) -> None:
    model = daily(tz="Europe/Stockholm", begin="2024-01-01T00:00+01:00")
    set_up(conn, model)
    window = state.units(conn, model, ENV)[2].unit
    with connect(db) as tokyo, connect(db) as new_york:
        tokyo.execute("SET TimeZone = 'Asia/Tokyo'")
        new_york.execute("SET TimeZone = 'America/New_York'")
        assert [r.unit for r in state.units(tokyo, model, ENV)] == [
            r.unit for r in state.units(new_york, model, ENV)
        ]
        claim = state.claim(tokyo, model, ENV, window, RUN)
        assert claim is not None
        assert claim.expires_at.utcoffset() == timedelta(0)
        assert state.claim(new_york, model, ENV, window, RUN) is None


def test_a_windowless_unit_is_claimed_like_any_other(conn: Conn, peer: Peer) -> None:
    model = timeless()
    ref = set_up(conn, model)
    claim = state.claim(conn, model, ENV, WHOLE, RUN)
    assert claim is not None
    assert not peer.lock("ref.airlines", None)
    with conn.transaction():
        state.apply(conn, claim)
    assert peer.lock("ref.airlines", None)
    assert statuses(conn, ref) == [("whole", "applied")]


def test_one_run_at_a_time_where_the_model_says_so(db: str, conn: Conn, other: Conn) -> None:
    model = daily(allow_concurrent_runs=False)
    set_up(conn, model)
    mine, theirs = state.RunKey.ad_hoc("mine"), state.RunKey.ad_hoc("theirs")
    claim = state.claim(conn, model, ENV, DAY, mine, LONG)
    assert claim is not None
    with pytest.raises(ModelLockedError, match="allow_concurrent_runs=False"):
        state.claim(other, model, ENV, unit("01-04", "01-05"), theirs)
    # other tasks of the same run are the same run
    second = state.claim(other, model, ENV, unit("01-04", "01-05"), mine, LONG)
    assert second is not None
    state.renew(other, second, LONG)
    with conn.transaction():
        state.apply(conn, claim)
    with pytest.raises(ModelLockedError):  # between the units of a run, too
        state.claim(other, model, ENV, unit("01-05", "01-06"), theirs)
    with other.transaction():
        state.apply(other, second)
    assert state.unlock_model(conn, model, ENV, mine)
    assert state.claim(other, model, ENV, unit("01-05", "01-06"), theirs) is not None
    assert advisory_locks(conn) == 2


def test_the_model_lock_of_a_dead_run_ends_with_its_lease(conn: Conn, other: Conn) -> None:
    model = daily(allow_concurrent_runs=False)
    set_up(conn, model)
    assert state.claim(conn, model, ENV, DAY, state.RunKey.ad_hoc(), timedelta(milliseconds=100), locks="off")
    with pytest.raises(ModelLockedError):
        state.claim(other, model, ENV, unit("01-04", "01-05"), RUN, locks="off")
    time.sleep(0.12)
    assert state.claim(other, model, ENV, unit("01-04", "01-05"), RUN, locks="off") is not None


def test_marking_applied_records_who_and_why_and_fences_the_worker(
    conn: Conn, caplog: pytest.LogCaptureFixture
) -> None:
    model = daily()
    ref = set_up(conn, model)
    worker = state.claim(conn, model, ENV, DAY, RUN)
    assert worker is not None
    done = state.mark_applied(
        conn, model, ENV, [DAY, unit("01-04", "01-05")], state.RunKey.ad_hoc("anna"), "by hand"
    )
    assert done == 2
    assert "2 unit(s) are marked applied without being run, by anna: by hand" in caplog.text
    assert count(conn, ref, "applied") == 2
    assert count(conn, ref, "pending") == 8
    row = conn.execute(
        sql.SQL(
            "SELECT marked_by, reason, applied_at > now() - interval '1min' FROM {} WHERE since = '2024-01-03Z'"
        ).format(ref.ident)
    ).fetchone()
    assert row == ("anna", "by hand", True)
    with pytest.raises(LeaseLostError), conn.transaction():
        state.apply(conn, worker)
    assert state.mark_applied(conn, timeless(), ENV, [], RUN) == 0


def test_a_window_that_is_none_of_the_grid_cannot_be_marked(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    hour = unit("2024-01-03T05:00Z", "2024-01-03T06:00Z")
    with pytest.raises(StateError, match="it is no window of the grid @daily in UTC"):
        state.mark_applied(conn, model, ENV, [DAY, hour], RUN)
    with pytest.raises(StateError, match="the model has windows"):
        state.mark_applied(conn, model, ENV, [WHOLE], RUN)
    with pytest.raises(StateError, match="the model has one windowless unit"):
        state.mark_applied(conn, timeless(), ENV, [DAY], RUN)
    assert count(conn, ref, "applied") == 0


def test_marking_a_timeless_model(conn: Conn) -> None:
    ref = set_up(conn, timeless())
    assert state.mark_applied(conn, timeless(), ENV, [WHOLE], RUN, "seeded") == 1
    assert statuses(conn, ref) == [("whole", "applied")]


def test_a_commit_wakes_who_listens(db: str, conn: Conn, other: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    other.execute(sql.SQL("LISTEN {}").format(sql.Identifier(state.channel(ENV))))
    claim = state.claim(conn, model, ENV, DAY, RUN)
    assert claim is not None
    conn.execute("BEGIN")
    state.apply(conn, claim)
    assert list(other.notifies(timeout=0.1)) == []
    conn.execute("COMMIT")
    (heard,) = other.notifies(timeout=5, stop_after=1)
    assert heard.payload == ref.table


def test_a_claim_that_errs_leaves_no_lock(conn: Conn, other: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    other.execute("BEGIN")
    other.execute(sql.SQL("SELECT 1 FROM {} FOR UPDATE").format(ref.ident))
    conn.execute("SET lock_timeout = '100ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        state.claim(conn, model, ENV, DAY, RUN)
    assert advisory_locks(conn) == 0
    other.execute("ROLLBACK")
    assert state.claim(conn, model, ENV, DAY, RUN) is not None


def test_a_lock_setting_without_meaning_is_refused(conn: Conn) -> None:
    set_up(conn, daily())
    with pytest.raises(ConfigurationError, match="'maybe' is none of auto, on, off"):
        state.claim(conn, daily(), ENV, DAY, RUN, locks="maybe")


def test_a_claim_is_one_round_trip(conn: Conn) -> None:
    model = daily()
    set_up(conn, model)
    one(conn, "SELECT 1")
    before = one(conn, "SELECT pg_current_xact_id()::text::bigint")
    assert state.claim(conn, model, ENV, DAY, RUN)
    # the claim's statement is the one transaction between the two looks
    spent = one(conn, "SELECT pg_current_xact_id()::text::bigint") - before
    assert spent <= 3  # with the subtransaction that guards the lock
