"""Rules that hold for every text of a definition, wherever it stands (Semantics: definitions).

A NUL byte fits into no PostgreSQL text, a lone surrogate into no UTF-8, and an empty text is what somebody who
meant to leave the argument out writes: ``dsn_env_var=""`` would quietly mean another database.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bollhav_provider.model.base import Definition, default_of

if TYPE_CHECKING:
    from bollhav_provider.model.base import Finding

_NO_TEXT = (type(None), bool, int, float)
#: Values of the user's own, which are data and no part of the language.
_DATA = frozenset({"rows", "extra", "headers", "params", "executor_config", "dag_args", "task_args"})


def text_problems(piece: Definition, path: str = "") -> Iterator[Finding]:
    """Yield what is wrong with the texts of a piece and of all pieces in it, as (field, message)."""
    given, values = piece.model_fields_set, piece.__dict__
    for name, default_is_fine in _fields(type(piece)):
        if default_is_fine and name not in given:
            continue
        value = values[name]
        kind = type(value)
        if kind is str:
            if value.isascii() and value.isprintable() and not value.isspace() and value:
                continue  # most are
            if (message := _problem(value, blank=name in piece._may_be_blank)) is not None:
                yield f"{path}.{name}" if path else name, message
            continue
        if kind in _NO_TEXT or issubclass(kind, Enum):
            continue
        where = f"{path}.{name}" if path else name
        if isinstance(value, Definition):
            yield from text_problems(value, where)
        elif isinstance(value, tuple):
            for position, item in enumerate(value):
                if isinstance(item, Definition):
                    yield from text_problems(item, f"{where}[{_label(name, item, position)}]")
                elif (message := _problem(item, blank=True)) is not None:
                    yield f"{where}[{position}]", message
        elif (message := _problem(value, blank=name in piece._may_be_blank)) is not None:
            yield where, message


@cache
def _fields(cls: type[Definition]) -> tuple[tuple[str, bool], ...]:
    """Return the fields to look at, and whether the default of each needs no look."""
    return tuple(
        (name, _is_fine(default_of(field), blank=name in cls._may_be_blank))
        for name, field in cls.model_fields.items()
        if name != "kind" and name not in _DATA
    )


def _is_fine(default: Any, *, blank: bool) -> bool:
    if isinstance(default, Definition):
        return next(text_problems(default), None) is None
    return default == () or (not isinstance(default, tuple) and _problem(default, blank=blank) is None)


def _label(field: str, item: Definition, position: int) -> str:
    """Name an item of a list as the other rules do."""
    name = getattr(item, "name", None)
    return repr(name) if field in ("columns", "upstream") and name else str(position)


def _problem(value: Any, *, blank: bool) -> str | None:
    if isinstance(value, Enum) or not isinstance(value, str | Path):
        return None
    text = str(value)
    if "\x00" in text:
        return "it holds a NUL byte, which no text of PostgreSQL can; remove it"
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        return "it holds half of a surrogate pair, which is no character; write the whole character"
    if not blank and isinstance(value, str) and not text.strip():
        return "it is empty; write something, or leave the argument out"
    return None
