"""All models together: found in files, resolved against each other, ordered.

Pure: nothing here connects to anything, and building a graph executes no model.
Rule: Semantics, dependencies between models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bollhav_provider.graph.discovery import Discovery, DiscoveryError, discover
from bollhav_provider.graph.graph import Graph, build_graph
from bollhav_provider.graph.keys import accepts
from bollhav_provider.graph.types import Edge, Injection, Node, ResolvedInput

if TYPE_CHECKING:
    from bollhav_provider.graph.selection import Selection, parse_selection

#: What is imported when it is first touched, because a graph is made without it.
_LATER = frozenset({"Selection", "parse_selection"})

__all__ = [
    "Discovery",
    "DiscoveryError",
    "Edge",
    "Graph",
    "Injection",
    "Node",
    "ResolvedInput",
    "Selection",
    "accepts",
    "build_graph",
    "discover",
    "parse_selection",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bollhav_provider.graph import selection

    value = getattr(selection, name)
    globals()[name] = value
    return value
