"""What waiting does to the event loop of the triggerer, which all triggers of a deployment share."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import psycopg
import pytest
from airflow_models import windowed
from test_waiting import asks, load, register

from bollhav_provider.triggers.upstream import UpstreamTrigger

#: Seconds that the loop may work, or stand still, between two of its turns.
LONGEST = 0.2


@pytest.fixture
def blocking(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Which threads called what blocks the thread that calls it."""
    called: list[tuple[int, str]] = []

    def watch(owner: Any, name: str) -> None:
        plain = getattr(owner, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            called.append((threading.get_ident(), f"{owner.__name__}.{name}"))
            return plain(*args, **kwargs)

        monkeypatch.setattr(owner, name, watched)

    watch(psycopg, "connect")
    watch(psycopg.Cursor, "execute")
    watch(psycopg.Cursor, "executemany")
    watch(time, "sleep")
    return called


def test_the_loop_is_never_held_up_by_those_who_wait(library: str, blocking: list[tuple[int, str]]) -> None:
    orders = windowed("shop.orders")
    register(library, orders)
    worked: list[float] = []

    async def watch() -> None:
        """Note the work of each turn: the thread's own time, which others on the machine do not make longer."""
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.01)
            now = time.thread_time()
            worked.append(now - last)
            last = now

    async def one(number: int) -> Any:
        questions = asks("shop.orders", f"2024-01-0{1 + number % 3}", f"2024-01-0{2 + number % 3}")
        trigger = UpstreamTrigger(poll_interval=0.5, **questions.to_json())
        (event,) = [event async for event in trigger.run()]
        return event.payload

    async def wait() -> list[Any]:
        watching = asyncio.create_task(watch())
        waiting = [asyncio.create_task(one(number)) for number in range(60)]
        await asyncio.sleep(2.0)
        worked.clear()  # what the first turns imported is imported once in a triggerer's life
        await asyncio.to_thread(load, library, orders, "2024-01-01", "2024-01-04")
        found = await asyncio.wait_for(asyncio.gather(*waiting), 60)
        watching.cancel()
        return found

    loop = threading.get_ident()
    blocking.clear()
    assert asyncio.run(wait(), debug=True) == [{"status": "open", "reason": ""}] * 60
    assert [what for thread, what in blocking if thread == loop] == []
    assert any(thread != loop for thread, _ in blocking), "the watch sees nothing"
    assert max(worked) < LONGEST
