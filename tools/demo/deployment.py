"""One PostgreSQL and one Airflow on this machine, for the demo and the end-to-end tests."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tools import ROOT, VENV, bootstrap
from tools.console import Sentence
from tools.demo import places
from tools.demo.client import Airflow
from tools.processes import Guarded, free_port

#: What an Airflow deployment consists of, and how long each may take to say goodbye.
_COMPONENTS = {"api-server": 8.0, "scheduler": 15.0, "dag-processor": 8.0, "triggerer": 8.0}
_USER = "admin"
#: Seconds until Airflow has to be up; a machine that is slower than that has another problem.
_PATIENCE = 240.0


@dataclass
class Deployment:
    """A running deployment.

    Attributes:
        dsn: connection string of the database with the library, its state and the models' tables.
        airflow: a client of its REST API.
        password: of the UI's user ``admin``.
        environment: what every process of the deployment was started with.
        processes: the components by name.
        logs: the directory of the components' output.
    """

    dsn: str
    airflow: Airflow
    password: str
    environment: dict[str, str]
    processes: dict[str, Guarded]
    logs: Path

    @property
    def url(self) -> str:
        """Address of the UI."""
        return self.airflow.url

    def check_alive(self) -> None:
        """Raise when a component has ended.

        Raises:
            Sentence: names the component and its log.
        """
        for name, process in self.processes.items():
            if (code := process.poll()) is not None:
                raise Sentence(f"{name} ended with exit code {code}: see {self.logs.relative_to(ROOT)}/{name}.log.")

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """Open a connection to the warehouse, in UTC."""
        conn = psycopg.connect(self.dsn, autocommit=True)
        conn.execute("SET TimeZone TO 'UTC'")
        return conn


@contextlib.contextmanager
def deployment(*, days: int, keep: bool = False, port: int | None = None,
               say: Callable[[str], None] = print, dags: Path = ROOT / "dags") -> Iterator[Deployment]:  # fmt: skip
    """Start everything, wait until it is healthy and has parsed the DAGs, and stop all of it at the end.

    Args:
        days: local days that the demo's contracts end after.
        keep: keep the databases at the end, and continue from those that were kept.
        port: of the UI; 8080 or a free one when None.
        say: is told what is being done.
        dags: folder of the DAG files.

    Raises:
        Sentence: something does not start, with the log that says why.
    """
    _fresh_directories(keep)
    with contextlib.ExitStack() as stack:
        say("Starting PostgreSQL")
        server = stack.enter_context(_server(keep))
        warehouse, metadata = (make_conninfo(server, dbname=name) for name in (places.WAREHOUSE, places.METADATA))
        _make_databases(server, keep)
        stack.callback(_drop_databases, server, keep)
        address = f"http://127.0.0.1:{free_port(port or 8080)}"
        environment = _environment(warehouse, metadata, address, dags, days)
        say("Preparing Airflow's metadata")
        _migrate(environment)
        say("Starting Airflow: api-server, scheduler, DAG processor, triggerer")
        processes: dict[str, Guarded] = {}
        stack.callback(_stop, processes)
        for name, grace in _COMPONENTS.items():
            log = places.LOGS / f"{name}.log"
            processes[name] = Guarded([VENV / "bin" / "airflow", name], environment=environment, log=log,
                                      grace=grace)  # fmt: skip
        password = places.keys()["password"]
        running = Deployment(
            warehouse, Airflow(address, _USER, password), password, environment, processes, places.LOGS
        )
        _wait_until_up(running)
        yield running


def _stop(processes: dict[str, Guarded]) -> None:
    for process in processes.values():
        process.ask_to_stop()
    for process in processes.values():
        process.stop()


def _fresh_directories(keep: bool) -> None:
    if not keep:
        shutil.rmtree(places.HOME, ignore_errors=True)
    shutil.rmtree(places.LOGS, ignore_errors=True)
    places.AIRFLOW_HOME.mkdir(parents=True, exist_ok=True)
    places.LOGS.mkdir()


@contextlib.contextmanager
def _server(keep: bool) -> Iterator[str]:
    """Yield the connection string of a server: the one that BOLLHAV_DSN names, or one of our own."""
    if given := os.environ.get("BOLLHAV_DSN"):
        yield given
        return
    server = places.demo_server()
    if not keep:
        server.destroy()
    log = places.LOGS / "postgres.log"
    command = [str(bootstrap.python_of_venv()), "-m", "tools.demo.hold_postgres", *(["--keep"] if keep else [])]
    with Guarded(command, environment=bootstrap.environment(), log=log, grace=30) as holder:
        deadline = time.monotonic() + 90
        while True:
            try:
                psycopg.connect(server.dsn(), connect_timeout=5).close()
                break
            except psycopg.OperationalError:
                if holder.poll() is not None or time.monotonic() > deadline:
                    raise Sentence(f"PostgreSQL did not start: {_last(log)}") from None
                time.sleep(0.1)
        yield server.dsn()


def _make_databases(server: str, keep: bool) -> None:
    try:
        with psycopg.connect(server, autocommit=True, connect_timeout=10) as conn:
            for name in (places.WAREHOUSE, places.METADATA):
                exists = conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
                if exists and not keep:
                    conn.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))
                if not exists or not keep:
                    conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    except psycopg.Error as error:
        names = f"{places.WAREHOUSE} and {places.METADATA}"
        raise Sentence(f"The demo cannot make its databases {names} on the server: {str(error).strip()}.") from None


def _drop_databases(server: str, keep: bool) -> None:
    """Take away what was made on a server that was given; our own goes as a whole."""
    if keep or not os.environ.get("BOLLHAV_DSN"):
        return
    with contextlib.suppress(psycopg.Error), psycopg.connect(server, autocommit=True, connect_timeout=10) as conn:
        for name in (places.WAREHOUSE, places.METADATA):
            conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _environment(warehouse: str, metadata: str, address: str, dags: Path, days: int) -> dict[str, str]:
    """Return the environment of every process of the deployment; nothing of another Airflow leaks into it."""
    keys = places.keys()
    passwords = places.AIRFLOW_HOME / "passwords.json"
    passwords.touch(mode=0o600)
    passwords.write_text(json.dumps({_USER: keys["password"]}))
    inherited = {k: v for k, v in bootstrap.environment().items() if not k.startswith(("AIRFLOW", "BOLLHAV_", "PG"))}
    ports = [str(free_port()) for _ in range(2)]
    options = {
        "core": {
            "dags_folder": str(dags),
            "executor": "LocalExecutor",
            "parallelism": "4",
            "load_examples": "False",
            "fernet_key": keys["fernet"],
            "simple_auth_manager_users": f"{_USER}:admin",
            "simple_auth_manager_passwords_file": str(passwords),
        },
        "database": {"sql_alchemy_conn": _sqlalchemy(metadata, "psycopg"),
                     "sql_alchemy_conn_async": _sqlalchemy(metadata, "asyncpg"),
                     "load_default_connections": "False"},
        "api": {"base_url": address, "host": "127.0.0.1", "port": address.rsplit(":", 1)[1], "secret_key": keys["api"]},
        "api_auth": {"jwt_secret": keys["jwt"]},
        "scheduler": {"scheduler_idle_sleep_time": "0.2"},
        "dag_processor": {"refresh_interval": "5", "min_file_process_interval": "5"},
        "logging": {"base_log_folder": str(places.LOGS / "tasks"),
                    "worker_log_server_port": ports[0], "trigger_log_server_port": ports[1]},
        "usage_data_collection": {"enabled": "False"},
        "bollhav": {"poke_interval": "2"},
    }  # fmt: skip
    made = {f"AIRFLOW__{s.upper()}__{o.upper()}": v for s, section in options.items() for o, v in section.items()}
    return inherited | made | {
        "AIRFLOW_HOME": str(places.AIRFLOW_HOME),
        "AIRFLOW_CONN_BOLLHAV_DEFAULT": json.dumps(_airflow_connection(warehouse)),
        "BOLLHAV_DSN": warehouse,
        "BOLLHAV_DEMO_DAYS": str(days),
    }  # fmt: skip


def _sqlalchemy(dsn: str, driver: str) -> str:
    """Return the URL of a connection string. Everything goes into the query: a host may be a socket's directory."""
    from sqlalchemy.engine import URL

    parts = conninfo_to_dict(dsn)
    host, port = str(parts.get("host") or "localhost"), str(parts.get("port") or "5432")
    socket = host.startswith("/")
    names = {"sslmode": "ssl"} if driver == "asyncpg" else {}
    known = {"host", "port", "user", "password", "dbname"}
    query = {names.get(k, k): str(v) for k, v in parts.items() if k not in known and k in {"sslmode", "sslrootcert"}}
    return URL.create(
        f"postgresql+{driver}",
        username=str(parts.get("user") or "") or None,
        password=str(parts["password"]) if parts.get("password") else None,
        host=None if socket else host,
        port=None if socket else int(port),
        database=str(parts["dbname"]),
        query=query | ({"host": host, "port": port} if socket else {}),
    ).render_as_string(hide_password=False)


