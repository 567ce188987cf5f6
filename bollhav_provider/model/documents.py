"""Reading YAML documents together with the line on which each value stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from bollhav_provider.exceptions import DefinitionError, Problem


@dataclass(frozen=True)
class Document:
    """One YAML document.

    Attributes:
        path: the file.
        line: the line on which the document starts, from 1.
        data: the content.
        lines: the line of each value, by its dotted path: ``target.columns[0].type``.
    """

    path: Path
    line: int
    data: Any
    lines: dict[str, int] = field(default_factory=dict)

    def line_of(self, where: str) -> int:
        """Return the line of a path, or of the nearest value around it."""
        while where:
            if where in self.lines:
                return self.lines[where]
            where = re.sub(r"(\.[^.\[\]]*|\[[^\[\]]*\]|^[^.\[\]]+)$", "", where)
        return self.line


def read_documents(path: Path) -> list[Document]:
    """Read the documents of a YAML file; empty ones are left out.

    Dates and times stay text, since a definition reads them itself and YAML would drop their zone; ``22:00``
    is no number, and only ``true`` and ``false`` are booleans.

    Raises:
        DefinitionError: the file is no YAML, or a key is written twice.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DefinitionError(
            [Problem(str(path), "file", f"byte {error.start} is no UTF-8; save the file as UTF-8")]
        ) from None
    loader = _loader()(text)
    found: list[Document] = []
    try:
        while loader.check_node():
            node = loader.get_node()
            lines: dict[str, int] = {}
            problems = list(_walk(node, "", lines, path))
            if problems:
                raise DefinitionError(problems)
            data = loader.construct_document(node)
            if data is not None:
                found.append(Document(path, node.start_mark.line + 1, data, lines))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise DefinitionError(
            [Problem(where, "yaml", f"{error.problem or error.context}; correct the document")]
        ) from None
    except yaml.YAMLError as error:
        raise DefinitionError([Problem(str(path), "yaml", f"{error}; correct the document")]) from None
    finally:
        loader.dispose()
    return found


def _walk(node: Any, path: str, lines: dict[str, int], file: Path) -> Iterator[Problem]:
    import yaml

    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            where = f"{path}.{name}" if path else name
            lines[where] = line
            if name in seen:
                yield Problem(f"{file}:{line}", where, f"written twice, first on line {seen[name]}; keep one")
            seen[name] = line
            yield from _walk(value, where, lines, file)
    elif isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            yield from _walk(item, f"{path}[{position}]", lines, file)


@lru_cache(maxsize=1)
def _loader() -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """YAML 1.2's core schema: what looks like a date, a time or ``yes`` is text."""

    Loader.yaml_implicit_resolvers = {}
    for tag, pattern, first in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("null", r"~|null|Null|NULL|", "~nN\0"),
        ("int", r"[-+]?[0-9]+", "-+0123456789"),
        ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ):
        Loader.add_implicit_resolver(
            f"tag:yaml.org,2002:{tag}",
            re.compile(f"^(?:{pattern})$"),
            [*first.replace("\0", ""), *([""] if "\0" in first else [])],
        )
    Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
    Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)
    return Loader


def _construct_int(loader: Any, node: Any) -> int:
    return int(loader.construct_scalar(node))


def _construct_float(loader: Any, node: Any) -> float:
    return float(loader.construct_scalar(node))
