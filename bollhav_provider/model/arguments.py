"""Arguments before they are validated: slips that validation would not see, or would report in words of its own.

pydantic is generous where a definition must not be: it takes a set for a list, although a set has another order
in every process, and ``True`` for a number. Both are refused here, by name.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from bollhav_provider.model.words import shown

if TYPE_CHECKING:
    from bollhav_provider.model.base import Definition

_PLAIN = (str, type(None), int, float)


class _Kind(NamedTuple):
    """What a field takes, as far as it matters here."""

    many: bool
    number: bool


@cache
def _kinds(cls: type[Definition]) -> dict[str, _Kind]:
    return {name: _kind(field.annotation) for name, field in cls.model_fields.items()}


def _kind(annotation: Any) -> _Kind:
    choices = _choices(annotation)
    return _Kind(
        many=any(typing.get_origin(choice) is tuple for choice in choices),
        number=bool not in choices and any(choice in (int, float, timedelta) for choice in choices),
    )


def _choices(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [choice for part in typing.get_args(annotation) for choice in _choices(part)]
    return [annotation]


def has_field(cls: type[Definition], name: str) -> bool:
    """Say whether a piece has a field of that name."""
    return name in _kinds(cls)


def all_plain(data: Mapping[str, Any]) -> bool:
    """Say whether no argument needs a look: texts, numbers and nothing hold no slip."""
    return all(type(value) in _PLAIN for value in data.values())


def one_in_a_list(cls: type[Definition], data: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with a list around each piece that stands alone where several may."""
    from bollhav_provider.model.base import Definition

    kinds = _kinds(cls)
    alone = {
        name: (value,)
        for name, value in data.items()
        if type(value) not in _PLAIN and name in kinds and kinds[name].many and isinstance(value, Definition)
    }
    return {**data, **alone} if alone else data


def slips(cls: type[Definition], data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the slips among the arguments, as (field, message)."""
    from bollhav_provider.model.base import Definition

    kinds = _kinds(cls)
    for name, value in data.items():
        # A definition is told first: asking for the first time whether a class is a mapping goes through all of those.
        if type(value) in _PLAIN or name not in kinds or isinstance(value, Definition):
            continue
        if isinstance(value, set | frozenset):
            if name not in cls._unordered:
                yield name, "a set has another order in every process; write a list"
        elif isinstance(value, bool):
            if kinds[name].number:
                yield name, f"must be a number, not {value}"
        elif isinstance(value, Mapping):
            yield from _keys(name, value)
        elif isinstance(value, list | tuple):
            for position, item in enumerate(value):
                if not isinstance(item, Definition) and isinstance(item, Mapping):
                    yield from _keys(f"{name}[{position}]", item)


def _keys(path: str, mapping: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    for key in mapping:
        if not isinstance(key, str):
            yield path, f"the key {shown(key)} is no text; write the names of a mapping as texts"
