"""Everything that waits in one process shares one connection a library, and is looked at together.

The triggerer runs hundreds of triggers in one event loop. Each would be a connection and a statement every
few seconds; instead they meet here: one connection for each library, one statement for all gates that wait,
repeated when an upstream commits (the database says so) and every few seconds in any case. Who comes is looked at
alone: a thousand gates that come one by one are a thousand small looks, not half a million gates looked at. Whose wait
is over leaves by one way out (:mod:`bollhav_provider.triggers.leaving`). The connection is closed when nobody waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import sql

from bollhav_provider.exceptions import LibraryOutdatedError
from bollhav_provider.triggers.heap import spare_the_heap
from bollhav_provider.triggers.leaving import way_out
from bollhav_provider.triggers.questions import Answers, Batch, Questions

if TYPE_CHECKING:
    from bollhav_provider.model import Environment

log = logging.getLogger(__name__)

#: Commits that follow one another this closely, in seconds, are looked at together; and those that come this closely,
#: which is less urgent: a worker has looked for each a moment ago.
_GATHER, _GATHER_COMING = 0.05, 0.15
#: Seconds until the next try when the database cannot be reached: the first, and the most.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0

Connect = Callable[[], Awaitable[psycopg.AsyncConnection[Any]]]


@dataclass(eq=False)
class Waiting:
    """What one trigger waits for, whether it was never looked at on this connection, and where the answer goes."""

    questions: Questions
    poll_interval: float
    fresh: bool = True
    answer: asyncio.Future[Answers] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class GateRunner:
    """Looks at all gates that wait on one library in one event loop.

    Args:
        connect: opens the connection.
        env: the environment whose library is asked.
        ended: called when nobody waits any more and the connection is closed.
    """

    def __init__(self, connect: Connect, env: Environment, ended: Callable[[], None] = lambda: None) -> None:
        self._connect = connect
        self._env = env
        self._ended = ended
        self._waiting: dict[int, Waiting] = {}
        self._ids = itertools.count()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._took = 0.0

    @property
    def idle(self) -> bool:
        """Whether nobody waits."""
        return not self._waiting

    async def wait(self, questions: Questions, poll_interval: float) -> Answers:
        """Return the answers once all gates are open or one of them can never be.

        Raises:
            ConfigurationError: the library's connection is not defined or leads nowhere that can be tried
                again.
        """
        waiting = Waiting(questions, poll_interval)
        key = next(self._ids)
        self._waiting[key] = waiting
        self._woken.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="bollhav gates")
        try:
            return await waiting.answer
        finally:
            self._waiting.pop(key, None)
            self._woken.set()

    async def _run(self) -> None:
        pause = _FIRST_PAUSE
        try:
            while self._waiting:
                try:
                    conn = await self._connect()
                    async with conn:
                        await self._watch(conn)
                        pause = _FIRST_PAUSE
                except (psycopg.OperationalError, psycopg.InterfaceError, OSError, LibraryOutdatedError) as exc:
                    # A database that restarts, or a triggerer that is of the new version before any run was, must not
                    # fail a thousand tasks: they wait, and so does this.
                    log.warning("the library cannot be asked (%s), trying again in about %.0f s", exc, pause)
                    await asyncio.sleep(random.uniform(0.5, 1.0) * pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
        except Exception as exc:
            self._fail(exc)
        finally:
            self._ended()

    def _fail(self, exc: Exception) -> None:
        """Hand an error that waiting does not heal to everybody."""
        for waiting in list(self._waiting.values()):
            if not waiting.answer.done():
                waiting.answer.set_exception(exc)
        self._waiting.clear()

    async def _watch(self, conn: psycopg.AsyncConnection[Any]) -> None:
        await _listen(conn, self._env.state_schema)
        for waiting in self._waiting.values():
            waiting.fresh = True  # whatever committed while nobody listened is seen by the first look
        looked, jitter = time.monotonic(), 1.0
        everybody = False
        while self._waiting:
            self._woken.clear()
            began = time.monotonic()
            await self._look(conn, everybody=everybody)
            if everybody:
                looked, jitter = began, random.uniform(0.9, 1.1)
            if self._waiting:
                due = looked + jitter * min(w.poll_interval for w in self._waiting.values())
                everybody = await self._rest(conn, due) or time.monotonic() >= due
            else:  # whoever was answered leaves in the next turn of the loop; a successor may come with it
                await asyncio.sleep(0)

    async def _look(self, conn: psycopg.AsyncConnection[Any], *, everybody: bool) -> None:
        """Look at the gates of everybody, or of those alone that came since the last look."""
        waiting = {key: w for key, w in self._waiting.items() if not w.answer.done() and (everybody or w.fresh)}
        began, self._took = time.monotonic(), 0.0
        if not waiting:
            return
        answers = await Batch([w.questions for w in waiting.values()]).ask(conn, self._env)
        self._took = time.monotonic() - began
        leaving = way_out()
        for (key, w), answer in zip(waiting.items(), answers, strict=True):
            w.fresh = False
            if answer.settled:
                leaving.tell(w.answer, answer)
            if answer.settled or w.answer.done():
                self._waiting.pop(key, None)

    async def _rest(self, conn: psycopg.AsyncConnection[Any], due: float) -> bool:
        """Sleep until an upstream commits, somebody comes or goes, or it is time to look again.

        Args:
            conn: the connection that listens.
            due: when it is time, on the monotonic clock.

        Returns:
            Whether an upstream has committed.
        """
        began = time.monotonic()
        told = asyncio.create_task(_next_commit(conn))
        woken = asyncio.create_task(self._woken.wait())
        try:
            await asyncio.wait(
                {told, woken},
                timeout=max(0.0, due - time.monotonic()),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            woken.cancel()
            if not told.done():
                told.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await told
        committed = told.done() and not told.cancelled()
        if committed and (problem := told.exception()):
            raise problem
        # looking takes at most half of the time, however fast the commits follow one another
        rested, gather = time.monotonic() - began, _GATHER if committed else _GATHER_COMING
        await asyncio.sleep(max(gather, self._took - rested))
        async for _ in conn.notifies(timeout=0):  # the next look sees these commits too
            committed = True
        return committed


async def _listen(conn: psycopg.AsyncConnection[Any], channel: str) -> None:
    """Ask to be told of commits. Behind a transaction pooler nothing is told, and the looks in between must do."""
    await conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))


async def _next_commit(conn: psycopg.AsyncConnection[Any]) -> None:
    async for _ in conn.notifies(stop_after=1):
        return


#: The runners of each event loop: by connection, DSN variable and schema.
_runners: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str, str], GateRunner]] = WeakKeyDictionary()


async def wait_for_gates(
    conn_id: str | None, questions: Questions, *, poll_interval: float, dsn_env_var: str | None = None
) -> Answers:
    """Wait with everybody else in this event loop until all gates are open, or one can never be.

    Args:
        conn_id: Airflow connection of the library; None for the configured one.
        questions: what is waited for.
        poll_interval: seconds between two looks when no commit is announced.
        dsn_env_var: environment variable with the DSN of the library, where no connection leads to it.

    Raises:
        ConfigurationError: there is no such connection.
    """
    from bollhav_provider.hooks.library import LibraryHook

    spare_the_heap()
    runners = _runners.setdefault(asyncio.get_running_loop(), {})
    key = (conn_id or "", dsn_env_var or "", questions.env.state_schema)
    runner = runners.get(key)
    if runner is None:

        async def connect() -> psycopg.AsyncConnection[Any]:
            return await LibraryHook.connect_async(conn_id, dsn_env_var=dsn_env_var)

        def ended() -> None:
            if runners.get(key) is runner and runner is not None and runner.idle:
                del runners[key]

        runner = runners[key] = GateRunner(connect, questions.env, ended)
    return await runner.wait(questions, poll_interval)
