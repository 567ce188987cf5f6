"""Fixtures of the run's tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from run_support import House

from bollhav_provider.model import Model


@pytest.fixture
def house(db: str) -> Callable[..., House]:
    """Make a deployment of some models in an empty database."""

    def make(*models: Model, **environ: str) -> House:
        return House(db, list(models), environ)

    return make
