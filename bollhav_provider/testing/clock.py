"""A clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.intervals import as_utc


@contextmanager
def frozen_clock(at: str | datetime) -> Iterator[datetime]:
    """Let this process's clock stand still for a block.

    The database has a clock of its own, which leases, ``applied_at`` and freshness go by: it goes on.

    Args:
        at: an aware instant, or ISO text with an offset.

    Raises:
        ConfigurationError: the package ``time-machine`` is not installed.
        IntervalError: the instant has no zone.
    """
    instant = as_utc(at, "at")
    try:
        import time_machine
    except ImportError:
        raise ConfigurationError(
            "frozen_clock needs a package that is not installed: pip install time-machine."
        ) from None
    with time_machine.travel(instant, tick=False):
        yield instant
