"""The trigger that waits for gates to open. Holds a connection id and gate requests, nothing secret."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from bollhav_provider.version_compat import task_success_event


class UpstreamTrigger(BaseTrigger):
    """Wait until every requested gate is open, sharing one connection with all others that wait in this triggerer.

    Whoever is restarted elsewhere starts again from the same arguments: nothing is lost with the process.

    Args:
        conn_id: Airflow connection of the library; None for the configured one.
        env: the run's environment as JSON.
        requests: gate requests as JSON.
        poll_interval: seconds between two looks when no commit is announced.
        finish: end the task from here once the gates are open, without another start of a worker process.
    """

    def __init__(
        self,
        *,
        conn_id: str | None = None,
        env: Mapping[str, Any] | None = None,
        requests: Sequence[Mapping[str, Any]] = (),
        poll_interval: float = 15.0,
        finish: bool = False,
    ) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.env = dict(env or {})
        self.requests = [dict(request) for request in requests]
        self.poll_interval = poll_interval
        self.finish = finish

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "bollhav_provider.triggers.upstream.UpstreamTrigger",
            {
                "conn_id": self.conn_id,
                "env": self.env,
                "requests": self.requests,
                "poll_interval": self.poll_interval,
                "finish": self.finish,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from bollhav_provider.model import Environment
        from bollhav_provider.state import GateRequest
        from bollhav_provider.triggers.shared import wait_for_gates

        try:
            requests = [GateRequest.from_json(request) for request in self.requests]
            results = await wait_for_gates(
                self.conn_id, Environment.from_json(self.env), requests, poll_interval=self.poll_interval
            )
        except Exception as exc:  # must not end the triggerer; the task says what happened
            self.log.exception("waiting failed")
            yield TriggerEvent({"status": "error", "reason": f"{type(exc).__name__}: {exc}"})
            return
        hard = [result for result in results if result.hard]
        if hard:
            yield TriggerEvent({"status": "hard", "reason": "; ".join(result.reason for result in hard)})
            return
        self.log.info("open: %s", ", ".join(sorted({request.upstream for request in requests})))
        success = task_success_event() if self.finish else None
        yield success() if success is not None else TriggerEvent({"status": "open"})
