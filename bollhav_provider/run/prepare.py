"""The first step of a run: make the state a mirror of the contract and say which units are to be done."""

from __future__ import annotations

from bollhav_provider.graph import Graph
from bollhav_provider.model import Model
from bollhav_provider.run.connections import Connections
from bollhav_provider.run.results import Prepared
from bollhav_provider.run.spec import RunSpec


def prepare(connections: Connections, graph: Graph, model: Model, spec: RunSpec) -> Prepared:
    """Register the model, prefill its state, invalidate once, and list what is outstanding in the run's window."""
    raise NotImplementedError
