"""Helpers of the definition language's tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bollhav_provider import DefinitionError, Model


@pytest.fixture
def assert_rejected() -> Callable[[Callable[[], Model], str, str], None]:
    """Check that a definition is rejected for exactly one reason, in these words."""

    def check(define: Callable[[], Model], field: str, message: str) -> None:
        with pytest.raises(DefinitionError) as caught:
            define()
        (problem,) = caught.value.problems
        assert (problem.field, problem.message) == (field, message)
        assert str(caught.value) == f"{problem.model}: {field}: {message}"
        assert problem.model != "Model", "the message does not name the model"

    return check
