"""Leaving the triggerer's waiting room: nothing that it costs may stop the event loop that everything else runs in."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
from typing import Any

import pytest
from airflow_models import windowed
from test_waiting import asks, count_looks, drained, load, register, runner

from bollhav_provider.state.beside import beside_the_loop
from bollhav_provider.triggers import heap, leaving
from bollhav_provider.triggers.leaving import WayOut
from bollhav_provider.triggers.upstream import UpstreamTrigger


async def worst_lag(work: asyncio.Task[Any]) -> float:
    """Return by how much a sleep in the loop is too long, at worst, until some work is done."""
    worst = 0.0
    while not work.done():
        began = time.monotonic()
        await asyncio.sleep(0.01)
        worst = max(worst, time.monotonic() - began - 0.01)
    await work
    return worst


def test_a_crowd_leaves_a_few_at_once_and_the_others_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "_A_SECOND", 100.0)

    async def leave() -> tuple[int, list[int], float]:
        way, gone = WayOut(), []
        futures = [asyncio.get_running_loop().create_future() for _ in range(60)]
        for number, future in enumerate(futures):
            future.add_done_callback(lambda done: gone.append(done.result()))
            way.tell(future, number)
        at_once, began = sum(future.done() for future in futures), time.monotonic()
        await asyncio.wait_for(asyncio.gather(*futures), 10)
        return at_once, gone, time.monotonic() - began

    at_once, gone, took = asyncio.run(leave())
    assert at_once == 25
    assert gone == list(range(60))
    assert 0.3 < took < 5


def test_who_is_cancelled_takes_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "_A_SECOND", 5.0)

    async def leave() -> float:
        way = WayOut()
        futures = [asyncio.get_running_loop().create_future() for _ in range(200)]
        for future in futures:
            way.tell(future, None)
        for future in futures[25:-1]:
            future.cancel()
        began = time.monotonic()
        await asyncio.wait_for(futures[-1], 10)
        return time.monotonic() - began

    assert asyncio.run(leave()) < 2


def test_a_line_that_takes_long_stops_nobody_and_makes_the_others_wait_as_long() -> None:
    name = contextvars.ContextVar("name", default="nobody")
    seen: list[str] = []

    def line() -> None:
        seen.append(name.get())
        time.sleep(0.5)

    async def leave() -> tuple[float, float]:
        way = WayOut()
        name.set("the caller")
        lag = await worst_lag(asyncio.create_task(way.say(line)))
        began, future = time.monotonic(), asyncio.get_running_loop().create_future()
        way.tell(future, None)
        await asyncio.wait_for(future, 10)
        return lag, time.monotonic() - began

    lag, waited = asyncio.run(leave())
    assert seen == ["the caller"]
    assert lag < 0.3
    assert 0.3 < waited < 2


@pytest.mark.parametrize("upstream", ["shop.orders", "shop nonsense"])
def test_a_full_log_does_not_stop_the_loop(library: str, monkeypatch: pytest.MonkeyPatch, upstream: str) -> None:
    """Airflow's logs of a triggerer are a pipe; who writes to a full one waits until it is read."""
    load(library, windowed("shop.orders"), "2024-01-01", "2024-01-02")
    said: list[str] = []

    class Full:
        def info(self, text: str, *_: Any, **__: Any) -> None:
            time.sleep(1.0)
            said.append(text)

        error = exception = info

    monkeypatch.setattr(UpstreamTrigger, "log", Full(), raising=False)
    arguments = asks("shop.orders", "2024-01-01", "2024-01-02").to_json()
    if upstream != "shop.orders":
        arguments["requests"] = [{"upstream": upstream}]

    async def wait() -> float:
        await drained(UpstreamTrigger(finish=True, **asks("shop.orders", "2024-01-01", "2024-01-02").to_json()))
        return await worst_lag(asyncio.create_task(drained(UpstreamTrigger(finish=True, **arguments))))

    assert asyncio.run(wait()) < 0.7
    assert len(said) == 2


def test_gates_are_looked_at_while_a_crowd_leaves(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load(db, windowed("shop.orders"), "2024-01-01", "2024-01-02")
    monkeypatch.setattr(leaving, "_A_SECOND", 0.5)
    looks = count_looks(monkeypatch)
    is_open, closed = asks("shop.orders", "2024-01-01", "2024-01-02"), asks("shop.orders", "2024-01-02", "2024-01-03")

    async def wait() -> None:
        together = runner(db)
        crowd = [asyncio.create_task(together.wait(is_open, 60.0)) for _ in range(40)]
        await asyncio.sleep(1.0)
        late = asyncio.create_task(together.wait(closed, 60.0))
        await asyncio.sleep(1.0)
        assert looks == [40, 1]
        assert 25 <= sum(task.done() for task in crowd) < 40
        for task in (*crowd, late):
            task.cancel()

    asyncio.run(wait())


def test_a_look_does_not_wait_for_lines_that_wait() -> None:
    full = threading.Event()

    async def look() -> float:
        lines = [asyncio.create_task(asyncio.to_thread(full.wait, 10)) for _ in range(100)]
        await asyncio.sleep(0.1)
        began = time.monotonic()
        assert await beside_the_loop(1000, threading.current_thread) is not threading.current_thread()
        took = time.monotonic() - began
        full.set()
        await asyncio.gather(*lines)
        return took

    assert asyncio.run(look()) < 2


def test_what_the_process_consists_of_is_spared_once_when_its_first_gate_waits(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(library, windowed("shop.orders"))
    spared: list[int] = []
    monkeypatch.setattr(heap, "_spared", False)
    monkeypatch.setattr(gc, "freeze", lambda: spared.append(1))
    load(library, windowed("shop.orders"), "2024-01-01", "2024-01-02")
    questions = asks("shop.orders", "2024-01-01", "2024-01-02")
    for _ in range(2):
        asyncio.run(drained(UpstreamTrigger(finish=True, **questions.to_json())))
    assert spared == [1]
