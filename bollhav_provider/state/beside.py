"""Work that would keep an event loop from everything else that runs in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
#: From how many gates on a look's work is worth a thread; it is about 0.05 ms a gate.
_MANY = 50
#: A thread for each event loop. The loop's own few are for everybody's log lines too, which may have to wait for long.
_threads: WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor] = WeakKeyDictionary()


async def beside_the_loop(many: int, work: Callable[[], T]) -> T:
    """Return what ``work`` returns, done in a thread where there is much of it, so that the event loop goes on.

    Args:
        many: how many gates it is about.
        work: touches no connection.
    """
    if many < _MANY:
        return work()
    loop = asyncio.get_running_loop()
    thread = _threads.get(loop)
    if thread is None:
        thread = _threads[loop] = ThreadPoolExecutor(1, "bollhav gates")
    return await loop.run_in_executor(thread, work)
