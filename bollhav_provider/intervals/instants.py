"""Instants: the one place where a point in time becomes an aware ``datetime`` in UTC.

Python compares two aware datetimes of one zone by their wall clocks, so the repeated hour of an autumn night
looks empty. Everything downstream (comparison, hashing, storage, locks, text) therefore only ever sees
``datetime.timezone.utc``.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

from bollhav_provider.exceptions import IntervalError

__all__ = ["as_utc", "as_utc_or_day", "instant_text"]

_REMEDY = "write it with a zone, for instance '2024-01-01T00:00:00+01:00' or '2024-01-01T00:00Z'"


def as_utc(value: object, field: str) -> datetime:
    """Convert an instant to a plain ``datetime`` in ``datetime.timezone.utc``.

    Args:
        value: an aware ``datetime`` (subclasses such as pendulum's included) or an ISO 8601 string with an
            offset.
        field: the name of the field that the value belongs to; error messages start with it.

    Raises:
        IntervalError: the value is naive, is no instant, or lies outside the years 1 to 9999 in UTC.

    Rule: Semantics, time.
    """
    if type(value) is datetime and value.tzinfo is UTC:
        return value
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError as exc:
            raise IntervalError(f"{field}: {value!r} is not an ISO 8601 instant ({exc}); {_REMEDY}") from None
    if not isinstance(value, datetime):
        raise IntervalError(
            f"{field}: expected an instant, got {value!r} ({type(value).__name__}); {_REMEDY}"
        )
    if value.tzinfo is None or value.utcoffset() is None:
        raise IntervalError(f"{field}: {value.isoformat()} has no time zone; {_REMEDY}")
    try:
        at = value.astimezone(UTC)
    except OverflowError:
        raise IntervalError(
            f"{field}: {value.isoformat()} lies outside the years 1 to 9999 in UTC; "
            "leave an open end out instead"
        ) from None
    # Rebuilt field by field, so that a subclass (pendulum, pandas) never leaks into equality, pickles or the
    # database driver.
    return datetime(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond, UTC)


def as_utc_or_day(value: object, field: str, tz: str) -> datetime:
    """As :func:`as_utc`; a plain date is the midnight with which that day starts in a zone.

    Args:
        value: as in :func:`as_utc`, or ``"2024-01-31"``.
        field: the name of the field that the value belongs to.
        tz: IANA name of the zone of the model's windows.

    Raises:
        IntervalError: it is neither.
    """
    if isinstance(value, str):
        try:
            day = date.fromisoformat(value.strip())
        except ValueError:
            pass
        else:
            value = datetime.combine(day, time(), ZoneInfo(tz))
    try:
        return as_utc(value, field)
    except IntervalError as exc:
        raise IntervalError(f"{exc}; a plain date, '2024-01-01', is midnight in {tz}") from None


def instant_text(at: datetime) -> str:
    """Show a UTC instant for people: ``2024-01-01T03:00Z``; seconds only where they are not zero."""
    if at.microsecond:
        precision = "microseconds"
    elif at.second:
        precision = "seconds"
    else:
        precision = "minutes"
    return at.replace(tzinfo=None).isoformat(timespec=precision) + "Z"
