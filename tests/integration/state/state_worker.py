"""Workers as processes of their own: they work off a model's units and can be killed at any instant.

They are forked, so that starting one costs milliseconds; each opens its own connection and leaves by ``os._exit``.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from state_support import ENV, Conn, connect

from bollhav_provider import state
from bollhav_provider.model import Model

_FORK = multiprocessing.get_context("fork")

ROWS_PER_UNIT = 5


def start(target: Callable[..., None], *args: Any) -> Any:
    """Run ``target`` in a process of its own."""

    def body() -> None:
        code = 1
        try:
            target(*args)
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    process = _FORK.Process(target=body)
    process.start()
    return process


def make_target(conn: Conn) -> None:
    conn.execute("CREATE TABLE target (at timestamptz, n int, worker int)")


def work_off(
    dsn: str,
    model: Model,
    lease: timedelta,
    *,
    slow: float = 0.0,
    die_at: str | None = None,
    patience: float = 0.0,
) -> None:
    """Claim, write and apply whatever is outstanding until nothing is.

    Args:
        dsn: database of state and target.
        model: whose units.
        lease: of the claims, without a heartbeat.
        slow: seconds between the rows that are written.
        die_at: ``claimed``, ``writing``, ``written`` or ``committed``: kill this process there, once.
        patience: seconds to wait for leases of others to expire before giving up.
    """
    run = state.RunKey.ad_hoc("worker")

    def reach(point: str) -> None:
        if point == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    deadline = time.monotonic() + patience
    with connect(dsn) as conn:
        while True:
            listed = state.units(conn, model, ENV)
            for row in listed:
                claim = state.claim(conn, model, ENV, row.unit, run, lease)
                if claim is None:
                    continue
                reach("claimed")
                try:
                    with conn.transaction():
                        conn.execute("DELETE FROM target WHERE at = %s", (claim.unit.since,))
                        for number in range(ROWS_PER_UNIT):
                            conn.execute(
                                "INSERT INTO target VALUES (%s, %s, %s)",
                                (claim.unit.since, number, os.getpid()),
                            )
                            time.sleep(slow)
                            if number == 2:
                                reach("writing")
                        state.apply(conn, claim)
                        reach("written")
                except state_errors():
                    continue
                reach("committed")
            left = [r for r in state.units(conn, model, ENV, outstanding=False) if r.status != "applied"]
            if not left or time.monotonic() > deadline:
                return
            time.sleep(0.05)


def state_errors() -> tuple[type[BaseException], ...]:
    from bollhav_provider.exceptions import LeaseLostError

    return (LeaseLostError,)
