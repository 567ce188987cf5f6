"""The server goes away in the middle of a unit: what it had said is true afterwards, and no worker is misled."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from state_support import ENV, connect, count, daily, one, set_up, statuses, unit

from bollhav_provider import state
from bollhav_provider.exceptions import LeaseLostError
from bollhav_provider.testing.postgres import BINDIR_VARIABLE, PostgresServer

DAY = unit("01-03", "01-04")
RUN = state.RunKey.ad_hoc("tester")


@pytest.fixture(scope="module")
def own_server(pg_server: PostgresServer | None) -> Iterator[PostgresServer]:
    """A durable server of these tests' own, which they may crash."""
    own = PostgresServer(Path(tempfile.mkdtemp(prefix="bollhav-crash-")), durable=True)
    with pytest.MonkeyPatch.context() as patch:
        # what the other server had to copy need not be copied once more
        copied = next(Path(pg_server.home).glob("bin-*/*/*/bin"), None) if pg_server is not None else None
        if copied is not None:
            patch.setenv(BINDIR_VARIABLE, str(copied))
        own.start()
        yield own
        own.destroy()


@pytest.fixture
def server(own_server: PostgresServer) -> Iterator[PostgresServer]:
    """The server, empty."""
    yield own_server
    with connect(own_server.dsn()) as conn:
        conn.execute("SET client_min_messages = error; DROP SCHEMA z_bollhav CASCADE; DROP TABLE IF EXISTS target")


def crash(server: PostgresServer) -> None:
    """End every process of the server at once, as a power failure would."""
    pid = int((server.data / "postmaster.pid").read_text().split("\n", 1)[0])
    subprocess.run(["kill", "-QUIT", str(pid)], check=True)  # immediate shutdown: nothing is written any more
    while server.running():
        time.sleep(0.05)
    server.start()


def restart(server: PostgresServer) -> None:
    server.stop()
    server.start()


@pytest.mark.parametrize("interruption", [crash, restart])
def test_a_unit_that_the_server_dropped_is_done_once(
    server: PostgresServer, interruption: Callable[[PostgresServer], None]
) -> None:
    model = daily()
    with connect(server.dsn()) as conn:
        ref = set_up(conn, model)
        conn.execute("CREATE TABLE target (n int)")
        first = state.claim(conn, model, ENV, DAY, RUN, timedelta(seconds=1))
        assert first is not None
        conn.execute("BEGIN")
        conn.execute("INSERT INTO target VALUES (1)")
        state.apply(conn, first)
        interruption(server)
        with pytest.raises(psycopg.OperationalError):
            conn.execute("COMMIT")
    with connect(server.dsn()) as conn:
        assert count(conn, ref, "applied") == one(conn, "SELECT count(*) FROM target") == 0
        # the worker comes back with its old claim while another has taken the unit, or its claim is as it was
        second = state.try_claim(conn, model, ENV, DAY, RUN, timedelta(minutes=1), locks="off")
        while isinstance(second, state.Refusal):
            assert second.outcome == "busy"
            time.sleep(0.05)
            second = state.try_claim(conn, model, ENV, DAY, RUN, timedelta(minutes=1), locks="off")
        with connect(server.dsn()) as late:
            late.execute("BEGIN")
            late.execute("INSERT INTO target VALUES (1)")
            with pytest.raises(LeaseLostError):
                state.apply(late, first)
            late.execute("ROLLBACK")
        with conn.transaction():
            conn.execute("INSERT INTO target VALUES (2)")
            state.apply(conn, second)
        assert one(conn, "SELECT array_agg(n) FROM target") == [2]
        assert ("01-03", "applied") in statuses(conn, ref)
        assert state.coverage.verify(conn, ref).right


def test_what_was_applied_before_a_crash_stays_applied(server: PostgresServer) -> None:
    model = daily()
    with connect(server.dsn()) as conn:
        ref = set_up(conn, model)
        claim = state.claim(conn, model, ENV, DAY, RUN)
        assert claim is not None
        with conn.transaction():
            state.apply(conn, claim)
        crash(server)
    with connect(server.dsn()) as conn:
        assert ("01-03", "applied") in statuses(conn, ref)
        assert state.coverage.islands(conn, ref).islands == (DAY.window,)
        assert state.prefill(conn, model, ENV) == 0
