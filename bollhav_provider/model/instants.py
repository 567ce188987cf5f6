"""Instants and durations in definitions: always with a zone, always normalised in one place."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ValidationInfo, WithJsonSchema

from bollhav_provider.model.words import shown

_SHORT = r"(\d+)\s*([smhdwSMHDW])"
_LONGEST_TEXT = 100
#: More digits than any duration needs; the rest would only cost time.
_DIGITS = 20
#: A thousand years. What is subtracted from the present must stay within the calendar.
_LONGEST = timedelta(days=365_250)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def read_duration(value: Any) -> Any:
    """Turn ``30m``, ``36h`` or ``7d`` into a timedelta; everything else is left to pydantic."""
    if isinstance(value, str) and (match := re.fullmatch(_SHORT, value.strip())):
        try:
            return timedelta(**{_UNITS[match[2].lower()]: int(match[1][:_DIGITS])})
        except OverflowError:
            return timedelta.max
    return value


def _bounded(value: timedelta) -> timedelta:
    if abs(value) > _LONGEST:
        raise ValueError(f"{value} is longer than a thousand years; write a shorter duration")
    return value


#: A timedelta, ``30m``, ``36h`` or ``7d``, an ISO 8601 duration, or a number of seconds.
Duration = Annotated[
    timedelta,
    BeforeValidator(read_duration),
    AfterValidator(_bounded),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": r"^(\d+\s*[smhdwSMHDW]|-?P.+|.*:.*)$"}, {"type": "number"}]}
    ),
]


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
        raise ValueError(f"{value.isoformat()} is a date and no instant; write '{value.isoformat()}T00:00+00:00'")
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        raise ValueError(f"{shown(value)} is no instant; write an ISO 8601 string such as '2024-01-01T00:00+00:00'")
    if isinstance(value, str) and value.strip().lower().lstrip("+-") in ("infinity", "inf", "now", "today"):
        raise ValueError(
            f"{value!r} is no fixed instant; leave {field} out for an open {field}, or write one "
            "such as '2024-01-01T00:00Z'"
        )
    if not isinstance(value, str | datetime):
        raise ValueError(f"{shown(value)} is no instant; write an ISO 8601 string such as '2024-01-01T00:00+00:00'")
    from bollhav_provider.intervals import as_utc

    return as_utc(value, field)


def _instant_of_field(value: Any, info: ValidationInfo) -> datetime | None:
    return read_instant(value, str(info.field_name))


#: An aware datetime in UTC, written as one or as an ISO 8601 string with an offset.
Instant = Annotated[datetime, BeforeValidator(_instant_of_field)]
