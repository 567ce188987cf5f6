"""``Graph``: all models and what each of them reads (Semantics: dependencies between models).

Building is pure: no connection, no clock, nothing is executed. It is linear in the number of edges, does not
recurse, and gives an equal graph for the same models in whatever order.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from bollhav_provider.exceptions import DefinitionWarning, GraphError, Problem
from bollhav_provider.graph.granularity import behind_views, grain_problems
from bollhav_provider.graph.keys import KeyIndex, accepts
from bollhav_provider.graph.order import cycles, reachable, topological
from bollhav_provider.graph.origins import located, origin_of
from bollhav_provider.graph.relations import gate_warnings, name_problems
from bollhav_provider.graph.resolve import Resolution, resolve_model, upstream_models
from bollhav_provider.graph.types import Edge, Injection, Node, ResolvedInput

if TYPE_CHECKING:
    from bollhav_provider.model import Model, TableId

__all__ = ["Graph", "build_graph"]


def build_graph(models: Iterable[Model]) -> Graph:
    """Build the graph of models.

    Nothing is raised: a model that does not fit is set aside, with everything that is wrong with it in
    :attr:`Graph.errors`, and the others are built. :meth:`Graph.require_good` raises instead.

    Args:
        models: in any order; the same object may come more than once.
    """
    unique = {id(model): model for model in models}
    return Graph(unique.values())


class _Analysis:
    """What is known of a graph as a whole; made anew when a binding changes."""

    def __init__(self, graph: Graph) -> None:
        inputs = {name: found.inputs for name, found in graph._resolved.items()}
        everything = graph._by_name
        reads = {
            name: sorted({model.full_name for model in upstream_models(found)} & everything.keys())
            for name, found in inputs.items()
        }
        problems: dict[str, list[Problem]] = {name: list(found.problems) for name, found in graph._resolved.items()}
        for name, twins in graph._twins.items():
            problems[name].insert(0, Problem(name, "target", _two_targets(twins)))
        for members, path in cycles(reads):
            text = f"a cycle, each reads the next: {' -> '.join(path)}; remove one of these sources"
            for name in members:
                problems[name].append(Problem(name, "upstream", text))
        in_order = [everything[name] for name in topological(reads)]
        views = behind_views(in_order, inputs)
        for name, model in everything.items():
            problems[name].extend(grain_problems(model, inputs[name], views))
        for problem in name_problems(everything.values()):
            problems[problem.model].append(problem)

        for name, model in everything.items():
            for text in gate_warnings(model, inputs[name]):
                warnings.warn(text, DefinitionWarning, stacklevel=2)
        #: What is wrong, by full name; models without problems do not appear.
        self.problems = {
            name: tuple(located(problem, everything[name]) for problem in found)
            for name, found in problems.items()
            if found
        }
        #: What each good model reads among the good ones.
        self.reads = {
            name: [other for other in found if other not in self.problems]
            for name, found in reads.items()
            if name not in self.problems
        }
        #: What reads each good model among the good ones.
        self.readers: dict[str, list[str]] = {name: [] for name in self.reads}
        for name, found in self.reads.items():
            for other in found:
                self.readers[other].append(name)

    @cached_property
    def order(self) -> list[str]:
        """The good models, each after what it reads."""
        return topological(self.reads)


class Graph:
    """Models, what each reads, and in which order they come.

    Made by :func:`build_graph`. A model is given as itself, as its identity or as its full name everywhere.

    Attributes:
        models: the models that fit together, in order of full name; disabled ones are among them.
        errors: what is wrong with the others.
    """

    def __init__(self, models: Iterable[Model], *, read_only: Iterable[str] = ()) -> None:
        groups: dict[str, list[Model]] = {}
        for model in models:
            groups.setdefault(model.full_name, []).append(model)
        self._twins = {name: _sorted_twins(group) for name, group in groups.items() if len(group) > 1}
        first = {name: self._twins[name][0] if name in self._twins else group[0] for name, group in groups.items()}
        self._by_name: dict[str, Model] = {name: first[name] for name in sorted(first)}
        self._read_only = set(read_only)
        self._bound: dict[str, dict[str, tuple[Model, ...]]] = {}
        self._index = KeyIndex(self._by_name.values())
        self._resolved: dict[str, Resolution] = {
            name: resolve_model(model, self._index, {}) for name, model in self._by_name.items()
        }
        self._known: _Analysis | None = None

    @property
    def _analysis(self) -> _Analysis:
        if self._known is None:
            self._known = _Analysis(self)
        return self._known

    # What is there

    @property
    def models(self) -> tuple[Model, ...]:
        """The models that fit together, in order of full name."""
        return tuple(self._by_name[name] for name in sorted(self._analysis.reads))

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Everything that is wrong, in order of full name."""
        return tuple(problem for name in sorted(self._analysis.problems) for problem in self._analysis.problems[name])

    @property
    def rejected(self) -> Mapping[str, tuple[Problem, ...]]:
        """The models that do not fit, by full name, each with what is wrong with it."""
        return MappingProxyType({name: self._analysis.problems[name] for name in sorted(self._analysis.problems)})

    def require_good(self) -> Graph:
        """Return the graph itself, if every model fits.

        Raises:
            GraphError: with everything that is wrong.
        """
        if self.errors:
            raise GraphError(self.errors)
        return self

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Which model reads, or waits for, which; by the names of downstream, alias and upstream."""
        found = []
        for name in sorted(self._analysis.reads):
            for _, inputs in sorted(self._resolved[name].inputs.items()):
                for item in inputs:
                    if item.model is not None and item.model.full_name in self._analysis.reads:
                        found.append(Edge(item.model, self._by_name[name], item.source))
        return tuple(found)

    def node(self, model: Model | TableId | str) -> Node:
        """Return a model's place in the graph.

        Raises:
            GraphError: there is no such model, with the nearest one that there is.
        """
        name = self._name(model)
        return Node(self._by_name[name], self.is_enabled(name), self.upstreams(name), self.downstreams(name))

    def model(self, model: Model | TableId | str) -> Model:
        """Return the graph's own object for a model.

        Raises:
            GraphError: there is no such model.
        """
        return self._by_name[self._name(model)]

    def is_enabled(self, model: Model | TableId | str) -> bool:
        """Say whether a model is written: False for ``enabled=False`` and for the parents of a mini graph."""
        name = self._name(model)
        return name not in self._read_only and self._by_name[name].enabled

    # What reads what

    def upstreams(self, model: Model | TableId | str) -> Mapping[str, tuple[ResolvedInput, ...]]:
        """Return what each alias of a model stands for: relations, files, APIs and inline data.

        An optional source that matches nothing has no entries, one with ``many`` has them in order of full
        name.
        """
        return MappingProxyType(self._resolved[self._name(model)].inputs)

    def downstreams(self, model: Model | TableId | str) -> tuple[Model, ...]:
        """Return the models that read, or wait for, a model, in order of full name."""
        return tuple(self._by_name[name] for name in sorted(self._analysis.readers.get(self._name(model), ())))

    def ancestors(self, model: Model | TableId | str) -> tuple[Model, ...]:
        """Return everything that a model depends on, however far away, each after what it reads itself."""
        return self._closure(model, self._analysis.reads)

    def descendants(self, model: Model | TableId | str) -> tuple[Model, ...]:
        """Return everything that depends on a model, however far away, each after what it reads itself."""
        return self._closure(model, self._analysis.readers)

    def _closure(self, model: Model | TableId | str, follow: Mapping[str, list[str]]) -> tuple[Model, ...]:
        name = self._name(model)
        found = reachable([name], follow) - {name}
        return tuple(self._by_name[other] for other in self._analysis.order if other in found)

    def order(self) -> tuple[Model, ...]:
        """Return the models, each after all that it reads; by full name where that leaves a choice."""
        return tuple(self._by_name[name] for name in self._analysis.order)

    def injection(self, model: Model | TableId | str) -> dict[str, Injection]:
        """Return how the parameters of a model's execute function are filled, in their order."""
        name = self._name(model)
        inputs = self._resolved[name].inputs
        return {
            parameter.name: Injection(
                parameter.name,
                parameter.kind,
                parameter.optional,
                parameter.many,
                parameter.inferred,
                inputs.get(parameter.name, ()) if parameter.kind == "upstream" else (),
            )
            for parameter in self._by_name[name].parameters
        }

    # Parts

    def select(self, expression: str) -> tuple[Model, ...]:
        """Return the models whose tags match an expression such as ``finance & (daily | hourly) &
        not:legacy``.

        Raises:
            SelectionError: the expression cannot be read, with the column at which.
        """
        from bollhav_provider.graph.selection import selected

        return selected(self.models, expression)

    def mini(self, model: Model | TableId | str) -> Graph:
        """Return the graph of one model and its parents, in which only the model itself is enabled.

        What the model reads is what it reads here, explicit bindings included.
        """
        name = self._name(model)
        parents = {parent.full_name: parent for parent in upstream_models(self._resolved[name].inputs)}
        parents.pop(name, None)
        mini = Graph([self._by_name[name], *parents.values()], read_only=parents)
        # Taken over instead of resolved again: a wildcard would match less among fewer models.
        mini._resolved = {other: self._resolved[other] for other in mini._by_name if other in self._resolved}
        mini._bound = {other: dict(found) for other, found in self._bound.items() if other in mini._by_name}
        return mini

    # Binding by hand

    def bind(self, model: Model | TableId | str, alias: str, *models: Model) -> Graph:
        """Say by hand which models a source stands for, and return the graph.

        A source with ``many`` accumulates what it is bound to, call by call; a single one is replaced. What
        was bound by hand is never overwritten by what the key matches. Models that are not in the graph yet
        join it as nodes that are only read.

        Args:
            model: whose source.
            alias: the source's alias.
            models: what it stands for; none empties an optional source.

        Raises:
            GraphError: there is no such source, it takes one model only or none of this key, it would be left
                empty although it is required, or it would be the model itself.
        """
        name = self._name(model)
        owner = self._by_name[name]
        source = next((source for source in owner.inputs if source.alias_name == alias and source.is_relation), None)
        field = f"bind({alias!r})"
        if source is None:
            known = [source.alias_name for source in owner.inputs if source.is_relation]
            raise _error(name, field, f"there is no source with this alias; {_among(alias, known)}")
        if len(models) > 1 and not source.many:
            names = ", ".join(found.full_name for found in models)
            raise _error(name, field, f"the source takes one model, not {names}; give one, or write many=True")
        for found in models:
            if found.identity == owner.identity:
                raise _error(name, field, "the model would depend on itself; bind another one")
            if not accepts(owner, source, found.identity):
                keys = ", ".join(map(repr, source.keys))
                raise _error(
                    name,
                    field,
                    f"{found.full_name!r} is not what {keys} matches; add its name to the source's keys",
                )
            known_model = self._by_name.get(found.full_name)
            if known_model is not None and known_model is not found and known_model != found:
                raise _error(name, field, f"another definition of {found.full_name!r} is in the graph; bind that one")
        before = self._bound.get(name, {}).get(alias, ()) if source.many and models else ()
        bound = {found.full_name: found for found in (*before, *models)}
        if not bound and not source.optional:
            raise _error(name, field, "the source is required and would be empty; give a model, or write optional=True")
        self._join(models)
        self._bound.setdefault(name, {})[alias] = tuple(self._by_name[key] for key in sorted(bound))
        self._refresh(name)
        return self

    def unbind(self, model: Model | TableId | str, alias: str) -> Graph:
        """Forget what was bound by hand: the source stands again for what its key matches."""
        name = self._name(model)
        if self._bound.get(name, {}).pop(alias, None) is not None:
            self._refresh(name)
        return self

    def _join(self, models: Iterable[Model]) -> None:
        for found in models:
            name = found.full_name
            if name not in self._by_name:
                self._by_name[name] = found
                self._read_only.add(name)
                # It joins to be read: it neither brings its own upstreams nor changes what the keys of others
                # match.
                self._resolved[name] = Resolution({}, ())

    def _refresh(self, name: str) -> None:
        self._resolved[name] = resolve_model(self._by_name[name], self._index, self._bound.get(name, {}))
        self._known = None

    # Looking up and comparing

    def _name(self, model: Model | TableId | str) -> str:
        name = model if isinstance(model, str) else model.full_name
        if name not in self._by_name:
            raise _error(name, "graph", f"there is no such model; {_among(name, self._by_name)}")
        return name

    def __contains__(self, model: object) -> bool:
        name = model if isinstance(model, str) else getattr(model, "full_name", None)
        return name in self._by_name

    def __len__(self) -> int:
        return len(self._analysis.reads)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return (
            self._by_name == other._by_name
            and self._twins == other._twins
            and self._resolved == other._resolved
            and {name for name in self._by_name if not self.is_enabled(name)}
            == {name for name in other._by_name if not other.is_enabled(name)}
        )

    __hash__ = None  # type: ignore[assignment]  # bindings can change

    def __repr__(self) -> str:
        return f"<Graph of {len(self)} models, {len(self._analysis.problems)} rejected>"


def _sorted_twins(models: list[Model]) -> list[Model]:
    return sorted(models, key=lambda model: (origin_of(model) or "", model.fingerprint))


def _two_targets(models: list[Model]) -> str:
    places = [origin for model in models if (origin := origin_of(model))]
    where = f": {' and '.join(places)}" if len(places) == len(models) else ""
    return f"{len(models)} models have this target{where}; one table is made by one model: rename or remove"


def _error(model: str, field: str, message: str) -> GraphError:
    return GraphError([Problem(model, field, message)])


def _among(word: str, known: Iterable[str]) -> str:
    from bollhav_provider.model.base import did_you_mean

    names = sorted(known)
    if not names:
        return "there are none"
    hint = did_you_mean(word, names).removeprefix("; ")
    return hint or f"there are {', '.join(names[:20])}{' ...' if len(names) > 20 else ''}"