def _airflow_connection(dsn: str) -> dict[str, object]:
    parts = conninfo_to_dict(dsn)
    named = {"host": "host", "port": "port", "user": "login", "password": "password", "dbname": "schema"}
    connection: dict[str, object] = {new: parts[old] for old, new in named.items() if parts.get(old)}
    if "port" in connection:
        connection["port"] = int(str(connection["port"]))
    extra = {k: v for k, v in parts.items() if k not in named}
    return connection | {"conn_type": "bollhav", "extra": extra}


def _migrate(environment: dict[str, str]) -> None:
    log = places.LOGS / "migrate.log"
    with Guarded([VENV / "bin" / "airflow", "db", "migrate"], environment=environment, log=log) as process:
        code = process.wait()
    if code:
        raise Sentence(f"airflow db migrate ended with exit code {code}: {_last(log)} (see {log.relative_to(ROOT)}).")


def _wait_until_up(running: Deployment) -> None:
    deadline = time.monotonic() + _PATIENCE
    wanted = {"metadatabase", "scheduler", "triggerer", "dag_processor"}
    while time.monotonic() < deadline:
        running.check_alive()
        health = running.airflow.health()
        if all(health.get(part) == "healthy" for part in wanted) and running.airflow.dag_ids():
            return
        if health.get("metadatabase") == "healthy" and (errors := running.airflow.import_errors()):
            raise Sentence(f"Airflow cannot import the DAG file: {errors[0].strip().splitlines()[-1]}")
        time.sleep(0.5)
    raise Sentence(
        f"Airflow was not up after {_PATIENCE:.0f} s (health: {running.airflow.health()}): "
        f"see {running.logs.relative_to(ROOT)}."
    )


def _last(log: Path) -> str:
    lines = (
        [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    )
    return lines[-1] if lines else "no output"
