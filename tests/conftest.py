"""Fixtures shared by all tests: one PostgreSQL server a test run, one empty database a test."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings
from psycopg import sql

from bollhav_provider.testing.postgres import PostgresServer

# A change is judged by the same examples every time; people's own runs go on exploring.
settings.register_profile("ci", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(scope="session")
def pg_server() -> Iterator[PostgresServer | None]:
    """The server that the tests start, or None when ``BOLLHAV_TEST_DSN`` names one to use instead."""
    if os.environ.get("BOLLHAV_TEST_DSN"):
        yield None
        return
    home = Path(tempfile.mkdtemp(prefix="bollhav-tests-"))
    server = PostgresServer(home, durable=False, settings=("max_connections=200",))
    server.start()
    try:
        yield server
    finally:
        server.destroy()


@pytest.fixture(scope="session")
def pg_dsn(pg_server: PostgresServer | None) -> str:
    """DSN of a superuser on the test server."""
    return pg_server.dsn() if pg_server else os.environ["BOLLHAV_TEST_DSN"]


@pytest.fixture
def db(pg_dsn: str) -> Iterator[str]:
    """DSN of a fresh, empty database that is dropped after the test."""
    name = f"t_{uuid.uuid4().hex}"
    with psycopg.connect(pg_dsn, autocommit=True) as conn:
        # Copying files is the cheaper way to an empty database; PostgreSQL 14 knows no other.
        strategy = sql.SQL(" STRATEGY FILE_COPY" if conn.info.server_version >= 150000 else "")
        conn.execute(sql.SQL("CREATE DATABASE {}{}").format(sql.Identifier(name), strategy))
    try:
        yield psycopg.conninfo.make_conninfo(pg_dsn, dbname=name)
    finally:
        with psycopg.connect(pg_dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
