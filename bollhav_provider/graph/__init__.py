"""All models together: found in files, resolved against each other, ordered.

Pure: nothing here connects to anything, and building a graph executes no model.
Rule: Semantics, dependencies between models.
"""

from __future__ import annotations

from bollhav_provider.graph.discovery import Discovery, DiscoveryError, discover
from bollhav_provider.graph.graph import Graph, build_graph
from bollhav_provider.graph.keys import accepts
from bollhav_provider.graph.selection import Selection, parse_selection
from bollhav_provider.graph.types import Edge, Injection, Node, ResolvedInput

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
