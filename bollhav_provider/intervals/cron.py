"""Cron expressions as patterns of local time.

croniter parses and validates, because Airflow's schedules are read by croniter too; enumerating is our own,
in integers, because a million ticks through croniter take minutes.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from bollhav_provider.exceptions import GridError

__all__ = ["ALIASES", "CronPattern", "cron_pattern"]

#: The aliases, with the meaning that Airflow gives them.
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FIRST_YEAR, _LAST_YEAR = 1, 9999
_FIELDS = "minute hour day-of-month month day-of-week"
# croniter's hashed and random fields: not a function of the expression alone.
_HASHED = re.compile(r"^[hr](\(|/|$)", re.IGNORECASE)


class CronPattern(NamedTuple):
    """A validated five-field cron, expanded.

    Attributes:
        expression: the five fields, aliases replaced, white space normalised.
        times: the seconds of the local day at which it fires, in order.
        every_hour: whether the hour field is unrestricted; Airflow steps such crons by elapsed time, not by
            wall clock.
        months: the months in which it fires.
        days: days of the month; None when unrestricted. ``"l"`` is the last day.
        weekdays: 0 is Sunday; None when unrestricted.
        special_days: ``#``, ``L`` of a weekday or ``W``: croniter is asked for the days.
    """

    expression: str
    times: tuple[int, ...]
    every_hour: bool
    months: tuple[int, ...]
    days: frozenset[int | str] | None
    weekdays: frozenset[int] | None
    special_days: bool

    @property
    def every_day(self) -> bool:
        """Whether it fires on every date."""
        return (
            self.days is None and self.weekdays is None and len(self.months) == 12 and not self.special_days
        )

    @property
    def meaning(self) -> tuple[object, ...]:
        """What it fires at; equal for two spellings of one cron."""
        special = tuple(self.expression.lower().split()[2:]) if self.special_days else None
        return (self.times, self.every_hour, self.months, self.days, self.weekdays, special)

    def days_from(self, day: int) -> Iterator[int]:
        """Yield the matching days at or after ``day``, in days since 1970, up to the year 9999."""
        start = date.fromordinal(max(day + _EPOCH_DAY, 1))
        if self.every_day:
            yield from range(max(day, 1 - _EPOCH_DAY), date.max.toordinal() - _EPOCH_DAY + 1)
            return
        month_set = set(self.months)
        for year in range(start.year, _LAST_YEAR + 1):
            for month in range(start.month if year == start.year else 1, 13):
                if month in month_set:
                    for found in _days_of_month(self, year, month):
                        if found >= day:
                            yield found

    def days_before(self, day: int) -> Iterator[int]:
        """Yield the matching days before ``day``, latest first, down to the year 1."""
        if self.every_day:
            yield from range(day - 1, -_EPOCH_DAY, -1)
            return
        start = date.fromordinal(max(day + _EPOCH_DAY, 1))
        month_set = set(self.months)
        for year in range(start.year, _FIRST_YEAR - 1, -1):
            for month in range(start.month if year == start.year else 12, 0, -1):
                if month in month_set:
                    for found in reversed(_days_of_month(self, year, month)):
                        if found < day:
                            yield found

    def after(self, local: int) -> Iterator[int]:
        """Yield the local seconds at which it fires after ``local``, in order."""
        times = self.times
        today, time_of_day = divmod(local, 86_400)
        for day in self.days_from(today):
            base = day * 86_400
            for time in times:
                if day != today or time > time_of_day:
                    yield base + time

    def last_of(self, day: int) -> int:
        """Return the last local second of a matching day at which it fires."""
        return day * 86_400 + self.times[-1]

    def latest(self, local: int) -> int | None:
        """Return the last local second at or before ``local`` at which it fires, or None."""
        for day in self.days_before(local // 86_400 + 1):
            base = day * 86_400
            for time in reversed(self.times):
                if base + time <= local:
                    return base + time
        return None


@lru_cache(maxsize=8192)
def _days_of_month(pattern: CronPattern, year: int, month: int) -> tuple[int, ...]:
    """Return a month's matching days, in days since 1970."""
    first_weekday, length = monthrange(year, month)
    base = date(year, month, 1).toordinal() - _EPOCH_DAY - 1
    if pattern.special_days:
        return tuple(base + day for day in _special_days(pattern, year, month))
    if pattern.days is None and pattern.weekdays is None:
        return tuple(base + day for day in range(1, length + 1))
    # Both restricted means either of them, the old rule of cron.
    days = {length if day == "l" else int(day) for day in pattern.days or ()}
    weekdays = pattern.weekdays or frozenset()
    return tuple(
        base + day
        for day in range(1, length + 1)
        if day in days or (first_weekday + day) % 7 in weekdays  # monthrange: 0 is Monday; cron: 0 is Sunday
    )


