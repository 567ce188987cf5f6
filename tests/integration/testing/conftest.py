"""The fixtures for users run on the server that this project's tests have anyway."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def bollhav_dsn(pg_dsn: str) -> str:
    """DSN of the test server."""
    return pg_dsn
