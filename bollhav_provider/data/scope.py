"""Which rows of an upstream a unit reads: what its gate covers, on the upstream's partition column."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from psycopg import sql

from bollhav_provider.exceptions import DataError
from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.model import UpstreamContract


@dataclass(frozen=True, slots=True)
class Scope:
    """A range of time, open on either side; both None is everything."""

    since: datetime | None = None
    until: datetime | None = None

    @property
    def everything(self) -> bool:
        return self.since is None and self.until is None

    def __str__(self) -> str:
        if self.everything:
            return "everything"
        if self.since is not None and self.until is not None:
            return str(Interval(self.since, self.until))
        return f"everything before {self.until}"


def scope_of(contract: UpstreamContract | None, unit: Unit, *, upstream_temporal: bool) -> Scope:
    """Return what a unit reads of one upstream.

    EXACT and ENCAPSULATE read the unit's window, THROUGH everything before its end, WHOLE everything; without
    a gate, or with EXISTS, the window when both sides are temporal (Semantics: dependencies between models).
    """
    if unit.window is None or not upstream_temporal or contract is UpstreamContract.WHOLE:
        return Scope()
    if contract is UpstreamContract.THROUGH:
        return Scope(None, unit.window.until)
    return Scope(unit.window.since, unit.window.until)


def condition(scope: Scope, column: str, kind: str, tz: str, naive_tz: str, what: str) -> sql.Composed | None:
    """Return the WHERE condition of a scope; None when everything is read.

    An instant is compared as it is. A date stands for the whole local day, so the days that the scope touches
    are read; a timestamp without a zone is the wall clock of the column's zone.

    Args:
        scope: what to read.
        column: the upstream's partition column.
        kind: how the column travels, see :mod:`bollhav_provider.data.fetch`.
        tz: zone of the upstream's chunk, whose midnights bound a date.
        naive_tz: zone that the column's timestamps without a zone are in.
        what: named by errors.

    Raises:
        DataError: the column is neither a date nor a timestamp.
    """
    if scope.everything:
        return None
    if kind == "timestamptz":
        return _between(column, scope.since, scope.until, "timestamptz")
    if kind == "timestamp":
        zone = ZoneInfo(naive_tz)
        return _between(column, _wall(scope.since, zone), _wall(scope.until, zone), "timestamp")
    if kind == "date":
        zone = ZoneInfo(tz)
        low_day = scope.since.astimezone(zone).date() if scope.since else None
        high_day = None
        if scope.until is not None:
            last = scope.until.astimezone(UTC) - timedelta(microseconds=1)
            high_day = last.astimezone(zone).date() + timedelta(days=1)
        return _between(column, low_day, high_day, "date")
    raise DataError(
        f"{what}: the partition column {column!r} is neither a date nor a timestamp, so no window can be "
        f"read by it: gate the "
        "source WHOLE, or partition it by a date or timestamp."
    )


def _wall(at: datetime | None, zone: ZoneInfo) -> datetime | None:
    return at.astimezone(zone).replace(tzinfo=None) if at is not None else None


def _between(column: str, low: object, high: object, kind: str) -> sql.Composed:
    parts = []
    for value, comparison in ((low, ">="), (high, "<")):
        if value is not None:
            parts.append(
                sql.SQL("{} {} {}::{}").format(
                    sql.Identifier(column), sql.SQL(comparison), sql.Literal(str(value)), sql.SQL(kind)
                )
            )
    return sql.SQL(" AND ").join(parts)
