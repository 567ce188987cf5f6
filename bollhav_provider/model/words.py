"""Small helpers for messages: values as they are shown, and what a misspelt word probably means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: How much of a value a message shows.
_LONGEST = 160
_MOST_ITEMS = 6


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known word, or an empty string."""
    from difflib import get_close_matches

    near = get_close_matches(word[:_LONGEST], [other for other in known if other != word], n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def shown(value: Any) -> str:
    """Return a value as messages show it: its ``repr``, never long, and never an error of its own."""
    from reprlib import Repr

    short = Repr()
    short.maxstring = short.maxother = _LONGEST
    short.maxlong = _LONGEST // 2
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = short.maxfrozenset = _MOST_ITEMS
    try:
        text = value.__name__ if isinstance(value, type) else short.repr(value)
    except Exception:  # a value of the user's own may fail at anything
        text = f"a value of type {type(value).__name__}"
    return clipped(text)


def clipped(text: str, longest: int = 2 * _LONGEST) -> str:
    """Return a text with its middle left out where it is too long to be read."""
    if len(text) <= longest:
        return text
    head = longest * 2 // 3
    return f"{text[:head]} ... {text[head - longest :]}"


def is_from_outside(error: BaseException) -> bool:
    """Whether an exception came upon a definition file instead of out of it.

    A file may leave by ``sys.exit()`` or anything else, which is about that file. An interrupt, and a time limit
    that the caller has set, are about the caller.
    """
    if isinstance(error, KeyboardInterrupt):
        return True
    return not isinstance(error, Exception) and "timeout" in type(error).__name__.lower()


def error_text(error: BaseException) -> str:
    """Return ``Type: message`` of an exception whose message may itself fail."""
    try:
        message = str(error)
    except Exception:
        message = ""
    name = type(error).__name__
    return f"{name}: {message}" if message else name
