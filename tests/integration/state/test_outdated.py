"""Units that are older than what their gate selected, against every pair of rows compared one by one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from gate_support import ENV, SCHEMA, Library, Row, Upstream, own_database, window

from bollhav_provider.intervals import WHOLE, Unit
from bollhav_provider.state.restatement import outdated


@pytest.fixture(scope="module")
def library(pg_dsn: str) -> Iterator[Library]:
    with own_database(pg_dsn, "outdated") as conn:
        yield Library(conn)


def declare(library: Library, upstream: str, downstream: str, level: str) -> None:
    metadata = {"upstreams": [{"name": upstream, "contract": level}]}
    library.conn.execute(
        "UPDATE z_bollhav.library SET metadata = metadata || %s WHERE full_name = %s",
        (json.dumps(metadata), downstream),
    )


def selects(level: str, mine: Row, theirs: Row) -> bool:
    """Whether a downstream row's gate selects an upstream row."""
    if mine.since is None or mine.until is None or level == "whole":
        return True
    if theirs.since is None or theirs.until is None:
        return False
    if level == "exact":
        return (mine.since, mine.until) == (theirs.since, theirs.until)
    if level == "encapsulate":
        return theirs.since < mine.until and theirs.until > mine.since
    return theirs.since < mine.until


@pytest.mark.parametrize("level", ["exact", "encapsulate", "through", "whole"])
@pytest.mark.parametrize("seed", range(4))
def test_a_unit_is_outdated_when_a_row_that_its_gate_selects_was_applied_later(
    library: Library, level: str, seed: int
) -> None:
    chance = random.Random(seed)

    def rows(width: float, windowless: bool) -> list[Row]:
        found = [
            Row(
                h,
                h + width * chance.choice([1, 1, 1, 2]),
                chance.choice(["applied", "applied", "pending"]),
                age,
            )
            for h in range(0, 40, int(width))
            if (age := chance.randint(1, 40))
        ]
        return [*found, Row(None, None, "applied", chance.randint(1, 40))] if windowless else found

    theirs, mine = rows(1, False), rows(chance.choice([1, 4]), seed % 2 == 0)
    library.put("o.up", Upstream(theirs))
    library.put("o.down", Upstream(mine))
    declare(library, "o.up", "o.down", level)
    expected = {
        WHOLE if m.since is None or m.until is None else Unit(window(m.since, m.until))
        for m in mine
        if m.status == "applied"
        and any(
            t.status == "applied"
            and t.age is not None
            and m.age is not None
            and t.age < m.age
            and selects(level, m, t)
            for t in theirs
        )
    }
    found = outdated(library.conn, ENV, ["o.down"])
    assert {one.unit for one in found} == expected
    assert len(found) == len(expected)
    assert all(one.because == ("o.up",) for one in found)


def test_a_history_of_years_is_compared_in_one_pass(library: Library) -> None:
    library.conn.execute("SET statement_timeout = '20s'")
    for name, hours, count in (("y.up", 1, 40_000), ("y.down", 24, 1_600)):
        ref = library.put(name, Upstream([]))
        library.conn.execute(
            f"INSERT INTO {SCHEMA}.{ref.table} (model_name, run_id, since, until, status, applied_at) "  # noqa: S608
            "SELECT 'x', gen_random_uuid(), t, t + %s * interval '1 hour', 'applied', now() - interval '1 day' "
            "FROM generate_series('2000-01-01T00:00Z'::timestamptz, "
            "'2000-01-01T00:00Z'::timestamptz + %s * interval '1 hour', %s * interval '1 hour') t",
            (hours, hours * (count - 1), hours),
        )
    try:
        for level in ("exact", "encapsulate", "through", "whole"):
            declare(library, "y.up", "y.down", level)
            assert outdated(library.conn, ENV, ["y.down"]) == []
    finally:
        library.conn.execute("RESET statement_timeout")
