"""Every window of a generated DAG is scheduled once, also on the days on which clocks change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pendulum
import pytest
from airflow.timetables.base import DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow_models import windowed
from airflow_testing import state_rows, states

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.intervals import Grid, Interval
from bollhav_provider.timetables.contract import ContractTimetable

#: An hour forward in spring and back in autumn, north and south; half an hour; a zone off the whole hour.
ZONES = (
    "Europe/Stockholm",
    pytest.param("America/New_York", marks=pytest.mark.once),
    "Australia/Lord_Howe",
    pytest.param("Pacific/Chatham", marks=pytest.mark.once),
)
CRONS = ("@hourly", "@daily", "30 * * * *", "0 */7 * * *", "*/20 */2 * * *", "15,40 2 * * *", "0 * L * *", "20 2 * * *")


def changes(tz: str) -> list[datetime]:
    """The instants at which a zone's clocks change in 2024."""
    return [datetime.fromtimestamp(change, UTC) for change in Grid("@daily", tz)._clock.changes(2024, 2024)]


def scheduled(timetable: Any, since: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The data intervals that the scheduler makes one after the other, of a DAG that starts at ``since``."""
    restriction = TimeRestriction(earliest=pendulum.instance(since), latest=pendulum.instance(until), catchup=True)
    last: DataInterval | None = None
    while info := timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction):
        last = info.data_interval
        assert info.run_after == last.end
        assert info.logical_date == last.start
        yield last.start, last.end


def at(text: str) -> Any:
    """An instant as Airflow hands it over."""
    return pendulum.instance(datetime.fromisoformat(text))


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("cron", CRONS)
def test_the_intervals_are_the_windows_of_the_grid_around_every_clock_change(cron: str, tz: str) -> None:
    grid, timetable = Grid(cron, tz), ContractTimetable(cron, tz)
    assert len(changes(tz)) == 2
    for change in changes(tz):
        since, until = change - timedelta(days=3), change + timedelta(days=40)
        found = list(scheduled(timetable, since, until))
        windows = grid.windows(Interval(grid.ceil(since), found[-1][1]))
        assert found == [(window.since, window.until) for window in windows]
        assert all(before[1] == after[0] for before, after in pairwise(found))


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("cron", CRONS)
def test_a_run_by_hand_gets_the_latest_complete_window(cron: str, tz: str) -> None:
    grid, timetable = Grid(cron, tz), ContractTimetable(cron, tz)
    for change in changes(tz):
        for minutes in range(-180, 181, 13):
            now = change + timedelta(minutes=minutes, seconds=7)
            interval = timetable.infer_manual_data_interval(run_after=pendulum.instance(now))
            window = grid.latest_complete(now)
            assert (interval.start, interval.end) == (window.since, window.until)


@pytest.mark.parametrize("catchup", [True, False])
def test_everything_else_is_airflows_own(catchup: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow.timetables.interval.utcnow", lambda: at("2024-06-15T10:30:00+00:00"))
    ours, theirs = (kind("@daily", "Europe/Stockholm") for kind in (ContractTimetable, CronDataIntervalTimetable))
    for begin, end in (("2024-06-14T21:00+00:00", None), ("2024-06-01T00:00+00:00", "2024-06-03T00:00+00:00")):
        restriction = TimeRestriction(earliest=at(begin), latest=end and at(end), catchup=catchup)
        last = None
        for _ in range(5):
            found, expected = (
                timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
                for timetable in (ours, theirs)
            )
            assert found == expected
            last = found and found.data_interval
    for name in ("periodic", "can_be_scheduled", "run_ordering", "summary", "active_runs_limit"):
        assert getattr(ours, name, None) == getattr(theirs, name, None)


def test_without_catch_up_the_latest_complete_window_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    # In the repeated hour of Lord Howe, half an hour after which Airflow's own hourly ticks leave the pattern.
    now = changes("Australia/Lord_Howe")[0] + timedelta(hours=2, minutes=10)
    monkeypatch.setattr("airflow.timetables.interval.utcnow", lambda: pendulum.instance(now))
    grid, timetable = Grid("@hourly", "Australia/Lord_Howe"), ContractTimetable("@hourly", "Australia/Lord_Howe")
    restriction = TimeRestriction(earliest=at("2024-01-01T00:00+00:00"), latest=None, catchup=False)
    info = timetable.next_dagrun_info(last_automated_data_interval=None, restriction=restriction)
    latest = grid.latest_complete(now)
    assert (info.data_interval.start, info.data_interval.end) == (latest.since, latest.until)


def test_no_window_starts_at_the_contracts_end() -> None:
    timetable = ContractTimetable("@daily", "UTC", datetime(2024, 1, 3, 12, tzinfo=UTC))
    found = list(scheduled(timetable, datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 2, 1, tzinfo=UTC)))
    assert [start.day for start, _ in found] == [1, 2, 3]


def test_a_coarser_chunk_goes_on_after_the_last_run_and_never_at_its_logical_date() -> None:
    restriction = TimeRestriction(earliest=at("2024-01-01T00:00+00:00"), latest=None, catchup=True)
    last = DataInterval(at("2024-03-14T00:00+00:00"), at("2024-03-15T00:00+00:00"))
    info = ContractTimetable("@monthly", "UTC").next_dagrun_info(
        last_automated_data_interval=last, restriction=restriction
    )
    assert info.data_interval == (at("2024-04-01T00:00+00:00"), at("2024-05-01T00:00+00:00"))


def test_a_timetable_comes_back_from_the_database_as_it_was() -> None:
    for end in (None, datetime(2024, 1, 3, tzinfo=UTC)):
        timetable = ContractTimetable("@daily", "Pacific/Chatham", end)
        again = ContractTimetable.deserialize(timetable.serialize())
        assert again == timetable
        assert hash(again) == hash(timetable)
        assert again.description == timetable.description
    assert ContractTimetable("@daily", "UTC") != ContractTimetable("@daily", "Pacific/Chatham")
    assert ContractTimetable("@daily", "UTC") != ContractTimetable("@daily", "UTC", datetime(2024, 1, 3, tzinfo=UTC))


def test_the_ui_shows_the_cron_its_zone_and_the_end() -> None:
    timetable = ContractTimetable("@daily", "Pacific/Chatham", datetime(2024, 1, 3, 12, tzinfo=UTC))
    assert timetable.summary == "0 0 * * *"
    assert timetable.description == "At 00:00 in Pacific/Chatham, until 2024-01-03 12:00 UTC"
    assert ContractTimetable("0 6 * * 1", "UTC").description.endswith("in UTC")


@pytest.mark.parametrize("end", [None, "2024-10-09T00:00:00+11:00"])
def test_every_generated_dag_has_it_also_after_the_database(end: str | None) -> None:
    model = windowed("shop.orders", chunk="@hourly", tz="Australia/Lord_Howe", begin="2024-10-05T00:00+10:30", end=end)
    dag = build_dags([model])["shop.orders"]
    restored = _restored(dag)
    assert isinstance(dag.timetable, ContractTimetable)
    assert restored.timetable == dag.timetable
    since, until = pendulum.instance(dag.start_date), at("2024-10-07T00:00+11:00")
    infos = [info.data_interval for info in restored.iter_dagrun_infos_between(since, until)]
    windows = Grid("@hourly", "Australia/Lord_Howe").windows(Interval(since, infos[-1].end))
    assert [(found.start, found.end) for found in infos] == [(window.since, window.until) for window in windows]


@pytest.mark.parametrize("tz", ZONES)
def test_runs_of_the_days_around_a_clock_change_do_every_window_once(tz: str, library: str, run: Any) -> None:
    days = Grid("@daily", tz)
    change = changes(tz)[-1]
    begin = days.floor(change - timedelta(days=1))
    end = days.next(days.next(days.next(begin)))
    model = windowed(
        "shop.local_hours", chunk="@hourly", window="@daily", tz=tz, units_per_task=100,
        begin=begin.isoformat(), end=end.isoformat(),
    )  # fmt: skip
    dag = build_dags([model])["shop.local_hours"]
    for _, until in scheduled(dag.timetable, begin, end):
        assert set(states(run(dag, until)).values()) == {"success"}
    windows = list(Grid("@hourly", tz).windows(Interval(begin, end)))
    assert len(windows) in (71, 72, 73)
    found = state_rows(library, model, "since", "until", "status", "attempt")
    assert found == [(window.since, window.until, "applied", 1) for window in windows]


def _restored(dag: Any) -> Any:
    """A DAG as the scheduler reads it from the metadata."""
    from airflow.serialization import serialized_objects

    kind = getattr(serialized_objects, "DagSerialization", None) or serialized_objects.SerializedDAG
    return kind.from_dict(kind.to_dict(dag))
