"""Behind PgBouncer in transaction mode: leases alone are enough, and no session lock is left anywhere."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from state_support import ENV, Conn, Peer, connect, count, daily, interval, one, set_up, unit

from bollhav_provider import state
from bollhav_provider.exceptions import LeaseLostError, ModelLockedError

RUN = state.RunKey.ad_hoc("pooled")
DAY = unit("01-03", "01-04")


def pooled(dsn: str) -> Conn:
    return psycopg.connect(dsn, autocommit=True, prepare_threshold=None)


def test_a_pooler_is_detected_and_no_session_lock_is_taken(pooled_dsn: str, conn: Conn) -> None:
    model = daily()
    with pooled(pooled_dsn) as mine:
        set_up(mine, model)
        claim = state.claim(mine, model, ENV, DAY, RUN)
        assert claim is not None
        assert claim.lock_pid is None
        assert one(conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
        state.renew(mine, claim, timedelta(seconds=30))
        with mine.transaction():
            state.apply(mine, claim, state.ApplyStats(1, 1, 1))
        claim = state.claim(mine, model, ENV, unit("01-04", "01-05"), RUN)
        assert claim is not None
        assert state.fail(mine, claim, ValueError("x"))
    direct = state.claim(conn, model, ENV, unit("01-05", "01-06"), RUN)
    assert direct is not None
    assert direct.lock_pid is not None


def test_sixteen_first_runs_at_once_through_the_pooler(pooled_dsn: str, conn: Conn) -> None:
    conn.execute("DROP SCHEMA z_bollhav CASCADE")
    barrier = threading.Barrier(16)

    def first_run(_: int) -> None:
        with pooled(pooled_dsn) as mine:
            barrier.wait()
            set_up(mine, daily())

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(first_run, range(16)))
    assert count(conn, state.StateRef.of(daily(), ENV)) == 10


def test_workers_through_the_pooler_and_beside_it_share_the_units(
    db: str, pooled_dsn: str, conn: Conn
) -> None:
    model = daily(chunk="@hourly", begin="2024-01-01T00:00Z", end="2024-01-04T00:00Z")
    ref = set_up(conn, model)
    conn.execute("CREATE TABLE target (at timestamptz, worker int)")

    def work(number: int) -> None:
        with pooled(pooled_dsn) if number % 4 else connect(db) as mine:
            for row in state.units(mine, model, ENV):
                claim = state.claim(mine, model, ENV, row.unit, RUN)
                if claim is not None:
                    with mine.transaction():
                        mine.execute("INSERT INTO target VALUES (%s, %s)", (row.unit.since, number))
                        state.apply(mine, claim)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert count(conn, ref, "applied") == 72
    assert (
        one(conn, "SELECT count(*) FROM target") == one(conn, "SELECT count(DISTINCT at) FROM target") == 72
    )
    assert state.coverage.verify(conn, ref).right


def test_a_lease_alone_fences_a_zombie(pooled_dsn: str, conn: Conn) -> None:
    model = daily()
    set_up(conn, model)
    with pooled(pooled_dsn) as zombie, pooled(pooled_dsn) as winner:
        lost = state.claim(zombie, model, ENV, DAY, RUN, timedelta(milliseconds=50))
        assert lost is not None
        assert state.claim(winner, model, ENV, DAY, RUN) is None
        time.sleep(0.06)
        taken = state.claim(winner, model, ENV, DAY, RUN)
        assert taken is not None
        with pytest.raises(LeaseLostError), zombie.transaction():
            state.apply(zombie, lost)
        with winner.transaction():
            state.apply(winner, taken)


def test_another_implementations_lock_is_respected_through_the_pooler(
    pooled_dsn: str, conn: Conn, peer: Peer
) -> None:
    model = daily()
    ref = set_up(conn, model)
    assert peer.lock("wh.orders", DAY.window)
    with pooled(pooled_dsn) as mine:
        assert state.claim(mine, model, ENV, DAY, RUN) is None
        peer.set_status(ref.table, DAY.window, "running")
        assert state.units(mine, model, ENV, interval("01-03", "01-04")) == []
        peer.unlock("wh.orders", DAY.window)
        assert state.claim(mine, model, ENV, DAY, RUN) is not None


def test_one_run_at_a_time_through_the_pooler(pooled_dsn: str, conn: Conn) -> None:
    model = daily(allow_concurrent_runs=False)
    set_up(conn, model)
    with pooled(pooled_dsn) as mine:
        assert state.claim(mine, model, ENV, DAY, state.RunKey.ad_hoc()) is not None
        with pytest.raises(ModelLockedError):
            state.claim(mine, model, ENV, unit("01-04", "01-05"), state.RunKey.ad_hoc())
