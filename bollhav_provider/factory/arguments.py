"""Arguments of DAGs and tasks: the model's own, over the factory's, over Airflow's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bollhav_provider.model import Model

_DAG = ("catchup", "max_active_runs", "max_active_tasks", "dagrun_timeout", "is_paused_upon_creation")
_TASK = (
    "retries",
    "retry_delay",
    "retry_exponential_backoff",
    "max_retry_delay",
    "queue",
    "priority_weight",
    "weight_rule",
    "executor",
)
#: Of the executing task alone: a gate or a prefill neither needs the room nor may take it from the work.
_EXECUTE = ("pool", "pool_slots", "execution_timeout")
_CALLBACKS = ("on_failure_callback", "on_success_callback", "on_retry_callback", "on_skipped_callback")


class ImportedCallback:
    """A callback that is imported when it is called, so that parsing a DAG file imports nothing for it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.__name__ = path.partition(":")[2]

    def __call__(self, context: Any) -> Any:
        module, _, name = self.path.partition(":")
        function: Any = import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        return function(context)

    def __repr__(self) -> str:
        return f"ImportedCallback({self.path!r})"


def dag_arguments(model: Model) -> dict[str, Any]:
    """Return what the model says about its DAG."""
    given = model.airflow.given()
    return {name: given[name] for name in _DAG if name in given} | thawed(model.airflow.dag_args)


def task_arguments(model: Model) -> dict[str, Any]:
    """Return what the model says about all of its tasks."""
    given = model.airflow.given()
    found: dict[str, Any] = {name: given[name] for name in _TASK if name in given}
    callbacks = {name: [ImportedCallback(p) for p in getattr(model.airflow, name)] for name in _CALLBACKS}
    found.update({name: calls for name, calls in callbacks.items() if calls})
    if model.people.owner:
        found["owner"] = model.people.owner
    if model.people.email:
        found["email"] = list(model.people.email)
        found.update(email_on_failure=False, email_on_retry=False)  # an address is no wish for mail
    return found


def execute_arguments(model: Model) -> dict[str, Any]:
    """Return what the model says about its executing task alone."""
    given = model.airflow.given()
    found: dict[str, Any] = {name: given[name] for name in _EXECUTE if name in given}
    if model.airflow.executor_config:
        found["executor_config"] = thawed(model.airflow.executor_config)
    return found | thawed(model.airflow.task_args)


#: What the factory itself says about each task.
_GIVEN = frozenset(
    ("task_id", "model", "graph", "bollhav_conn_id", "units", "prefill_task_id", "asset", "outlets", "dag_ids",
     "contract", "freshness", "downstream", "bound", "upstream_dag_id", "map_index_template")
)  # fmt: skip


def fitting(arguments: Mapping[str, Any], operator: type) -> dict[str, Any]:
    """Return those of the arguments of all tasks that an operator has a use for, as Airflow does with a DAG's
    ``default_args``: others may be meant for other operators.
    """
    if not arguments:
        return {}
    known = _parameters(operator)
    return {name: value for name, value in arguments.items() if name in known}


@cache
def _parameters(operator: type) -> frozenset[str]:
    from inspect import signature

    inits = [cls.__dict__["__init__"] for cls in operator.__mro__[:-1] if "__init__" in cls.__dict__]
    return frozenset(name for init in inits for name in signature(init).parameters) - {"self", "kwargs"} - _GIVEN


def sensor_arguments(model: Model) -> dict[str, Any]:
    """Return what the model says about its gates."""
    options = model.airflow
    said = {
        "mode": options.sensor_mode,
        "poke_interval": options.poke_interval.total_seconds() if options.poke_interval else None,
        "timeout": options.sensor_timeout.total_seconds() if options.sensor_timeout else None,
        "soft_fail": options.soft_fail,
    }
    return {name: value for name, value in said.items() if value is not None}


def thawed(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return frozen options as the plain dicts and lists that Airflow expects."""

    def plain(item: Any) -> Any:
        if isinstance(item, Mapping):
            return {key: plain(one) for key, one in item.items()}
        if isinstance(item, tuple):
            return [plain(one) for one in item]
        return item

    return {key: plain(item) for key, item in value.items()}


def merged(*layers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the layers over one another, the last on top."""
    result: dict[str, Any] = {}
    for layer in layers:
        result.update(layer or {})
    return result
