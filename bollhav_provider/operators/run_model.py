"""One task that does a model's whole run, for DAGs of one's own that want no mapped groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import DecoratedOperator, task_decorator_factory

from bollhav_provider.operators.execute import ExecuteOperator
from bollhav_provider.operators.prefill import hand_on, prepare_run
from bollhav_provider.operators.run_context import run_settings
from bollhav_provider.operators.run_keys import WORK_KEY

if TYPE_CHECKING:
    from bollhav_provider.intervals import Unit
    from bollhav_provider.model import Model
    from bollhav_provider.run import Connections, RunSpec


class RunModelOperator(ExecuteOperator):
    """Prefill and work off a run of one model in one task: every unit with its own claim, gates and commit.

    Units whose gates are closed are waited for without a slot, and done when they open. The model's asset is an outlet
    of the task.

    Args:
        model: the model.
        kwargs: as of :class:`ExecuteOperator`, without units.
    """

    template_fields: Sequence[str] = ()

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("trigger_rule", "all_success")
        if kwargs.get("asset") is None and (model := kwargs.get("model")) is not None:
            from bollhav_provider.factory.assets import Assets

            kwargs["asset"] = asset = Assets.configured().of(model)
            kwargs["outlets"] = [*(kwargs.get("outlets") or ()), asset]
        super().__init__(**kwargs)

    def _plan(self, context: Mapping[str, Any], connections: Connections) -> tuple[RunSpec, list[Unit]]:
        spec, units = prepare_run(self, context, run_settings(context))
        # What is outstanding in a window can be looked up; what there was nothing of cannot be told from it.
        hand_on(self, context, WORK_KEY, spec, units=None if units else [])
        return spec, list(units)


class _BollhavDecorated(DecoratedOperator, RunModelOperator):
    """``@task.bollhav``: the decorated function computes the model's rows."""

    custom_operator_name = "@task.bollhav"
    template_fields: Sequence[str] = ()
    template_fields_renderers: ClassVar[dict[str, str]] = {}

    def execute(self, context: Mapping[str, Any]) -> Any:
        return RunModelOperator.execute(self, context)


def bollhav_task(python_callable: Callable[..., Any] | None = None, *, model: Model, **kwargs: Any) -> Any:
    """Make a task of a function that computes a model's rows::

        @task.bollhav(model=orders)
        def load(unit: Unit, customers: Upstream) -> pl.DataFrame: ...

        load()

    The function's parameters are filled as those of ``@model.execute`` are; the task's run is the run of the model.

    Args:
        python_callable: the function.
        model: the model, which has neither a query nor an execute function yet.
        kwargs: what :class:`RunModelOperator` takes.

    Raises:
        DefinitionError: a parameter of the function cannot be filled.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        model.execute(function)

        def named() -> None:
            """Airflow binds a task's arguments when the DAG is written; the model's are known when a unit runs."""

        named.__name__, named.__doc__ = function.__name__, function.__doc__
        return task_decorator_factory(
            python_callable=named, decorated_operator_class=_BollhavDecorated, model=model, **kwargs
        )

    return decorate if python_callable is None else decorate(python_callable)
