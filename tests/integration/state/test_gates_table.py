"""The truth table of gates, written by hand: every level, every shape of upstream, every position of the window.

Hours after the first of January 2024. ``yes``: open. ``hard``: never opens. ``a-b``: shut, and this is the first that
misses. ``no``: shut, and nothing of time can be named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from gate_support import ENV, Library, Row, Upstream, own_database, window

from bollhav_provider.intervals import Interval
from bollhav_provider.state import GateRequest, GateResult, check_gates

LEVELS = ("exists", "exact", "encapsulate", "through", "whole")

#: 00 01 02 applied, 03 outstanding, 04 05 applied; the contract is these six hours.
HOURS = [Row(h, h + 1, "pending" if h == 3 else "applied") for h in range(6)]
#: The same with no row at all for 03.
HOLE = [Row(h, h + 1) for h in range(6) if h != 3]
FULL = [Row(h, h + 1) for h in range(6)]

FIXED = {
    "one outstanding": Upstream(HOURS, begin=0, end=6),
    "one missing": Upstream(HOLE, begin=0, end=6),
    "complete": Upstream(FULL, begin=0, end=6),
    "nothing": Upstream([], begin=0, end=6),
}

# window         exists  exact   encaps. through whole, by upstream
TABLE: dict[str, dict[tuple[float, float] | None, str]] = {
    "one outstanding": {
        (1, 2): "         yes    yes     yes     yes     3-4",
        (0, 3): "         yes    hard    yes     yes     3-4",
        (2, 5): "         yes    hard    3-4     3-4     3-4",
        (3, 4): "         yes    3-4     3-4     3-4     3-4",
        (4, 5): "         yes    yes     yes     3-4     3-4",
        (5, 7): "         yes    hard    6-7     3-4     3-4",
        (-1, 0): "        yes    -1-0    -1-0    -1-0    3-4",
        (-1, 1): "        yes    hard    -1-0    -1-0    3-4",
        (6, 7): "         yes    6-7     6-7     3-4     3-4",
        (1.25, 1.5): "    yes    hard    yes     yes     3-4",
        (3.25, 3.5): "    yes    hard    3.25-3.5 3-3.5  3-4",
        None: "           yes    3-4     3-4     3-4     3-4",
    },
    "one missing": {
        (1, 2): "         yes    yes     yes     yes     3-4",
        (2, 5): "         yes    hard    3-4     3-4     3-4",
        (3, 4): "         yes    3-4     3-4     3-4     3-4",
        (4, 5): "         yes    yes     yes     3-4     3-4",
        (6, 7): "         yes    6-7     6-7     3-4     3-4",
        None: "           yes    3-4     3-4     3-4     3-4",
    },
    "complete": {
        (0, 1): "         yes    yes     yes     yes     yes",
        (5, 6): "         yes    yes     yes     yes     yes",
        (0, 6): "         yes    hard    yes     yes     yes",
        (5, 7): "         yes    hard    6-7     6-7     yes",
        (6, 7): "         yes    6-7     6-7     6-7     yes",
        (-2, -1): "       yes    -2--1   -2--1   -2--1   yes",
        None: "           yes    yes     yes     yes     yes",
    },
    "nothing": {
        (0, 1): "         yes    0-1     0-1     0-1     0-6",
        (4, 5): "         yes    4-5     4-5     0-5     0-6",
        (-1, 1): "        yes    hard    -1-1    -1-1    0-6",
        None: "           yes    0-6     0-6     0-6     0-6",
    },
}

OTHERS: list[tuple[str, Upstream | None, dict[tuple[float, float] | None, str]]] = [
    (
        "daily rows cover an hour, and one that is exactly the day",
        Upstream([Row(0, 24), Row(24, 48, "error")], begin=0, end=48, chunk="@daily"),
        {
            (3, 4): "     yes    hard    yes     yes     24-48",
            (0, 24): "    yes    yes     yes     yes     24-48",
            (12, 36): "   yes    hard    24-36   24-36   24-48",
            (24, 25): "   yes    hard    24-25   24-25   24-48",
        },
    ),
    (
        "24 hourly rows cover a day, one of them running",
        Upstream([Row(h, h + 1, "running" if h == 23 else "applied") for h in range(24)], begin=0, end=24),
        {(0, 24): "       yes    hard    23-24   23-24   23-24", None: "yes 23-24 23-24 23-24 23-24"},
    ),
    (
        "an open contract: what has elapsed and was never prefilled is a hole",
        Upstream([Row(0, 24)], begin=0, chunk="0 0 1 1 *"),
        {(1, 2): "        yes    hard    yes     yes     open"},
    ),
    (
        "no begin: the rows are the universe",
        Upstream([Row(2, 3), Row(3, 4), Row(6, 7)]),
        {
            (2, 3): "     yes    yes     yes     yes     yes",
            (6, 7): "     yes    yes     yes     4-6     yes",
            (1, 2): "     yes    1-2     1-2     1-2     yes",
            None: "       yes    yes     yes     yes     yes",
        },
    ),
    (
        "no begin, one row outstanding",
        Upstream([Row(2, 3), Row(3, 4, "blocked")]),
        {(2, 3): "        yes    yes     yes     yes     3-4", None: "yes 3-4 3-4 3-4 3-4"},
    ),
    ("no begin and no rows", Upstream([]), {(2, 3): "yes 2-3 2-3 2-3 no", None: "yes no no no no"}),
    (
        "a begin off the grid starts at the next tick",
        Upstream([Row(1, 2), Row(2, 3)], begin=0.5, end=3.5),
        {
            (1, 2): "     yes    yes     yes     yes     yes",
            (0, 1): "     yes    0-1     0-1     0-1     yes",
            (3, 4): "     yes    3-4     3-4     3-4     yes",
        },
    ),
    (
        "a contract of which nothing has elapsed",
        Upstream([], begin=10_000_000, chunk="@hourly"),
        {(2, 3): "        yes    2-3     2-3     2-3     no"},
    ),
    (
        "an outstanding row lies over applied ones",
        Upstream([Row(0, 4), Row(1, 2, "pending"), Row(4, 6)], begin=0, end=6),
        {
            (0, 1): "     yes    0-1     yes     yes     1-2",
            (1, 2): "     yes    1-2     yes     1-2     1-2",
            (4, 6): "     yes    yes     yes     1-2     1-2",
        },
    ),
    (
        "flexible: covered by rows of any size",
        Upstream([Row(0, 2.5), Row(2.5, 4), Row(5, 6, "pending")], begin=0, end=6, fixed=False),
        {
            (0, 1): "     yes    hard    yes     yes     4-6",
            (1, 4): "     yes    hard    yes     yes     4-6",
            (3, 5): "     yes    hard    4-5     4-5     4-6",
            (5, 6): "     yes    hard    5-6     4-6     4-6",
            None: "       yes    4-6     4-6     4-6     4-6",
        },
    ),
    (
        "flexible, covered, and its begin is off the grid",
        Upstream([Row(0.5, 6)], begin=0.5, end=5.5, fixed=False),
        {(0, 1): "        yes    hard    0-0.5   0-0.5   yes", (1, 2): "yes hard yes yes yes"},
    ),
    (
        "timeless, applied",
        Upstream([Row(None, None)], timeless=True, chunk=None),
        {(1, 2): "        yes    hard    hard    hard    yes", None: "yes yes yes yes yes"},
    ),
    (
        "timeless, outstanding, with rows from when it was temporal",
        Upstream([Row(None, None, "pending"), Row(1, 2), Row(2, 3, "pending")], timeless=True, chunk=None),
        {(1, 2): "        yes    hard    hard    hard    no", None: "yes no no no no"},
    ),
    (
        "timeless, never prefilled",
        Upstream([], timeless=True, chunk=None),
        {(1, 2): "        yes    hard    hard    hard    no", None: "yes no no no no"},
    ),
    (
        "temporal without batching: one row that grows",
        Upstream([Row(0, 5)], begin=0, chunk=None),
        {
            (1, 2): "     yes    1-2     yes     yes     yes",
            (0, 5): "     yes    yes     yes     yes     yes",
            (4, 6): "     yes    4-6     5-6     5-6     yes",
            None: "       yes    yes     yes     yes     yes",
        },
    ),
    (
        "temporal without batching and without begin: one row without a window",
        Upstream([Row(None, None, "error")], chunk=None),
        {(1, 2): "        yes    1-2     1-2     1-2     no", None: "yes no no no no"},
    ),
    (
        "temporal without batching and without begin, applied",
        Upstream([Row(None, None)], chunk=None),
        {(1, 2): "        yes    1-2     1-2     1-2     yes", None: "yes yes yes yes yes"},
    ),
    (
        "a view in the library: presence satisfies every level that is valid for it",
        Upstream(timeless=True, chunk=None, stateful=False),
        {(1, 2): "        yes    hard    hard    hard    yes", None: "yes yes yes yes yes"},
    ),
    (
        "a temporal table without state",
        Upstream(stateful=False),
        {
            (1, 2): "     yes    yes     yes     yes     yes",
            (1, 3): "     yes    hard    yes     yes     yes",
            None: "       yes    yes     yes     yes     yes",
        },
    ),
    ("nobody registered it", None, {(1, 2): "hard hard hard hard hard", None: "hard hard hard hard hard"}),
]


@pytest.fixture(scope="module")
def library(pg_dsn: str) -> Iterator[Library]:
    with own_database(pg_dsn, "gates_table") as conn:
        yield Library(conn)


def said(result: GateResult) -> str:
    """A result in the words of the table."""
    if result.satisfied:
        return "yes"
    if result.hard:
        return "hard"
    return "no" if result.missing is None else str(result.missing)


def meant(word: str) -> str:
    if word in ("yes", "hard", "no"):
        return word
    since, until = word[1:].split("-", 1)
    return str(window(float(word[0] + since), float(until)))


def check(library: Library, name: str, upstream: Upstream | None, rows: dict[Any, str]) -> None:
    if upstream is None:
        name = "up.nobody"
    else:
        library.put(name, upstream, kept=name == "up.kept")
    for hours, expected in rows.items():
        asked: Interval | None = None if hours is None else window(*hours)
        results = check_gates(library.conn, ENV, [GateRequest(name, level, asked) for level in LEVELS])
        for level, word, result in zip(LEVELS, expected.split(), results, strict=True):
            if word == "open":
                assert not result.satisfied
                assert result.missing is not None
                assert result.missing.since == window(24, 25).since
                continue
            assert said(result) == meant(word), (hours, level, result.reason)


@pytest.mark.parametrize("rows", list(TABLE))
def test_an_hourly_upstream_with_a_declared_end(library: Library, name: str, rows: str) -> None:
    check(library, name, FIXED[rows], TABLE[rows])


@pytest.mark.parametrize(("upstream", "rows"), [o[1:] for o in OTHERS], ids=[o[0] for o in OTHERS])
def test_every_other_shape(library: Library, name: str, upstream: Upstream | None, rows: dict[Any, str]) -> None:
    check(library, name, upstream, rows)
