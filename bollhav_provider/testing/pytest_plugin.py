"""Fixtures for people who test their models. Every pytest imports this, so it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from bollhav_provider.testing.bench import ModelBench


@pytest.fixture(scope="session")
def bollhav_dsn() -> Iterator[str]:
    """DSN of a PostgreSQL to make scratch databases on: ``BOLLHAV_TEST_DSN``, or a server of this session's own."""
    from bollhav_provider.testing.scratch import scratch_server

    with scratch_server() as dsn:
        yield dsn


@pytest.fixture
def bollhav(bollhav_dsn: str) -> Iterator[ModelBench]:
    """Run models on a real PostgreSQL: ``bollhav.run(model, "2013-01-01", flights=FRAME)`` gives the target's rows."""
    from bollhav_provider.testing.bench import ModelBench

    with ModelBench(bollhav_dsn) as bench:
        yield bench
