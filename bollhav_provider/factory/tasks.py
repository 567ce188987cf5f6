"""The tasks of one model: ``prefill``, then for each batch of units its gates and ``execute``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from bollhav_provider.factory.arguments import execute_arguments, fitting, merged, sensor_arguments, task_arguments
from bollhav_provider.factory.mapping import mapped_group
from bollhav_provider.factory.names import dag_id as task_id_of
from bollhav_provider.operators.execute import ExecuteOperator
from bollhav_provider.operators.prefill import PrefillOperator
from bollhav_provider.operators.run_keys import EXECUTE, PREFILL, UNIT
from bollhav_provider.sensors.upstream import UpstreamSensor
from bollhav_provider.version_compat import start_once_expanded

if TYPE_CHECKING:
    from bollhav_provider.graph import Graph
    from bollhav_provider.model import Model, Source

_LABEL = "{{ task.label }}"
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Options(NamedTuple):
    """What a factory call says about tasks.

    Attributes:
        bollhav_conn_id: Airflow connection of the library; None for the configured one.
        default_args: arguments of all tasks that take them, under the model's own.
        sensor_args: arguments of the gates, under the model's own.
        dag_ids: the DAG of each model that gets one, for links between them.
        execute_args: arguments of the executing tasks, under the model's own.
    """

    bollhav_conn_id: str | None = None
    default_args: Mapping[str, Any] = _NOTHING
    sensor_args: Mapping[str, Any] = _NOTHING
    dag_ids: Mapping[str, str] = _NOTHING
    execute_args: Mapping[str, Any] = _NOTHING


def model_tasks(
    model: Model, graph: Graph, asset: Any, options: Options, *, joined: frozenset[str] = frozenset()
) -> Any:
    """Make the tasks of a model in the DAG and task group that are open, and return (first, last).

    Args:
        model: the model.
        graph: resolves its upstreams.
        asset: the model's asset.
        options: what the factory call says.
        joined: full names of the upstreams that a task edge of the same DAG waits for already; their gates
            are checked in the claim, and need no sensor before it.
    """
    everywhere, own = options.default_args, task_arguments(model)
    conn_id = options.bollhav_conn_id or everywhere.get("bollhav_conn_id")
    shared: dict[str, Any] = {"model": model, "graph": graph, "bollhav_conn_id": conn_id}
    first_args = {"trigger_rule": model.airflow.trigger_rule} if model.airflow.trigger_rule else {}
    prefill = PrefillOperator(
        task_id=PREFILL,
        dag_ids=options.dag_ids,
        **shared,
        **merged({"trigger_rule": "none_failed"}, fitting(everywhere, PrefillOperator), own, first_args),
    )
    waited = {name: source for name, source in gates(model, graph).items() if name not in joined}
    bound = bound_tables(model, graph)

    patience = merged(fitting(everywhere, UpstreamSensor), own, options.sensor_args, sensor_arguments(model))
    work = merged(fitting(everywhere, ExecuteOperator), own, options.execute_args, execute_arguments(model))
    outlets = [*([asset] if asset is not None else []), *work.pop("outlets", ())]
    waits = {"when_closed": "skip" if patience.get("soft_fail") else "wait", "wait_timeout": patience.get("timeout")}

    def unit(units: Any) -> None:
        sensors = [
            UpstreamSensor(
                task_id=task_id_of(name),
                model=name,
                contract=source.contract or "exists",
                freshness=source.freshness,
                downstream=model,
                bound=bound,
                units=units,
                prefill_task_id=prefill.task_id,
                bollhav_conn_id=conn_id,
                upstream_dag_id=options.dag_ids.get(name),
                map_index_template=_LABEL,
                **patience,
            )
            for name, source in waited.items()
        ]
        execute = ExecuteOperator(
            task_id=EXECUTE,
            **shared,
            units=units,
            prefill_task_id=prefill.task_id,
            asset=asset,
            outlets=outlets,
            map_index_template=_LABEL,
            **merged(waits, work),
        )
        for task in (*sensors, execute):
            start_once_expanded(task)
        if sensors:
            sensors >> execute

    return prefill, mapped_group(UNIT, unit, prefill.output)


def gates(model: Model, graph: Graph) -> dict[str, Source]:
    """Return the gated upstreams by full name, in order of name; a source of several names is several gates."""
    found: dict[str, Source] = {}
    inputs = graph.upstreams(model)
    for source in model.gated:
        for resolved in inputs.get(source.alias_name, ()):
            if resolved.table is not None:
                found.setdefault(resolved.table.full_name, source)
    return {name: found[name] for name in sorted(found)}


def bound_tables(model: Model, graph: Graph) -> dict[str, tuple[Any, ...]]:
    """Return the tables that each alias of a gated source stands for."""
    inputs = graph.upstreams(model)
    return {s.alias_name: tuple(r.table for r in inputs.get(s.alias_name, ()) if r.table) for s in model.gated}
