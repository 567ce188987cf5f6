"""Start commands under a guard, stop them, and turn a signal to ``./run`` into an orderly end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO

from tools import ROOT
from tools.guard import kill_leftovers


class Guarded:
    """A command that runs under ``tools.guard``.

    Args:
        command: the program and its arguments.
        environment: its whole environment; this process's own when None.
        log: file that takes its output; None lets it through.
        stop_signal: name without SIG of what asks it to stop.
        grace: seconds it has to stop in before it is killed.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        log: Path | IO[bytes] | None = None,
        stop_signal: str = "TERM",
        grace: float = 15.0,
    ) -> None:
        self.name = Path(str(command[0])).name
        self._grace = grace
        guard = [sys.executable, "-m", "tools.guard", "--signal", stop_signal, "--grace", str(grace), "--"]
        with contextlib.ExitStack() as stack:
            output = stack.enter_context(log.open("ab")) if isinstance(log, Path) else log
            self._process = subprocess.Popen(
                [*guard, *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT if output else None,
                env=None if environment is None else dict(environment),
                cwd=ROOT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The guard's process id, which is the session's id as well."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self._process.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code."""
        return self._process.wait(timeout)

    def ask_to_stop(self) -> None:
        """Close the pipe that keeps it alive, without waiting."""
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def stop(self) -> None:
        """Stop it and everything it started; nothing is left when this returns."""
        self.ask_to_stop()
        try:
            self._process.wait(self._grace + 15)
        except subprocess.TimeoutExpired:
            kill_leftovers(self.pid, self.pid, os.getpid())
            self._process.wait()

    def __enter__(self) -> Guarded:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Stopped(BaseException):
    """A signal asked this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


@contextlib.contextmanager
def orderly_end() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into :class:`Stopped` once; later ones wait until what was started has ended."""

    def stop(number: int, _: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(number)

    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, stop)
    yield


def free_port(preferred: int | None = None) -> int:
    """Return a TCP port of 127.0.0.1 that nothing listens on, the preferred one if it is free."""
    for port in filter(None, (preferred, None)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
