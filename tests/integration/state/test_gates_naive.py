"""Gates against a deliberately naive model of their rules, on random rows and random questions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

import psycopg
import pytest
from gate_support import DAY, ENV, Library, Row, Upstream, at, own_database
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_gates import Question, answer

from bollhav_provider.intervals import Interval
from bollhav_provider.state import GateRequest, GateResult, check_gates

#: Half hours of the grids, by chunk.
WIDTHS = {"@hourly": 2, "0 */3 * * *": 6, "@daily": 48}
#: Each is 80 questions; more of them with BOLLHAV_TEST_EXAMPLES.
EXAMPLES = int(os.environ.get("BOLLHAV_TEST_EXAMPLES", "80"))
LEVELS = ("exists", "exact", "encapsulate", "through", "whole")


@pytest.fixture(scope="module")
def library(pg_dsn: str) -> Iterator[Library]:
    with own_database(pg_dsn, "naive_gates") as conn:
        yield Library(conn)


ages = st.one_of(st.none(), st.sampled_from([-30, -0.5, 0, 1, 50, 119, 121, 600]))
statuses = st.sampled_from(
    ["applied", "applied", "applied", "applied", "pending", "running", "blocked", "error"]
)


@st.composite
def upstreams(draw: st.DrawFn) -> Upstream:
    chunk = draw(st.sampled_from([*WIDTHS, "@hourly", None]))
    width = WIDTHS[chunk or "@hourly"]
    rows: list[Row] = []
    fixed = draw(st.booleans()) or draw(st.booleans())
    timeless = draw(st.integers(0, 9)) == 0
    if draw(st.integers(0, 3)) or fixed:  # on the grid
        first = draw(st.integers(-2, 2))
        for cell in range(first, first + draw(st.integers(0, 12))):
            if draw(st.integers(0, 9)):
                rows.append(Row(cell * width / 2, (cell + 1) * width / 2, draw(statuses), draw(ages)))
    if not fixed or not draw(st.integers(0, 4)):  # anywhere, overlapping anything
        for since, length, status, age in draw(
            st.lists(st.tuples(st.integers(-8, 24), st.integers(1, 12), statuses, ages), max_size=5)
        ):
            rows.append(Row(since / 2, (since + length) / 2, status, age))
    if timeless or chunk is None:
        rows += draw(st.lists(st.builds(Row, st.none(), st.none(), statuses, ages), max_size=1))
    # of two outstanding rows with one start either may be named
    unique = {(r.since, r.until if r.status == "applied" else None): r for r in rows}
    unique = {(r.since, r.until): r for r in unique.values()}
    begin = draw(st.one_of(st.none(), st.integers(-6, 8), st.just(0)))
    end = draw(st.one_of(st.none(), st.integers(-4, 30), st.integers(2_000_000, 2_000_010)))
    return Upstream(
        rows=list(unique.values()),
        begin=None if begin is None else begin / 2,
        end=None if end is None else end / 2,
        chunk=chunk,
        tz=draw(st.sampled_from([None, "UTC"])),
        timeless=timeless,
        fixed=fixed,
        stateful=draw(st.integers(0, 19)) != 0,
    )


def questions(seed: int, count: int) -> list[Question]:
    """Random questions: many are asked in one statement, so that asking is cheap and drawing them must be too."""
    random = Random(seed)
    found = []
    for _ in range(count):
        level = random.choice((*LEVELS, "past"))
        since = until = None
        if level == "past" or random.random() < 0.9:
            width = random.choice([1, 2, 2, 6, 48])
            since = random.randint(-3, 12) * width + random.choice([0, 0, 0, 1])
            until = since + width * random.choice([1, 1, 1, 2, 3])
        aged = level not in ("exists", "past") and random.random() < 0.4
        lag = random.choice([0, 0, 1, 2]) if level in ("encapsulate", "through", "whole") else 0
        scope = random.choice(["latest", "all", "head"])
        found.append(Question(level, since, until, 120 if aged else None, scope, lag))
    return found


def requests(name: str, asked: list[Question]) -> list[GateRequest]:
    return [
        GateRequest(
            name,
            q.level,
            None if q.since is None or q.until is None else Interval(at(q.since / 2), at(q.until / 2)),
            None if q.within is None else timedelta(minutes=q.within),
            q.scope,
            q.max_lag,
        )
        for q in asked
    ]


def now_in_half_hours(conn: psycopg.Connection[Any]) -> int:
    row = conn.execute("SELECT now()").fetchone()
    assert row is not None
    return int((row[0] - DAY) / timedelta(minutes=30))


def agree(result: GateResult, upstream: Upstream | None, asked: Question, now: int) -> None:
    expected = answer(asked, upstream, now, WIDTHS[(upstream.chunk if upstream else None) or "@hourly"])
    missing = None
    if expected.missing is not None:
        missing = Interval(at(expected.missing[0] / 2), at(expected.missing[1] / 2))
    found = (result.satisfied, result.hard, result.stale, result.missing)
    assert found == (expected.satisfied, expected.hard, expected.stale, missing), (asked, result)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(upstream=upstreams(), seed=st.integers(0, 2**32))
def test_gates_agree_with_the_naive_model_whether_coverage_is_kept_or_not(
    library: Library, upstream: Upstream, seed: int
) -> None:
    asked = questions(seed, 40)
    library.put("naive.kept", upstream)
    library.put("naive.rows", upstream, kept=False)
    half_hour = now_in_half_hours(library.conn)
    results = check_gates(
        library.conn, ENV, [r for name in ("naive.kept", "naive.rows") for r in requests(name, asked)]
    )
    alone = [check_gates(library.conn, ENV, [request])[0] for request in requests("naive.kept", asked[:2])]
    if now_in_half_hours(library.conn) != half_hour:
        return  # a tick passed in between
    for question, result in zip([*asked, *asked, *asked[:2]], [*results, *alone], strict=True):
        agree(result, upstream, question, half_hour)


@settings(max_examples=EXAMPLES // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    upstream=upstreams(),
    windows=st.lists(st.tuples(st.integers(-6, 40), st.integers(1, 8)), min_size=5, max_size=8),
)
def test_a_stronger_level_implies_the_weaker_ones_within_the_declared_range(
    library: Library, upstream: Upstream, windows: list[tuple[int, int]]
) -> None:
    if upstream.timeless or upstream.chunk is None or upstream.begin is None or not upstream.stateful:
        return
    library.put("naive.kept", upstream)
    for since, length in windows:
        window = Interval(at(since / 2), at((since + length) / 2))
        asked = [GateRequest("naive.kept", level, window) for level in LEVELS]
        results = check_gates(library.conn, ENV, asked)
        exists, exact, encapsulate, through, whole = (r.satisfied for r in results)
        width = WIDTHS[upstream.chunk] if upstream.fixed else 1
        begin, now = -(-int(upstream.begin * 2) // width) * width, now_in_half_hours(library.conn)
        until = min(now, now if upstream.end is None else int(upstream.end * 2))
        within = since >= begin and since + length <= until - until % WIDTHS[upstream.chunk]
        assert exists or not encapsulate
        assert encapsulate or not exact
        assert encapsulate or not through
        if within:
            assert through or not whole


def test_nobody_registered_is_a_hard_error_at_every_level(library: Library) -> None:
    for level in LEVELS:
        result = check_gates(library.conn, ENV, [GateRequest("naive.nobody", level, Interval(at(0), at(1)))])[
            0
        ]
        agree(result, None, Question(level, 0, 2), 0)
        assert result.reason == "STATE_001: upstream 'naive.nobody' not registered"
