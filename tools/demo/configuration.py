"""The environment of every process of a deployment: Airflow's configuration, the connection, the demo's days."""

from __future__ import annotations

import json
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.engine import URL

from tools import bootstrap
from tools.demo.places import Places, write_secret
from tools.processes import free_port

#: The UI's one user.
USER = "admin"


def environment(
    places: Places, *, warehouse: str, metadata: str, address: str, dags: Path, days: int
) -> dict[str, str]:
    """Return the environment; nothing of another Airflow or PostgreSQL leaks into it.

    Args:
        places: of the deployment.
        warehouse: connection string of the database with library, state and tables.
        metadata: connection string of the database with Airflow's metadata.
        address: of the api-server.
        dags: folder of the DAG files.
        days: local days that the demo's contracts end after.
    """
    keys = places.keys()
    passwords = places.airflow_home / "passwords.json"
    write_secret(passwords, {USER: keys["password"]})
    options = {
        "core": {
            "dags_folder": str(dags),
            "executor": "LocalExecutor",
            "parallelism": "4",
            "load_examples": "False",
            "test_connection": "Enabled",
            "fernet_key": keys["fernet"],
            "simple_auth_manager_users": f"{USER}:admin",
            "simple_auth_manager_passwords_file": str(passwords),
            "default_task_retries": "2",
            "default_task_retry_delay": "5",
        },
        "database": {
            "sql_alchemy_conn": _sqlalchemy(metadata, "psycopg"),
            "sql_alchemy_conn_async": _sqlalchemy(metadata, "asyncpg"),
        },
        "api": {
            "base_url": address,
            "host": "127.0.0.1",
            "port": address.rsplit(":", 1)[1],
            "secret_key": keys["api"],
        },
        "api_auth": {"jwt_secret": keys["jwt"]},
        "scheduler": {"scheduler_idle_sleep_time": "0.2"},
        "dag_processor": {"refresh_interval": "5", "min_file_process_interval": "5"},
        "logging": {
            "base_log_folder": str(places.logs / "tasks"),
            "worker_log_server_port": str(free_port()),
            "trigger_log_server_port": str(free_port()),
        },
        "usage_data_collection": {"enabled": "False"},
        "bollhav": {"poke_interval": "2"},
    }
    made = {
        f"AIRFLOW__{section.upper()}__{option.upper()}": value
        for section, values in options.items()
        for option, value in values.items()
    }
    foreign = ("AIRFLOW", "BOLLHAV_", "PG")
    return {
        **{name: value for name, value in bootstrap.environment().items() if not name.startswith(foreign)},
        **made,
        "AIRFLOW_HOME": str(places.airflow_home),
        "AIRFLOW_CONN_BOLLHAV_DEFAULT": json.dumps(_connection(warehouse)),
        "BOLLHAV_DEMO_DAYS": str(days),
    }


def _sqlalchemy(dsn: str, driver: str) -> str:
    """Return the URL of a connection string for SQLAlchemy; a Unix socket's directory goes into its query."""
    parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value}
    host, port = parts.get("host", "localhost"), parts.get("port", "5432")
    socket = host.startswith("/")
    query = {"host": host, "port": port} if socket else {}
    if "sslmode" in parts:
        query["ssl" if driver == "asyncpg" else "sslmode"] = parts["sslmode"]
    url = URL.create(
        f"postgresql+{driver}",
        username=parts.get("user"),
        password=parts.get("password"),
        host=None if socket else host,
        port=None if socket else int(port),
        database=parts["dbname"],
        query=query,
    )
    return url.render_as_string(hide_password=False)


def _connection(dsn: str) -> dict[str, object]:
    """Return the Airflow connection of a connection string, as the JSON that AIRFLOW_CONN_... takes."""
    parts = conninfo_to_dict(dsn)
    named = {"host": "host", "user": "login", "password": "password", "dbname": "schema"}
    connection: dict[str, object] = {new: parts[old] for old, new in named.items() if parts.get(old)}
    if parts.get("port"):
        connection["port"] = int(str(parts["port"]))
    extra = {name: value for name, value in parts.items() if name not in {*named, "port"}}
    return connection | {"conn_type": "bollhav", "extra": extra}
