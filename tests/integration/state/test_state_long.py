"""Long backfills and long lives: tens of thousands of windows at once, and the same window over and over."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from state_support import ENV, Conn, count, daily, interval, one, run_window, set_up

import bollhav_provider
from bollhav_provider import state
from bollhav_provider.intervals import Unit

#: More than a server with its default of 64 locks a transaction has room for.
HOURS = 35_064


def test_a_backfill_of_years_is_marked_reset_and_reconciled_without_a_lock_for_each_window(conn: Conn) -> None:
    model = daily(chunk="@hourly", begin="2016-01-01T00:00Z", end="2020-01-01T00:00Z")
    ref = set_up(conn, model)
    assert model.grid is not None
    years = interval("2016-01-01", "2020-01-01")
    units = [Unit(window) for window in model.grid.windows(years)]
    assert len(units) == HOURS
    assert state.mark_applied(conn, model, ENV, units, state.RunKey.ad_hoc("anna"), "restored") == HOURS
    assert count(conn, ref, "applied") == HOURS
    assert state.coverage.islands(conn, ref).islands == (years,)
    assert state.reset(conn, model, ENV, state.RunKey.ad_hoc(), years, "bulldozer") == HOURS
    assert state.coverage.islands(conn, ref).islands == ()
    conn.execute(f"UPDATE {ref.ident.as_string()} SET status = 'error'")  # noqa: S608
    assert state.reconcile(conn, model, ENV, state.RunKey.ad_hoc()).errors == HOURS
    assert one(conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


def test_a_table_that_is_worked_on_for_ever_keeps_its_size(conn: Conn) -> None:
    """Every unit is several row versions; what a vacuum frees is used again, in the table and in its indexes."""
    model = daily()
    ref = set_up(conn, model)
    name = ref.ident.as_string()

    def size_after_runs() -> int:
        for _ in range(15):
            state.reset(conn, model, ENV, state.RunKey.ad_hoc(), None, "bulldozer")
            run_window(conn, model)
        conn.execute(f"VACUUM {name}")
        return int(one(conn, "SELECT pg_total_relation_size(%s::regclass)", name))

    first = size_after_runs()
    assert [size_after_runs() for _ in range(3)][-1] <= first + 2 * 8192


@pytest.mark.parametrize("room", ["state", "data"])
def test_no_clock_but_the_databases_is_read_where_instants_are_compared(room: str) -> None:
    """A worker whose clock is ten minutes off gets the same leases, ages and windows as any other."""
    folder = Path(bollhav_provider.__file__).parent / room
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called = ast.unparse(node.func)
                assert called not in ("datetime.now", "datetime.utcnow", "dt.datetime.now", "time.time"), (
                    f"{file.name}:{node.lineno} reads the worker's clock"
                )
