"""How late the event loop of the triggerer is: a trigger that sleeps, and writes down how much too long it slept.

And what a crowd of triggers that are not the provider's does to it, for comparison: alarms that all ring at one moment.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import BaseOperator
from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent

#: Seconds of one sleep, and of what one line of the file is about.
_STEP, _LINE = 0.01, 0.5
#: Environment variable with the name of the file.
LAGS = "BENCHMARK_LAGS"
#: Environment variable with the moment at which alarms ring, in seconds since 1970; and how many alarms there are.
MOMENT, CROWD = "BENCHMARK_MOMENT", 300


async def write_lags(path: Path) -> None:
    """Append ``[wall clock, longest lag in seconds]`` to a file twice a second, for good."""
    with path.open("a", buffering=1) as file:
        began, worst = time.monotonic(), 0.0
        while True:
            before = time.monotonic()
            await asyncio.sleep(_STEP)
            now = time.monotonic()
            worst = max(worst, now - before - _STEP)
            if now - began > _LINE:
                file.write(json.dumps([time.time(), worst]) + "\n")
                began, worst = now, 0.0


class LagTrigger(BaseTrigger):
    """Watches the loop that it runs in; never fires."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "waiting_probe.LagTrigger", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await write_lags(Path(os.environ[LAGS]))
        yield TriggerEvent(None)


class LoopProbe(BaseOperator):
    """Sends :class:`LagTrigger` to the triggerer."""

    def execute(self, context: Any) -> None:
        self.defer(trigger=LagTrigger(), method_name="done")

    def done(self, context: Any, event: Any = None) -> None:
        """End."""


class Alarm(BaseTrigger):
    """The least that a trigger can do: sleeps, ends its task, writes no line."""

    def __init__(self, moment: float) -> None:
        super().__init__()
        self.moment = moment

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "waiting_probe.Alarm", {"moment": self.moment}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(self.moment - time.time())
        yield TaskSuccessEvent()


class AlarmClock(BaseOperator):
    """Sends an alarm to the triggerer: :class:`Alarm`, or Airflow's own trigger for a moment."""

    def __init__(self, *, plain: bool, number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plain = plain
        self.number = number

    def execute(self, context: Any) -> None:
        moment = float(os.environ[MOMENT])
        at = datetime.fromtimestamp(moment, UTC)
        trigger = Alarm(moment) if self.plain else DateTimeTrigger(moment=at, end_from_trigger=True)
        self.defer(trigger=trigger, method_name="done")

    def done(self, context: Any, event: Any = None) -> None:
        """End."""
