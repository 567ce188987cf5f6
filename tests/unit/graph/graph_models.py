"""Small models for the tests of the graph."""

from __future__ import annotations

from typing import Any

from bollhav_provider.graph import Graph
from bollhav_provider.model import (
    Batch,
    ChunkFlex,
    Materialization,
    Model,
    Source,
    State,
    Target,
    Temporality,
    TimeChunking,
)


def model(name: str, *upstream: Source | str, chunk: str | None = None, tz: str = "UTC", **options: Any) -> Model:
    """Return a model by its full name; ``orders`` alone is in schema ``shop``."""
    *before, table = name.split(".")
    catalog, schema = [None, "shop"] if not before else [None, *before] if len(before) == 1 else before
    sources = [Source(source) if isinstance(source, str) else source for source in upstream]
    options.setdefault("library", True)
    if any(source.is_gated for source in sources):
        options.setdefault("state", State())
    if chunk is not None:
        flexible = {"flexibility": ChunkFlex(attest="a test")} if options.pop("flexible", False) else {}
        options["batching"] = Batch(time=TimeChunking(chunk, tz=tz, **flexible))
        if flexible:
            options["target"] = Target(
                catalog=catalog, schema=str(schema), name=table, columns=[_at()], write_mode="recreate_partition"
            )
    options.setdefault("target", Target(catalog=catalog, schema=str(schema), name=table))
    return Model(upstream=sources, **options)


def _at() -> Any:
    from bollhav_provider.model import Column

    return Column("at", "timestamptz", nullable=False, partition_on=True)


def timeless(name: str, *upstream: Source | str, **options: Any) -> Model:
    """Return a timeless table."""
    return model(name, *upstream, temporality=Temporality.TIMELESS, **options)


def view(name: str, *upstream: Source | str) -> Model:
    """Return a view over its sources."""
    sources = [Source(source) if isinstance(source, str) else source for source in upstream]
    froms = ", ".join("{" + source.alias_name + "}" for source in sources) or "(VALUES (1)) AS one"
    query = f"SELECT 1 AS one FROM {froms}"  # noqa: S608  # a test's own text
    return model(name, *sources, materialization=Materialization.VIEW, query=query)


def names(found: Any) -> list[str]:
    """Return the full names of models, nodes' models or resolved inputs."""
    return [getattr(item, "full_name", None) or item.table.full_name for item in found]


def inputs(graph: Graph, name: str, alias: str) -> list[tuple[str, bool]]:
    """Return what an alias stands for: (relation, whether a model here makes it)."""
    return [(str(item.table), item.model is not None) for item in graph.upstreams(name)[alias]]


def only_problem(graph: Graph) -> tuple[str, str, str]:
    """Return the graph's one problem."""
    (problem,) = graph.errors
    return problem.model, problem.field, problem.message
