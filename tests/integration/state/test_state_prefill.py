"""Prefill: the state table mirrors the contract, in one statement, and only the new edge on later runs."""

from __future__ import annotations

import pytest
from psycopg import sql
from state_support import (
    ENV,
    Conn,
    Peer,
    count,
    daily,
    interval,
    one,
    run_unit,
    run_window,
    set_up,
    statuses,
    timeless,
    unbatched,
    unit,
)

from bollhav_provider import state
from bollhav_provider.exceptions import GrainChangedError
from bollhav_provider.intervals import WHOLE, Interval
from bollhav_provider.model import Model
from bollhav_provider.state.cells import Cells


def rows(conn: Conn, ref: state.StateRef) -> list[Interval]:
    query = sql.SQL("SELECT since, until FROM {} WHERE since IS NOT NULL ORDER BY since").format(ref.ident)
    return [Interval(*row) for row in conn.execute(query)]


GRIDS = [
    ("@hourly", "UTC", "2024-01-01T00:00Z", "2024-02-01T00:00Z"),
    ("@daily", "Europe/Stockholm", "2024-03-25T00:00+01:00", "2024-04-05T00:00+02:00"),
    ("@hourly", "America/New_York", "2024-11-01T00:00-04:00", "2024-11-05T00:00-05:00"),
    ("30 * * * *", "Australia/Lord_Howe", "2024-04-05T00:00Z", "2024-04-08T00:00Z"),
    ("*/7 * * * *", "UTC", "2024-01-01T00:00Z", "2024-01-02T00:00Z"),
    ("0 */5 * * *", "Asia/Kathmandu", "2024-01-01T00:00Z", "2024-01-20T00:00Z"),
    ("@monthly", "America/Sao_Paulo", "2017-10-01T00:00Z", "2019-03-01T00:00Z"),
    ("0 0 * * 1-5", "UTC", "2024-01-01T00:00Z", "2024-03-01T00:00Z"),
    ("0 6 * * 1", "UTC", "2024-01-01T00:00Z", "2024-03-01T00:00Z"),
]


@pytest.mark.parametrize(("chunk", "tz", "begin", "end"), GRIDS)
def test_the_rows_are_the_cells_of_the_grid(conn: Conn, chunk: str, tz: str, begin: str, end: str) -> None:
    model = daily(chunk=chunk, tz=tz, begin=begin, end=end)
    ref = set_up(conn, model)
    assert model.grid is not None
    expected = list(model.grid.windows(Interval(begin, end)))
    assert rows(conn, ref) == expected
    assert list(Cells.of(model.grid, Interval(begin, end))) == expected


