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


def _is_piece(value: Any) -> bool:
    kind: Any = type(value)
    return _is_definition(kind)


@cache
def _is_definition(kind: Any) -> bool:
    from bollhav_provider.model.base import Definition

    return issubclass(kind, Definition)


def looked_at(cls: type[Definition], data: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Look at the arguments before they are validated.

    Returns:
        The arguments, with a list around each piece that stands alone where several may; and the slips among them, as
        (field, message).
    """
    alone: dict[str, Any] = {}
    found: list[tuple[str, str]] = []
    kinds = None
    for name, value in data.items():
        if type(value) in _PLAIN:  # texts, numbers and nothing hold no slip
            continue
        kinds = kinds or _kinds(cls)
        kind = kinds.get(name)
        if kind is None:
            continue
        # A piece is told first: asking for the first time whether a class is a mapping goes through all mappings.
        if _is_piece(value):
            if kind.many:
                alone[name] = (value,)
        else:
            found += _slips(cls, name, value, kind)
    return ({**data, **alone} if alone else data), found


def _slips(cls: type[Definition], name: str, value: Any, kind: _Kind) -> Iterator[tuple[str, str]]:
    if isinstance(value, list | tuple):
        for position, item in enumerate(value):
            if not _is_piece(item) and isinstance(item, Mapping):
                yield from _keys(f"{name}[{position}]", item)
    elif isinstance(value, set | frozenset):
        if name not in cls._unordered:
            yield name, "a set has another order in every process; write a list"
    elif isinstance(value, bool):
        if kind.number:
            yield name, f"must be a number, not {value}"
    elif isinstance(value, Mapping):
        yield from _keys(name, value)


def _keys(path: str, mapping: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    for key in mapping:
        if not isinstance(key, str):
            yield path, f"the key {shown(key)} is no text; write the names of a mapping as texts"
