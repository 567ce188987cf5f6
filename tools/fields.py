"""The table of the definition language's fields, ``docs/reference/fields.md``, out of the fields' own descriptions.

``python -m tools.fields`` writes the page; ``python -m tools.fields --check`` only says whether it is up to date.
"""

from __future__ import annotations

import sys
import types
import typing
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic_core import PydanticUndefined

from bollhav_provider import model as language
from bollhav_provider.model import Definition
from bollhav_provider.model.later import Later

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "fields.md"
#: In the order in which a reader meets them; classes that are not named come after these, by name.
FIRST = (
    "Model", "Target", "Column", "Index", "Staging", "Contract", "Batch", "TimeChunking", "ChunkFix", "ChunkFlex",
    "Source", "SourceModel", "SourceFile", "SourceApi", "SourceHardcoded", "Freshness", "State",
)  # fmt: skip
HEAD = """\
# Fields of the definition language

Every class that a definition is written with, with its fields, their types and defaults. All of them are imported from
`bollhav_provider.model`. This page is made from the descriptions in the code: `python -m tools.fields` writes it again.
An argument that is unknown, missing or of the wrong kind is refused with what to write instead.
"""


def classes() -> list[type[Definition]]:
    """Return the public classes of definitions that have fields."""
    found = {
        name: value
        for name in language.__all__
        if isinstance(value := getattr(language, name), type)
        and issubclass(value, Definition)
        and value is not Definition
    }
    names = [name for name in FIRST if name in found] + sorted(set(found) - set(FIRST))
    return [found[name] for name in names]


def page() -> str:
    """Return the page's whole text."""
    sections = [_section(cls) for cls in classes()]
    return "\n".join([HEAD, *sections, _words()])


def _section(cls: type[Definition]) -> str:
    cls.model_rebuild()
    rows = []
    for name, field in cls.model_fields.items():
        if name == "kind":
            continue  # tells one class from another in YAML; nobody writes it in Python
        shown = field.alias or name
        default = "**required**" if field.is_required() else _default(field)
        rows.append(f"| `{shown}` | {_cell(_kind(field))} | {default} | {_cell(field.description or '')} |")
    summary = " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split()).replace("``", "`")
    by_position = [f"`{name}`" for name in cls._positional]
    parts = [f"## {cls.__name__}", "", summary]
    if by_position:
        parts += ["", f"By position: {', '.join(by_position)}; everything else by name."]
    if rows:
        parts += ["", "| field | type | default | |", "|---|---|---|---|", *rows]
    return "\n".join([*parts, ""])


def _words() -> str:
    parts = ["## Words", "", "Fields that take one of several words take the member or its text.", "",
             "| | words |", "|---|---|"]  # fmt: skip
    for name in language.__all__:
        value = getattr(language, name)
        if isinstance(value, type) and issubclass(value, Enum):
            parts.append(f"| `{name}` | {', '.join(f'`{member.value}`' for member in value)} |")
    return "\n".join([*parts, ""])


def _default(field: Any) -> str:
    if field.default_factory is not None:
        maker = field.default_factory
        maker = getattr(maker, "__self__", maker)  # of a class
        return f"`{maker.__name__}()`" if isinstance(maker, type) and issubclass(maker, Definition) else "empty"
    value = field.default
    if value is None or value is PydanticUndefined:
        return ""
    if isinstance(value, Enum):
        return f"`{value.value}`"
    if isinstance(value, timedelta):
        return f"{value.days} days" if value == timedelta(days=value.days) else str(value)
    if value in ((), "", frozenset()):
        return "empty"
    return _cell(f"`{value}`" if isinstance(value, str) else f"`{value!r}`")


def _kind(field: Any) -> str:
    return _type(next((mark.kind for mark in field.metadata if isinstance(mark, Later)), field.annotation))


def _type(annotation: Any) -> str:
    """Return a type as a reader says it: the validators behind it are of no interest to them."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(next((mark.kind for mark in arguments[1:] if isinstance(mark, Later)), arguments[0]))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(one) for one in arguments if one is not type(None))
    if origin is Literal:
        return " or ".join(f"`{one}`" for one in arguments)
    if origin in (tuple, list, frozenset, set):
        inner = [one for one in arguments if one is not Ellipsis]
        return f"list of {_type(inner[0])}" if inner else "list"
    if origin is not None and isinstance(origin, type):
        return "mapping" if len(arguments) == 2 else _plain(origin)
    return _plain(annotation)


def _plain(annotation: Any) -> str:
    name = getattr(annotation, "__name__", str(annotation))
    if annotation is Any or annotation is object:
        return "any value"
    return {"FrozenDict": "mapping", "dict": "mapping", "Mapping": "mapping", "Bag": "mapping"}.get(name, f"`{name}`")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` return 1 when it is not what it would be."""
    if "--check" in arguments:
        current = PAGE.exists() and PAGE.read_text() == page()
        print("up to date" if current else f"{PAGE} is out of date: python -m tools.fields")
        return 0 if current else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
