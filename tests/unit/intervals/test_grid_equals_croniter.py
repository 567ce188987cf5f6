"""In UTC, where no clock changes, the ticks are croniter's own, forwards and backwards, whatever the fields hold."""

from __future__ import annotations

from datetime import UTC, datetime

from croniter import CroniterBadDateError, croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from bollhav_provider.exceptions import GridError
from bollhav_provider.intervals import Grid


def field(low: int, high: int) -> st.SearchStrategy[str]:
    """Stars, numbers, lists, ranges and steps."""
    number = st.integers(low, high)
    ranges = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    stepped = st.tuples(st.one_of(st.just("*"), ranges), st.integers(1, high)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    lists = st.lists(number, min_size=1, max_size=3).map(lambda numbers: ",".join(map(str, numbers)))
    return st.one_of(st.just("*"), st.just("*"), lists, ranges, stepped)


special_days = st.sampled_from(["L", "15,L", "15W", "1W", "31W", "29,L", "?"])
special_weekdays = st.sampled_from(["5#2", "L5", "1#1", "mon#1,fri#3", "sun", "7", "0-7", "fri-mon", "L0", "?"])
months = st.sampled_from(["*", "*", "jan", "feb-apr", "*/3", "2", "nov-feb"])
crons = st.tuples(
    field(0, 59),
    field(0, 23),
    st.one_of(field(1, 31), special_days),
    months,
    st.one_of(field(0, 6), special_weekdays),
).map(" ".join)


@given(cron=crons, start=st.datetimes(datetime(2023, 1, 1), datetime(2025, 1, 1)))
@settings(max_examples=150, deadline=None)
def test_ticks_are_croniters(cron: str, start: datetime) -> None:
    start = start.replace(microsecond=0)
    try:
        walk = croniter(cron, start)
        expected = [walk.get_next(datetime) for _ in range(6)]
        walk = croniter(cron, expected[-1])
        before = [walk.get_prev(datetime) for _ in range(6)]
    except CroniterBadDateError:
        try:
            Grid(cron)
        except GridError:
            return
        raise
    grid, at = Grid(cron), start.replace(tzinfo=UTC)
    for tick in expected:
        at = grid.next(at)
        assert at.replace(tzinfo=None) == tick
    for tick in before:
        at = grid.prev(at)
        assert at.replace(tzinfo=None) == tick
