"""The task group that is mapped over the batches of a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

_KEY = "units"


def mapped_group(group_id: str, fill: Callable[[Any], None], batches: Any) -> Any:
    """Make a task group, once for each of ``batches``, in the DAG and group that are open.

    It is what ``@task_group`` and ``expand`` make, made of their parts where Airflow has them in the known place. The
    decorator lives among all of Airflow's task decorators, and those cost each parse and each start of a task more
    than the DAG itself.

    Args:
        group_id: the group's id.
        fill: makes the group's tasks; it is given the stand-in for one batch, for a template field.
        batches: the output of the task that lists them.

    Returns:
        The group.
    """
    parts = _parts()
    if parts is None:
        return _decorated(group_id, fill, batches)
    group_class, expand_class, argument_class = parts
    expanded = expand_class({_KEY: batches})
    with group_class(group_id=group_id, expand_input=expanded, add_suffix_on_collision=True) as group:
        fill(argument_class(input=expanded, key=_KEY))
    return group


def _decorated(group_id: str, fill: Callable[[Any], None], batches: Any) -> Any:
    """Make the group by Airflow's decorator."""
    from airflow.providers.common.compat.sdk import task_group

    def unit(units: Any) -> None:
        fill(units)

    return task_group(group_id=group_id)(unit).expand(units=batches)


@cache
def _parts() -> tuple[Any, Any, Any] | None:
    """Return the classes of the group, of what it is mapped over and of one of those; None where they are not found."""
    try:
        from airflow.sdk.definitions._internal.expandinput import DictOfListsExpandInput, MappedArgument
        from airflow.sdk.definitions.taskgroup import MappedTaskGroup
    except ImportError:
        return None

    class Batch(MappedArgument):
        __slots__ = ()

        def __repr__(self) -> str:
            return "one batch"  # all that a serialised DAG shows of it

    return MappedTaskGroup, DictOfListsExpandInput, Batch
