"""The way out of an event loop's waiting room: those whose wait is over leave as fast as Airflow can see them off.

Airflow writes a few lines for each trigger that ends into a pipe. Its supervisor reads 4 KB of it, about three
triggers' worth, between two rounds of database work, and does more of that for each trigger that ended. What hundreds
write in one instant fills the pipe for seconds, and whoever writes a line from within the event loop then (Airflow
itself for each trigger that starts, and many triggers) stops the loop and everything in it until there is room.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

#: How many may leave in one instant, and how many a second after them: what a supervisor takes in on two busy cores.
_AT_ONCE, _A_SECOND = 25, 25.0
#: Seconds from which on the writing of a line says that the pipe is full, and the most that all wait for one.
_SLOW, _LONGEST = 0.05, 5.0


class WayOut:
    """Tells those whose wait is over, a few at once and the others one after the other.

    Nobody who is still waited for depends on it: the gates are looked at meanwhile.
    """

    def __init__(self) -> None:
        self._queue: deque[tuple[asyncio.Future[Any], Any]] = deque()
        self._room = float(_AT_ONCE)
        self._counted = time.monotonic()
        self._closed_until = 0.0
        self._task: asyncio.Task[None] | None = None

    def tell(self, future: asyncio.Future[Any], answer: Any) -> None:
        """Set a future's result: now if there is room, else when it is its turn. Cancelled ones take no turn."""
        if not self._queue and self._wait() <= 0:
            self._let_go(future, answer)
            return
        self._queue.append((future, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._one_by_one(), name="bollhav gates leaving")

    async def say(self, line: Callable[[], Any]) -> None:
        """Write a line of somebody who leaves, beside the loop; where it takes long, the others wait as long again.

        Args:
            line: writes it. It runs in a thread, with the caller's context variables: Airflow's logs go by them.
        """
        began = time.monotonic()
        await asyncio.to_thread(line)
        if (took := time.monotonic() - began) > _SLOW:
            self._closed_until = max(self._closed_until, time.monotonic() + min(took, _LONGEST))

    def _wait(self) -> float:
        """Return the seconds until there is room for one more."""
        now = time.monotonic()
        self._room = min(float(_AT_ONCE), self._room + (now - self._counted) * _A_SECOND)
        self._counted = now
        return max(self._closed_until - now, (1.0 - self._room) / _A_SECOND)

    def _let_go(self, future: asyncio.Future[Any], answer: Any) -> None:
        if not future.done():
            self._room -= 1.0
            future.set_result(answer)

    async def _one_by_one(self) -> None:
        try:
            while self._queue:
                if (wait := self._wait()) > 0:
                    await asyncio.sleep(wait)
                else:
                    self._let_go(*self._queue.popleft())
        finally:
            self._task = None  # a task knows its loop, which this would keep


#: The way out of each event loop. A triggerer has one loop.
_ways: WeakKeyDictionary[asyncio.AbstractEventLoop, WayOut] = WeakKeyDictionary()


def way_out() -> WayOut:
    """Return the way out of the running event loop, whichever library is waited for."""
    loop = asyncio.get_running_loop()
    found = _ways.get(loop)
    if found is None:
        found = _ways[loop] = WayOut()
    return found
