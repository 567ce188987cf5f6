"""Why a unit may not run, in words: the permanent codes and the one form of each sentence.

People grep logs and key alerts by these codes. A code is never renumbered and never used for another thing.
"""

from __future__ import annotations

import re
from datetime import timedelta

from bollhav_provider.intervals import Interval

#: Nobody ever registered the upstream in this library.
NOT_REGISTERED = "STATE_001"
#: The upstream is not ready: rows are missing, outstanding or too old.
NOT_READY = "STATE_002"
#: A level of a window on an upstream that has no windows.
TIMELESS_UPSTREAM = "STATE_003"
#: EXACT on an upstream that keeps coverage instead of rows of one grain.
FLEXIBLE_UPSTREAM = "STATE_004"
#: EXACT on an upstream whose grid has no such window.
OTHER_GRID = "STATE_005"
#: An earlier window of the model itself is not applied, and the model is sequential.
OWN_PAST_MISSING = "STATE_006"

#: The unit gave no rows, and its model takes that for a source that has not arrived.
NO_ROWS = "STATE_007"

#: What each code means and what helps, for ``explain`` and the reference.
CODES: dict[str, str] = {
    NOT_REGISTERED: "No model of that name was ever registered in this library. Run the upstream once, or correct "
    "its name in the model's upstream list. A run in the mode discover looks again.",
    NOT_READY: "The upstream has not applied what the contract asks for, or applied it too long ago. The gate opens "
    "by itself when the upstream catches up.",
    TIMELESS_UPSTREAM: "A timeless upstream has no windows to compare with. Gate it with WHOLE (its row is applied) "
    "or EXISTS.",
    FLEXIBLE_UPSTREAM: "A flexible upstream keeps what is covered, not rows of one grain, so that EXACT can never "
    "match. Use ENCAPSULATE.",
    OTHER_GRID: "The upstream's grid has no window equal to mine, so that EXACT can never match. Use ENCAPSULATE, or "
    "give both models the same chunk and zone.",
    NO_ROWS: "The unit gave no rows, and the model says allow_empty='block'. Run it again when its source has "
    "arrived, or write allow_empty=True if no rows are nothing special.",
    OWN_PAST_MISSING: "The model is sequential: each window waits until all earlier ones are applied.",
}

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_AGE = re.compile(r"\bage [0-9dhms ]+")


def duration_text(value: timedelta) -> str:
    """Show a duration for people in its two largest units, rounded down: ``2d 3h``, ``45s``."""
    left = int(abs(value.total_seconds()))
    parts: list[str] = []
    for suffix, size in _UNITS:
        count, left = divmod(left, size)
        if count or (suffix == "s" and not parts):
            parts.append(f"{count}{suffix}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)


def with_remedies(reason: str) -> str:
    """Add to a reason, once for each code in it, what helps: the reason is for the row, this for an error."""
    codes = dict.fromkeys(re.findall(r"\bSTATE_\d{3}\b", reason))
    return " ".join([f"{reason}.", *(CODES[code] for code in codes if code in CODES)])


def not_registered(upstream: str) -> str:
    """The upstream has no row in the library."""
    return f"{NOT_REGISTERED}: upstream '{upstream}' not registered"


def no_rows(model: str, unit: str) -> str:
    """The unit's source is empty."""
    return f"{NO_ROWS}: '{model}' {unit} gave no rows, and allow_empty is 'block'"


def missing(upstream: str, level: str, window: Interval | None) -> str:
    """The level is not reached; ``window`` is the first sub-range that lacks, None for an upstream without windows."""
    return f"{NOT_READY}: upstream '{upstream}' ({level}) " + (
        f"missing {window}" if window else "not applied"
    )


def stale(upstream: str, level: str, age: timedelta | None, limit: timedelta) -> str:
    """The level is reached by rows that are too old; ``age`` is None when no row has a time, negative in the future."""
    if age is None:
        what = "never applied"
    elif age < timedelta(0):
        what = f"dated {duration_text(age)} in the future"
    else:
        what = f"age {duration_text(age)}"
    return f"{NOT_READY}: upstream '{upstream}' ({level}, stale) {what}, limit {duration_text(limit)}"


def timeless_upstream(upstream: str, level: str) -> str:
    """A level of a window on a timeless upstream."""
    return (
        f"{TIMELESS_UPSTREAM}: upstream '{upstream}' ({level}) is timeless and has no windows: "
        "gate it with 'whole' or 'exists'"
    )


def flexible_upstream(upstream: str, level: str) -> str:
    """EXACT on a flexible upstream."""
    return (
        f"{FLEXIBLE_UPSTREAM}: upstream '{upstream}' ({level}) is flexible and keeps no rows of one grain: "
        "gate it with 'encapsulate'"
    )


def other_grid(upstream: str, level: str, window: Interval, chunk: str, tz: str) -> str:
    """EXACT on a fixed upstream that never has a row of my window."""
    return (
        f"{OTHER_GRID}: upstream '{upstream}' ({level}) can never have {window}: its chunk is '{chunk}' in {tz}: "
        "gate it with 'encapsulate'"
    )


def own_past(model: str, window: Interval) -> str:
    """A sequential model's earlier window is not applied."""
    return f"{OWN_PAST_MISSING}: '{model}' is sequential and its earlier window {window} is not applied"


def same_reason(one: str | None, other: str | None) -> bool:
    """Say whether two reasons differ in nothing but the age of a stale upstream, which grows while one waits."""
    return _AGE.sub("age", one or "") == _AGE.sub("age", other or "")
