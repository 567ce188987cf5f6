"""Fixtures of the run's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from database_pool import Databases
from run_support import House

from bollhav_provider.model import Model


@pytest.fixture
def db(library_db: str) -> str:
    """DSN of a database with an empty library: a run would make one, which takes longer than most of these tests."""
    return library_db


@pytest.fixture
def empty_house(databases: Databases) -> Iterator[Callable[..., House]]:
    """Make a deployment of some models in a database that holds nothing at all."""
    with databases.empty() as dsn:
        yield lambda *models, **environ: House(dsn, list(models), environ)


@pytest.fixture
def house(db: str) -> Callable[..., House]:
    """Make a deployment of some models that never ran."""

    def make(*models: Model, **environ: str) -> House:
        return House(db, list(models), environ)

    return make
