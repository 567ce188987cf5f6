"""One PostgreSQL and one Airflow on this machine, for the demo and the end-to-end tests."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from tools import ROOT, VENV
from tools.console import Sentence
from tools.demo.client import Airflow
from tools.demo.configuration import USER, environment
from tools.demo.databases import databases, last_line
from tools.demo.places import DEMO, Places
from tools.processes import Guarded, free_port

#: What an Airflow deployment consists of, and how many seconds each may take to say goodbye.
_COMPONENTS = {"api-server": 8.0, "scheduler": 15.0, "dag-processor": 8.0, "triggerer": 8.0}
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
        logs: the directory of the components' output and the tasks' logs.
        start: starts a component.
    """

    dsn: str
    airflow: Airflow
    password: str
    environment: dict[str, str]
    processes: dict[str, Guarded]
    logs: Path
    start: Callable[[str], Guarded]

    @property
    def url(self) -> str:
        """Address of the UI."""
        return self.airflow.url

    def restart(self, name: str) -> None:
        """Stop a component unless it has ended, and start it anew."""
        self.processes[name].stop()
        self.processes[name] = self.start(name)

    def check_alive(self) -> None:
        """Raise when a component has ended.

        Raises:
            Sentence: names the component and its log.
        """
        for name, process in self.processes.items():
            if (code := process.poll()) is not None:
                log = self.logs / f"{name}.log"
                raise Sentence(f"{name} ended with exit code {code}: {last_line(log)} (see {log}).")

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection to the warehouse: autocommit, UTC."""
        conn = psycopg.connect(self.dsn, autocommit=True)
        conn.execute("SET TimeZone TO 'UTC'")
        return conn


@contextlib.contextmanager
def deployment(
    *,
    days: int,
    places: Places = DEMO,
    server: str | None = None,
    keep: bool = False,
    port: int | None = None,
    say: Callable[[str], None] = print,
    dags: Path = ROOT / "dags",
    variables: Mapping[str, str] | None = None,
    grace: float | None = None,
) -> Iterator[Deployment]:
    """Start everything, wait until it is healthy and has parsed the DAGs, and stop all of it at the end.

    Args:
        days: local days that the demo's contracts end after.
        places: where it keeps what.
        server: connection string of a PostgreSQL server to use instead of starting one.
        keep: keep the databases at the end, and continue from those that were kept.
        port: of the UI; 8080 or a free one when None.
        say: is told what is being done.
        dags: folder of the DAG files.
        variables: further environment variables of every process, over the deployment's own.
        grace: seconds that each component gets to end by itself before it is killed with its tasks; as many as it may
            need to say goodbye when None.

    Raises:
        Sentence: something does not start, with the log that says why.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_alone(places))
        _fresh_directories(places, keep)
        say("Connecting to PostgreSQL" if server else "Starting PostgreSQL")
        at = stack.enter_context(databases(places, server, keep))
        warehouse, metadata = (make_conninfo(at, dbname=name) for name in (places.warehouse, places.metadata))
        address = f"http://127.0.0.1:{free_port(port or 8080)}"
        env = environment(places, warehouse=warehouse, metadata=metadata, address=address, dags=dags, days=days)
        env |= dict(variables or {})
        say("Preparing Airflow's metadata")
        _migrate(env, places.logs / "migrate.log")
        say("Starting Airflow: api-server, scheduler, DAG processor, triggerer")
        processes: dict[str, Guarded] = {}
        stack.callback(_stop, processes)
        start = partial(_start, env=env, logs=places.logs, grace=grace)
        for name in _COMPONENTS:
            processes[name] = start(name)
        password = places.keys()["password"]
        running = Deployment(warehouse, Airflow(address, USER, password), password, env, processes, places.logs, start)
        _wait_until_up(running)
        yield running


def _start(name: str, *, env: dict[str, str], logs: Path, grace: float | None) -> Guarded:
    command = [str(VENV / "bin" / "airflow"), name]
    allowed = _COMPONENTS[name] if grace is None else grace
    return Guarded(command, environment=env, log=logs / f"{name}.log", grace=allowed)


@contextlib.contextmanager
def _alone(places: Places) -> Iterator[None]:
    """Hold the directory's lock: two deployments in one place would share their server."""
    places.home.parent.mkdir(parents=True, exist_ok=True)
    with (places.home.parent / f"{places.home.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Sentence(f"Another deployment is running in {places.home}: stop it first.") from None
        yield


def _stop(processes: dict[str, Guarded]) -> None:
    for process in processes.values():
        process.ask_to_stop()
    for process in processes.values():
        process.stop()


def _fresh_directories(places: Places, keep: bool) -> None:
    if not keep:
        places.server().destroy()
        shutil.rmtree(places.home, ignore_errors=True)
    shutil.rmtree(places.logs, ignore_errors=True)
    for path in (places.airflow_home, places.logs):
        path.mkdir(parents=True, exist_ok=True)
    os.chmod(places.home, 0o711)  # the server's account passes through


def _migrate(env: dict[str, str], log: Path) -> None:
    with Guarded([VENV / "bin" / "airflow", "db", "migrate"], environment=env, log=log) as process:
        code = process.wait()
    if code:
        raise Sentence(f"airflow db migrate ended with exit code {code}: {last_line(log)} (see {log}).")


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
        f"Airflow was not up after {_PATIENCE:.0f} s (health: {running.airflow.health()}): see {running.logs}."
    )
