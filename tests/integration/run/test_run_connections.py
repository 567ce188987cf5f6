"""What every connection of a run is set to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psycopg

from bollhav_provider.run import ConnectOptions, connect

_WORKER = """
import sys
from bollhav_provider.run import connect
conn = connect(sys.argv[1], "killed worker")
conn.execute("SELECT pg_advisory_lock(1)")
conn.execute("SELECT pg_sleep(120)")
"""


def test_the_server_stops_the_work_of_a_client_that_was_killed(db: str) -> None:
    worker = subprocess.Popen([sys.executable, "-c", _WORKER, db])
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'killed worker%' AND query ~ 'sleep'"
    with psycopg.connect(db, autocommit=True) as conn:

        def busy() -> bool:
            row = conn.execute(query).fetchone()
            return bool(row and row[0])

        end = time.monotonic() + 30
        while not busy():
            assert time.monotonic() < end
            time.sleep(0.05)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        while busy():
            assert time.monotonic() < end
            time.sleep(0.1)
        assert conn.execute("SELECT pg_try_advisory_lock(1)").fetchone() == (True,)


def test_a_session_is_in_utc_and_says_who_it_is(db: str) -> None:
    with connect(db, "x" * 80) as conn:
        assert conn.execute("SELECT now()::text ~ '\\+00$'").fetchone() == (True,)
        assert conn.execute("SHOW application_name").fetchone() == ("x" * 63,)


def test_a_session_is_in_read_committed_whatever_the_database_defaults_to(db: str) -> None:
    with psycopg.connect(db, autocommit=True) as conn:
        conn.execute(f'ALTER DATABASE "{conn.info.dbname}" SET default_transaction_isolation TO serializable')
    with connect(db) as conn:
        assert conn.execute("SHOW default_transaction_isolation").fetchone() == ("read committed",)
        with conn.transaction():
            assert conn.execute("SHOW transaction_isolation").fetchone() == ("read committed",)


def test_time_outs_are_the_sessions(db: str) -> None:
    with connect(db, options=ConnectOptions(statement_timeout=7, lock_timeout=3)) as conn:
        assert conn.execute("SHOW statement_timeout").fetchone() == ("7s",)
        assert conn.execute("SHOW lock_timeout").fetchone() == ("3s",)
