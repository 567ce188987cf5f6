"""Fixtures of the state room's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from state_support import Conn, Peer, connect


@pytest.fixture
def conn(db: str) -> Iterator[Conn]:
    """A connection to an empty database."""
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
