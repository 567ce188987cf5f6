"""Run one command and let nothing of it outlive whoever asked for it.

``python -m tools.guard [--signal NAME] [--grace SECONDS] [--again SECONDS] -- COMMAND...``

The guard leads a session of its own, so a Ctrl-C in the terminal reaches its parent alone, which decides. It stops
the command when it is told to (SIGTERM, SIGINT, SIGHUP) or when its standard input ends, a pipe that its parent holds
open: also a parent that was killed with SIGKILL takes everything along. Airflow's tasks and PostgreSQL leave the
process group that they were started in; they are found by session and, on Linux where the guard adopts orphans, by
descent.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def adopt_orphans() -> None:
    """Make this process the parent of its descendants whose parent dies (Linux; elsewhere nothing happens)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _all_pids() -> Iterator[int]:
    if Path("/proc/self/stat").exists():
        yield from (int(name) for name in os.listdir("/proc") if name.isdigit())
    else:
        listing = subprocess.run(["ps", "-A", "-o", "pid="], capture_output=True, text=True, check=False).stdout
        yield from map(int, listing.split())


def _descendants(root: int) -> set[int]:
    """Return every process below ``root``; empty where there is no /proc."""
    children: dict[int, list[int]] = {}
    for pid in _all_pids():
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
            children.setdefault(int(fields[1]), []).append(pid)
    found: set[int] = set()
    queue = list(children.get(root, ()))
    while queue:
        pid = queue.pop()
        if pid not in found:
            found.add(pid)
            queue.extend(children.get(pid, ()))
    return found


def session_members(session: int) -> set[int]:
    """Return the processes of a session."""
    found = set()
    for pid in _all_pids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == session:
                found.add(pid)
    return found


def kill_leftovers(session: int, root: int, spare: int, seconds: float = 10.0) -> None:
    """SIGKILL what is left of a session and of a process's descendants, until nothing is.

    Args:
        session: id of the session.
        root: process whose descendants are meant.
        spare: a process that stays: the caller.
        seconds: how long to try; a process in uninterruptible sleep cannot be killed sooner.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        left = (session_members(session) | _descendants(root)) - {spare}
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not left:
            return
        time.sleep(0.05)


def _wait(command: subprocess.Popen[bytes], reader: int) -> bool:
    """Wait for the command, the parent or a signal; return whether the command ended by itself."""
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        if not sys.stdin.closed:
            with contextlib.suppress(OSError, ValueError, PermissionError):
                selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        while True:
            if command.poll() is not None:
                return True
            for key, _ in selector.select(timeout=5.0):
                data = os.read(key.fd, 64)
                if key.fd != reader and not data:
                    return False
                if key.fd == reader and any(number in _STOPPING for number in data):
                    return False


def main(arguments: list[str] | None = None) -> int:
    """Run the command until it ends or must end; return its exit code, 128 + signal when it was ended by one."""
    parser = argparse.ArgumentParser(prog="tools.guard")
    parser.add_argument("--signal", default="TERM", help="what asks the command to stop")
    parser.add_argument("--grace", type=float, default=15.0, help="seconds until it is killed")
    parser.add_argument("--again", type=float, default=20.0, help="seconds until it is asked once more")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)

    if os.getsid(0) != os.getpid():
        os.setsid()
    adopt_orphans()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for number in (*_STOPPING, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(writer)

    command = subprocess.Popen(options.command, stdin=subprocess.DEVNULL, process_group=0)
    if not _wait(command, reader):
        end = time.monotonic() + options.grace
        # Once may not be enough: a test that tries what an interrupt does takes the one that is meant for all of them.
        while command.poll() is None and (left := end - time.monotonic()) > 0:
            with contextlib.suppress(OSError):
                os.killpg(command.pid, signal.Signals[f"SIG{options.signal}"])
            with contextlib.suppress(subprocess.TimeoutExpired):
                command.wait(min(left, options.again))
    ended = command.poll()
    kill_leftovers(os.getpid(), os.getpid(), os.getpid())
    code = ended if ended is not None else -signal.SIGKILL
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
