"""A deployment of Airflow 2.11 for the tests: scheduler with its DAG processor, triggerer and web server."""

from __future__ import annotations

import base64
import contextlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

from psycopg.conninfo import make_conninfo

from tools import ROOT
from tools.demo.client import Airflow
from tools.demo.configuration import USER, environment
from tools.demo.databases import databases, last_line
from tools.demo.deployment import Deployment
from tools.demo.places import Places
from tools.processes import Guarded, free_port

#: The command of the Airflow that the tests themselves run with.
AIRFLOW = Path(sys.executable).parent / "airflow"
#: What the deployment consists of.
_COMPONENTS = ("webserver", "scheduler", "triggerer")
#: Seconds to say goodbye in: nobody waits for what is still running.
_GRACE = 2.0
_HEALTHY = {"metadatabase", "scheduler", "triggerer"}
_PATIENCE = 240.0


class Airflow2(Airflow):
    """A client of Airflow 2's REST API, which takes name and password with every request."""

    root, health_path = "/api/v1", "/health"

    def trigger(self, dag_id: str, conf: dict[str, object] | None = None) -> str:
        """Start a run, whose interval is the last complete one before now, and return its id."""
        return str(self.post(f"/dags/{dag_id}/dagRuns", {"conf": conf or {}})["dag_run_id"])

    @property
    def login(self) -> dict[str, str]:
        """The fields of the form to log in with."""
        return self._login

    def _authorization(self) -> str:
        pair = f"{self._login['username']}:{self._login['password']}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"


class Page:
    """Airflow 2's UI, as a browser that is logged in.

    Args:
        client: of the same web server.
    """

    def __init__(self, client: Airflow2) -> None:
        self._url, login = client.url, client.login
        self._browser = build_opener(HTTPCookieProcessor())
        with self._browser.open(f"{self._url}/login/", timeout=30) as answer:
            found = re.search(r'name="csrf_token"[^>]*value="([^"]+)"', answer.read().decode())
        assert found is not None
        self._token = found.group(1)
        self.submit("/login/", **login)

    def submit(self, path: str, **fields: object) -> None:
        """Submit a form."""
        data = urlencode({**fields, "csrf_token": self._token}).encode()
        with self._browser.open(Request(self._url + path, data=data), timeout=30) as answer:
            answer.read()


@contextlib.contextmanager
def deployment_2(places: Places, dags: Path, server: str | None) -> Iterator[Deployment]:
    """Start everything, wait until it is healthy and has parsed the DAGs, and stop all of it at the end.

    Args:
        places: where it keeps what.
        dags: folder of the DAG files.
        server: connection string of a PostgreSQL server to use instead of starting one.
    """
    with contextlib.ExitStack() as stack:
        shutil.rmtree(places.home, ignore_errors=True)
        for path in (places.airflow_home, places.logs):
            path.mkdir(parents=True)
        places.home.chmod(0o711)  # the server's account passes through
        at = stack.enter_context(databases(places, server, keep=False))
        warehouse, metadata = (make_conninfo(at, dbname=name) for name in (places.warehouse, places.metadata))
        address = f"http://127.0.0.1:{free_port()}"
        env = environment(places, warehouse=warehouse, metadata=metadata, address=address, dags=dags, days=1)
        env |= _options(env, places, address) | {"PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"}
        password = places.keys()["password"]
        cli(env, "db", "migrate")
        person = ("--username", USER, "--firstname", "A", "--lastname", "B", "--email", "a@b.invalid")
        cli(env, "users", "create", "--role", "Admin", *person, "--password", password)

        def start(name: str) -> Guarded:
            return Guarded([AIRFLOW, name], environment=env, log=places.logs / f"{name}.log", grace=_GRACE)

        processes = {name: stack.enter_context(start(name)) for name in _COMPONENTS}
        # All are asked at once; each is waited for in its turn.
        stack.callback(lambda: [process.ask_to_stop() for process in processes.values()])
        client = Airflow2(address, USER, password)
        running = Deployment(warehouse, client, password, env, processes, places.logs, start)
        _wait_until_up(running)
        yield running


def cli(env: dict[str, str], *arguments: str) -> str:
    """Run the ``airflow`` command and return what it printed."""
    result = subprocess.run([AIRFLOW, *arguments], env=env, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    return result.stdout


def _options(env: dict[str, str], places: Places, address: str) -> dict[str, str]:
    """Return what Airflow 2 wants otherwise, or under another name."""
    keys = places.keys()
    options: dict[str, dict[str, Any]] = {
        # SQLAlchemy 1.4 knows no psycopg 3.
        "database": {
            "sql_alchemy_conn": env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].replace("+psycopg:", "+psycopg2:"),
        },
        "api": {"auth_backends": "airflow.providers.fab.auth_manager.api.auth.backend.basic_auth"},
        "webserver": {
            "base_url": address,
            "web_server_host": "127.0.0.1",
            "web_server_port": address.rsplit(":", 1)[1],
            "workers": 1,
            "secret_key": keys["api"],
            "warn_deployment_exposure": False,
        },
        "scheduler": {"min_file_process_interval": 5, "enable_health_check": False},
    }
    return {
        f"AIRFLOW__{section.upper()}__{option.upper()}": str(value)
        for section, values in options.items()
        for option, value in values.items()
    }


def _wait_until_up(running: Deployment) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        running.check_alive()
        health = running.airflow.health()
        if all(health.get(part) == "healthy" for part in _HEALTHY) and running.airflow.dag_ids():
            return
        time.sleep(0.5)
    told = {name: last_line(running.logs / f"{name}.log") for name in _COMPONENTS}
    raise AssertionError(f"Airflow was not up after {_PATIENCE:.0f} s (health: {running.airflow.health()}): {told}")
