"""Instants and durations in definitions: always with a zone, always normalised in one place."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Any

from bollhav_provider.intervals import as_utc

_SHORT = re.compile(r"(\d+)\s*(s|m|h|d|w)", re.IGNORECASE)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def read_instant(value: Any, field: str) -> datetime | None:
    """Return an instant in UTC.

    Args:
        value: an aware datetime, an ISO 8601 string with an offset, or None.
        field: the name of the field, for the message.

    Raises:
        ValueError: it has no zone, is no instant, or lies outside the years 0001 to 9999.
    """
    if value is None:
        return None
    if isinstance(value, date) and not isinstance(value, datetime):
        raise ValueError(f"{field} is the date {value.isoformat()}, which is no instant; write '{value.isoformat()}T00:00+00:00'")
    if isinstance(value, str) and value.strip().lower().lstrip("+-") in ("infinity", "inf", "now", "today"):
        raise ValueError(f"{field} is {value!r}; leave {field} out for an open {field}, or write a fixed instant")
    if not isinstance(value, str | datetime):
        raise ValueError(f"{field} is {value!r}, which is no instant; write an ISO 8601 string such as '2024-01-01T00:00+00:00'")
    try:
        return as_utc(value, field)
    except OverflowError:
        raise ValueError(f"{field} is {value}, outside the years 0001 to 9999 in UTC; leave it out for an open one") from None


def read_duration(value: Any) -> Any:
    """Turn ``30m``, ``36h`` or ``7d`` into a timedelta and leave everything else to pydantic (ISO 8601, seconds)."""
    if isinstance(value, str) and (match := _SHORT.fullmatch(value.strip())):
        return timedelta(**{_UNITS[match[2].lower()]: int(match[1])})
    return value
