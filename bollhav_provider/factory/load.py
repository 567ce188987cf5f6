"""From definition files to one graph, with everything that is broken set aside."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bollhav_provider.exceptions import DefinitionError, Problem

if TYPE_CHECKING:
    from bollhav_provider.graph import Graph
    from bollhav_provider.model import Model


@dataclass(frozen=True)
class Loaded:
    """Models that can be built, and what cannot.

    Attributes:
        graph: of all good models.
        selected: those that get a DAG, in order of their names.
        broken: what is wrong, by the name of the model or file.
    """

    graph: Graph
    selected: tuple[Model, ...]
    broken: Mapping[str, str] = field(default_factory=dict)

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
    from bollhav_provider.graph import Graph

    if isinstance(models, Graph):
        return Loaded(models, _selected(models, select))
    found, broken = _read(models, base)
    graph, misfits = _fitting(found)
    return Loaded(graph, _selected(graph, select), {**broken, **misfits})


def _read(models: Any, base: Path) -> tuple[list[Model], dict[str, str]]:
    """Return the models of paths and of everything else that was given, and the files that cannot be read."""
    from bollhav_provider.graph import discover
    from bollhav_provider.model import Model

    if isinstance(models, str | os.PathLike | Model):
        models = [models]
    found: list[Model] = []
    broken: dict[str, str] = {}
    for item in models:
        if isinstance(item, Model):
            found.append(item)
            continue
        path = Path(item)
        discovery = discover(path if path.is_absolute() else base / path)
        found += discovery.models
        for error in discovery.errors:
            broken[str(error.path)] = str(error)
    return found, broken


def _fitting(models: Iterable[Model]) -> tuple[Graph, dict[str, str]]:
    """Return the graph of the models that fit together, and what is wrong with the others."""
    from bollhav_provider.exceptions import GraphError
    from bollhav_provider.graph import build_graph

    left = list(models)
    broken: dict[str, str] = {}
    while True:
        try:
            return build_graph(left), broken
        except GraphError as exc:
            culprits = {problem.model for problem in exc.problems}
            rest = [model for model in left if model.full_name not in culprits]
            for problem in exc.problems:
                broken[problem.model] = "\n".join(filter(None, (broken.get(problem.model), str(problem))))
            if len(rest) == len(left):  # a problem of the whole: nothing can be built
                raise
            left = rest


def _selected(graph: Graph, select: str | None) -> tuple[Model, ...]:
    models = graph.select(select) if select else graph.models
    return tuple(sorted(models, key=lambda model: model.full_name))
