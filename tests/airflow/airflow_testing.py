"""What the tests of Airflow's side do with it."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import sql

from bollhav_provider.model import Model


def airflow_connection(dsn: str, **more: Any) -> dict[str, Any]:
    """Return an Airflow connection of type ``bollhav`` for a DSN."""
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(dsn)
    return {
        "conn_type": "bollhav",
        "host": parts.get("host"),
        "port": int(str(parts.get("port") or 5432)),
        "login": parts.get("user"),
        "password": parts.get("password"),
        "schema": parts.get("dbname"),
        **more,
    }


def forget_connections() -> None:
    """Empty Airflow's cache of connections."""
    with contextlib.suppress(ImportError):
        from airflow.sdk.execution_time.cache import SecretCache

        SecretCache.reset()


def register(dag: Any) -> Any:
    """Write a DAG that a test built to the metadata; Airflow 3 runs no other."""
    from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS

    if not AIRFLOW_V_3_0_PLUS:
        return dag
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.collection import update_dag_parsing_results_in_db
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session

    DagBundlesManager().sync_bundles_to_db()
    dag.relative_fileloc = dag.relative_fileloc or "test.py"
    with create_session() as session:
        errors: dict[Any, str] = {}
        update_dag_parsing_results_in_db(
            "dags-folder", None, [LazyDeserializedDAG.from_dag(dag)], errors, None, set(), session=session
        )
        assert not errors, errors
    return dag


def published(dag: Any) -> Any:
    """Make a DAG known, so that a task can ask for a run of it."""
    from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS

    if not AIRFLOW_V_3_0_PLUS:
        from airflow.models.serialized_dag import SerializedDagModel

        dag.fileloc = __file__
        type(dag).bulk_write_to_db([dag])
        SerializedDagModel.write_dag(dag)
    return register(dag)


def states(dag_run: Any) -> dict[str, str]:
    """Return the states of a run's tasks: ``{"unit.execute[0]": "success"}``."""
    found = {}
    for ti in dag_run.get_task_instances():
        name = ti.task_id if ti.map_index < 0 else f"{ti.task_id}[{ti.map_index}]"
        found[name] = str(getattr(ti.state, "value", ti.state))
    return found


def execute(dsn: str, *statements: str) -> None:
    """Run statements."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())


def rows(dsn: str, query: str) -> list[tuple[Any, ...]]:
    """Return what a query gives, in UTC."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("SET TimeZone TO 'UTC'")
        return conn.execute(query.encode()).fetchall()


def state_rows(dsn: str, model: Model, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of a model's state rows, in order of time."""
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    query = sql.SQL("SELECT {} FROM z_bollhav.{} ORDER BY since").format(names, sql.Identifier(model.state_table))
    return rows(dsn, query.as_string())


def statuses(dsn: str, model: Model) -> dict[str, str]:
    """Return the status of each of a model's daily windows, by its day in UTC."""
    return {since.date().isoformat(): status for since, status in state_rows(dsn, model, "since", "status")}


def clear(dag_run: Any, *names: str) -> None:
    """Clear tasks of a run as the UI does: ``clear(dag_run, "unit.execute[1]")``."""
    from airflow.models.taskinstance import clear_task_instances
    from airflow.utils.session import create_session

    with create_session() as session:
        clear_task_instances([task_row(session, dag_run, name) for name in names], session)


def again(dag: Any, dag_run: Any, name: str) -> str:
    """Run one task of a run in this process as the scheduler would run it next; returns its state."""
    from airflow.sdk.definitions.dag import _run_task
    from airflow.utils.session import create_session

    with create_session() as session:
        ti = task_row(session, dag_run, name)
        ti.try_number += 1
        # The scheduler starts a cleared run again; before 3.3 a task of a run without a start cannot be started.
        ti.dag_run.start_date = ti.dag_run.start_date or datetime.now(UTC)
        session.commit()
        _run_task(ti=ti, task=dag.get_task(ti.task_id), run_triggerer=True)
        session.commit()
    with create_session() as session:
        state = task_row(session, dag_run, name).state
        return str(getattr(state, "value", state))


def task_row(session: Any, dag_run: Any, name: str) -> Any:
    """Return a task of a run in a session: ``task_row(session, dag_run, "unit.execute[1]")``."""
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import select

    task_id, _, index = name.partition("[")
    map_index = int(index.rstrip("]")) if index else -1
    query = select(TaskInstance).where(
        TaskInstance.dag_id == dag_run.dag_id,
        TaskInstance.run_id == dag_run.run_id,
        TaskInstance.task_id == task_id,
        TaskInstance.map_index == map_index,
    )
    return session.scalars(query).one()


def mark_success(dag_run: Any, name: str, person: str) -> None:
    """Mark a task success as the API server does for a person: audit log, state, listeners; or as the web server."""
    from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS

    if not AIRFLOW_V_3_0_PLUS:
        from airflow_2_requests import mark_in_request

        mark_in_request(dag_run, name, person=person)
        return
    from airflow.listeners.listener import get_listener_manager
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    with create_session() as session:
        ti = task_row(session, dag_run, name)
        session.add(Log("patch_task_instance", task_instance=None, owner=person, dag_id=ti.dag_id, run_id=ti.run_id))
        ti.set_state("success", session=session)
        get_listener_manager().hook.on_task_instance_success(previous_state=None, task_instance=ti)
