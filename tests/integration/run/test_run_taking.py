"""A unit that a dead worker still holds: taken over at once where that is proven, waited for, or said to be busy."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from run_support import House, daily, day

from bollhav_provider import state
from bollhav_provider.exceptions import LeaseLostError, UnitBusyError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Model
from bollhav_provider.run import execute_unit

Make = Callable[..., House]
UNIT = Unit(day(3))
LEASE = dt.timedelta(minutes=10)
SHORT = dt.timedelta(seconds=1)

#: A worker of another process: claims, says so, and stays in its claim until it is killed.
_WORKER = """
import sys, datetime as dt, uuid, time
import psycopg
from run_support import BEGIN, daily, day
from bollhav_provider import state
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Environment
dsn, run_id, task_id, number, lease, locks = sys.argv[1:]
run = state.RunKey(uuid.UUID(run_id), task_id=task_id or None, try_number=int(number) or None)
with psycopg.connect(dsn, autocommit=True, options="-c timezone=UTC") as conn:
    lease = dt.timedelta(seconds=float(lease))
    claim = state.claim(conn, daily(), Environment(), Unit(day(3)), run, lease, locks=locks)
    print("claimed" if claim else "refused", flush=True)
    time.sleep(600)
"""


class Worker:
    """Holds the unit in a process of its own until it is killed."""

    def __init__(self, h: House, run: state.RunKey, lease: dt.timedelta, locks: str = "auto") -> None:
        arguments = [
            h.dsn, str(run.run_id), run.task_id or "", str(run.try_number or 0), str(lease.total_seconds()), locks
        ]  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WORKER, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "claimed"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()


def tried(number: int, run_id: Any = None) -> state.RunKey:
    return state.RunKey(run_id or uuid4(), "dag", "run", "unit.execute", number)


@pytest.fixture
def prepared(house: Make) -> tuple[House, Model]:
    model = daily(target={"write_mode": "append"})

    @model.execute
    def orders(unit: Unit) -> list[dict[str, Any]]:
        return [{"at": unit.since, "amount": 1}]

    h = house(model)
    h.prepare(model, day(1, 10))
    return h, model


def execute(h: House, model: Model, run: state.RunKey, busy: float = 0, **fields: Any) -> Any:
    wait = dt.timedelta(seconds=busy)
    return execute_unit(
        h.connections, h.graph(), model, UNIT, h.spec(run=run, busy_timeout=wait, lease=LEASE, **fields)
    )


def rows(h: House) -> int:
    return int(h.sql("SELECT count(*) FROM shop.orders")[0][0])


def test_a_retry_takes_a_killed_trys_unit_over_at_once(prepared: tuple[House, Model]) -> None:
    h, model = prepared
    first = tried(1)
    with Worker(h, first, LEASE) as worker:
        worker.kill()
        outcome = execute(h, model, tried(2, first.run_id), busy=30)
    assert outcome.applied
    assert rows(h) == 1
    assert h.states(model, "status, attempt")[2] == ("applied", 2)


def test_another_run_takes_over_at_once_from_a_process_that_is_gone(prepared: tuple[House, Model]) -> None:
    h, model = prepared
    with Worker(h, state.RunKey.ad_hoc("killed"), LEASE) as worker:
        worker.kill()
        assert execute(h, model, state.RunKey.ad_hoc("next"), busy=30).applied
    assert rows(h) == 1


def test_a_live_worker_is_never_taken_over(prepared: tuple[House, Model]) -> None:
    h, model = prepared
    first = tried(1)
    with Worker(h, first, LEASE):
        other = execute(h, model, tried(9))
        assert (other.status, other.present) == ("skipped", False)
        with pytest.raises(UnitBusyError, match=r"try 1 of this task .* still holds the unit: its lease ends at 20"):
            execute(h, model, tried(2, first.run_id))
        assert h.states(model, "status, attempt")[2] == ("running", 1)


def test_a_live_worker_that_lost_its_session_is_not_taken_over_by_another_run(
    prepared: tuple[House, Model],
) -> None:
    h, model = prepared
    with h.connections.state() as conn:
        claim = state.claim(conn, model, h.spec().env, UNIT, tried(1), LEASE)
    assert claim is not None  # this process lives, and its session has ended
    with pytest.raises(UnitBusyError, match="a worker of run"):
        execute(h, model, tried(1))
    renewals = threading.Timer(0.3, lambda: renew(h, claim))
    renewals.start()
    outcome = execute(h, model, tried(1), busy=20)
    renewals.join()
    assert (outcome.status, outcome.present) == ("skipped", False)
    with h.connections.state() as conn, conn.transaction():
        state.apply(conn, claim)


def commit(conn: psycopg.Connection[Any], claim: state.Claim) -> None:
    with conn.transaction():
        conn.execute("INSERT INTO shop.orders VALUES (now(), 2)")
        state.apply(conn, claim)


def renew(h: House, claim: state.Claim) -> None:
    with h.connections.state() as conn:
        state.renew(conn, claim, LEASE)


def test_the_zombie_of_a_try_that_was_taken_over_commits_nothing(prepared: tuple[House, Model]) -> None:
    h, model = prepared
    first = tried(1)
    with h.connections.state() as conn:
        claim = state.claim(conn, model, h.spec().env, UNIT, first, LEASE)
    assert claim is not None
    assert execute(h, model, tried(2, first.run_id)).applied
    with h.connections.state() as conn, pytest.raises(LeaseLostError):
        commit(conn, claim)
    assert rows(h) == 1


def test_without_a_session_lock_the_lease_is_waited_for(prepared: tuple[House, Model]) -> None:
    h, model = prepared
    first = tried(1)
    with Worker(h, first, SHORT, locks="off") as worker:
        worker.kill()
        started = time.monotonic()
        with pytest.raises(UnitBusyError):
            execute(h, model, tried(2, first.run_id))
        assert execute(h, model, tried(2, first.run_id), busy=20).applied
        assert time.monotonic() - started < 15
    assert rows(h) == 1


def test_the_wait_ends_as_soon_as_the_earlier_try_commits_after_all(prepared: tuple[House, Model]) -> None:
    h, model = prepared
    first = tried(1)
    with h.connections.state() as conn:
        claim = state.claim(conn, model, h.spec().env, UNIT, first, LEASE)
        assert claim is not None

        def commit() -> None:
            with conn.transaction():
                state.apply(conn, claim)

        late = threading.Timer(0.3, commit)
        late.start()
        outcome = execute(h, model, tried(2, first.run_id), busy=20)
        late.join()
    assert (outcome.status, outcome.present) == ("skipped", True)
    assert rows(h) == 0


def test_a_claim_in_two_databases_is_waited_for(house: Make, pg_dsn: str) -> None:
    model = daily(target={"write_mode": "append", "dsn_env_var": "WAREHOUSE_DSN"})

    @model.execute
    def orders(unit: Unit) -> list[dict[str, Any]]:
        return [{"at": unit.since, "amount": 1}]

    name = f"t_{uuid4().hex}"
    with psycopg.connect(pg_dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {} STRATEGY FILE_COPY").format(sql.Identifier(name)))
    h = house(model, WAREHOUSE_DSN=psycopg.conninfo.make_conninfo(pg_dsn, dbname=name))
    try:
        h.prepare(model, day(1, 10))
        first = tried(1)
        with h.connections.state() as conn:
            assert state.claim(conn, model, h.spec().env, UNIT, first, SHORT) is not None
        # Its session is gone, but another one may still be committing rows in the other database.
        with pytest.raises(UnitBusyError):
            execute(h, model, tried(2, first.run_id))
        assert execute(h, model, tried(2, first.run_id), busy=20).applied
    finally:
        with psycopg.connect(pg_dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
