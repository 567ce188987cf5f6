"""What breaks from outside ends in a correct state and a clear message: cut connections, a restarted server."""

from __future__ import annotations

import datetime as dt
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from run_support import ROWS, House, daily, day, hours, killed_model
from wire_proxy import WireProxy, at_copy_data, when

from bollhav_provider.exceptions import CommitUnknownError, LeaseLostError, ModelLockedError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Model, State
from bollhav_provider.run import (
    ConnectOptions,
    checkpoints,
    commit,
    connect,
    execute_unit,
    execute_units,
    finish,
)
from bollhav_provider.testing.postgres import PostgresServer

Make = Callable[..., House]


@pytest.fixture
def wire(db: str) -> Iterator[WireProxy]:
    with WireProxy(db) as proxy:
        yield proxy


def through(proxy: WireProxy, h: House) -> House:
    return House(proxy.dsn, h.models, h.environ)


def rows_by_hour(h: House) -> Counter[int]:
    return Counter(row[0] for row in h.sql("SELECT count(*) FROM shop.clicks GROUP BY at"))


def prepared(house: Make) -> tuple[House, Model, Unit]:
    model = killed_model()
    h = house(model)
    (unit,) = hours(0, 1)
    h.prepare(model, unit.window)
    return h, model, unit


def test_a_connection_cut_during_copy_leaves_nothing_and_says_error(house: Make, wire: WireProxy) -> None:
    h, model, unit = prepared(house)
    wire.rule = at_copy_data("before")
    with pytest.raises(psycopg.OperationalError):
        execute_unit(through(wire, h).connections, h.graph(), model, unit, h.spec())
    assert wire.cuts == 1
    assert rows_by_hour(h) == Counter()
    assert h.states(model)[0] == "error"
    assert h.sql("SELECT count(*) FROM z_bollhav.errors") == [(1,)]
    assert execute_unit(h.connections, h.graph(), model, unit, h.spec()).applied
    assert rows_by_hour(h) == Counter({ROWS: 1})


def test_a_commit_whose_answer_is_lost_is_looked_up_and_found_done(house: Make, wire: WireProxy) -> None:
    h, model, unit = prepared(house)
    wire.rule = when(b"COMMIT", "after")
    outcome = execute_unit(through(wire, h).connections, h.graph(), model, unit, h.spec())
    assert wire.cuts == 1
    assert outcome.applied
    assert h.states(model, "status, attempt")[0] == ("applied", 1)
    assert rows_by_hour(h) == Counter({ROWS: 1})


def test_a_commit_that_never_arrived_is_looked_up_and_found_undone(house: Make, wire: WireProxy) -> None:
    h, model, unit = prepared(house)
    wire.rule = when(b"COMMIT", "before")
    with pytest.raises(psycopg.OperationalError):
        execute_unit(through(wire, h).connections, h.graph(), model, unit, h.spec())
    assert rows_by_hour(h) == Counter()
    assert h.states(model)[0] == "error"
    assert execute_unit(h.connections, h.graph(), model, unit, h.spec()).applied
    assert rows_by_hour(h) == Counter({ROWS: 1})


