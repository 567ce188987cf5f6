"""Gates end to end: how old rows may be, what a shut gate says, calendars, and how many statements it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from gate_support import ENV, SCHEMA, Counting, Library, Row, Upstream, ask, own_database, put, state_sql, window
from state_support import Conn, connect

from bollhav_provider import state
from bollhav_provider.exceptions import GateClosedError, HardGateError, StateError
from bollhav_provider.intervals import Interval
from bollhav_provider.model import (
    Freshness,
    FreshnessScope,
    Source,
    SourceModel,
    UpstreamContract,
)
from bollhav_provider.state import GateRequest, GateRequests, check_gates


@pytest.fixture(scope="module")
def library(pg_dsn: str) -> Iterator[Library]:
    with own_database(pg_dsn, "gates") as conn:
        yield Library(conn)


def gated(name: str, contract: str = "encapsulate", **fields: Any) -> Source:
    return Source(name, type=SourceModel(), contract=UpstreamContract(contract), **fields)


# How old

#: (age in minutes of the rows 0-1, 1-2, 2-3), scope, level -> fresh with a limit of an hour
AGES = [
    ((5, 5, 5), "latest", "encapsulate", True),
    ((5, 90, 90), "latest", "encapsulate", True),
    ((90, 90, 5), "latest", "exact", False),
    ((90, 90, 90), "latest", "encapsulate", False),
    ((5, 5, 90), "all", "encapsulate", False),
    ((5, 5, 59), "all", "encapsulate", True),
    ((5, 5, None), "all", "encapsulate", False),
    ((5, 5, None), "latest", "encapsulate", True),
    ((5, 90, 5), "head", "encapsulate", True),
    ((5, 5, 90), "head", "encapsulate", False),
    ((5, 5, None), "head", "whole", False),
    ((90, 5, 5), "all", "through", False),
    ((90, 90, 5), "latest", "through", True),
    ((5, 90, 90), "head", "through", False),
    ((90, 90, 5), "head", "whole", True),
    ((5, 5, 90), "latest", "whole", True),
    ((5, 5, 90), "head", "whole", False),
    ((5, 90, 5), "all", "whole", False),
    ((-0.5, 5, 5), "latest", "whole", True),
    ((-2, 5, 5), "latest", "whole", False),
    ((5, 5, -2), "head", "whole", False),
]


@pytest.mark.parametrize(("ages", "scope", "level", "fresh"), AGES)
def test_freshness_ages_the_rows_that_the_level_selects(
    library: Library, name: str, ages: tuple[float | None, ...], scope: str, level: str, fresh: bool
) -> None:
    put(library, name, Upstream([Row(h, h + 1, age=a) for h, a in enumerate(ages)], begin=0, end=3))
    asked = window(0, 1) if level == "exact" else window(0, 3)
    result = ask(library, GateRequest(name, level, asked, timedelta(hours=1), scope)).results[0]
    assert result.satisfied is fresh
    assert result.stale is not fresh


def test_reloading_an_old_window_does_not_make_a_stalled_head_look_fresh(library: Library, name: str) -> None:
    put(library, name, Upstream([Row(0, 1, age=1), Row(1, 2, age=5000)], begin=0, end=2))
    latest, head = (
        ask(library, GateRequest(name, "whole", window(0, 1), timedelta(days=1), scope)).open
        for scope in ("latest", "head")
    )
    assert latest
    assert not head


def test_a_prefix_ages_no_row_after_it_and_no_row_before_the_contract(library: Library, name: str) -> None:
    rows = [Row(-1, 0, age=9000), Row(0, 1, age=5), Row(1, 2, age=5), Row(2, 3, age=9000)]
    put(library, name, Upstream(rows, begin=0, end=3))
    assert ask(library, GateRequest(name, "through", window(1, 2), timedelta(hours=1), "all")).open
    assert not ask(library, GateRequest(name, "through", window(2, 3), timedelta(hours=1), "all")).open


def test_the_level_comes_before_the_age(library: Library, name: str) -> None:
    put(library, name, Upstream([Row(0, 1, age=9000)], begin=0, end=2))
    result = ask(library, GateRequest(name, "encapsulate", window(0, 2), timedelta(hours=1))).results[0]
    assert not result.stale
    assert result.missing == window(1, 2)


def test_a_timeless_upstream_ages_its_row(library: Library, name: str) -> None:
    put(library, name, Upstream([Row(None, None, age=90)], timeless=True, chunk=None))
    for scope in FreshnessScope:
        asked = GateRequest.of(name, UpstreamContract.WHOLE, None, Freshness(timedelta(hours=1), scope=scope))
        report = ask(library, asked)
        assert report.reason == f"STATE_002: upstream '{name}' (whole, stale) age 1h 30m, limit 1h"


def test_an_entry_without_state_has_no_age(library: Library) -> None:
    library.put("up.view", Upstream(timeless=True, chunk=None, stateful=False))
    report = ask(library, GateRequest("up.view", "whole", None, timedelta(hours=1)))
    assert report.reason == "STATE_002: upstream 'up.view' (whole, stale) never applied, limit 1h"


# What it says


def test_the_reason_names_every_unsatisfied_upstream_hard_ones_first(library: Library, name: str) -> None:
    put(library, name, Upstream([Row(h, h + 1) for h in range(24) if h != 3], begin=0, end=24))
    library.put("up.old", Upstream([Row(0, 24, age=3000)], begin=0, end=24, chunk="@daily"))
    library.put("up.fine", Upstream([Row(0, 24)], begin=0, end=24, chunk="@daily"))
    library.put("up.flexible", Upstream([Row(0, 24)], begin=0, end=24, fixed=False))
    library.put("up.timeless", Upstream([Row(None, None)], timeless=True, chunk=None))
    report = ask(
        library,
        GateRequest(name, "encapsulate", window(0, 24)),
        GateRequest("up.fine", "exact", window(0, 24)),
        GateRequest("up.old", "exact", window(0, 24), timedelta(days=1)),
        GateRequest("up.nobody", "exists", window(0, 24)),
        GateRequest("up.flexible", "exact", window(0, 24)),
        GateRequest("up.timeless", "through", window(0, 24)),
        GateRequest("up.fine", "exact", window(0, 1)),
    )
    assert report.reason.split("; ") == [
        "STATE_001: upstream 'up.nobody' not registered",
        "STATE_004: upstream 'up.flexible' (exact) is flexible and keeps no rows of one grain: "
        "gate it with 'encapsulate'",
        "STATE_003: upstream 'up.timeless' (through) is timeless and has no windows: gate it with 'whole' or 'exists'",
        "STATE_005: upstream 'up.fine' (exact) can never have [2024-01-01T00:00Z, 2024-01-01T01:00Z): "
        "its chunk is '@daily' in UTC: gate it with 'encapsulate'",
        f"STATE_002: upstream '{name}' (encapsulate) missing [2024-01-01T03:00Z, 2024-01-01T04:00Z)",
        "STATE_002: upstream 'up.old' (exact, stale) age 2d 2h, limit 1d",
    ]
    assert report.hard
    with pytest.raises(HardGateError, match="STATE_001"):
        report.require_open()


def test_a_gate_that_may_open_is_another_error_than_one_that_never_does(library: Library, name: str) -> None:
    put(library, name, Upstream([]))
    with pytest.raises(GateClosedError, match="missing") as caught:
        ask(library, GateRequest(name, "encapsulate", window(0, 1))).require_open()
    assert caught.value.retryable
    ask(library).require_open()


# Calendars


@pytest.mark.parametrize(
    ("since", "until", "hours"),
    [("2024-03-30T23:00Z", "2024-03-31T22:00Z", 23), ("2024-10-26T22:00Z", "2024-10-27T23:00Z", 25)],
)
def test_a_local_day_needs_as_many_hours_as_it_has(
    library: Library, name: str, since: str, until: str, hours: int
) -> None:
    day = Interval(since, until)
    first = (day.since - window(0, 1).since) // timedelta(hours=1)
    rows = [Row(first + h, first + h + 1) for h in range(hours)]
    put(library, name, Upstream(rows[:-1], begin=first, end=first + hours))
    result = ask(library, GateRequest(name, "encapsulate", day)).results[0]
    assert result.missing == Interval(day.until - timedelta(hours=1), day.until)
    put(library, name, Upstream(rows, begin=first, end=first + hours))
    assert ask(library, GateRequest(name, "encapsulate", day), GateRequest(name, "whole", day)).open


def test_the_zone_of_the_upstreams_chunk_decides_which_days_it_has(library: Library, name: str) -> None:
    # local days of New York; the contract ends in the middle of one, which is no whole window
    day = [Row(5 + 24 * d, 29 + 24 * d) for d in range(2)]
    put(library, name, Upstream(day, begin=0, end=60, chunk="@daily", tz="America/New_York"))
    assert ask(
        library,
        GateRequest(name, "exact", window(5, 29)),
        GateRequest(name, "whole", window(5, 29)),
        GateRequest(name, "through", window(5, 53)),
    ).open
    assert ask(library, GateRequest(name, "exact", window(0, 24))).hard
    put(library, name, Upstream(day, begin=0, end=60, chunk="@daily"))
    assert ask(library, GateRequest(name, "whole", window(5, 29))).results[0].missing == window(0, 5)


def test_an_open_contract_ends_at_the_latest_complete_tick(library: Library, name: str) -> None:
    row = library.conn.execute(
        "SELECT extract(epoch FROM date_trunc('hour', now()) - '2024-01-01T00:00Z') / 3600"
    ).fetchone()
    assert row is not None
    now = int(row[0])
    put(library, name, Upstream([Row(h, h + 1) for h in range(now - 3, now)], begin=now - 3))
    result = ask(library, GateRequest(name, "whole")).results[0]
    if result.missing is not None:  # an hour has just ended
        assert result.missing == window(now, now + 1)
    put(library, name, Upstream([Row(h, h + 1) for h in range(now - 3, now - 1)], begin=now - 3))
    missing = ask(library, GateRequest(name, "whole")).results[0].missing
    assert missing is not None
    assert missing.since == window(now - 1, now).since


# Relaxation, and one's own past


def test_an_edge_may_miss_the_last_windows_that_max_lag_allows(library: Library, name: str) -> None:
    put(
        library,
        name,
        Upstream([Row(h, h + 1, "pending" if h > 3 else "applied") for h in range(6)], begin=0, end=6),
    )

    def lag(level: str, lag: int) -> tuple[bool, int]:
        result = ask(library, GateRequest(name, level, window(0, 6), max_lag=lag)).results[0]
        return result.satisfied, result.lag

    for level in ("encapsulate", "through", "whole"):
        assert lag(level, 1) == (False, 0)
        assert lag(level, 2) == (True, 2)
        assert lag(level, 3) == (True, 3)
    assert ask(library, GateRequest(name, "encapsulate", window(0, 4), max_lag=2)).lagging == ()


def test_a_hole_before_the_lag_still_shuts(library: Library, name: str) -> None:
    put(library, name, Upstream([Row(0, 1), Row(2, 3)], begin=0, end=6))
    result = ask(library, GateRequest(name, "through", window(0, 4), max_lag=1)).results[0]
    assert result.missing == window(1, 2)


def test_a_sequential_model_waits_for_its_own_past(library: Library, name: str) -> None:
    def past(hour: int) -> str:
        return ask(library, GateRequest(name, "past", window(hour, hour + 1))).reason

    put(library, name, Upstream([Row(0, 1), Row(1, 2, "error"), Row(2, 3, "pending")], begin=0))
    assert past(0) == ""
    assert past(1) == ""
    assert past(2) == (
        f"STATE_006: '{name}' is sequential and its earlier window [2024-01-01T01:00Z, 2024-01-01T02:00Z) "
        "is not applied"
    )
    put(library, name, Upstream([Row(0, 1), Row(2, 3, "pending")], begin=0))
    assert "[2024-01-01T01:00Z, 2024-01-01T02:00Z)" in past(2)
    put(library, name, Upstream([Row(2, 3, "pending")]))
    assert past(2) == ""


# How it is asked


def test_any_number_of_gates_is_one_statement(library: Library, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(library, name, Upstream([Row(h, h + 1) for h in range(50)], begin=0, end=50))
    with connect(library.conn.info.dsn) as fresh:
        counting = Counting(monkeypatch)
        for count in (1, 3, 8, 9, 200):
            for _ in range(2):
                asked = [
                    GateRequest(name, level, window(h % 50, h % 50 + 1), timedelta(days=1), "all")
                    for h in range(count)
                    for level in ("exact", "encapsulate", "through", "whole")
                ]
                before = counting.sent
                assert all(r.satisfied for r in check_gates(fresh, ENV, asked))
                assert counting.sent == before + 1
        assert check_gates(fresh, ENV, []) == []
        assert counting.sent == 10


def test_results_come_in_the_order_of_the_requests(library: Library, name: str) -> None:
    put(library, name, Upstream([Row(h, h + 1) for h in range(0, 40, 2)], begin=0, end=40))
    library.put("up.other", Upstream([Row(h, h + 1) for h in range(1, 40, 2)], begin=0, end=40))
    asked = [GateRequest(up, "exact", window(h, h + 1)) for h in range(40) for up in ("up.other", name)]
    results = check_gates(library.conn, ENV, asked)
    assert [r.request for r in results] == asked
    assert [r.satisfied for r in results] == [
        (h % 2 == 1) == (r.upstream == "up.other")
        for h, r in zip((h for h in range(40) for _ in (0, 1)), asked, strict=True)
    ]


def test_the_asynchronous_answers_are_the_same(library: Library, name: str) -> None:
    put(library, name, Upstream([Row(h, h + 1) for h in range(12) if h != 7], begin=0.5, end=12))
    asked = [
        GateRequest(name, level, window(h, h + 2), timedelta(hours=1))
        for h in range(12)
        for level in ("exists", "exact", "encapsulate", "through", "whole")
    ]

    async def check() -> list[tuple[bool, str]]:
        conn = await psycopg.AsyncConnection.connect(library.conn.info.dsn, autocommit=True)
        async with conn:
            answers = await state.acheck_gates(conn, ENV, asked)
            one = [(await state.acheck_gates(conn, ENV, [request]))[0] for request in asked[:10]]
            assert [r.reason for r in one] == [r.reason for r in answers[:10]]
            unit = await state.acheck_unit(conn, ENV, GateRequests(tuple(asked[:5]), ("x",)))
            assert unit.skipped == ("x",)
            return [(r.satisfied, r.reason) for r in answers]

    assert asyncio.run(check()) == [(r.satisfied, r.reason) for r in check_gates(library.conn, ENV, asked)]


def test_rows_off_the_grid_before_an_off_grid_begins_first_tick_cost_a_second_look(
    library: Library, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    crumbs = [Row(0.5 + 0.1 * i, 0.55 + 0.1 * i) for i in range(5)]
    put(library, name, Upstream([*crumbs, Row(1, 3)], begin=0.5, end=3))
    counting = Counting(monkeypatch)
    assert ask(library, GateRequest(name, "whole"), GateRequest(name, "through", window(1, 3))).open
    assert counting.sent == 2


def test_a_gate_inside_a_transaction_sees_what_the_transaction_folded(library: Library) -> None:
    ref = library.put("up.mine", Upstream([Row(0, 1)]))
    asked = GateRequest("up.mine", "encapsulate", window(0, 1))
    assert ask(library, asked).open
    with library.conn.transaction(force_rollback=True):
        state_sql(library.conn, ref, "UPDATE {} SET status = 'pending'")
        library.conn.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert not ask(library, asked).open
    assert ask(library, asked).open


def test_requests_survive_json(name: str) -> None:
    asked = GateRequests(
        (
            GateRequest(name, "through", window(0, 1), timedelta(hours=36), "head", 2, "me", "them"),
            GateRequest(name, "whole"),
        ),
        ("skipped.one",),
    )
    assert GateRequests.from_json(asked.to_json()) == asked
    assert list(asked) == [asked[0], asked[1]]


def test_a_library_without_this_versions_functions_says_so(conn: Conn) -> None:
    conn.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
    conn.execute(f"CREATE SCHEMA {SCHEMA}")
    with pytest.raises(StateError, match="run bootstrap"):
        check_gates(conn, ENV, [GateRequest("a.b", "exists")])
