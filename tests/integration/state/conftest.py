"""Fixtures of the state room's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from state_support import Conn, Peer, connect


@pytest.fixture
def db(library_db: str) -> str:
    """DSN of a database with an empty library: most of these tests need one, and making it takes long."""
    return library_db


@pytest.fixture
def conn(db: str) -> Iterator[Conn]:
    """A connection to the database."""
    with connect(db) as connection:
        yield connection


@pytest.fixture
def other(db: str) -> Iterator[Conn]:
    """A second session on the same database."""
    with connect(db) as connection:
        yield connection


@pytest.fixture
def peer(db: str) -> Iterator[Peer]:
    """The other implementation on the same database."""
    it = Peer(db)
    yield it
    it.close()


@pytest.fixture(params=["kept", "rows"])
def name(request: pytest.FixtureRequest) -> str:
    """Name of an upstream whose coverage is kept, and of one whose rows are read."""
    return f"up.{request.param}"
