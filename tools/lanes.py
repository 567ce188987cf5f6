"""Jobs that run beside each other: each line of their output says whose it is, and an end of this process is theirs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from tools.processes import Guarded, ask_all_to_stop


class Ended(Protocol):
    """How a job ended."""

    @property
    def good(self) -> bool:
        """Whether it did what it should."""


E = TypeVar("E", bound=Ended)
#: Exit code of a command that was not started any more.
_STOPPED = 130


@dataclass
class Lane:
    """Where a job says what it does, and runs its commands.

    Args:
        name: of the job.
        alone: no other runs beside it: its output is let through as it is.
        stopping: set when nothing more is to be started.
    """

    name: str
    alone: bool
    stopping: threading.Event

    def say(self, text: str) -> None:
        """Print a line."""
        print(text if self.alone else f"{self.name:>12} | {text}", flush=True)

    def call(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> int:
        """Run a command and return its exit code.

        It is stopped by an interrupt, not by SIGTERM: pytest then tears its fixtures down, and with them the servers
        that they started.
        """
        if self.stopping.is_set():
            return _STOPPED
        reader, writer = (None, None) if self.alone else os.pipe()
        output = None if writer is None else os.fdopen(writer, "wb")
        try:
            process = Guarded(command, environment=environment, log=output, stop_signal="INT", grace=60)
        finally:
            if output:
                output.close()
        with process:
            if self.stopping.is_set():
                process.ask_to_stop()
            if reader is not None:
                with os.fdopen(reader, encoding="utf-8", errors="replace") as lines:
                    for line in lines:
                        self.say(line.rstrip())
            return process.wait()


class Lanes:
    """Run jobs, a few at a time.

    Args:
        beside: how many.
        stop_early: start no further one, and stop those that run, once one has ended badly.
    """

    def __init__(self, beside: int, stop_early: bool = False) -> None:
        self._beside = beside
        self._stop_early = stop_early

    def run(self, jobs: Mapping[str, Callable[[Lane], E]]) -> dict[str, E]:
        """Run them in their order and return how those that were started ended, by name; raises what they raise."""
        alone = self._beside == 1 or len(jobs) == 1
        stopping = threading.Event()
        with ThreadPoolExecutor(self._beside) as pool:
            futures = {pool.submit(job, Lane(name, alone, stopping)): name for name, job in jobs.items()}
            try:
                waiting: set[Future[E]] = set(futures)
                while waiting:
                    ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    if self._stop_early and not all(future.result().good for future in ended):
                        break
            finally:  # also when a signal asked this process to end
                stopping.set()
                for future in futures:
                    future.cancel()
                ask_all_to_stop()
        return {name: future.result() for future, name in futures.items() if not future.cancelled()}
