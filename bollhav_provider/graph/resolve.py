"""What each source of a model stands for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from bollhav_provider.exceptions import Problem
from bollhav_provider.graph.types import ResolvedInput

if TYPE_CHECKING:
    from bollhav_provider.graph.keys import KeyIndex
    from bollhav_provider.model import Model, Source

__all__ = ["Resolution", "resolve_model", "upstream_models"]

_KEYS = "'orders', 'shop.orders', 'db.shop.orders' or '*.orders'"


class Resolution(NamedTuple):
    """A model's inputs by alias, and what is wrong with them."""

    inputs: dict[str, tuple[ResolvedInput, ...]]
    problems: tuple[Problem, ...]


def resolve_model(model: Model, index: KeyIndex, bound: dict[str, tuple[Model, ...]]) -> Resolution:
    """Resolve all inputs of a model.

    Args:
        model: the model.
        index: of all models.
        bound: aliases that were bound by hand; they are taken as they are.
    """
    inputs: dict[str, tuple[ResolvedInput, ...]] = {}
    problems: list[Problem] = []
    inferred = {id(source) for source in model.inferred}
    for source in model.inputs:
        alias = source.alias_name
        if alias in bound:
            inputs[alias] = tuple(ResolvedInput(source, found, found.identity) for found in bound[alias])
            continue
        found, message = _resolve(model, source, index, inferred=id(source) in inferred)
        inputs[alias] = found
        if message is not None:
            field = f"execute: parameter {alias!r}" if id(source) in inferred else f"upstream[{source.name!r}]"
            problems.append(Problem(model.full_name, field, message))
    return Resolution(inputs, tuple(problems))


def _resolve(
    model: Model, source: Source, index: KeyIndex, *, inferred: bool
) -> tuple[tuple[ResolvedInput, ...], str | None]:
    if not source.is_relation:
        return (ResolvedInput(source, None, None),), None
    found: dict[object, ResolvedInput] = {}
    missing: list[str] = []
    for key in source.keys:
        matches = index.matches(model, source, key)
        if any(match is model or match.identity == model.identity for match in matches):
            itself = (
                "the model depends on itself; remove the source (a running total that reads its own past "
                "needs state=State(sequential=True))"
            )
            return (), itself
        for match in matches:
            found.setdefault(match.identity, ResolvedInput(source, match, match.identity))
        if not matches and not key.startswith("*."):
            missing.append(key)
    if inferred or source.optional:
        missing = []  # an inferred source means a model of this project; an optional one is not there
    elif found and not source.many:
        missing = []  # the other keys of a list are alternatives
    for key in missing:
        table = model.table_of(source, key)
        assert table is not None
        if (meant := _misspelt(model, source, index, key)) is not None:
            return (), meant
        found.setdefault(table, ResolvedInput(source, None, table))
    if not source.many and len(found) > 1:
        return (), _several(source, list(found.values()))
    if not found and not source.optional:
        return (), _nothing(model, source, index, inferred=inferred)
    inputs = tuple(found.values())
    return tuple(sorted(inputs, key=_full_name)) if source.many else inputs, None


def _full_name(found: ResolvedInput) -> str:
    return found.table.full_name if found.table is not None else ""


def _misspelt(model: Model, source: Source, index: KeyIndex, key: str) -> str | None:
    from bollhav_provider.model.source_model import SourceModel

    table = model.table_of(source, key)
    if table is None or not isinstance(source.type, SourceModel) or source.type.external:
        return None
    near = index.misspelt(model, table)
    if near is None:
        return None
    return (
        f"{key!r} is no model; did you mean {near.full_name!r}? Correct the key, or, if {table.full_name!r} is "
        "a relation that no model here makes, write type=SourceModel(external=True)"
    )


def _several(source: Source, found: list[ResolvedInput]) -> str:
    names = ", ".join(sorted(_full_name(item) for item in found))
    return (
        f"the source takes one model and matches {len(found)}: {names}; write the full name of the one that is "
        "meant, many=True to take them all, or choose with graph.bind(...)"
    )


def _nothing(model: Model, source: Source, index: KeyIndex, *, inferred: bool) -> str:
    near = index.nearest(model, source)
    hint = f"; did you mean {near!r}?" if near else ""
    if inferred:
        return (
            f"there is no model {source.name!r} in schema {model.target.schema!r}; declare the source that is "
            f"meant with Source(..., alias={source.alias_name!r}), or annotate the parameter as Upstream | None{hint}"
        )
    keys = ", ".join(map(repr, source.keys))
    return (
        f"no model matches {keys}; add one, correct the key ({_KEYS}), "
        f"or write optional=True if there may be none{hint}"
    )


def upstream_models(inputs: dict[str, tuple[ResolvedInput, ...]]) -> Iterator[Model]:
    """Yield the models among a model's inputs; one that is read twice comes twice."""
    for found in inputs.values():
        for item in found:
            if item.model is not None:
                yield item.model
