"""A whole deployment, started once for all end-to-end tests; they share its state and run in the order of the file."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.e2e.watch import Watch
from tools.demo.deployment import deployment
from tools.demo.places import E2E

#: Local days of the demo's contracts.
DAYS = 7


@pytest.fixture(scope="session")
def watch() -> Iterator[Watch]:
    """The running deployment, with what the tests ask of it. Everything stops at the end."""
    with deployment(days=DAYS, places=E2E, server=os.environ.get("BOLLHAV_TEST_DSN"), grace=2) as running:
        yield Watch(running, DAYS)
