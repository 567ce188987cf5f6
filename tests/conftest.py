"""Fixtures shared by all tests: one PostgreSQL server a test run, one empty database a test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from database_pool import Databases
from hypothesis import settings

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


@pytest.fixture(scope="session")
def databases(pg_dsn: str) -> Iterator[Databases]:
    """Databases of the test server, handed on clean from test to test."""
    found = Databases(pg_dsn)
    yield found
    found.close()


@pytest.fixture
def db(databases: Databases) -> Iterator[str]:
    """DSN of an empty database of this test's own."""
    with databases.empty() as dsn:
        yield dsn


@pytest.fixture
def library_db(databases: Databases) -> Iterator[str]:
    """DSN of a database of this test's own that holds an empty library."""
    with databases.library() as dsn:
        yield dsn
