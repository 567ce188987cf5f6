"""The run parameter ``only``: one model of a DAG is written, its parents are read as they are.

Rule: Semantics, dependencies between models ("one model with its parents").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from bollhav_provider.operators.run_context import said_params

if TYPE_CHECKING:
    from bollhav_provider.operators.base import ModelOperator

#: How many of a DAG's models a message names.
_MOST_NAMES = 10


def respect_only(task: ModelOperator, context: Mapping[str, Any]) -> None:
    """Skip a model that the run is not to write, once it is sure that the DAG has the one that it is to.

    Args:
        task: the first task of a model's run.
        context: its context.

    Raises:
        AirflowSkipException: the run writes another model of the DAG alone.
        AirflowFailException: it names a model that the DAG does not hold. Every model would be skipped, and the run
            would be a success that did nothing.
    """
    only, mine = said_params(context).get("only"), task.model.full_name
    if not only or only == mine:
        return
    held = models_of(task)
    if only in held:
        raise AirflowSkipException(f"{mine}: the run is to write {only} alone.")
    dag = task.get_dag()
    where = f"the DAG {dag.dag_id}" if dag is not None else f"task {task.task_id}"
    raise AirflowFailException(
        f"the run's parameter only={only!r} names no model of {where}, which holds {_listed(held)}: nothing was done. "
        f"{_remedy(task, only, held)}"
    )


def models_of(task: ModelOperator) -> list[str]:
    """Return the full names of the models that have runs in the task's own DAG, in order."""
    from bollhav_provider.operators.prefill import PrefillOperator
    from bollhav_provider.operators.run_model import RunModelOperator

    found, dag = {task.model.full_name}, task.get_dag()
    for other in () if dag is None else dag.tasks:
        # one that is mapped keeps what all of its instances share
        kind = getattr(other, "operator_class", type(other))
        model = getattr(other, "model", None) or dict(getattr(other, "partial_kwargs", None) or {}).get("model")
        if model is not None and isinstance(kind, type) and issubclass(kind, PrefillOperator | RunModelOperator):
            found.add(model.full_name)
    return sorted(found)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _remedy(task: ModelOperator, only: Any, held: Iterable[str]) -> str:
    """Say where the model is at home, or what was probably meant."""
    from bollhav_provider.model.base import did_you_mean

    known = {model.full_name for model in task.resolved_graph().models}
    dag_ids: Mapping[str, str] = getattr(task, "dag_ids", {})
    if isinstance(only, str) and only in dag_ids:
        return f"It is made by the DAG {dag_ids[only]}: trigger that one."
    if only in known:
        return "It is a model of this deployment: trigger the DAG that holds it."
    return f"Give the full name of one of them, or leave it out{did_you_mean(str(only), sorted({*held, *known}))}."
