"""The algebra of covered time obeys the laws of sets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from bollhav_provider.intervals import Interval, IntervalSet

START = datetime(2024, 1, 1, tzinfo=UTC)
HOURS = 40


def hours(since: int, until: int) -> Interval:
    return Interval(START + timedelta(hours=since), START + timedelta(hours=until))


@st.composite
def windows(draw: st.DrawFn) -> Interval:
    since = draw(st.integers(0, HOURS - 1))
    return hours(since, draw(st.integers(since + 1, HOURS)))


sets = st.lists(windows(), max_size=12).map(IntervalSet)


def instants(of: IntervalSet) -> set[int]:
    """The set as plain numbers: the independent model that the laws are checked against."""
    return {
        hour for hour in range(HOURS) if any(island.contains(START + timedelta(hours=hour)) for island in of.islands)
    }


@given(st.lists(windows(), max_size=12))
def test_islands_are_maximal_and_in_order(given_windows: list[Interval]) -> None:
    covered = IntervalSet(given_windows)
    for before, after in zip(covered.islands, covered.islands[1:], strict=False):
        assert before.until < after.since
    assert instants(covered) == {
        hour for hour in range(HOURS) for window in given_windows if window.contains(START + timedelta(hours=hour))
    }
    assert IntervalSet(reversed(given_windows)) == covered
    assert IntervalSet(covered) == covered


@given(sets, sets, sets)
def test_laws_of_sets(a: IntervalSet, b: IntervalSet, c: IntervalSet) -> None:
    assert instants(a | b) == instants(a) | instants(b)
    assert instants(a & b) == instants(a) & instants(b)
    assert instants(a - b) == instants(a) - instants(b)
    assert a | b == b | a
    assert a & b == b & a
    assert (a | b) | c == a | (b | c)
    assert (a & b) & c == a & (b & c)
    assert a & (b | c) == (a & b) | (a & c)
    assert a - (b | c) == (a - b) & (a - c)
    assert (a - b) | (a & b) == a
    assert not (a - b) & b
    assert a - a == IntervalSet() == a & IntervalSet()
    assert (a | b).duration + (a & b).duration == a.duration + b.duration
    assert hash(a | b) == hash(b | a)


@given(sets, windows())
def test_gaps_are_what_is_missing(covered: IntervalSet, within: Interval) -> None:
    gaps = covered.gaps(within)
    assert IntervalSet(gaps) == IntervalSet([within]) - covered
    assert covered.first_gap(within) == (gaps[0] if gaps else None)
    assert covered.covers(within) == (not gaps)
    assert (covered | IntervalSet(gaps)).covers(within)


@given(sets, st.integers(0, HOURS - 1))
def test_covering_an_instant(covered: IntervalSet, hour: int) -> None:
    assert covered.covers(START + timedelta(hours=hour)) == (hour in instants(covered))


def test_an_empty_set_covers_nothing() -> None:
    nothing = IntervalSet()
    assert not nothing
    assert nothing.span is None
    assert nothing.duration == timedelta()
    assert nothing.gaps(hours(0, 2)) == (hours(0, 2),)
    assert not nothing.covers(hours(0, 1))


def test_a_set_shows_its_islands() -> None:
    covered = IntervalSet([hours(0, 1), hours(1, 2), hours(3, 4)])
    assert covered.span == hours(0, 4)
    assert len(covered) == 2
    assert repr(covered) == (
        "IntervalSet([2024-01-01T00:00Z, 2024-01-01T02:00Z), [2024-01-01T03:00Z, 2024-01-01T04:00Z))"
    )


def test_many_islands_are_fast() -> None:
    many = IntervalSet(
        Interval(START + timedelta(hours=2 * n), START + timedelta(hours=2 * n + 1)) for n in range(20_000)
    )
    shifted = IntervalSet(
        Interval(START + timedelta(hours=2 * n + 1), START + timedelta(hours=2 * n + 2)) for n in range(20_000)
    )
    assert len(many | shifted) == 1
    assert not many & shifted
    assert many - shifted == many
