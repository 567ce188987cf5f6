"""Gates between schedules that do not fit each other: offset days, irregular chunks, several upstreams, late comers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random

import psycopg
import pytest
from gate_support import DAY, Library, Row, Upstream, ask, insert, own_database, put, state_sql, window
from state_support import connect

from bollhav_provider.intervals import Grid, Interval
from bollhav_provider.state import GateRequest


@pytest.fixture(scope="module")
def library(pg_dsn: str) -> Iterator[Library]:
    with own_database(pg_dsn, "gates_grains") as conn:
        yield Library(conn)


def told(library: Library, name: str, level: str, since: float, until: float) -> str:
    return ask(library, GateRequest(name, level, window(since, until))).reason


@pytest.mark.parametrize("level", ["exact", "encapsulate"])
def test_what_is_applied_later_is_not_what_is_waited_for(library: Library, name: str, level: str) -> None:
    put(library, name, Upstream([Row(11, 12), Row(12, 13)], begin=0))
    assert told(library, name, level, 10, 11) == (
        f"STATE_002: upstream '{name}' ({level}) missing [2024-01-01T10:00Z, 2024-01-01T11:00Z)"
    )


def test_a_day_that_starts_at_another_hour_needs_both_days_that_it_lies_in(library: Library, name: str) -> None:
    # 02:00 to 02:00 upstream, 00:00 to 00:00 downstream
    days = [Row(-22, 2, "pending"), Row(2, 26)]
    put(library, name, Upstream(days, begin=-22, chunk="0 2 * * *"))
    assert told(library, name, "encapsulate", 0, 24).endswith("missing [2024-01-01T00:00Z, 2024-01-01T02:00Z)")
    put(library, name, Upstream([Row(-22, 2), Row(2, 26, "pending")], begin=-22, chunk="0 2 * * *"))
    assert told(library, name, "encapsulate", 0, 24).endswith("missing [2024-01-01T02:00Z, 2024-01-02T00:00Z)")
    put(library, name, Upstream([Row(-22, 2), Row(2, 26)], begin=-22, chunk="0 2 * * *"))
    assert told(library, name, "encapsulate", 0, 24) == ""


def test_a_day_names_the_one_hour_that_it_lacks_and_opens_with_it(library: Library, name: str) -> None:
    put(library, name, Upstream([Row(h, h + 1) for h in range(24) if h != 17], begin=0))
    assert told(library, name, "encapsulate", 0, 24).endswith("missing [2024-01-01T17:00Z, 2024-01-01T18:00Z)")
    insert(library.conn, library.ref(name), 17, 18)
    assert told(library, name, "encapsulate", 0, 24) == ""


def test_an_upstream_of_a_finer_grain_without_any_row_is_missing_like_any_other(library: Library, name: str) -> None:
    for begin in (None, 0):
        put(library, name, Upstream([], begin=begin))
        assert told(library, name, "encapsulate", 0, 24) == (
            f"STATE_002: upstream '{name}' (encapsulate) missing [2024-01-01T00:00Z, 2024-01-02T00:00Z)"
        )


def test_windows_of_unequal_length_cover_by_where_they_end(library: Library, name: str) -> None:
    irregular = Grid("0 2 2,11,19,26 * *")
    months = Grid("@monthly")
    spring = Interval(datetime(2023, 12, 20, tzinfo=UTC), datetime(2024, 6, 5, tzinfo=UTC))

    def hours(at: datetime) -> float:
        return (at - DAY).total_seconds() / 3600

    cells = list(irregular.windows(spring))
    for left_out in range(len(cells)):
        rows = [Row(hours(c.since), hours(c.until)) for n, c in enumerate(cells) if n != left_out]
        put(library, name, Upstream(rows, begin=hours(cells[0].since), chunk=irregular.cron))
        hole = cells[left_out]
        for month in months.windows(Interval(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC))):
            result = ask(library, GateRequest(name, "encapsulate", month)).results[0]
            assert result.missing == hole.intersection(month), (month, hole)
            assert result.satisfied is (result.missing is None)


def test_two_upstreams_have_to_cover_the_same_window(library: Library, name: str) -> None:
    put(library, name, Upstream([Row(0, 24), Row(24, 48, "pending")], begin=0, end=48, chunk="@daily"))
    library.put("up.second", Upstream([Row(0, 24, "pending"), Row(24, 48)], begin=0, end=48, chunk="@daily"))
    for day in (window(0, 24), window(24, 48)):
        report = ask(library, *(GateRequest(up, "encapsulate", day) for up in (name, "up.second")))
        assert not report.open
        assert [result.satisfied for result in report.results].count(True) == 1


def test_who_comes_late_looks_at_what_is_covered_and_not_at_what_happened_since(library: Library, name: str) -> None:
    """A downstream that is deployed, or enabled again, after its upstream ran for days sees each of them as it is."""
    days = [Row(24 * d, 24 * d + 24, age=9000) for d in range(5) if d != 2]
    put(library, name, Upstream(days, begin=0, chunk="@daily"))
    assert [told(library, name, "exact", 24 * d, 24 * d + 24) == "" for d in range(6)] == [
        True, True, False, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_sixteen_upstreams_that_end_at_once_open_the_gate_with_the_last_and_not_before(
    library: Library, seed: int
) -> None:
    """However commits are ordered, and whether two come in the same millisecond: what counts is what is applied."""
    chance = Random(seed)
    names = [f"up.many_{n}" for n in range(16)]
    for each in names:
        library.put(each, Upstream([Row(0, 1, "running")], begin=0, end=1))
    requests = [GateRequest(each, "exact", window(0, 1)) for each in names]
    connections = [connect(library.conn.info.dsn) for _ in range(4)]
    try:
        for _ in range(25):
            for each in names:
                state_sql(library.conn, library.ref(each), "UPDATE {} SET status = 'running'")
            order = chance.sample(names, len(names))
            together = threading.Barrier(4)

            def commit(
                conn: psycopg.Connection[object], mine: list[str], together: threading.Barrier = together
            ) -> None:
                together.wait()
                for each in mine:
                    state_sql(conn, library.ref(each), "UPDATE {} SET status = 'applied', applied_at = now()")

            # all but one at once; then the last
            threads = [
                threading.Thread(target=commit, args=(conn, order[n:-1:4])) for n, conn in enumerate(connections)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            report = ask(library, *requests)
            assert [r.request.upstream for r in report.results if not r.satisfied] == [order[-1]]
            state_sql(connections[0], library.ref(order[-1]), "UPDATE {} SET status = 'applied', applied_at = now()")
            assert ask(library, *requests).open
    finally:
        for conn in connections:
            conn.close()


@pytest.mark.parametrize("status", ["applied", "pending"])
@pytest.mark.parametrize(
    ("since", "until"),
    [
        ("0044-03-15 BC", "0044-03-16 BC"),
        ("20000-01-01Z", "20000-01-02Z"),
        ("-infinity", "infinity"),
        ("2024-01-05Z", "2024-01-04Z"),
    ],
)
def test_a_row_that_is_no_window_counts_for_nothing_at_any_level(
    library: Library, name: str, since: str, until: str, status: str
) -> None:
    for begin in (None, 0):
        put(library, name, Upstream([Row(0, 1), Row(1, 2)], begin=begin, end=2))
        state_sql(
            library.conn,
            library.ref(name),
            "INSERT INTO {} (model_name, run_id, since, until, status, applied_at) "
            "VALUES ('x', gen_random_uuid(), %s, %s, %s, 'infinity')",
            since, until, status,
        )  # fmt: skip
        within = timedelta(hours=1)
        for scope in ("latest", "all", "head"):
            levels = ("exact", "encapsulate", "through", "whole")
            report = ask(library, *(GateRequest(name, level, window(0, 1), within, scope) for level in levels))
            assert report.open, report.reason


@pytest.mark.parametrize("applied_at", ["infinity", "-infinity", "0044-03-15 BC", "20000-01-01Z"])
def test_a_load_that_is_dated_beyond_the_calendar_is_not_fresh_and_breaks_nothing(
    library: Library, name: str, applied_at: str
) -> None:
    put(library, name, Upstream([Row(0, 1)], begin=0, end=1))
    state_sql(library.conn, library.ref(name), "UPDATE {} SET applied_at = %s", applied_at)
    for level in ("exact", "encapsulate", "through", "whole"):
        assert ask(library, GateRequest(name, level, window(0, 1))).open
        report = ask(library, GateRequest(name, level, window(0, 1), timedelta(hours=1)))
        assert report.results[0].stale
        assert report.reason
