"""What the end-to-end tests ask of a deployment: its DAG runs and tasks over REST, its state and rows in PostgreSQL."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from psycopg import sql

from tools import VENV
from tools.demo import check, progress
from tools.demo.client import Airflow
from tools.demo.deployment import Deployment

T = TypeVar("T")
_NEW_YORK = ZoneInfo("America/New_York")


class Watch:
    """A deployment under test.

    Args:
        running: the deployment.
        days: local days of the demo's contracts.
    """

    def __init__(self, running: Deployment, days: int) -> None:
        self.running = running
        self.days = days

    @property
    def airflow(self) -> Airflow:
        """Its REST API."""
        return self.running.airflow

    @staticmethod
    def day(number: int) -> datetime:
        """Return the beginning of a local day of January 2013, in UTC."""
        return (datetime(2013, 1, 1, tzinfo=_NEW_YORK) + timedelta(days=number - 1)).astimezone(UTC)

    def dates(self, first: int, last: int) -> tuple[str, str]:
        """Return the logical dates of two local days of January 2013, as a backfill takes them."""
        return self.day(first).isoformat(), self.day(last).isoformat()

    def backfill(self, model: str, first: int, last: int) -> None:
        """Backfill local days of January 2013, both included."""
        self.airflow.backfill(model, *self.dates(first, last), at_once=7)

    def reprocess(self, model: str, first: int, last: int) -> None:
        """Backfill local days that were run before once more, as a person does on the command line."""
        self.airflow.wait_for_backfills(model)
        start, end = self.dates(first, last)
        self.cli(
            "backfill", "create", "--dag-id", model, "--reprocess-behavior", "completed",
            "--from-date", start, "--to-date", end,
        )  # fmt: skip

    def cli(self, *arguments: str) -> str:
        """Run the ``airflow`` command in the deployment's environment and return what it printed."""
        result = subprocess.run(
            [VENV / "bin" / "airflow", *arguments],
            env=self.running.environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def wait_for(self, what: str, look: Callable[[], T], seconds: float = 120.0) -> T:
        """Look once a second until the answer is true, and return it.

        Args:
            what: what is waited for, for the failure.
            look: the question.
            seconds: how long at most.
        """
        end = time.monotonic() + seconds
        while True:
            self.running.check_alive()
            answer = look()
            if answer:
                return answer
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds:.0f} s: {what}\n{self.account()}")
            time.sleep(1)

    def account(self) -> str:
        """Say how things stand, for a failure."""
        lines = []
        with self.running.connect() as conn:
            lines += [f"{name}: {counts}" for name, counts in sorted(progress.read_counts(conn).items())]
            lines += progress.blocked_reasons(conn) if lines else []
        states: dict[tuple[str, str], int] = {}
        for task in self.airflow.tasks():
            key = (f"{task['dag_id']} {task['task_id']}", str(task["state"]))
            states[key] = states.get(key, 0) + 1
        lines += [f"{name}: {number} {state}" for (name, state), number in sorted(states.items())]
        for task in self.airflow.tasks(state="failed")[:2]:
            lines += ["", f"log of {task['dag_id']} {task['task_id']}", *self.airflow.log(task).splitlines()[-30:]]
        return "\n".join(lines)

    def all_ended(self, *models: str) -> bool:
        """Return whether every run of these models has ended, and there is one of each."""
        runs = [self.airflow.runs(model) for model in models]
        return all(mine and all(run["state"] in ("success", "failed") for run in mine) for mine in runs)

    def registered(self) -> set[str]:
        """Return the names in the library."""
        with self.running.connect() as conn:
            return set(progress.read_counts(conn))

    def states(self, model: str, task_id: str) -> list[str]:
        """Return the states of all instances of a task."""
        return [str(task["state"]) for task in self.airflow.tasks(model) if task["task_id"] == task_id]

    def rows(self, query: sql.Composable, *parameters: object) -> list[Any]:
        """Return a query's rows."""
        with self.running.connect() as conn:
            return conn.execute(query.as_string(conn), parameters or None).fetchall()

    def state(self, model: str) -> dict[datetime | None, Any]:
        """Return a model's state rows by their beginning: until, status, blocked_reason, applied_at."""
        found = self.rows(
            sql.SQL("SELECT state_schema, state_table FROM z_bollhav.library WHERE full_name = {}").format(model)
        )
        if not found:
            return {}
        query = sql.SQL("SELECT since, until, status, blocked_reason, applied_at FROM {} ORDER BY since")
        rows = self.rows(query.format(sql.Identifier(*found[0])))
        return {since: State(*rest) for since, *rest in rows}

    def problems(self) -> list[str]:
        """Return what the demo's own check finds wrong."""
        with self.running.connect() as conn:
            return list(check.problems(conn, progress.read_counts(conn), self.days))


class State:
    """One row of a state table."""

    def __init__(self, until: datetime, status: str, reason: str | None, applied_at: datetime | None) -> None:
        self.until, self.status, self.reason, self.applied_at = until, status, reason, applied_at

    def __repr__(self) -> str:
        return f"<{self.status} until {self.until} {self.reason or ''}>"
