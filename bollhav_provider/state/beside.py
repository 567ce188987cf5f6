"""Work that would keep an event loop from everything else that runs in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
#: From how many gates on a look's work is worth a thread; it is about 0.05 ms a gate.
_MANY = 50


async def beside_the_loop(many: int, work: Callable[[], T]) -> T:
    """Return what ``work`` returns, done in a thread where there is much of it, so that the event loop goes on.

    Args:
        many: how many gates it is about.
        work: touches no connection.
    """
    return work() if many < _MANY else await asyncio.to_thread(work)
