"""Reading YAML documents together with the line on which each value stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from bollhav_provider.exceptions import DefinitionError, Problem

_MERGE = "tag:yaml.org,2002:merge"
#: No definition has more; what has is a document of aliases of aliases.
_MOST_VALUES = 1_000_000
_MOST_DIGITS = 400


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
    is no number, and only ``true`` and ``false`` are booleans. Anchors, aliases and merge keys (``<<``) work as
    everywhere.

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
    loader: Any = None
    found: list[Document] = []
    try:
        loader = _loader()(text)
        while loader.check_node():
            node = loader.get_node()
            line = node.start_mark.line + 1
            lines: dict[str, int] = {}
            problems = list(_walk(node, lines, path))
            if problems:
                raise DefinitionError(problems)
            try:
                data = loader.construct_document(node)
            except (ValueError, TypeError, OverflowError) as error:  # what a tag promised is not there
                raise DefinitionError([Problem(f"{path}:{line}", "yaml", f"{error}; correct the document")]) from None
            if data is not None:
                found.append(Document(path, line, data, lines))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise DefinitionError(
            [Problem(where, "yaml", f"{error.problem or error.context}; correct the document")]
        ) from None
    except yaml.YAMLError as error:
        raise DefinitionError([Problem(str(path), "yaml", f"{' '.join(str(error).split())}; correct it")]) from None
    except RecursionError:
        raise DefinitionError([Problem(str(path), "yaml", "it is nested too deeply; write it flatter")]) from None
    finally:
        if loader is not None:
            loader.dispose()
    return found


def _walk(root: Any, lines: dict[str, int], file: Path) -> Iterator[Problem]:
    """Note the line of each value, and yield what YAML itself would let pass.

    What an alias repeats is not walked again: its values stand where they are written first.
    """
    import yaml

    if (problem := _expansion_problem(root)) is not None:
        yield Problem(f"{file}:{root.start_mark.line + 1}", "yaml", problem)
        return
    todo: list[tuple[Any, str]] = [(root, "")]
    seen: set[int] = set()
    while todo:
        node, path = todo.pop()
        lines.setdefault(path, node.start_mark.line + 1)
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            written: dict[str, int] = {}
            inner: list[tuple[Any, str]] = []
            for key, value in node.value:
                if key.tag == _MERGE:
                    inner.append((value, path))
                    continue
                name, line = str(key.value), key.start_mark.line + 1
                where = f"{path}.{name}" if path else name
                lines.setdefault(where, line)
                if name in written:
                    yield Problem(f"{file}:{line}", where, f"written twice, first on line {written[name]}; keep one")
                written[name] = line
                inner.append((value, where))
            todo += reversed(inner)
        elif isinstance(node, yaml.SequenceNode):
            todo += reversed([(item, f"{path}[{position}]") for position, item in enumerate(node.value)])


def _expansion_problem(root: Any) -> str | None:
    """Say that a document refers to itself, or is far larger than it is written, or None."""
    import yaml

    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()
    todo: list[tuple[Any, bool]] = [(root, False)]
    while todo:
        node, done = todo.pop()
        if isinstance(node, yaml.ScalarNode) or (not done and id(node) in sizes):
            sizes.setdefault(id(node), 1)
            continue
        pairs = isinstance(node, yaml.MappingNode)
        inner = [part for item in node.value for part in (item if pairs else (item,))]
        if done:
            open_nodes.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(part)] for part in inner)
            if sizes[id(node)] > _MOST_VALUES:
                return f"its aliases make it more than {_MOST_VALUES} values; write them out, or fewer"
        elif id(node) in open_nodes:
            return f"the anchor of line {node.start_mark.line + 1} holds itself; write values that end"
        else:
            open_nodes.add(id(node))
            todo.append((node, True))
            todo += [(part, False) for part in inner]
    return None


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
        ("merge", r"<<", "<"),
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
    text = loader.construct_scalar(node)
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits is more than anything here can hold")
    return int(text)


def _construct_float(loader: Any, node: Any) -> float:
    return float(loader.construct_scalar(node))
