"""Models written in YAML: one document, one model, with the same field names as in Python.

Two things are YAML's own: ``execute: package.module:function`` (or ``functions.py:function``, beside the
document) names the execute function, and ``query: orders.sql`` reads the query from a file beside the
document. ``model.schema.json`` in this package describes the documents to editors.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

from bollhav_provider.exceptions import DefinitionError, Problem
from bollhav_provider.model.documents import Document, read_documents
from bollhav_provider.model.loading import FromSource
from bollhav_provider.model.model import Model
from bollhav_provider.model.words import error_text, is_from_outside, shown

SUFFIXES = (".yaml", ".yml")
_PACKAGE = str(Path(__file__).parents[1]) + os.sep
#: The text of each file of functions that was imported, so that a changed one is imported again.
_texts: dict[str, bytes] = {}


def load_yaml(path: str | Path) -> list[Model]:
    """Read the models of a YAML file, in the order of its documents.

    Args:
        path: the file.

    Raises:
        DefinitionError: with everything that is wrong in all its documents; each problem begins with path and
            line.
        OSError: the file cannot be read.
    """
    models: list[Model] = []
    problems: list[Problem] = []
    for document in read_documents(Path(path)):
        try:
            models.append(_model(document))
        except DefinitionError as error:
            problems.extend(error.problems)
    if problems:
        raise DefinitionError(problems)
    return models


def _model(document: Document) -> Model:
    if not isinstance(document.data, dict):
        raise _error(
            document,
            "",
            "document",
            f"a model is a mapping of fields, not {type(document.data).__name__}; write target: and the rest",
        )
    data = {str(key): value for key, value in document.data.items()}
    execute = data.pop("execute", None)
    query = data.get("query")
    if isinstance(query, str) and _is_file(query):
        data["query"] = _read_query(document, query.strip())
    try:
        model = Model(**data)
    except DefinitionError as error:
        raise DefinitionError([_located(document, problem) for problem in error.problems]) from None
    if execute is not None:
        try:
            model.execute(_function(document, model.full_name, execute))
        except DefinitionError as error:
            raise DefinitionError([_located(document, problem, "execute") for problem in error.problems]) from None
    return model


def _located(document: Document, problem: Problem, where: str | None = None) -> Problem:
    if problem.model.startswith(f"{document.path}:"):
        return problem
    line = document.line_of(where or _path_in(document, problem.field))
    return Problem(f"{document.path}:{line}: {problem.model}", problem.field, problem.message)


def _path_in(document: Document, field: str) -> str:
    """Turn a path with names, ``target.columns['day'].type``, into one with positions, as the lines have it."""
    here: Any = document.data
    done, rest = "", field
    while rest:
        if rest.startswith("['") and "']" in rest:
            name, _, rest = rest[2:].partition("']")
            position = _position(here, name)
            if position is None:
                return done
            done, here = f"{done}[{position}]", here[position]
        else:
            part, rest = _first_part(rest)
            done += part
            try:
                key = part.strip(".[]")
                here = here[int(key) if part.startswith("[") else key]
            except (KeyError, IndexError, TypeError, ValueError):
                return done
    return done


def _first_part(rest: str) -> tuple[str, str]:
    start = 1 if rest[0] in ".[" else 0
    end = min((at for mark in ".[" if (at := rest.find(mark, start)) >= 0), default=len(rest))
    return rest[:end], rest[end:]


def _position(items: Any, name: str) -> int | None:
    if not isinstance(items, list):
        return None
    for position, item in enumerate(items):
        given = item.get("name") if isinstance(item, dict) else item
        if given == name or (isinstance(given, list) and given[:1] == [name]):
            return position
    return None


def _error(document: Document, where: str, field: str, message: str, name: str | None = None) -> DefinitionError:
    place = f"{document.path}:{document.line_of(where)}"
    return DefinitionError([Problem(f"{place}: {name}" if name else place, field, message)])


def _is_file(query: str) -> bool:
    text = query.strip()
    return text.lower().endswith(".sql") and "\n" not in text and not text.lower().startswith(("select ", "with "))


def _read_query(document: Document, name: str) -> str:
    path = document.path.parent / name.replace("\x00", "\\x00")
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no UTF-8, or no path"
        raise _error(
            document, "query", "query", f"{path}: {reason}; the path is taken from the document's folder"
        ) from None


def _function(document: Document, name: str, path: object) -> Callable[..., Any]:
    forms = "write 'package.module:function', or 'functions.py:function' for a file beside the document"
    if not isinstance(path, str) or path.count(":") != 1 or not all(path.split(":")):
        raise _error(document, "execute", "execute", f"{path!r} is no import path; {forms}", name)
    place, _, attribute = path.partition(":")
    try:
        module = (
            _module_of_file(document.path.parent / place) if place.endswith(".py") else importlib.import_module(place)
        )
    except BaseException as error:  # whatever the user's module raises is about that module
        if is_from_outside(error):
            raise
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if not frame.filename.startswith((_PACKAGE, "<frozen"))]
        at = f" ({theirs[-1].filename}:{theirs[-1].lineno})" if theirs else ""
        message = f"{shown(place)} cannot be imported: {error_text(error)}{at}; {forms}"
        raise _error(document, "execute", "execute", message, name) from error
    function: Any = module
    for part in attribute.split("."):
        try:
            function = getattr(function, part, None)
        except Exception:  # an attribute that is computed may fail at anything
            function = None
    if not callable(function):
        raise _error(document, "execute", "execute", f"{place!r} has no function {attribute!r}; {forms}", name)
    found: Callable[..., Any] = function
    return found


def _module_of_file(path: Path) -> Any:
    """Import a file once, under a name of its own, so that two files of one name do not meet."""
    path = path.resolve()
    name = f"_bollhav_functions_{path.stem}_{blake2b(os.fsencode(path), digest_size=6).hexdigest()}"
    text = blake2b(path.read_bytes()).digest() if path.is_file() else b""
    if name in sys.modules and _texts.get(name) == text:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path, loader=FromSource(name, str(path)))
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _texts[name] = text
    return module
