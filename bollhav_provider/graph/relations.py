"""What models share in one schema: the names of relations, and the library's word on who can be waited for.

Tables, views, indexes and the constraints that bring an index along share one namespace in a schema of
PostgreSQL. Two models that would both make ``orders_a_b_idx`` cannot both exist, and only one of them would say
so, in the middle of a run (Semantics: definitions, names).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from bollhav_provider.exceptions import Problem

if TYPE_CHECKING:
    from bollhav_provider.graph.types import ResolvedInput
    from bollhav_provider.model import Model

__all__ = ["gate_warnings", "name_problems"]

#: A name in a schema of a database.
Place = tuple[str | None, str, str]


def name_problems(models: Iterable[Model]) -> Iterator[Problem]:
    """Yield the names that several models would give to relations of one schema.

    Args:
        models: each identity once, in order of full name.
    """
    taken: dict[Place, list[tuple[Model, str, str]]] = {}
    for model in models:
        target = model.target
        for name, field, what in _names(model):
            taken.setdefault((target.catalog, target.schema, name), []).append((model, field, what))
    for (_, _, name), users in taken.items():
        if len(users) == 1:
            continue
        for model, field, what in users:
            others = ", ".join(
                f"{other_what} of {other.full_name!r}" for other, _, other_what in users if other is not model
            )
            if others:
                same = f"{what} would be called {name!r}, as {others} is"
                yield Problem(model.full_name, field, f"{same}; rename one of them, or give the Index a name")


def _names(model: Model) -> Iterator[tuple[str, str, str]]:
    target = model.target
    yield target.name, "target.name", "the view" if model.is_view else "the table"
    if model.is_view:
        return
    for key in model.keys:
        yield key.name, "target.columns", "the key"
    for index in target.index_list():
        yield str(index.name), "target.indexes", "the index"


def gate_warnings(model: Model, inputs: Mapping[str, tuple[ResolvedInput, ...]]) -> Iterator[str]:
    """Yield the gates on models that do not register, so that only somebody else could ever open them.

    A disabled model is left out: it stands for one that another pipeline runs, and registers.
    """
    for found in inputs.values():
        for item in found:
            upstream = item.model
            if not item.source.is_gated or upstream is None or upstream.is_registered or not upstream.enabled:
                continue
            remedy = "library=True" if upstream.is_view else "state=State(), or library=True,"
            yield (
                f"{model.full_name}: upstream[{item.source.name!r}]: {upstream.full_name!r} does not register in the "
                f"library, so that the gate stays shut; write {remedy} on it, or leave the contract out"
            )
