"""What a task tells OpenLineage, where that provider is installed: the tables that it reads and the one that it writes.

Airflow's assets name the output alone, and neither they nor a query say what a function is given; the definition does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bollhav_provider.hooks.settings import deployment_settings
from bollhav_provider.operators.run_context import environment

if TYPE_CHECKING:
    from bollhav_provider.model.lineage import Lineage
    from bollhav_provider.operators.base import ModelOperator

#: What is no data outside the definition: rows that stand in it, and inputs that nobody knows.
_NO_DATASETS = ("hardcoded", "unknown")


def facets(task: ModelOperator) -> Any:
    """Return the task's ``OperatorLineage``; None where Airflow's OpenLineage provider is not installed."""
    try:
        from airflow.providers.openlineage.extractors import OperatorLineage
        from openlineage.client.event_v2 import Dataset
    except ImportError:
        return None
    found = lineage(task)
    inputs, outputs = (
        [Dataset(namespace=one.namespace, name=one.name) for one in side if one.kind not in _NO_DATASETS]
        for side in (found.inputs, found.outputs)
    )
    return OperatorLineage(inputs=inputs, outputs=outputs)


def lineage(task: ModelOperator) -> Lineage:
    """Return what a task's model reads and writes, under the addresses that its connections lead to.

    No connection is opened. The names are ``database.schema.table`` in ``postgres://host:port``.

    Raises:
        ConfigurationError: there is no such connection.
    """
    from bollhav_provider.hooks.library import LibraryHook
    from bollhav_provider.model.lineage import lineage_of

    model, settings = task.model, deployment_settings()
    connections = LibraryHook(task.bollhav_conn_id, settings=settings).connections()
    inputs = task.resolved_graph().upstreams(model)
    return lineage_of(
        model,
        environment(settings),
        *connections.target_place(model),
        tables={alias: tuple(one.table for one in found if one.table) for alias, found in inputs.items() if found},
        elsewhere={
            source.alias_name: connections.source_place(source, model)
            for source in (*model.upstream, *model.inferred)
            if source.is_relation and not connections.source_in_target(source, model)
        },
    )
