"""How late the event loop of the triggerer is: a trigger that sleeps, and writes down how much too long it slept."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

#: Seconds of one sleep, and of what one line of the file is about.
_STEP, _LINE = 0.01, 0.5
#: Environment variable with the name of the file.
LAGS = "BENCHMARK_LAGS"


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
