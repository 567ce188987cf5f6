"""The parts of Airflow's REST API that the demo and the end-to-end tests use."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any


class ApiError(Exception):
    """Airflow answered with an error."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: {status} {body[:500]}")
        self.status = status


class Airflow:
    """A client of one api-server.

    Args:
        url: its address, without a path.
        user: the name to log in with.
        password: that user's password.
    """

    #: Where its resources are, and which of them tells how the components are.
    root, health_path = "/api/v2", "/monitor/health"

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url = url.rstrip("/")
        self._login = {"username": user, "password": password}
        self._token: str | None = None

    def get(self, path: str, **query: object) -> Any:
        """GET a path of the API."""
        suffix = f"?{urllib.parse.urlencode(query, doseq=True)}" if query else ""
        return self._call("GET", f"{self.root}{path}{suffix}")

    def delete(self, path: str) -> None:
        """DELETE a path of the API."""
        self._call("DELETE", f"{self.root}{path}")

    def post(self, path: str, body: object) -> Any:
        """POST JSON to a path of the API."""
        return self._call("POST", f"{self.root}{path}", body)

    def patch(self, path: str, body: object) -> Any:
        """PATCH a path of the API."""
        return self._call("PATCH", f"{self.root}{path}", body)

    def health(self) -> dict[str, str]:
        """Return the state of each component; empty while the server does not answer."""
        try:
            answer = self._call("GET", f"{self.root}{self.health_path}", token=False)
        except (ApiError, OSError):
            return {}
        return {name: str((part or {}).get("status")) for name, part in answer.items()}

    def dag_ids(self) -> set[str]:
        """Return the ids of all DAGs that were parsed."""
        return {dag["dag_id"] for dag in self.get("/dags", limit=500)["dags"]}

    def import_errors(self) -> list[str]:
        """Return the stack traces of DAG files that cannot be imported."""
        return [error["stack_trace"] for error in self.get("/importErrors")["import_errors"]]

    def pause(self, dag_id: str, paused: bool = True) -> None:
        """Pause or unpause a DAG."""
        self.patch(f"/dags/{_quote(dag_id)}", {"is_paused": paused})

    def trigger(self, dag_id: str, conf: dict[str, object] | None = None) -> str:
        """Start a run without an interval and return its id."""
        run = self.post(f"/dags/{_quote(dag_id)}/dagRuns", {"logical_date": None, "conf": conf or {}})
        return str(run["dag_run_id"])

    def backfill(self, dag_id: str, first: str, last: str, *, reprocess: str = "none", at_once: int = 10) -> int:
        """Start a backfill over logical dates, both included, once the DAG's last one is over, and return its id.

        Args:
            dag_id: the DAG.
            first: ISO 8601 instant.
            last: ISO 8601 instant.
            reprocess: ``none``, ``failed`` or ``completed``: which runs that exist are run again.
            at_once: how many runs may go on at the same time.
        """
        self.wait_for_backfills(dag_id)
        body = {"dag_id": dag_id, "from_date": first, "to_date": last, "max_active_runs": at_once,
                "reprocess_behavior": reprocess, "run_backwards": False, "dag_run_conf": {}}  # fmt: skip
        return int(self.post("/backfills", body)["id"])

    def wait_for_backfills(self, dag_id: str, seconds: float = 300.0) -> None:
        """Wait until no backfill of a DAG is going on: Airflow refuses a second one.

        One seems to go on for up to half a minute after its last run has ended: that is how often the scheduler looks.

        Args:
            dag_id: the DAG.
            seconds: how long at most.

        Raises:
            TimeoutError: one is still going on.
        """
        end = time.monotonic() + seconds
        while not all(found["completed_at"] for found in self._pages("/backfills", "backfills", dag_id=dag_id)):
            if time.monotonic() > end:
                raise TimeoutError(f"{dag_id} has a backfill that was not over within {seconds:.0f} s")
            time.sleep(1)

    def runs(self, dag_id: str = "~") -> list[dict[str, Any]]:
        """Return the runs of a DAG, or of all."""
        return list(self._pages(f"/dags/{_quote(dag_id)}/dagRuns", "dag_runs"))

    def tasks(self, dag_id: str = "~", run_id: str = "~", **query: object) -> list[dict[str, Any]]:
        """Return task instances, of one run or of all."""
        path = f"/dags/{_quote(dag_id)}/dagRuns/{_quote(run_id)}/taskInstances"
        return list(self._pages(path, "task_instances", **query))

    def log(self, task: dict[str, Any]) -> str:
        """Return the log of a task instance's last try as text."""
        path = (
            f"/dags/{_quote(task['dag_id'])}/dagRuns/{_quote(task['dag_run_id'])}/taskInstances/"
            f"{_quote(task['task_id'])}/logs/{max(task['try_number'], 1)}"
        )
        answer = self.get(path, map_index=task["map_index"])
        lines = (line if isinstance(line, str) else _log_line(line) for line in answer["content"])
        return "\n".join(lines)

    def _pages(self, path: str, key: str, **query: object) -> Any:
        offset = 0
        while True:
            page = self.get(path, limit=100, offset=offset, **query)
            yield from page[key]
            offset += len(page[key])
            if not page[key] or offset >= page["total_entries"]:
                return

    def _call(self, method: str, path: str, body: object = None, *, token: bool = True) -> Any:
        headers = {"Accept": "application/json"}
        if token:
            headers["Authorization"] = self._authorization()
        if body is not None:
            headers["Content-Type"] = "application/json"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise ApiError(method, path, error.code, error.read().decode(errors="replace")) from None
        return json.loads(text) if text else None

    def _authorization(self) -> str:
        return f"Bearer {self._token or self._authenticate()}"

    def _authenticate(self) -> str:
        for attempt in range(5):
            try:
                self._token = self._call("POST", "/auth/token", self._login, token=False)["access_token"]
                break
            except OSError:
                if attempt == 4:
                    raise
                time.sleep(1)
        return str(self._token)


def _quote(part: str) -> str:
    return urllib.parse.quote(part, safe="~")


def _log_line(entry: dict[str, Any]) -> str:
    extra = {k: v for k, v in entry.items() if k not in {"timestamp", "event", "level", "logger", "filename", "lineno"}}
    return f"{entry.get('timestamp', '')} {entry.get('level', ''):<8} {entry.get('event', '')} {extra or ''}".rstrip()
