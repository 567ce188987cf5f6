"""The deployment of the waiting benchmark: gates that wait in it, what its server and its triggerer's loop say."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import psycopg

ROOT = Path(__file__).resolve().parent.parent
DAGS = ROOT / "benchmarks" / "waiting_dags"
sys.path[:0] = [str(ROOT), str(DAGS)]

from waiting_models import BEGIN, audit, orders, report  # noqa: E402
from waiting_probe import CROWD, LAGS, MOMENT  # noqa: E402

from bollhav_provider import run as core  # noqa: E402
from bollhav_provider.graph import build_graph  # noqa: E402
from bollhav_provider.intervals import Interval, Unit  # noqa: E402
from bollhav_provider.model import Environment  # noqa: E402
from bollhav_provider.state import mark_applied  # noqa: E402
from bollhav_provider.testing.postgres import PostgresServer  # noqa: E402
from tools import LOCAL, VENV  # noqa: E402
from tools.demo.deployment import Deployment, deployment  # noqa: E402
from tools.demo.places import Places  # noqa: E402

__all__ = ["AFTER", "CROWD", "GATE", "MOMENT", "Scene", "day", "scene"]
GATE, AFTER = "unit.shop.orders", "unit.execute"
#: Gates of one run: each task reads the list of its run's units, as long as the run has gates.
_OF_A_RUN = 250
#: How many gates are the first model's, whose DAG goes on; the second's is paused once its gates wait.
_FIRST = 100
_SETTINGS = ("jit=off", "max_connections=200", "shared_preload_libraries=pg_stat_statements",
             "track_commit_timestamp=on")  # fmt: skip


@dataclass
class Scene:
    """A running deployment with gates that wait.

    Attributes:
        running: the deployment.
        server: a connection to the server, not to the library's database.
        metadata: a connection to Airflow's metadata.
        lags: the file that the probe in the triggerer writes.
        idle_lags: the same of a loop that nothing else runs in, in a process of its own.
        where: DAG, run and map index of each day's gate.
    """

    running: Deployment
    server: psycopg.Connection[Any]
    metadata: psycopg.Connection[Any]
    lags: Path
    idle_lags: Path
    where: dict[int, tuple[str, str, int]] = field(default_factory=dict)

    def until(self, look: Callable[[], Any], what: str, seconds: float = 300.0) -> Any:
        """Look until the answer is true, and return it.

        Raises:
            TimeoutError: it is not within so many seconds.
        """
        end = time.monotonic() + seconds
        while not (answer := look()):
            if time.monotonic() > end:
                states = self.metadata.execute("SELECT task_id, state, count(*) FROM task_instance GROUP BY 1, 2")
                raise TimeoutError(f"not within {seconds:.0f} s: {what}; tasks: {states.fetchall()}")
            time.sleep(0.2)
        return answer

    def one(self, query: str, *values: Any) -> Any:
        """Return the one value of a query on Airflow's metadata."""
        row = self.metadata.execute(query.encode(), values).fetchone()
        return row[0] if row else None

    def gates(self, state: str) -> int:
        """Return how many gates are in a state."""
        found: int = self.one(
            "SELECT count(*) FROM task_instance WHERE task_id = %s AND state = %s AND map_index >= 0", GATE, state
        )
        return found

    def wait_with(self, gates: int, *, workers: bool) -> float:
        """Make gates wait until there are so many, all of them days that were not asked for yet; returns the seconds.

        Args:
            gates: how many there shall be.
            workers: let Airflow's own workers start them, a process each; otherwise one process defers them all.
        """
        began = time.monotonic()
        self.slots("gates", 16 if workers else 0)
        new: dict[str, int] = {}
        while (first := len(self.where)) < gates:
            dag_id, most = ("mart.report", _FIRST) if first < _FIRST else ("mart.audit", gates)
            days = min(_OF_A_RUN, gates - first, most - first)
            window = {"since": day(first).isoformat(), "until": day(first + days).isoformat()}
            run_id = self.running.airflow.trigger(dag_id, window)
            self.where |= {first + index: (dag_id, run_id, index) for index in range(days)}
            new[dag_id] = new.get(dag_id, 0) + days
        if not workers:
            self.until(lambda: self.gates("scheduled") >= sum(new.values()), "all gates of the runs scheduled")
            for dag_id in new:
                self.defer(dag_id, GATE)
        self.until(lambda: self.gates("deferred") + self.gates("success") >= gates, f"{gates} gates wait", 900)
        self.until(lambda: self.triggers() >= self.gates("deferred"), "the triggerer has them all")
        if "mart.audit" in new:
            # waiting goes on; what the scheduler needs to look at as many tasks behind gates is not measured
            self.running.airflow.pause("mart.audit")
        return time.monotonic() - began

    def defer(self, dag_id: str, task_id: str, **variables: str) -> None:
        """Defer the scheduled instances of a task, in a process with these environment variables more."""
        command = [VENV / "bin" / "python", ROOT / "benchmarks" / "waiting_defer.py", DAGS / "waiting_dag.py"]
        with (self.running.logs / "defer.log").open("ab") as log:
            environment = self.running.environment | variables
            told = {"env": environment, "stdout": log, "stderr": subprocess.STDOUT, "check": True}
            subprocess.run([*command, dag_id, task_id], **told)

    def triggers(self, kind: str = "UpstreamTrigger") -> int:
        """Return how many triggers of a kind, those of gates by default, are some triggerer's."""
        query = "SELECT count(*) FROM trigger WHERE triggerer_id IS NOT NULL AND classpath LIKE '%%' || %s"
        found: int = self.one(query, kind)
        return found

    def slots(self, pool: str, slots: int) -> None:
        """Give a pool so many slots."""
        self.metadata.execute("UPDATE slot_pool SET slots = %s WHERE pool = %s", (slots, pool))

    def statements(self) -> int:
        """Return how many statements the library's database has executed, as its server counts them."""
        query = "SELECT coalesce(sum(calls), 0)::int FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid "
        row = self.server.execute((query + "WHERE d.datname = %s").encode(), (self._library(),)).fetchone()
        assert row is not None
        return int(row[0])

    def connections(self) -> int:
        """Return how many connections to the library's database are open."""
        query = b"SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
        row = self.server.execute(query, (self._library(),)).fetchone()
        assert row is not None
        return int(row[0])

    def _library(self) -> str:
        return str(psycopg.conninfo.conninfo_to_dict(self.running.dsn)["dbname"])

    def commit(self, days: list[int]) -> list[float]:
        """Write the upstream's rows of some days, one commit each; returns when the server committed each."""
        graph, connections = build_graph([orders]), core.DsnConnections(self.running.dsn)
        for at in days:
            spec = core.RunSpec(run=core.run_key(who="benchmark"), window=Interval(day(at), day(at + 1)))
            prepared = core.prepare(connections, graph, orders, spec)
            core.execute_units(connections, graph, orders, prepared.units, spec)
        # the row's last change is the one that made it applied
        query = "SELECT since, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 FROM z_bollhav."
        with self.running.connect() as conn:
            found = dict(conn.execute((query + orders.state_table).encode()).fetchall())
        return [found[day(at)] for at in days]

    def open_at_once(self, days: list[int]) -> float:
        """Make the upstream's days applied, all in one commit; returns when that was asked for."""
        units = [Unit(Interval(day(at), day(at + 1))) for at in days]
        asked = time.time()
        with self.running.connect() as conn:
            mark_applied(conn, orders, Environment(), units, core.run_key(who="benchmark"), "a crowd")
        return asked

    def started(self, at: int, task: str = AFTER) -> float | None:
        """Return when the task of a day's gate started, None while it has not."""
        dag_id, run_id, index = self.where[at]
        query = "SELECT extract(epoch FROM start_date)::float8 FROM task_instance "
        where = "WHERE dag_id = %s AND run_id = %s AND task_id = %s AND map_index = %s"
        found: float | None = self.one(query + where, dag_id, run_id, task, index)
        return found

    def waiting(self) -> list[int]:
        """Return the days whose gates wait."""
        query = "SELECT dag_id, run_id, map_index FROM task_instance WHERE task_id = %s AND state = 'deferred'"
        found = set(self.metadata.execute(query, (GATE,)).fetchall())
        return [at for at, instance in sorted(self.where.items()) if instance in found]

    def kill_triggerer(self) -> None:
        """SIGKILL, as the kernel does when memory is short."""
        for process in psutil.Process(self.running.processes["triggerer"].pid).children():
            process.kill()
        self.running.processes["triggerer"].wait(30)

    def lag(self, since: float, *, idle: bool = False) -> list[float]:
        """Return the longest lag of each half second since an instant, of the triggerer's loop or of the idle one."""
        lines = (self.idle_lags if idle else self.lags).read_text().splitlines()
        return [lag for at, lag in map(json.loads, filter(None, lines)) if at > since]


