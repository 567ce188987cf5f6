"""The timetable of every generated DAG: the grid's windows as data intervals, up to the end of a contract."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pendulum
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable

from bollhav_provider.intervals import Grid, as_utc


class ContractTimetable(CronDataIntervalTimetable):
    """Data intervals that are exactly the windows of a grid, none of which starts at or after ``end``.

    Airflow's cron data intervals do not tile at some clock changes (see :mod:`bollhav_provider.intervals.grid`): a
    window would then run twice, or never. This timetable steps from tick to tick of the grid instead, which is the
    same everywhere else. It stays a cron data-interval timetable, because Airflow treats those specially: the calendar
    shows their coming runs, and the end of an interval is inferred where only its start was stored.

    A DAG's ``end_date`` would bound the intervals as well, but a run by hand after that date has no tasks at all, and
    a table whose contract has ended must still be loadable again.

    Args:
        cron: a five-field cron or an alias.
        timezone: IANA name of the zone in which it is read.
        end: the contract's end, aware; None for an open one.

    Raises:
        GridError: the cron or the zone is none.
        IntervalError: ``end`` is naive.

    Rule: Semantics, time.
    """

    def __init__(self, cron: str, timezone: str, end: datetime | None = None) -> None:
        super().__init__(cron, timezone)
        self.grid = Grid(cron, timezone)
        self.end = None if end is None else as_utc(end, "end")
        bound = "" if self.end is None else f", until {self.end:%Y-%m-%d %H:%M} UTC"
        self.description = f"{self.description or self.grid.expression} in {timezone}{bound}"
        self._hash = hash((self.grid, self.end))  # Airflow asks for it dozens of times a DAG

    def validate(self) -> None:
        """Check nothing: an expression without a meaning is refused when the timetable is made."""

    def serialize(self) -> dict[str, Any]:
        """Return what :meth:`deserialize` takes."""
        data = {"expression": self.grid.expression, "timezone": self.grid.tz}
        return data if self.end is None else {**data, "end": self.end.isoformat()}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> ContractTimetable:
        """Return the timetable that :meth:`serialize` described."""
        end = data.get("end")
        return cls(data["expression"], data["timezone"], datetime.fromisoformat(end) if end else None)

    def __eq__(self, other: object) -> bool:
        # Not isinstance, which a timetable answers by going through its methods: dozens of times a DAG.
        return self is other or (type(other) is type(self) and (self.grid, self.end) == (other.grid, other.end))

    def __hash__(self) -> int:
        return self._hash

    # Airflow's own next_dagrun_info, infer_manual_data_interval and skipping to the latest window step with these.

    def _get_next(self, current: datetime) -> pendulum.DateTime:
        return pendulum.instance(self.grid.next(current), tz="UTC")

    def _get_prev(self, current: datetime) -> pendulum.DateTime:
        return pendulum.instance(self.grid.prev(current), tz="UTC")

    def _align_to_next(self, current: datetime) -> pendulum.DateTime:
        return pendulum.instance(self.grid.ceil(current), tz="UTC")

    def _align_to_prev(self, current: datetime) -> pendulum.DateTime:
        return pendulum.instance(self.grid.floor(current), tz="UTC")

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Return the run of the window after the last one; None after the contract's end.

        Where the chunk has become coarser since the last run, the next window starts after that run's, so that no
        two runs have one logical date. Airflow does so itself from 3.3 on.
        """
        last = last_automated_data_interval
        found = super().next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
        if found is None or found.data_interval is None:
            return None
        start = found.data_interval.start
        if last is not None and start <= last.start:
            start = self._get_next(last.start)
            found = DagRunInfo.interval(start=start, end=self._get_next(start))
        late = restriction.latest is not None and start > restriction.latest
        return None if late or (self.end is not None and start >= self.end) else found
