"""The rules that concern a whole model (Semantics: definitions). All of them are checked, and reported together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bollhav_provider.model.base import Finding
    from bollhav_provider.model.model import Model


def definition_problems(model: Model) -> Iterator[Finding]:
    """Yield everything that is wrong with a model's definition, in the order of its fields."""
    for field, message in model.target.problems():
        yield f"target.{field}", message


def definition_warnings(model: Model) -> Iterator[str]:
    """Yield what is legal and probably not meant."""
    return iter(())
