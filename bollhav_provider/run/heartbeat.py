"""Renews the lease of a unit while it is worked on."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType

import psycopg

from bollhav_provider.exceptions import LeaseLostError

logger = logging.getLogger(__name__)


class Heartbeat:
    """A thread that renews a lease at every third of it; a unit that is done sooner never starts one's
    connection.

    Args:
        renew: renews once, waiting at most the given seconds for its connection; raises ``LeaseLostError``.
        lease: how long a claim lasts.
        on_lost: called once, from the thread, when the lease is lost.
        label: model and unit, for the log.

    Attributes:
        lost: the error once the lease is lost; nothing of the attempt may be committed then.
    """

    def __init__(
        self, renew: Callable[[float], None], lease: timedelta, on_lost: Callable[[], None], label: str
    ) -> None:
        self._renew = renew
        self._lease = lease.total_seconds()
        self._on_lost = on_lost
        self._label = label
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.lost: LeaseLostError | None = None

    def __enter__(self) -> Heartbeat:
        self._thread = threading.Thread(target=self._run, name=f"lease of {self._label}", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the renewals; returns when the last one is over."""
        self._stop.set()
        if self._thread is not None:
            # A renewal that hangs must not hold up a commit that the attempt number guards in any case.
            self._thread.join(timeout=self._lease / 3)
            self._thread = None

    def check(self) -> None:
        """Raise the ``LeaseLostError`` when the lease is lost."""
        if self.lost is not None:
            raise self.lost

    def _run(self) -> None:
        renewed = time.monotonic()
        wait = self._lease / 3
        while not self._stop.wait(wait):
            wait = self._lease / 3
            try:
                self._renew(self._lease / 6)
                renewed = time.monotonic()
            except LeaseLostError as exc:
                if not self._stop.is_set():
                    self._lose(exc)
                return
            except (psycopg.Error, OSError) as exc:
                left = self._lease - (time.monotonic() - renewed)
                if left <= 0:
                    lost = LeaseLostError(
                        f"{self._label}: the lease could not be renewed for {self._lease:.0f} s: {exc}. "
                        f"Another worker may "
                        "have the unit now, so nothing of this attempt is committed."
                    )
                    self._lose(lost)
                    return
                logger.warning("%s: the lease was not renewed, %.0f s are left: %s", self._label, left, exc)
                wait = min(self._lease / 10, max(left, 0.05))

    def _lose(self, exc: LeaseLostError) -> None:
        self.lost = exc
        logger.error("%s", exc)
        self._on_lost()
