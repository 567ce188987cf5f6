"""Start commands under a guard, stop them, and turn a signal to ``./run`` into an orderly end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO

from tools import ROOT
from tools.console import Sentence
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
        _RUNNING.add(self)

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


#: Every guarded command that may still run.
_RUNNING: weakref.WeakSet[Guarded] = weakref.WeakSet()


def ask_all_to_stop() -> None:
    """Ask every command that runs to stop, whichever thread it belongs to, without waiting."""
    for process in list(_RUNNING):
        process.ask_to_stop()


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
    """Return a TCP port of this machine that nothing listens on, the preferred one if it is free.

    Until this process ends no other call returns it, in whichever checkout: what is to listen there starts much later.
    """
    # Below the ports that systems hand out by themselves: a connection that goes out takes none of these.
    others = random.sample(range(10_000, 32_768), 100)
    for port in [preferred, *others] if preferred else others:
        if _is_free(port) and _reserve(port):
            return port
    raise Sentence("100 of the TCP ports between 10000 and 32767 are all taken: stop what listens there.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


#: The locks of the ports that this process was given.
_RESERVED: list[int] = []


def _reserve(port: int) -> bool:
    """Lock the port's file, which all processes of this user share; the lock goes with the process."""
    directory = Path(tempfile.gettempdir()) / f"bollhav-ports-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(directory / str(port), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    _RESERVED.append(lock)
    return True
