"""Time zones as offsets in whole seconds, fast enough for a million ticks.

All arithmetic of the grid is done in integers: seconds since 1970 in UTC, and "local seconds", which are the
wall clock read as if it were UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from bollhav_provider.exceptions import GridError

__all__ = ["EPOCH", "FIRST", "LAST", "ZoneClock", "zone_clock"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)
_DAY = 86_400

#: The range that the grid serves, in seconds: everything that stays inside the years 1 to 9999 in every zone.
FIRST = int((datetime(1, 1, 3, tzinfo=UTC) - EPOCH).total_seconds())
LAST = int((datetime(9999, 12, 29, tzinfo=UTC) - EPOCH).total_seconds())

# Names that zoneinfo may find on one machine and that mean something else, or nothing, on the next one.
_MACHINE_NAMES = ("localtime", "posixrules", "Factory", "right/", "posix/")


class ZoneClock:
    """One time zone: its offset at every instant, and where that offset changes.

    Args:
        name: an IANA name.

    Raises:
        GridError: there is no such zone.
    """

    __slots__ = ("_year", "_zone", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._zone = _load(name)
        self._year = lru_cache(maxsize=1024)(self._changes_of_year)

    def offset_at(self, utc: int) -> int:
        """Return the offset in seconds, east positive, at an instant."""
        at = EPOCH + timedelta(seconds=min(max(utc, FIRST), LAST))
        offset = at.astimezone(self._zone).utcoffset()
        assert offset is not None
        return int(offset.total_seconds())

    def segment(self, utc: int) -> tuple[int, int, int]:
        """Return ``(offset, end, offset after end)`` of the stretch that holds an instant.

        A stretch ends at the next change of the offset, or at the end of the year in UTC, whichever is first.
        """
        year = (EPOCH + timedelta(seconds=min(max(utc, FIRST), LAST))).year
        first, changes, end = self._year(year)
        offset = first
        for at, after in changes:
            if utc < at:
                return offset, at, after
            offset = after
        return offset, end, self.offset_at(end)

    def steady(self, since: int, until: int) -> bool:
        """Say whether the offset never changes inside ``(since, until]``."""
        if since < FIRST or until > LAST:
            return False
        at = since
        while at < until:
            offset, end, after = self.segment(at)
            if end <= until and after != offset:
                return False
            at = end
        return True

    def changes(self, first_year: int, last_year: int) -> list[int]:
        """Return the instants at which the offset changes in a range of years."""
        return [at for year in range(first_year, last_year + 1) for at, _ in self._year(year)[1]]

    def to_utc(self, local: int) -> int:
        """Convert local seconds to the later of the two instants that they can mean.

        A repeated local time is its second occurrence; a skipped one moves forward by what the clock skipped.
        That is how Airflow reads the time that a cron names.
        """
        naive = _NAIVE_EPOCH + timedelta(seconds=local)
        offsets = [naive.replace(tzinfo=self._zone, fold=fold).utcoffset() for fold in (0, 1)]
        return local - min(int(offset.total_seconds()) for offset in offsets if offset is not None)

    def _changes_of_year(self, year: int) -> tuple[int, tuple[tuple[int, int], ...], int]:
        """Find a year's changes by looking at every day and bisecting the days that differ."""
        start = max(_seconds(datetime(year, 1, 1, tzinfo=UTC)), FIRST)
        end = min(_seconds(datetime(year + 1, 1, 1, tzinfo=UTC)), LAST) if year < 9999 else LAST
        first = before = self.offset_at(start)
        found: list[tuple[int, int]] = []
        # The last probe is the last second of the year: a change at the very first second of the next one
        # belongs there.
        for probe in (*range(start + _DAY, end, _DAY), end - 1):
            after = self.offset_at(probe)
            if after != before:
                low, high = probe - _DAY, probe
                while high - low > 1:
                    middle = (low + high) // 2
                    if self.offset_at(middle) == before:
                        low = middle
                    else:
                        high = middle
                found.append((high, after))
                before = after
        return first, tuple(found), end


def _seconds(at: datetime) -> int:
    return (at - EPOCH) // timedelta(seconds=1)


def _load(name: str) -> ZoneInfo:
    if not isinstance(name, str) or not name or name.startswith(_MACHINE_NAMES):
        raise GridError(
            f"tz: {name!r} is not a time zone; write an IANA name such as 'Europe/Stockholm' or 'UTC'"
        )
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        from difflib import get_close_matches
        from zoneinfo import available_timezones

        close = get_close_matches(name, sorted(available_timezones()), n=1)
        hint = (
            f"did you mean {close[0]!r}?"
            if close
            else "write an IANA name such as 'Europe/Stockholm' or 'UTC'"
        )
        raise GridError(f"tz: {name!r} is not a known time zone; {hint}") from None


@lru_cache(maxsize=256)
def zone_clock(name: str) -> ZoneClock:
    """Return the clock of a zone, one object a name for the whole process."""
    return ZoneClock(name)