def test_a_second_prefill_inserts_nothing_and_changes_nothing(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    run_unit(conn, model, unit("01-03", "01-04"))
    conn.execute(sql.SQL("UPDATE {} SET status = 'error' WHERE since = '2024-01-05Z'").format(ref.ident))
    before = statuses(conn, ref)
    assert state.prefill(conn, model, ENV) == 0
    assert statuses(conn, ref) == before


def test_only_the_new_edges_are_added_when_the_contract_grows(conn: Conn) -> None:
    ref = set_up(conn, daily())
    assert state.prefill(conn, daily(end="2024-01-14T00:00Z"), ENV) == 3
    assert state.prefill(conn, daily(begin="2023-12-30T00:00Z", end="2024-01-14T00:00Z"), ENV) == 2
    assert state.prefill(conn, daily(begin="2023-12-30T00:00Z", end="2024-01-14T00:00Z"), ENV) == 0
    assert count(conn, ref) == 15
    query = "SELECT since, until FROM z_bollhav.prefilled"
    assert Interval(*conn.execute(query).fetchone()) == interval("2023-12-30", "01-14")  # type: ignore[misc]


def test_an_open_contract_reaches_to_the_latest_complete_tick_of_the_databases_clock(conn: Conn) -> None:
    model = daily(chunk="@hourly", begin="2026-01-01T00:00Z", end=None)
    ref = set_up(conn, model)
    assert model.grid is not None
    assert rows(conn, ref)[-1].until == model.grid.floor(state.db_now(conn))


def test_an_end_in_the_future_creates_no_window_that_has_not_elapsed(conn: Conn) -> None:
    ref = set_up(conn, daily(begin="2026-01-01T00:00Z", end="2999-01-01T00:00Z"))
    assert rows(conn, ref)[-1].until <= state.db_now(conn)
    later = set_up(conn, daily("wh.later", begin="2999-01-01T00:00Z", end=None))
    assert rows(conn, later) == []


def test_a_model_without_begin_prefills_its_runs_window_only(conn: Conn) -> None:
    model = daily(begin=None, end=None)
    ref = set_up(conn, model)
    assert count(conn, ref) == 0
    assert state.prefill(conn, model, ENV, interval("01-20", "01-22")) == 2
    assert state.prefill(conn, model, ENV, interval("01-10", "01-12")) == 2
    assert state.prefill(conn, model, ENV, interval("01-10", "01-12")) == 0
    assert [s for s, _ in statuses(conn, ref)] == ["01-10", "01-11", "01-20", "01-21"]


def test_a_hole_at_a_known_edge_is_mended_at_once_and_any_other_by_reconciliation(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    conn.execute(sql.SQL("DELETE FROM {} WHERE since >= '2024-01-10Z'").format(ref.ident))
    assert state.prefill(conn, model, ENV) == 1
    conn.execute(sql.SQL("DELETE FROM {} WHERE since = '2024-01-05Z'").format(ref.ident))
    assert state.prefill(conn, model, ENV) == 0
    assert state.reconcile(conn, model, ENV, state.RunKey.ad_hoc()).inserted == 1
    assert count(conn, ref) == 10


def test_rows_of_a_peer_are_kept_and_completed(conn: Conn, peer: Peer) -> None:
    model = daily()
    ref = state.StateRef.of(model, ENV)
    peer.make_library()
    peer.make_state_table(ref.table)
    peer.prefill(ref.full_name, ref.table, [interval("01-02", "01-03"), interval("01-05", "01-06")])
    peer.set_status(ref.table, interval("01-02", "01-03"), "applied")
    set_up(conn, model)
    assert count(conn, ref) == 10
    assert count(conn, ref, "applied") == 1


def test_another_chunk_is_an_error_that_names_torch(conn: Conn) -> None:
    ref = set_up(conn, daily())
    hourly = daily(chunk="@hourly")
    with pytest.raises(GrainChangedError, match="STATE_MODE=torch") as error:
        state.prefill(conn, hourly, ENV)
    assert "wh.orders" in str(error.value)
    assert "[2024-01-01T00:00Z, 2024-01-02T00:00Z)" in str(error.value)
    with pytest.raises(GrainChangedError):
        state.units(conn, hourly, ENV, interval("2024-01-03T05:00Z", "2024-01-03T06:00Z"))
    assert count(conn, ref) == 10
    state.reset(conn, hourly, ENV, state.RunKey.ad_hoc(), None, "torch")
    assert state.prefill(conn, hourly, ENV) == 0
    assert count(conn, ref) == 240
    with pytest.raises(GrainChangedError):
        state.prefill(conn, daily(), ENV)


def test_another_zone_of_the_chunk_is_another_grid(conn: Conn) -> None:
    set_up(conn, daily())
    with pytest.raises(GrainChangedError):
        state.prefill(conn, daily(tz="Europe/Stockholm"), ENV)


def test_the_same_grid_written_another_way_is_no_change(conn: Conn) -> None:
    set_up(conn, daily())
    assert state.prefill(conn, daily(chunk="0 0 * * *"), ENV) == 0


def test_a_changed_chunk_without_begin_is_found_in_the_runs_window(conn: Conn) -> None:
    model = daily(begin=None, end=None)
    set_up(conn, model)
    state.prefill(conn, model, ENV, interval("01-10", "01-12"))
    with pytest.raises(GrainChangedError):
        state.prefill(conn, daily(begin=None, end=None, chunk="@hourly"), ENV, interval("01-11", "01-12"))


def test_rows_that_a_moved_begin_or_end_left_behind_are_retired(conn: Conn) -> None:
    ref = set_up(conn, daily())
    run_unit(conn, daily(), unit("01-01", "01-02"))
    state.prefill(conn, daily(begin="2024-01-04T00:00Z", end="2024-01-09T00:00Z"), ENV)
    assert statuses(conn, ref) == [
        ("01-01", "applied"), ("01-04", "pending"), ("01-05", "pending"), ("01-06", "pending"), ("01-07", "pending"),
        ("01-08", "pending"),
    ]  # fmt: skip
    assert one(conn, "SELECT count(*) FROM z_bollhav.history WHERE outcome = 'retired'") == 4
    state.prefill(conn, daily(), ENV)
    assert count(conn, ref) == 10


def test_a_changed_temporality_retires_the_other_kind_of_rows(conn: Conn) -> None:
    model = daily("wh.thing")
    ref = set_up(conn, model)
    run_unit(conn, model, unit("01-01", "01-02"))
    set_up(conn, timeless("wh.thing"))
    assert statuses(conn, ref) == [("01-01", "applied"), ("whole", "pending")]
    assert [row.unit for row in state.units(conn, timeless("wh.thing"), ENV)] == [WHOLE]
    set_up(conn, model)
    assert ("whole", "pending") not in statuses(conn, ref)
    assert count(conn, ref) == 10


def test_a_row_that_is_worked_on_is_not_retired(conn: Conn) -> None:
    ref = set_up(conn, daily())
    assert state.claim(conn, daily(), ENV, unit("01-01", "01-02"), state.RunKey.ad_hoc())
    state.prefill(conn, daily(begin="2024-01-03T00:00Z"), ENV)
    assert statuses(conn, ref)[0] == ("01-01", "running")


def test_a_begin_off_the_grid_starts_at_the_first_tick_after_it(conn: Conn) -> None:
    ref = set_up(conn, daily(begin="2024-01-01T10:17Z"))
    assert statuses(conn, ref)[0] == ("01-02", "pending")
    assert state.prefill(conn, daily(begin="2024-01-01T10:17Z"), ENV) == 0


def test_a_timeless_model_has_one_row(conn: Conn) -> None:
    ref = set_up(conn, timeless())
    assert state.prefill(conn, timeless(), ENV) == 0
    assert statuses(conn, ref) == [("whole", "pending")]


def test_an_unbatched_temporal_model_keeps_one_row_that_grows_with_its_range(conn: Conn) -> None:
    model = unbatched()
    state.bootstrap(conn, ENV)
    state.register(conn, model, ENV)
    ref = state.StateRef.of(model, ENV)

    def run(window: Interval) -> int:
        state.prefill(conn, model, ENV, window)
        state.reset(conn, model, ENV, state.RunKey.ad_hoc(), window, "bulldozer")
        return run_window(conn, model, window)

    assert run(interval("01-05", "01-06")) == 1
    assert rows(conn, ref) == [interval("01-01", "01-06")]
    assert run(interval("01-09", "01-10")) == 1
    assert rows(conn, ref) == [interval("01-01", "01-10")]
    for day in range(1, 9):  # a past day is covered: not loaded again
        assert run(interval(f"01-0{day}", f"01-0{day + 1}")) == 0
    assert run(interval("01-09", "01-10")) == 1  # the last day is the run's own
    assert count(conn, ref) == 1
    assert state.coverage.islands(conn, ref).islands == (interval("01-01", "01-10"),)
    assert state.units(conn, model, ENV, outstanding=False)[0].unit == WHOLE


def test_a_model_that_lost_its_chunks_grows_one_row_and_retires_the_others(conn: Conn) -> None:
    set_up(conn, daily("wh.totals"))
    run_unit(conn, daily("wh.totals"), unit("01-01", "01-02"))
    ref = set_up(conn, unbatched())
    assert count(conn, ref) == 1
    assert run_window(conn, unbatched()) == 1
    assert rows(conn, ref)[0].since == interval("01-01", "01-02").since


def test_an_unbatched_temporal_model_without_begin_has_a_windowless_row(conn: Conn) -> None:
    ref = set_up(conn, unbatched(begin=None))
    assert statuses(conn, ref) == [("whole", "pending")]


def test_units_are_those_whole_inside_the_window(conn: Conn) -> None:
    model = daily()
    set_up(conn, model)
    inside = state.units(conn, model, ENV, interval("2024-01-03T12:00Z", "2024-01-06T12:00Z"))
    assert [row.unit for row in inside] == [unit("01-04", "01-05"), unit("01-05", "01-06")]
    assert state.units(conn, model, ENV, interval("2024-01-03T01:00Z", "2024-01-03T02:00Z")) == []
    assert len(state.units(conn, model, ENV)) == 10
    assert len(state.units(conn, model, ENV, limit=3)) == 3


def test_applied_units_are_left_out_unless_asked_for(conn: Conn) -> None:
    model = daily()
    set_up(conn, model)
    run_unit(conn, model, unit("01-03", "01-04"))
    window = interval("01-03", "01-05")
    assert [row.unit for row in state.units(conn, model, ENV, window)] == [unit("01-04", "01-05")]
    every = state.units(conn, model, ENV, window, outstanding=False)
    assert [row.status for row in every] == ["applied", "pending"]
    assert every[0].row["rows_written"] == 1
    assert every[0].row["who"] == "tester"
    assert every[0].applied_at is not None


def test_a_long_prefill_is_one_statement(conn: Conn) -> None:
    model: Model = daily(chunk="@hourly", begin="2000-01-01T00:00Z", end="2020-01-01T00:00Z")
    ref = set_up(conn, model)
    assert count(conn, ref) == 175_320
