"""The small values that a graph is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bollhav_provider.model import Model, Source, TableId

__all__ = ["Edge", "Injection", "Node", "ResolvedInput"]


class ResolvedInput(NamedTuple):
    """One thing that a source stands for.

    Attributes:
        source: the declared or inferred source.
        model: the model that makes it; None for a file, an API or inline data, and for a relation that no
            model here makes (another pipeline's, which the library knows, or a plain table).
        table: the relation, without suffix; None for what is no relation.
    """

    source: Source
    model: Model | None
    table: TableId | None


class Edge(NamedTuple):
    """One model reads, or waits for, another one."""

    upstream: Model
    downstream: Model
    source: Source


class Node(NamedTuple):
    """A model's place in a graph.

    Attributes:
        model: the model.
        enabled: False: a node that is read and ordered, and never written.
        upstreams: what each alias stands for.
        downstreams: the models that read or wait for it, in order of full name.
    """

    model: Model
    enabled: bool
    upstreams: Mapping[str, tuple[ResolvedInput, ...]]
    downstreams: tuple[Model, ...]


class Injection(NamedTuple):
    """How one parameter of an execute function is filled.

    Attributes:
        parameter: its name.
        kind: ``reserved`` (``run``, ``unit``, ``model``, ``conn``, ``context``) or ``upstream``.
        optional: None may come.
        many: a list comes.
        inferred: no declared source has this alias; the model of that name in the own schema is meant.
        inputs: what an ``upstream`` is filled with: at most one unless ``many``.
    """

    parameter: str
    kind: str
    optional: bool = False
    many: bool = False
    inferred: bool = False
    inputs: tuple[ResolvedInput, ...] = ()
