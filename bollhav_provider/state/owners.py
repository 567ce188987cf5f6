"""Who holds a claim, as text on the row, and whether that worker is known to be over."""

from __future__ import annotations

import functools
import hashlib
import os
import socket
import uuid
from pathlib import Path

_HOST = socket.gethostname()
#: What tells this machine's boot, and on it this container's process numbers, from every other (Linux).
_IDENTITY = ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid")


def new_owner() -> str:
    """Return a name for a new claim of this process: host, process number, machine and a unique part."""
    return f"{_HOST}:{os.getpid()}:{_machine()}{uuid.uuid4().hex[:12]}"


def is_over(owner: str) -> bool:
    """Return whether the process that made a claim is known not to exist any more.

    Only a process of this very machine and container can be looked up; of every other one nothing is known,
    and False is returned. A process number that was given to another process since looks alive as well.

    Args:
        owner: as the row has it.
    """
    _, number, token = owner.rsplit(":", 2) if owner.count(":") >= 2 else ("", "", "")
    machine = _machine()
    if not machine or not token.startswith(machine) or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is there and somebody else's
        return False
    return False


@functools.cache
def _machine() -> str:
    """Return eight hex digits for this boot and process namespace; empty where the system does not tell."""
    try:
        boot = Path(_IDENTITY[0]).read_text().strip()
        namespace = os.readlink(_IDENTITY[1])
    except OSError:
        return ""
    return hashlib.blake2b(f"{boot}|{namespace}".encode(), digest_size=4).hexdigest()
