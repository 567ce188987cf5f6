"""From definition files to one graph, with everything that is broken set aside."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from bollhav_provider.exceptions import DefinitionError, Problem

if TYPE_CHECKING:
    from bollhav_provider.graph import DiscoveryError, Graph
    from bollhav_provider.model import Model

#: What a model is called by its table; what has none is called otherwise.
_FULL_NAME = re.compile(r"\w[^\s.]*(\.\w[^\s.]*){1,2}")


class Loaded(NamedTuple):
    """Models that can be built, and what cannot.

    Attributes:
        graph: of all good models.
        selected: those that get a DAG, in order of their names.
        broken: what is wrong, by the name of the model or file.
    """

    graph: Graph
    selected: tuple[Model, ...]
    broken: Mapping[str, str] = MappingProxyType({})

    def require_good(self) -> None:
        """Raise what is broken, all of it.

        Raises:
            DefinitionError: with one problem a broken model or file.
        """
        if self.broken:
            raise DefinitionError([Problem(name, "definition", text) for name, text in sorted(self.broken.items())])


def load(models: Any, *, base: Path, select: str | None = None) -> Loaded:
    """Load definitions.

    Args:
        models: a path, a model, a graph, or several of these.
        base: the folder that relative paths are relative to.
        select: expression over tags; the models that it does not match stay in the graph and get no DAG.
    """
    from bollhav_provider.graph import Graph, build_graph

    found, broken = ([], {}) if isinstance(models, Graph) else _read(models, base)
    graph = models if isinstance(models, Graph) else build_graph(found)
    misfits = {name: "\n".join(map(str, problems)) for name, problems in graph.rejected.items()}
    return Loaded(graph, _selected(graph, select), {**broken, **misfits})


def _read(models: Any, base: Path) -> tuple[list[Model], dict[str, str]]:
    """Return the models of paths and of everything else that was given, and what is wrong with the others."""
    from bollhav_provider.graph import discover
    from bollhav_provider.model import Model

    if isinstance(models, str | os.PathLike | Model):
        models = [models]
    found: list[Model] = []
    errors: list[DiscoveryError] = []
    for item in models:
        if isinstance(item, Model):
            found.append(item)
            continue
        path = Path(item)
        discovery = discover(path if path.is_absolute() else base / path)
        found += discovery.models
        errors += discovery.errors
    good = {model.full_name for model in found}
    broken: dict[str, str] = {}
    for error in errors:
        name = _broken_model(error, good) or _shown(error.path, base)
        broken[name] = "\n".join(filter(None, (broken.get(name), str(error))))
    return found, broken


def _broken_model(error: DiscoveryError, good: set[str]) -> str | None:
    """Return the one model that an error is about, if it has a name and no good model has the same."""
    names = {problem.model for problem in error.problems}
    name = names.pop() if len(names) == 1 else ""
    return name if _FULL_NAME.fullmatch(name) and name not in good else None


def folder_of(namespace: Mapping[str, Any]) -> Path:
    """Return the folder of the DAG file that these globals belong to: what relative paths are relative to."""
    file = namespace.get("__file__")
    return Path(file).resolve().parent if file else Path.cwd()


def _shown(path: Path, base: Path) -> str:
    """Return a file's path as it is named in the UI: the same on every machine where it can be."""
    try:
        return path.resolve().relative_to(base).as_posix()
    except ValueError:
        return path.as_posix()


def _selected(graph: Graph, select: str | None) -> tuple[Model, ...]:
    models = graph.select(select) if select else graph.models
    return tuple(sorted(models, key=lambda model: model.full_name))
