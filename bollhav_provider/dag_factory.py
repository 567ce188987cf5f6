"""From model definitions to Airflow DAGs: ``build_dags("models", into=globals())``.

Reads definition files and nothing else: no database, no connection, no clock. Two builds of the same
definitions are equal, so that no new DAG version is made without a change.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from bollhav_provider.factory.load import folder_of, load


def build_dags(
    models: Any,
    *,
    into: MutableMapping[str, Any] | None = None,
    group_by: str = "model",
    select: str | None = None,
    schedule_by_assets: bool = False,
    bollhav_conn_id: str | None = None,
    dag_args: Mapping[str, Any] | None = None,
    default_args: Mapping[str, Any] | None = None,
    sensor_args: Mapping[str, Any] | None = None,
    execute_args: Mapping[str, Any] | None = None,
    asset_host: str | None = None,
    asset_database: str | None = None,
    tags: Sequence[str] = (),
    strict: bool = False,
) -> dict[str, Any]:
    """Build the DAGs of a set of models.

    A DAG file needs two lines::

        from bollhav_provider import build_dags
        build_dags("models", into=globals())  # an Airflow DAG file

    A model or file that cannot be built becomes a DAG of its own that says what is wrong; all others are
    built.

    Args:
        models: a folder or file of definitions, relative to the DAG file; or models, or a graph.
        into: the DAG file's ``globals()``, in which Airflow looks for DAGs.
        group_by: one DAG for each ``model`` (the default), ``tag`` (a model's first), ``schema``, or for
            ``all``. A group's models of another grain are a DAG of their own, joined to it through their
            state.
        select: which models, as an expression over tags such as ``"mart & not:slow"``; the others stay in
            the graph.
        schedule_by_assets: schedule windowed models, too, by their upstreams' assets instead of by the clock.
        bollhav_conn_id: Airflow connection of the library; as configured by default.
        dag_args: arguments of all DAGs, under the model's own; ``catchup`` is False unless said here.
        default_args: arguments of all tasks, under the model's own.
        sensor_args: arguments of all gates, under the model's own.
        execute_args: arguments of all executing tasks, under the model's own.
        asset_host: host, and port unless 5432, in the assets' URIs; as configured, ``bollhav``.
        asset_database: database in the assets' URIs; as configured, ``library``.
        tags: tags of all DAGs.
        strict: raise what is wrong instead of showing it as a DAG, for tests in CI.

    Returns:
        The DAGs by id; in a worker, the one that it is about to run.

    Raises:
        DefinitionError: with ``strict``, everything that is wrong.
    """
    namespace = into if into is not None and "__file__" in into else sys._getframe(1).f_globals
    with _collector_paused():
        from airflow.providers.common.compat.sdk import get_parsing_context

        from bollhav_provider.factory.build import Factory

        loaded = load(models, base=folder_of(namespace), select=select)
        if strict:
            loaded.require_good()
        factory = Factory.make(
            loaded,
            group_by=group_by,
            schedule_by_assets=schedule_by_assets,
            bollhav_conn_id=bollhav_conn_id,
            dag_args=dag_args,
            default_args=default_args,
            sensor_args=sensor_args,
            execute_args=execute_args,
            asset_host=asset_host,
            asset_database=asset_database,
            tags=tags,
        )
        dags = factory.build(get_parsing_context().dag_id)
    if into is not None:
        into.update({_variable(dag_id): dag for dag_id, dag in dags.items()})
    return dags


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the garbage collector from running.

    Next to nothing of what is made here becomes garbage, but making it would have the collector walk through all of
    Airflow, which takes about as long as building the one DAG that a worker needs.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _variable(dag_id: str) -> str:
    """Return a name for the DAG in the file's globals that no variable of the file can have."""
    return f"dag {dag_id}"
