"""The rules of gates on hand-made facts: no database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bollhav_provider.intervals import Grid, Interval
from bollhav_provider.state import reasons
from bollhav_provider.state.gate_rules import Facts, grid_or_none, judge, start_to_ask_for
from bollhav_provider.state.gate_types import OWN_PAST, GateReport, GateRequest, GateResult

NOW = datetime(2024, 1, 10, 12, 30, tzinfo=UTC)
DAYS = [datetime(2024, 1, d, tzinfo=UTC) for d in range(1, 15)]


def days(first: int, last: int) -> Interval:
    return Interval(DAYS[first - 1], DAYS[last - 1])


def facts(**known: object) -> Facts:
    """A registered daily upstream that began on the first of January."""
    found = Facts(registered=True, begin=DAYS[0], grid=Grid("@daily"), chunk="@daily", now=NOW, first=DAYS[0])
    return replace(found, **known)  # type: ignore[arg-type]


def ask(level: str, window: Interval | None = None, **more: object) -> GateRequest:
    return GateRequest("up.stream", level, window, **more)  # type: ignore[arg-type]


def row(**columns: object) -> tuple[object, ...]:
    """A row as the database returns it."""
    names = (
        "at", "stateful", "timeless", "fixed", "begins", "ends", "chunk", "tz", "islands", "row_since", "row_until",
        "first_since", "row_status", "row_applied_at", "selected", "loaded", "reader",
    )  # fmt: skip
    known = {"at": NOW, "stateful": True, "timeless": False, "fixed": True} | columns
    return tuple(known.get(name) for name in names)


class TestFacts:
    def test_no_row_of_the_library_is_no_registration(self) -> None:
        assert not Facts.from_row((None,) * 17).registered

    def test_instants_are_read_as_datetimes_and_as_text(self) -> None:
        text = Facts.from_row(row(begins="2024-01-01T00:00:00+01:00", islands=[DAYS[0], DAYS[2].isoformat()]))
        assert text.begin == datetime(2023, 12, 31, 23, tzinfo=UTC)
        assert text.islands == (days(1, 3),)

    @pytest.mark.parametrize(
        ("ends", "end"),
        [
            (None, None),
            ("2024-01-05", DAYS[4]),
            ("2024-01-05T00:00:00", DAYS[4]),
            ("2024-01-05T01:00:00+01:00", DAYS[4]),
            ("next week", None),
        ],
    )
    def test_an_end_that_cannot_be_read_is_none(self, ends: str | None, end: datetime | None) -> None:
        assert Facts.from_row(row(ends=ends)).end == end

    @pytest.mark.parametrize(
        ("chunk", "tz"), [("*/5 * * * * *", "UTC"), ("@daily", "Mars/Base"), ("often", "UTC")]
    )
    def test_a_chunk_that_is_no_grid_here_is_none(self, chunk: str, tz: str) -> None:
        assert Facts.from_row(row(chunk=chunk, tz=tz)).grid is None
        assert grid_or_none(chunk, tz) is None

    def test_a_zone_that_nobody_gave_is_utc(self) -> None:
        assert Facts.from_row(row(chunk="@daily")).grid == Grid("@daily", "UTC")

    def test_an_outstanding_row_without_a_real_window_shuts_without_naming_one(self) -> None:
        found = Facts.from_row(row(begins=DAYS[0], row_since=DAYS[1], row_until=DAYS[1]))
        assert judge(ask("whole"), found).missing is None
        assert judge(ask("through", days(1, 2)), replace(found, islands=(days(1, 9),))).satisfied is False


class TestDeclaredRange:
    def test_an_open_contract_reaches_to_the_latest_complete_tick(self) -> None:
        assert facts().declared == (True, days(1, 10))

    def test_a_contract_reaches_to_its_end(self) -> None:
        assert facts(end=DAYS[4]).declared == (True, days(1, 5))

    def test_an_end_to_come_is_cut_at_what_has_elapsed(self) -> None:
        assert facts(end=DAYS[12]).declared == (True, days(1, 10))

    def test_an_end_inside_a_window_leaves_that_window_out_unless_it_is_flexible(self) -> None:
        end = DAYS[4] + timedelta(hours=7)
        assert facts(end=end).declared == (True, days(1, 5))
        assert facts(end=end, fixed=False).declared == (True, Interval(DAYS[0], end))

    def test_a_begin_inside_a_window_leaves_that_window_out_unless_it_is_flexible(self) -> None:
        begin = DAYS[0] + timedelta(hours=7)
        assert facts(begin=begin).declared == (True, days(2, 10))
        assert facts(begin=begin, fixed=False).declared == (True, Interval(begin, DAYS[9]))

    def test_nothing_elapsed_is_known_to_be_nothing(self) -> None:
        assert facts(begin=DAYS[11]).declared == (True, None)

    @pytest.mark.parametrize("known", [{"begin": None}, {"grid": None}, {"grid": None, "end": DAYS[12]}])
    def test_what_the_registrant_does_not_say_is_not_known(self, known: dict[str, object]) -> None:
        assert facts(**known).declared == (False, None)

    def test_without_a_chunk_an_end_that_has_passed_is_known(self) -> None:
        assert facts(grid=None, end=DAYS[4]).declared == (True, days(1, 5))


class TestLag:
    def test_windows_are_counted_on_the_upstreams_grid_whatever_mine_is(self) -> None:
        known = facts(islands=(days(1, 4),))
        noon = Interval(DAYS[3] + timedelta(hours=1), DAYS[3] + timedelta(hours=13))
        assert not judge(ask("encapsulate", noon), known).satisfied
        forgiven = judge(ask("encapsulate", noon, max_lag=1), known)
        assert (forgiven.satisfied, forgiven.lag) == (True, 1)

    def test_without_a_grid_nothing_is_forgiven(self) -> None:
        assert not judge(
            ask("encapsulate", days(1, 3), max_lag=5), facts(grid=None, islands=(days(1, 2),))
        ).satisfied

    def test_a_lag_over_everything_still_needs_something_applied(self) -> None:
        assert not judge(ask("whole", max_lag=99), facts()).satisfied


def test_more_is_asked_for_only_where_islands_end_before_the_first_tick() -> None:
    begin = DAYS[0] + timedelta(hours=1)
    crumbs = tuple(
        Interval(begin + timedelta(hours=2 * h), begin + timedelta(hours=2 * h + 1)) for h in range(3)
    )
    known = facts(begin=begin, islands=crumbs)
    assert start_to_ask_for(ask("whole"), known) == DAYS[1]
    assert start_to_ask_for(ask("through", days(2, 3)), known) == DAYS[1]
    assert start_to_ask_for(ask("encapsulate", days(2, 3)), known) is None
    assert start_to_ask_for(ask("whole"), replace(known, islands=crumbs[:2])) is None
    assert start_to_ask_for(ask("whole"), replace(known, islands=(*crumbs[:2], days(2, 3)))) is None


def test_a_window_means_whole_to_a_unit_without_one() -> None:
    assert [ask(level).effective_level for level in ("exact", "encapsulate", "through", "whole", "exists")] == [
        "whole", "whole", "whole", "whole", "exists",
    ]  # fmt: skip
    assert ask("exact", days(1, 2)).effective_level == "exact"
    assert ask(OWN_PAST, days(1, 2)).effective_level == OWN_PAST


class TestReport:
    def test_nothing_asked_is_open(self) -> None:
        assert GateReport().open
        assert not GateReport().hard
        assert GateReport().reason == ""

    def test_the_machine_readable_form_says_what_the_text_says(self) -> None:
        result = judge(ask("encapsulate", days(1, 3)), facts(islands=(days(1, 2),)))
        assert result.to_json() == {
            "upstream": "up.stream", "level": "encapsulate", "satisfied": False, "hard": False, "code": "STATE_002",
            "reason": "STATE_002: upstream 'up.stream' (encapsulate) missing [2024-01-02T00:00Z, 2024-01-03T00:00Z)",
            "missing": {"since": "2024-01-02T00:00:00+00:00", "until": "2024-01-03T00:00:00+00:00"},
            "stale": False, "age_seconds": None, "lag": 0,
        }  # fmt: skip

    def test_an_open_gate_has_neither_code_nor_reason(self) -> None:
        assert GateResult(ask("exists"), True).to_json()["code"] is None


class TestReasons:
    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (0, "0s"), (1, "1s"), (59.9, "59s"), (60, "1m"), (90, "1m 30s"), (3600, "1h"), (3661, "1h 1m"),
            (86_400, "1d"), (86_400 + 59, "1d"), (100 * 86_400 + 7_200, "100d 2h"), (-90, "1m 30s"),
        ],
    )  # fmt: skip
    def test_durations_are_shown_in_their_two_largest_units(self, seconds: float, text: str) -> None:
        assert reasons.duration_text(timedelta(seconds=seconds)) == text

    def test_only_the_age_may_differ_between_reasons_that_are_the_same(self) -> None:
        limit = timedelta(hours=1)
        young, old, other = (
            reasons.stale("a.b", level, timedelta(hours=age), limit)
            for level, age in (("whole", 2), ("whole", 30), ("exact", 2))
        )
        assert young != old
        assert reasons.same_reason(young, old)
        assert not reasons.same_reason(young, other)
        assert not reasons.same_reason(young, None)
        assert reasons.same_reason(None, "")

    def test_a_load_in_the_future_says_so(self) -> None:
        text = reasons.stale("a.b", "whole", timedelta(minutes=-5), timedelta(hours=1))
        assert text == "STATE_002: upstream 'a.b' (whole, stale) dated 5m in the future, limit 1h"

    def test_every_code_is_explained_and_none_is_used_twice(self) -> None:
        codes = [value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)]
        assert sorted(codes) == sorted(set(codes)) == sorted(reasons.CODES)
