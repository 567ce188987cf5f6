"""Many workers, dead workers: every unit is executed once, and its rows are there exactly once."""

from __future__ import annotations

import random
import time
from datetime import timedelta

import pytest
from state_support import ENV, Conn, connect, count, daily, one, set_up
from state_worker import ROWS_PER_UNIT, make_target, start, work_off

from bollhav_provider import state
from bollhav_provider.intervals import IntervalSet
from bollhav_provider.model import Model


def assert_each_once(conn: Conn, model: Model, units: int) -> None:
    ref = state.StateRef.of(model, ENV)
    assert count(conn, ref, "applied") == count(conn, ref) == units
    assert one(conn, "SELECT count(*) FROM target") == units * ROWS_PER_UNIT
    assert one(conn, "SELECT count(DISTINCT (at, n)) FROM target") == units * ROWS_PER_UNIT
    assert state.coverage.verify(conn, ref).right
    assert len(IntervalSet(state.coverage.islands(conn, ref))) == 1


def test_eight_processes_share_two_hundred_units_and_each_runs_once(db: str, conn: Conn) -> None:
    model = daily(chunk="@hourly", begin="2024-01-01T00:00Z", end="2024-01-09T08:00Z")
    ref = set_up(conn, model)
    assert count(conn, ref) == 200
    make_target(conn)
    workers = [start(work_off, db, model, timedelta(seconds=60)) for _ in range(8)]
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    assert_each_once(conn, model, 200)
    assert one(conn, "SELECT count(*) FROM z_bollhav.history WHERE outcome = 'applied'") == 200
    assert one(conn, "SELECT max(attempt) FROM @state", ref=ref) == 1
    assert one(conn, "SELECT count(DISTINCT worker) FROM target") > 1


@pytest.mark.parametrize("point", ["claimed", "writing", "written", "committed"])
def test_a_worker_killed_at_a_named_point_is_finished_by_another(db: str, conn: Conn, point: str) -> None:
    model = daily(end="2024-01-04T00:00Z")
    ref = set_up(conn, model)
    make_target(conn)
    victim = start(lambda: work_off(db, model, timedelta(milliseconds=500), die_at=point))
    victim.join(30)
    assert victim.exitcode == -9
    deadline = time.monotonic() + 5  # the server notices the closed socket by itself
    while (
        one(conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") and time.monotonic() < deadline
    ):
        time.sleep(0.02)
    assert count(conn, ref, "applied") == (1 if point == "committed" else 0)
    assert count(conn, ref, "running") == (0 if point == "committed" else 1)
    rescuer = start(lambda: work_off(db, model, timedelta(seconds=30), patience=20))
    rescuer.join(30)
    assert rescuer.exitcode == 0
    assert_each_once(conn, model, 3)
    attempts = one(conn, "SELECT array_agg(attempt ORDER BY since) FROM @state", ref=ref)
    assert attempts == ([1, 1, 1] if point == "committed" else [2, 1, 1])


def test_workers_killed_at_random_instants_leave_every_row_exactly_once(db: str, conn: Conn) -> None:
    model = daily(chunk="@hourly", begin="2024-01-01T00:00Z", end="2024-01-09T00:00Z")
    set_up(conn, model)
    make_target(conn)
    chance = random.Random(20240101)
    kills = 0
    while kills < 40:  # two hundred instants of whole runs are in the run room's test
        victims = [
            start(lambda: work_off(db, model, timedelta(milliseconds=150), slow=0.002)) for _ in range(2)
        ]
        for victim in victims:
            time.sleep(chance.uniform(0.0, 0.08))
            victim.kill()
        for victim in victims:
            victim.join()
            kills += victim.exitcode == -9
        # whatever instant it was: no unit has a part of its rows, none has rows without being applied
        with connect(db) as look:
            wrong = look.execute(
                f"SELECT s.since, s.status, t.n FROM z_bollhav.{state.StateRef.of(model, ENV).table} s "  # noqa: S608
                "LEFT JOIN (SELECT at, count(*) AS n FROM target GROUP BY at) t ON t.at = s.since "
                "WHERE (s.status = 'applied') <> (t.n IS NOT NULL) OR t.n <> 5"
            ).fetchall()
            assert wrong == []
    rescuer = start(lambda: work_off(db, model, timedelta(seconds=30), patience=30))
    rescuer.join(60)
    assert rescuer.exitcode == 0
    assert_each_once(conn, model, 192)
