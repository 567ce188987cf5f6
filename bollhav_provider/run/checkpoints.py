"""Named instants in a unit's life that a test can subscribe to. Nothing happens at them otherwise.

The points lie where a crash would hurt: a test makes a worker process kill itself at one of them and then
looks at what the database holds.
"""

from __future__ import annotations

from collections.abc import Callable

#: The unit is claimed; nothing was read or written yet.
AFTER_CLAIM = "after_claim"
#: The transaction is open and the first rows are on their way.
DURING_WRITE = "during_write"
#: Every row is written and the unit is ``applied``, nothing is committed.
AFTER_WRITE = "after_write"
#: The commit is acknowledged.
AFTER_COMMIT = "after_commit"
#: The rows are committed in the target's database and not yet recorded in the state's; only where these are
#: two.
BETWEEN_COMMITS = "between_commits"

POINTS = (AFTER_CLAIM, DURING_WRITE, AFTER_WRITE, AFTER_COMMIT, BETWEEN_COMMITS)

_listeners: list[Callable[[str, object], None]] = []


def subscribe(listener: Callable[[str, object], None]) -> Callable[[], None]:
    """Call ``listener(point, unit)`` at every point of this process; returns the call that ends it."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def reach(point: str, unit: object) -> None:
    """Tell the listeners that ``unit`` reached ``point``."""
    for listener in tuple(_listeners):
        listener(point, unit)


def listened() -> bool:
    """Return whether anybody subscribed."""
    return bool(_listeners)
