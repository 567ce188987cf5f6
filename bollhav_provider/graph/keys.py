"""Keys: the names by which a model says which others it reads (Semantics: dependencies between models).

===========================  =========================================================
key                          matches
===========================  =========================================================
``orders``                   the model ``orders`` in my schema
``shop.orders``              that model; of several catalogs, the one in mine
``db.shop.orders``           that model
``*.orders``                 every model ``orders``, whatever its schema, never myself
===========================  =========================================================

A source with a list of keys matches their union.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from bollhav_provider.model.source_model import SourceModel

if TYPE_CHECKING:
    from bollhav_provider.model import Model, Source, TableId

__all__ = ["KeyIndex", "accepts"]

_DIGITS = re.compile(r"\d+")
#: Shorter table names differ by a letter as a matter of course.
_SHORTEST_MISSPELT = 4


def accepts(owner: Model, source: Source, candidate: TableId) -> bool:
    """Say whether one of a source's keys matches a relation.

    Args:
        owner: the model that declares the source.
        source: the source.
        candidate: the relation, without suffix.
    """
    return any(_accepts(owner, source, key, candidate) for key in source.keys)


def _accepts(owner: Model, source: Source, key: str, candidate: TableId) -> bool:
    if not isinstance(source.type, SourceModel) or source.type.external:
        return False
    parts = key.split(".")
    if parts[0] == "*":
        return candidate.name == parts[-1] and candidate != owner.identity
    table = owner.table_of(source, key)
    assert table is not None  # no wildcard, and a relation
    if (table.schema, table.name) != (candidate.schema, candidate.name):
        return False
    # A key with a schema and no catalog means that model wherever it is; a bare one means mine.
    open_catalog = len(parts) == 2 and source.type.catalog is None
    return open_catalog or table.catalog == candidate.catalog


class KeyIndex:
    """All models, to be found by key.

    Args:
        models: each identity once, in order of full name.
    """

    def __init__(self, models: Iterable[Model]) -> None:
        self._by_table: dict[tuple[str, str], list[Model]] = {}
        self._by_name: dict[str, list[Model]] = {}
        for model in models:
            table = model.identity
            self._by_table.setdefault((table.schema, table.name), []).append(model)
            self._by_name.setdefault(table.name, []).append(model)
        self._variants: dict[str, list[Model]] | None = None

    def matches(self, owner: Model, source: Source, key: str) -> list[Model]:
        """Return the models that a key matches, in order of full name."""
        if not isinstance(source.type, SourceModel) or source.type.external:
            return []
        name = key.rpartition(".")[2]
        if key.startswith("*."):
            return [model for model in self._by_name.get(name, ()) if model.identity != owner.identity]
        table = owner.table_of(source, key)
        if table is None:
            return []
        same = self._by_table.get((table.schema, table.name), ())
        found = [model for model in same if _accepts(owner, source, key, model.identity)]
        mine = [model for model in found if model.identity.catalog == owner.identity.catalog]
        return mine if len(found) > 1 and mine else found

    def misspelt(self, owner: Model, table: TableId) -> Model | None:
        """Return the model that a name without a model probably means: one letter is different, or the case.

        A difference in digits alone is none: ``orders_2023`` is not ``orders_2024``.
        """
        if len(table.name) < _SHORTEST_MISSPELT:
            return None
        if self._variants is None:
            self._variants = {}
            for models in self._by_table.values():
                for model in models:
                    if len(model.identity.name) >= _SHORTEST_MISSPELT:
                        for variant in _variants(_folded(model.identity)):
                            self._variants.setdefault(variant, []).append(model)
        word = _folded(table)
        for variant in _variants(word):
            for model in self._variants.get(variant, ()):
                other = _folded(model.identity)
                digits = word != other and _DIGITS.sub("0", word) == _DIGITS.sub("0", other)
                if model.identity != owner.identity and not digits and _one_edit(word, other):
                    return model
        return None

    def nearest(self, owner: Model, source: Source) -> str | None:
        """Return the model name nearest to a source's first key, for a did-you-mean."""
        from difflib import get_close_matches

        names = [
            name
            for models in self._by_table.values()
            for model in models
            if model.identity != owner.identity
            for name in (model.full_name, model.identity.name)
        ]
        near = get_close_matches(source.name.removeprefix("*."), names, n=1, cutoff=0.6)
        return near[0] if near else None


def _folded(table: TableId) -> str:
    return f"{table.schema}.{table.name}".casefold()


def _variants(word: str) -> Iterator[str]:
    """Yield a word, and the word without each one of its letters: words one edit apart share one of these."""
    yield word
    for position in range(len(word)):
        yield word[:position] + word[position + 1 :]


def _one_edit(one: str, other: str) -> bool:
    """Say whether two words differ by at most one letter: more, less, another, or two that swapped."""
    if one == other:
        return True
    if abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    rest, rest_of_other = one[start:], other[start:]
    return (
        rest[1:] == rest_of_other[1:]
        or rest[1:] == rest_of_other
        or rest == rest_of_other[1:]
        or (rest[:2] == rest_of_other[:2][::-1] and rest[2:] == rest_of_other[2:])
    )