def _special_days(pattern: CronPattern, year: int, month: int) -> list[int]:
    from croniter import CroniterBadDateError, croniter

    _, _, days, months, weekdays = pattern.expression.split()
    walk = croniter(f"0 0 {days} {months} {weekdays}", datetime(year, month, 1) - timedelta(seconds=1))
    found: list[int] = []
    while True:
        try:
            at = walk.get_next(datetime)
        except CroniterBadDateError:
            return found
        if (at.year, at.month) != (year, month):
            return found
        found.append(at.day)


@lru_cache(maxsize=1024)
def cron_pattern(cron: str) -> CronPattern:
    """Parse and validate a cron expression or an alias.

    Raises:
        GridError: it has not exactly five fields, a field is malformed or not deterministic, or it never
            fires.

    Rule: Semantics, time.
    """
    from croniter import CroniterBadCronError, CroniterBadDateError, croniter

    expression = _five_fields(cron)
    try:
        walk = croniter(expression, datetime(2000, 1, 1))
        fields = walk.expanded
        nth = croniter.expand(expression)[1]
        walk.get_next(datetime)
    except CroniterBadDateError:
        raise GridError(
            f"chunk: {cron!r} never fires: no month has such a day; write a day that exists, "
            "or 'L' for a month's last day"
        ) from None
    except (CroniterBadCronError, ValueError, KeyError, TypeError) as exc:
        raise GridError(
            f"chunk: {cron!r} is not a cron expression: {exc}; write five fields: {_FIELDS}"
        ) from None
    minutes, hours, months = (
        _numbers(fields[at], low, high) for at, low, high in ((0, 0, 59), (1, 0, 23), (3, 1, 12))
    )
    return CronPattern(
        expression=expression,
        times=tuple(hour * 3600 + minute * 60 for hour in hours for minute in minutes),
        every_hour=list(fields[1]) == ["*"],
        months=months,
        days=None if fields[2] == ["*"] else frozenset(fields[2]),
        weekdays=None if fields[4] == ["*"] else frozenset(int(day) for day in fields[4]),
        special_days=bool(nth) or "w" in expression.split()[2].lower(),
    )


def _five_fields(cron: str) -> str:
    if not isinstance(cron, str):
        raise GridError(
            f"chunk: {cron!r} is not a cron expression; write five fields: {_FIELDS}, or '@daily'"
        )
    text = cron.strip()
    if text.startswith("@"):
        if text not in ALIASES:
            raise GridError(f"chunk: {cron!r} is not an alias; the aliases are {', '.join(ALIASES)}")
        return ALIASES[text]
    fields = text.split()
    if len(fields) != 5:
        more = "; seconds and years are not part of a chunk" if len(fields) > 5 else ""
        raise GridError(
            f"chunk: {cron!r} has {len(fields)} fields instead of five{more}; write five fields: {_FIELDS}"
        )
    hashed = [field for field in fields if _HASHED.match(field)]
    if hashed:
        raise GridError(
            f"chunk: {cron!r} holds {hashed[0]!r}, a hashed or random field: its ticks would differ from "
            "process to process; write the numbers instead"
        )
    return " ".join(fields)


def _numbers(field: Sequence[int | str], low: int, high: int) -> tuple[int, ...]:
    if list(field) == ["*"]:
        return tuple(range(low, high + 1))
    return tuple(sorted(int(value) for value in field))
