"""Where models were defined, for messages: remembered beside the models, which know nothing of files."""

from __future__ import annotations

import weakref
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bollhav_provider.exceptions import Problem
    from bollhav_provider.model import Model

__all__ = ["located", "origin_of", "remember"]


class _Origin(NamedTuple):
    path: Path
    name: str | None
    document: int | None


# By id, because equal definitions of two files are two models; the weak reference ends the entry with the
# model.
_origins: dict[int, tuple[weakref.ref[Model], _Origin]] = {}


def remember(model: Model, path: Path, *, name: str | None = None, document: int | None = None) -> None:
    """Remember a model's file, and its name in the module or its document's position. What is first stays."""
    key = id(model)
    if key not in _origins:
        _origins[key] = (weakref.ref(model, lambda _: _origins.pop(key, None)), _Origin(path, name, document))


def origin_of(model: Model) -> str | None:
    """Return ``path:line`` of a discovered model, ``path`` where the line is not known, or None."""
    entry = _origins.get(id(model))
    if entry is None:
        return None
    origin = entry[1]
    line: int | None = None
    if origin.name is not None:
        line = _lines(origin.path).get(origin.name)
    elif origin.document is not None:
        line = dict(enumerate(_document_lines(origin.path))).get(origin.document)
    return str(origin.path) if line is None else f"{origin.path}:{line}"


def located(problem: Problem, model: Model) -> Problem:
    """Return a problem whose message ends with where the model was defined, if that is known."""
    origin = origin_of(model)
    if origin is None or origin in problem.message:
        return problem
    return problem._replace(message=f"{problem.message} ({origin})")


@lru_cache(maxsize=256)
def _lines(path: Path) -> dict[str, int]:
    """Return the lines on which a module's names are assigned."""
    import ast

    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[str, int] = {}
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name):
                found[target.id] = statement.lineno
    return found


@lru_cache(maxsize=256)
def _document_lines(path: Path) -> tuple[int, ...]:
    """Return the lines on which a YAML file's documents begin."""
    from bollhav_provider.exceptions import DefinitionError
    from bollhav_provider.model.documents import read_documents

    try:
        return tuple(document.line for document in read_documents(path))
    except (OSError, DefinitionError):
        return ()
