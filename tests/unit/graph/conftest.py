"""What the tests of discovery share."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def own_imports() -> Iterator[None]:
    """What a test's files import must not be there for the next one."""
    path, modules = sys.path[:], set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if getattr(sys.modules[name], "__file__", None) and "pytest-of" in str(sys.modules[name].__file__):
            del sys.modules[name]