def test_a_commit_that_nobody_can_look_up_is_called_unknown(
    house: Make, wire: WireProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    h, model, unit = prepared(house)
    patient = commit.resolve
    monkeypatch.setattr(commit, "resolve", lambda *a: patient(*a, patience=0.3))
    lost = when(b"COMMIT", "after")

    def rule(data: bytes) -> str | None:
        if where := lost(data):
            wire.refuses = True
            return where
        return None

    wire.rule = rule
    with pytest.raises(CommitUnknownError, match=r"(?s)shop\.clicks \[2024-01-01.*could not be read back"):
        execute_unit(through(wire, h).connections, h.graph(), model, unit, h.spec())
    assert h.states(model)[0] == "applied"
    assert execute_unit(h.connections, h.graph(), model, unit, h.spec()).status == "skipped"
    assert rows_by_hour(h) == Counter({ROWS: 1})


def test_without_state_a_lost_commit_is_unknown_at_once(house: Make, wire: WireProxy) -> None:
    h, model, unit = prepared(house)
    wire.rule = when(b"COMMIT", "after")
    started = time.monotonic()
    with pytest.raises(CommitUnknownError, match="without state nothing says"):
        execute_unit(through(wire, h).connections, h.graph(), model, unit, h.spec(state_disabled=True))
    assert time.monotonic() - started < 5
    assert h.states(model)[0] == "pending"


def test_a_lock_time_out_is_an_error_with_the_servers_words(house: Make) -> None:
    h, model, unit = prepared(house)
    with psycopg.connect(h.dsn) as blocker:
        blocker.execute("LOCK TABLE shop.clicks IN ACCESS EXCLUSIVE MODE")
        limited = House(psycopg.conninfo.make_conninfo(h.dsn, options="-c lock_timeout=200"), h.models)
        with pytest.raises(Exception, match="lock timeout"):
            execute_unit(limited.connections, h.graph(), model, unit, h.spec())
    assert h.states(model)[0] == "error"
    assert "lock timeout" in h.sql("SELECT error_message FROM z_bollhav.errors")[0][0]


def test_a_lost_lease_stops_the_statement_that_runs(house: Make) -> None:
    slow = daily("shop.slow", query="SELECT %(since)s::timestamptz AS at, 1 AS amount FROM pg_sleep(20)")
    h = house(slow)
    h.prepare(slow, day(1))
    table = sql.Identifier("z_bollhav", slow.state_table)

    def take_over(point: str, _: object) -> None:
        if point == checkpoints.DURING_WRITE:
            with psycopg.connect(h.dsn, autocommit=True) as conn:
                conn.execute(
                    sql.SQL("UPDATE {} SET attempt = attempt + 1 WHERE status = 'running'").format(table)
                )

    end = checkpoints.subscribe(take_over)
    started = time.monotonic()
    try:
        with pytest.raises(LeaseLostError):
            execute_unit(
                h.connections, h.graph(), slow, Unit(day(1)), h.spec(lease=dt.timedelta(seconds=1.5))
            )
    finally:
        end()
    assert time.monotonic() - started < 10
    assert h.sql("SELECT count(*) FROM shop.slow") == [(0,)]


def test_a_full_server_is_tried_again_with_pauses(house: Make, db: str) -> None:
    h = house()
    role = f"few_{uuid4().hex[:12]}"
    h.sql(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1")
    try:
        few = psycopg.conninfo.make_conninfo(db, user=role)
        first = connect(few)
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2:
                first.close()
                time.sleep(0.1)

        with connect(few, options=ConnectOptions(pause=pause)) as second:
            assert second.execute("SELECT 1").fetchone() == (1,)
        assert len(pauses) >= 2
        held = connect(few)
        with pytest.raises(psycopg.OperationalError, match="too many connections"):
            connect(few, options=ConnectOptions(attempts=2, pause=lambda _: None))
        held.close()
    finally:
        h.sql(f"DROP ROLE {role}")


def test_a_model_without_concurrent_runs_is_locked_for_another_run_until_the_end(house: Make) -> None:
    model = daily(
        state=State(allow_concurrent_runs=False), query="SELECT %(since)s::timestamptz AS at, 1 AS amount"
    )
    h = house(model)
    mine, other = h.spec(day(1, 2)), h.spec(day(1, 2))
    h.prepare(model, day(1, 2))
    assert execute_unit(h.connections, h.graph(), model, Unit(day(1)), mine).applied
    with pytest.raises(ModelLockedError):
        execute_unit(h.connections, h.graph(), model, Unit(day(2)), other)
    assert not finish(h.connections, model, mine, if_done=True)  # other units of its window are left
    assert finish(h.connections, model, mine)
    assert execute_unit(h.connections, h.graph(), model, Unit(day(2)), other).applied


def test_a_server_that_is_restarted_in_the_middle_of_a_run(house: Make) -> None:
    server = PostgresServer(Path(tempfile.mkdtemp(prefix="bollhav-restart-")), durable=False)
    model = killed_model()
    h = House(server.start(), [model])
    units = hours(0, 6)
    window = type(units[0].window)(units[0].since, units[-1].until)  # type: ignore[misc, arg-type]
    restarted = threading.Event()

    def restart(point: str, unit: object) -> None:
        if point == checkpoints.AFTER_WRITE and unit == units[2] and not restarted.is_set():
            restarted.set()
            server.stop()
            server.start()

    end = checkpoints.subscribe(restart)
    try:
        spec = h.spec(window)
        assert h.prepare(model, window).units == tuple(units)
        with pytest.raises(psycopg.Error):
            execute_units(h.connections, h.graph(), model, units, spec)
        assert restarted.is_set()
        found = h.states(model)[:6]
        assert found[:2] == ["applied"] * 2
        assert found[2] == "error"
        deadline = time.monotonic() + 20
        while (left := h.prepare(model, window).units) and time.monotonic() < deadline:
            execute_units(h.connections, h.graph(), model, left, spec)
        assert h.states(model)[:6] == ["applied"] * 6
        assert rows_by_hour(h) == Counter({ROWS: 6})
    finally:
        end()
        server.destroy()
