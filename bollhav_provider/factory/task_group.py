"""Models inside a DAG of one's own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import TaskGroup

from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.factory.build import Factory, joined_tasks
from bollhav_provider.factory.load import folder_of, load
from bollhav_provider.factory.names import group_id as group_id_of
from bollhav_provider.factory.tasks import model_tasks

if TYPE_CHECKING:
    from pathlib import Path


class ModelTaskGroup(TaskGroup):
    """Models as a task group of the DAG that is open, with task edges between them::

        with DAG("nightly", schedule=...):
            extract() >> ModelTaskGroup([orders, customers]) >> publish()

    Each model's run covers the DAG run's window, cut by the model's own contract and chunk. Upstreams outside the group
    are waited for by sensors.

    Args:
        models: a model, several, a graph, or a folder of definitions.
        group_id: id of the group; by default that of the one model, or ``models``.
        select: which of the models, as an expression over tags.
        base: the folder that a relative path is relative to; that of the DAG file by default.
        bollhav_conn_id: Airflow connection of the library; as configured by default.
        model_args: arguments of all tasks of the models, under the models' own.
        sensor_args: arguments of all gates, under the models' own.
        execute_args: arguments of all executing tasks, under the models' own.
        kwargs: what every task group takes.

    Raises:
        ConfigurationError: nothing is selected.
        DefinitionError: something is wrong with a definition; all of it.
    """

    def __init__(
        self,
        models: Any,
        *,
        group_id: str | None = None,
        select: str | None = None,
        base: Path | None = None,
        bollhav_conn_id: str | None = None,
        model_args: Mapping[str, Any] | None = None,
        sensor_args: Mapping[str, Any] | None = None,
        execute_args: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        loaded = load(models, base=base or folder_of(sys._getframe(1).f_globals), select=select)
        loaded.require_good()
        chosen = loaded.selected
        if not chosen:
            raise ConfigurationError(f"ModelTaskGroup: no model is selected by {select!r}." if select else
                                     "ModelTaskGroup: there is no model.")  # fmt: skip
        alone = len(chosen) == 1
        super().__init__(group_id=group_id or (group_id_of(chosen[0].full_name) if alone else "models"), **kwargs)
        factory = Factory.make(
            loaded,
            asset_host=None,
            asset_database=None,
            bollhav_conn_id=bollhav_conn_id,
            default_args=model_args,
            sensor_args=sensor_args,
            execute_args=execute_args,
            dag_args=None,
        )
        with self:
            if alone:
                model_tasks(chosen[0], loaded.graph, factory.assets.of(chosen[0]), factory.options)
            else:
                joined_tasks(chosen, factory)
