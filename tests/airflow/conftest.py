"""An Airflow of the tests' own: its home in a temporary directory, its metadata in SQLite, no scheduler."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow_testing import airflow_connection, forget_connections, register

HOME = Path(tempfile.mkdtemp(prefix="bollhav-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
# All of it must be said before Airflow is imported for the first time.
os.environ.update(
    {
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(HOME / "plugins"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW__OPENLINEAGE__DISABLED": "True",  # where it is installed: nobody listens to what it would tell
        "AIRFLOW__BOLLHAV__POKE_INTERVAL": "0.3",
        "AIRFLOW__BOLLHAV__RETRIES": "0",
    }
)
(HOME / "dags").mkdir()


@pytest.fixture(scope="session")
def airflow_db() -> None:
    """Airflow's metadata, made once."""
    from airflow.utils.db import initdb

    initdb()
    _keep_the_api_server()


def _keep_the_api_server() -> None:
    """Let ``dag.test`` use one API server in this process; before 3.3 it makes one for each task, in two seconds."""
    with contextlib.suppress(ImportError):
        from airflow.sdk.execution_time import supervisor

        if not hasattr(supervisor.in_process_api_server, "cache_info"):
            supervisor.in_process_api_server = functools.cache(supervisor.in_process_api_server)


@pytest.fixture
def library(db: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty library, which the connection ``bollhav_default`` leads to; its DSN."""
    monkeypatch.setenv("AIRFLOW_CONN_BOLLHAV_DEFAULT", json.dumps(airflow_connection(db)))
    forget_connections()
    return db


Run = Callable[..., Any]


@pytest.fixture
def run(airflow_db: None) -> Run:
    """Run a DAG once in this process: ``run(dag, "2024-01-02")`` for the data interval that *ends* there."""

    def run_dag(dag: Any, at: str | datetime | None = None, *, conf: dict[str, Any] | None = None, **more: Any) -> Any:
        from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS

        instant = datetime.fromisoformat(at).replace(tzinfo=UTC) if isinstance(at, str) else at
        when = {"logical_date" if AIRFLOW_V_3_0_PLUS else "execution_date": instant} if instant else {}
        return register(dag).test(run_conf=conf, **when, **more)

    return run_dag