def day(number: int) -> Any:
    """Return the start of a day of both models."""
    return BEGIN + timedelta(days=number)


@contextlib.contextmanager
def scene(*, capacity: int, poll_interval: float, variables: Mapping[str, str] | None = None) -> Iterator[Scene]:
    """Start a server and a deployment, with the upstream known to the library and the probe in the triggerer.

    Args:
        capacity: how many triggers the triggerer takes.
        poll_interval: seconds between two looks at the gates, where no commit is announced.
        variables: further environment variables of every process.
    """
    logging.getLogger("bollhav_provider").setLevel(logging.WARNING)
    home = Path(tempfile.mkdtemp(prefix="bollhav-bench-"))
    server = PostgresServer(home / "postgres", settings=_SETTINGS)
    places = Places(LOCAL / "waiting")
    lags, idle = home / "lags", home / "idle-lags"
    home.chmod(0o711)
    more = {
        "PYTHONPATH": os.pathsep.join([str(DAGS), str(ROOT)]),
        LAGS: str(lags),
        "AIRFLOW__TRIGGERER__CAPACITY": str(capacity),
        "AIRFLOW__BOLLHAV__POKE_INTERVAL": str(poll_interval),
        **(variables or {}),
    }
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, home, True)
        stack.callback(server.destroy)
        dsn = server.start()
        told = {"server": dsn, "places": places, "variables": more, "dags": DAGS}
        running = stack.enter_context(deployment(days=1, say=lambda text: print(text, file=sys.stderr), **told))
        stack.enter_context(_idle_loop(idle))
        made = Scene(
            running,
            stack.enter_context(psycopg.connect(dsn, autocommit=True)),
            stack.enter_context(psycopg.connect(server.dsn(places.metadata), autocommit=True)),
            lags,
            idle,
        )
        made.server.execute("CREATE EXTENSION pg_stat_statements")
        for dag_id in running.airflow.dag_ids():
            running.airflow.pause(dag_id, False)
        for pool in ("gates", "after"):
            running.airflow.post("/pools", {"name": pool, "slots": 2})
        core.prepare(
            core.DsnConnections(running.dsn),
            build_graph([orders, report, audit]),
            orders,
            core.RunSpec(run=core.run_key(), window=Interval(day(0), day(1))),
        )
        running.airflow.trigger("loop")
        made.until(lambda: lags.exists() and lags.read_text(), "the probe runs in the triggerer", 90)
        yield made


@contextlib.contextmanager
def _idle_loop(path: Path) -> Iterator[None]:
    """Run an event loop that does nothing but sleep: what this machine itself is late by."""
    code = "import asyncio, pathlib, sys, waiting_probe as p; asyncio.run(p.write_lags(pathlib.Path(sys.argv[1])))"
    environment = {**os.environ, "PYTHONPATH": str(DAGS), "AIRFLOW_HOME": str(path.parent / "airflow")}
    process = subprocess.Popen([str(VENV / "bin" / "python"), "-c", code, str(path)], env=environment)
    try:
        yield
    finally:
        process.kill()
        process.wait()
