"""A cron's data intervals up to the end of a contract."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable

from bollhav_provider.intervals import as_utc


class ContractTimetable(CronDataIntervalTimetable):
    """Airflow's cron data intervals, none of which starts at or after ``end``.

    A DAG's ``end_date`` would bound them as well, but a run by hand after that date has no tasks at all, and a table
    whose contract has ended must still be loadable again.

    Args:
        cron: a five-field cron or an alias.
        timezone: in which it is read.
        end: the contract's end, aware.
    """

    def __init__(self, cron: str, timezone: Any, end: datetime) -> None:
        super().__init__(cron, timezone)
        self.end = as_utc(end, "end")

    def serialize(self) -> dict[str, Any]:
        return {**super().serialize(), "end": self.end.isoformat()}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> ContractTimetable:
        plain: Any = CronDataIntervalTimetable.deserialize(data)
        return cls(data["expression"], plain._timezone, datetime.fromisoformat(data["end"]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContractTimetable) and self.serialize() == other.serialize()

    __hash__ = None  # type: ignore[assignment]

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        found = super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )
        if found is None or found.data_interval is None or found.data_interval.start >= self.end:
            return None
        return found
