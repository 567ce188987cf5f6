"""The trigger that waits for gates to open. Holds a connection id and gate requests, nothing secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

# All that waiting needs is imported with this module, which the triggerer does beside its event loop, not in it.
from bollhav_provider import state as _state  # noqa: F401
from bollhav_provider.hooks import library as _library  # noqa: F401
from bollhav_provider.triggers.leaving import way_out
from bollhav_provider.triggers.questions import Questions
from bollhav_provider.triggers.shared import wait_for_gates
from bollhav_provider.version_compat import task_success_event


class UpstreamTrigger(BaseTrigger):
    """Wait until every requested gate is open, sharing one connection with all others that wait in this
    triggerer.

    Whoever is restarted elsewhere starts again from the same arguments: nothing is lost with the process.

    Args:
        conn_id: Airflow connection of the library; None for the configured one.
        poll_interval: seconds between two looks when no commit is announced.
        finish: end the task from here once the gates are open, without another start of a worker process.
        dsn_env_var: environment variable with the DSN of the library, where no connection leads to it.
        look_again: seconds after which the task is resumed with the gates still closed, to see whether there is
            somebody to wait for; None for never.
        env, watches, source, requests: what is waited for, as
            :class:`~bollhav_provider.triggers.questions.Questions` writes it.
    """

    def __init__(
        self,
        *,
        conn_id: str | None = None,
        poll_interval: float = 15.0,
        finish: bool = False,
        dsn_env_var: str | None = None,
        look_again: float | None = None,
        env: Mapping[str, Any] | None = None,
        watches: Sequence[Mapping[str, Any]] = (),
        source: str | None = None,
        requests: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.conn_id = conn_id
        self.poll_interval = poll_interval
        self.finish = finish
        self.dsn_env_var = dsn_env_var
        self.look_again = look_again
        self.env = dict(env or {})
        self.watches = [dict(watch) for watch in watches]
        self.source = source
        self.requests = [dict(request) for request in requests]

    def _asked(self) -> dict[str, Any]:
        return {"env": self.env, "watches": self.watches, "source": self.source, "requests": self.requests}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        how = {"conn_id": self.conn_id, "poll_interval": self.poll_interval, "finish": self.finish}
        if self.dsn_env_var is not None:
            how["dsn_env_var"] = self.dsn_env_var
        if self.look_again is not None:
            how["look_again"] = self.look_again
        return "bollhav_provider.triggers.upstream.UpstreamTrigger", how | self._asked()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        patience = asyncio.timeout(self.look_again)
        try:
            questions = Questions.from_json(self._asked())
            async with patience:
                answers = await wait_for_gates(
                    self.conn_id, questions, poll_interval=self.poll_interval, dsn_env_var=self.dsn_env_var
                )
        except Exception as exc:  # must not end the triggerer; the task says what happened
            if patience.expired():
                yield _event("look")
                return
            await way_out().say(partial(self.log.error, "waiting failed", exc_info=exc))
            yield _event("error", f"{type(exc).__name__}: {exc}")
            return
        if answers.hard:
            yield _event("hard", "; ".join(answers.hard))
            return
        if not answers.open:
            yield _event("doomed", "; ".join(answers.doomed))
            return
        # not from within the loop: Airflow's logs are a pipe that may be full
        await way_out().say(partial(self.log.info, "open: %s", ", ".join(questions.upstreams)))
        success = task_success_event() if self.finish else None
        yield success() if success is not None else _event("open")


def _event(status: str, reason: str = "") -> TriggerEvent:
    """Return the event that resumes the task, with everything that its resuming needs."""
    return TriggerEvent({"status": status, "reason": reason})  # type: ignore[no-untyped-call]
