"""Flexible models: gaps, subtraction, re-slicing, overlap exclusion and folding."""

from __future__ import annotations

import random
import threading
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from psycopg import sql
from state_support import (
    ENV,
    Conn,
    Peer,
    connect,
    count,
    daily,
    interval,
    one,
    run_unit,
    run_window,
    set_up,
    unit,
)

from bollhav_provider import state
from bollhav_provider.exceptions import ConfigurationError, LeaseLostError
from bollhav_provider.intervals import Grid, Interval, IntervalSet, Unit
from bollhav_provider.model import ChunkFlex, Model

RUN = state.RunKey.ad_hoc("tester")
HOURLY = Grid("@hourly")


def windows(conn: Conn, ref: state.StateRef, status: str | None = None) -> list[Interval]:
    query = sql.SQL("SELECT since, until FROM {} WHERE %s::text IS NULL OR status = %s ORDER BY since")
    query = query.format(ref.ident)
    return [Interval(*row) for row in conn.execute(query, (status, status))]


def applied_ats(conn: Conn, ref: state.StateRef) -> dict[Interval, datetime]:
    query = sql.SQL("SELECT since, until, applied_at FROM {} WHERE status = 'applied'").format(ref.ident)
    return {Interval(s, u): at for s, u, at in conn.execute(query)}


def assert_tiles(conn: Conn, ref: state.StateRef, whole: Interval) -> None:
    """The rows are disjoint, tile the contract, and the islands are what is applied."""
    found = windows(conn, ref)
    assert found[0].since == whole.since
    assert found[-1].until == whole.until
    assert all(a.until == b.since for a, b in pairwise(found))
    assert state.coverage.islands(conn, ref) == IntervalSet(windows(conn, ref, "applied"))


def flexible(**options: Any) -> Model:
    return daily(flexible=options.pop("flexible", True), **options)


WHOLE = interval("01-01", "01-11")


def test_the_contract_is_sliced_by_the_chunk_with_its_edges_kept(conn: Conn) -> None:
    model = flexible(begin="2024-01-01T06:00Z", end="2024-01-03T18:00Z")
    ref = set_up(conn, model)
    assert windows(conn, ref) == [
        interval("2024-01-01T06:00Z", "2024-01-02T00:00Z"),
        interval("01-02", "01-03"),
        interval("2024-01-03T00:00Z", "2024-01-03T18:00Z"),
    ]
    assert state.prefill(conn, model, ENV) == 0


def test_bulldozer_subtracts_the_window_and_the_remainders_keep_their_applied_at(conn: Conn) -> None:
    model = flexible()
    ref = set_up(conn, model)
    run_window(conn, model)
    before = applied_ats(conn, ref)
    window = interval("2024-01-03T06:00Z", "2024-01-05T18:00Z")
    assert state.reset(conn, model, ENV, RUN, window, "bulldozer") == 3
    assert windows(conn, ref, "pending") == [
        interval("2024-01-03T06:00Z", "2024-01-04T00:00Z"),
        interval("01-04", "01-05"),
        interval("2024-01-05T00:00Z", "2024-01-05T18:00Z"),
    ]
    after = applied_ats(conn, ref)
    assert after[interval("2024-01-03T00:00Z", "2024-01-03T06:00Z")] == before[interval("01-03", "01-04")]
    assert after[interval("2024-01-05T18:00Z", "2024-01-06T00:00Z")] == before[interval("01-05", "01-06")]
    assert_tiles(conn, ref, WHOLE)
    assert [r.unit.window for r in state.units(conn, model, ENV, window)] == windows(conn, ref, "pending")
    run_window(conn, model, window)
    assert state.coverage.islands(conn, ref).islands == (WHOLE,)


def test_discover_fills_only_the_gaps_of_the_window(conn: Conn) -> None:
    model = flexible()
    ref = set_up(conn, model)
    run_window(conn, model, interval("01-02", "01-04"))
    window = interval("2024-01-03T12:00Z", "2024-01-05T12:00Z")
    state.prefill(conn, model, ENV, window)
    assert state.reset(conn, model, ENV, RUN, window, "discover") == 0
    assert [r.unit.window for r in state.units(conn, model, ENV, window)] == [
        interval("01-04", "01-05"),
        interval("2024-01-05T00:00Z", "2024-01-05T12:00Z"),
    ]
    assert_tiles(conn, ref, WHOLE)


def test_an_interval_override_re_slices_what_is_outstanding_in_the_window(conn: Conn) -> None:
    model = flexible()
    ref = set_up(conn, model)
    run_window(conn, model, interval("01-02", "01-03"))
    assert state.prefill(conn, model, ENV, interval("01-02", "01-04"), chunk=HOURLY) == 24
    assert len(state.units(conn, model, ENV, interval("01-02", "01-04"))) == 24
    assert (
        state.reset(conn, model, ENV, RUN, interval("01-02", "01-03"), "bulldozer", chunk=Grid("0 */6 * * *"))
        == 4
    )
    assert_tiles(conn, ref, WHOLE)
    state.prefill(conn, model, ENV, interval("01-02", "01-06"), chunk=Grid("@monthly"))
    # one unit a gap, where the chunk has no tick inside
    assert windows(conn, ref, "pending")[1] == interval("01-02", "01-06")


def test_an_override_on_a_fixed_model_is_ignored_with_a_warning(
    conn: Conn, caplog: pytest.LogCaptureFixture
) -> None:
    ref = set_up(conn, daily())
    assert state.prefill(conn, daily(), ENV, interval("01-02", "01-04"), chunk=HOURLY) == 0
    assert count(conn, ref) == 10
    assert "an interval override re-slices flexible models only" in caplog.text


def test_an_override_finer_than_the_floor_is_refused(conn: Conn) -> None:
    model = flexible(flexible=ChunkFlex(floor_chunk="0 */6 * * *"))
    set_up(conn, model)
    with pytest.raises(ConfigurationError, match="interval_override '@hourly' cuts finer than"):
        state.prefill(conn, model, ENV, interval("01-02", "01-04"), chunk=HOURLY)
    assert state.prefill(conn, model, ENV, interval("01-02", "01-04"), chunk=Grid("0 */12 * * *")) == 4


def test_torch_covers_again_from_zero(conn: Conn) -> None:
    model = flexible()
    ref = set_up(conn, model)
    run_window(conn, model)
    state.reset(conn, model, ENV, RUN, interval("01-02", "01-03"), "torch", chunk=HOURLY)
    assert count(conn, ref, "applied") == 0
    assert count(conn, ref) == 9 + 24
    assert_tiles(conn, ref, WHOLE)


def test_a_unit_in_flight_is_neither_cut_nor_deleted(conn: Conn) -> None:
    model = flexible()
    ref = set_up(conn, model)
    claim = state.claim(conn, model, ENV, unit("01-03", "01-04"), RUN)
    assert claim is not None
    window = interval("2024-01-03T06:00Z", "2024-01-05T00:00Z")
    state.reset(conn, model, ENV, RUN, window, "bulldozer", chunk=HOURLY)
    assert interval("01-03", "01-04") in windows(conn, ref, "running")
    assert len(state.units(conn, model, ENV, window)) == 24
    with conn.transaction():
        state.apply(conn, claim)
    assert_tiles(conn, ref, WHOLE)


def test_two_overlapping_units_never_run_together(
    conn: Conn, other: Conn, caplog: pytest.LogCaptureFixture
) -> None:
    model = flexible()
    ref = set_up(conn, model)
    # a row that overlaps, as another implementation's slicing leaves it
    wide = interval("01-02", "01-05")
    conn.execute(
        sql.SQL(
            "INSERT INTO {} (model_name, run_id, since, until, status) VALUES ('wh.orders', %s, %s, %s, 'pending')"
        ).format(ref.ident),
        (RUN.run_id, wide.since, wide.until),
    )
    claim = state.claim(conn, model, ENV, Unit(wide), RUN)
    assert claim is not None
    with caplog.at_level("INFO"):
        assert state.claim(other, model, ENV, unit("01-03", "01-04"), RUN) is None
    assert "a unit that overlaps it is being worked on: [2024-01-02T00:00:00+00:00" in caplog.text
    assert state.claim(other, model, ENV, unit("01-05", "01-06"), RUN) is not None
    with conn.transaction():
        state.apply(conn, claim)
    assert state.claim(other, model, ENV, unit("01-03", "01-04"), RUN) is not None


def test_overlapping_units_claimed_at_the_same_instant_exclude_each_other(db: str, conn: Conn) -> None:
    model = flexible()
    ref = set_up(conn, model)
    overlapping = [interval("01-02", "01-05"), interval("01-03", "01-06"), interval("01-04", "01-07")]
    for window in overlapping:
        conn.execute(
            sql.SQL("INSERT INTO {} (run_id, since, until, status) VALUES (%s, %s, %s, 'pending')").format(
                ref.ident
            ),
            (RUN.run_id, window.since, window.until),
        )
    for _ in range(20):
        barrier = threading.Barrier(3)
        won: list[state.Claim] = []
        sessions = [connect(db) for _ in range(3)]

        def race(session: Conn, window: Interval, barrier: threading.Barrier, won: list[state.Claim]) -> None:
            barrier.wait()
            claim = state.claim(session, model, ENV, Unit(window), RUN)
            if claim is not None:
                won.append(claim)

        threads = [
            threading.Thread(target=race, args=(session, window, barrier, won))
            for session, window in zip(sessions, overlapping, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        for session in sessions:
            session.close()
        conn.execute(
            sql.SQL(
                "UPDATE {} SET status = 'pending', owner = NULL, lease_until = NULL WHERE status = 'running'"
            ).format(ref.ident)
        )


def test_a_peers_overlapping_unit_excludes_ours_while_its_session_lives(conn: Conn, peer: Peer) -> None:
    model = flexible()
    ref = set_up(conn, model)
    wide = interval("01-02", "01-05")
    peer.prefill("wh.orders", ref.table, [wide])
    peer.set_status(ref.table, wide, "running")
    assert peer.lock("wh.orders", wide)
    assert state.claim(conn, model, ENV, unit("01-03", "01-04"), RUN) is None
    peer.close()
    for _ in range(100):
        if not one(conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"):
            break
    assert state.claim(conn, model, ENV, unit("01-03", "01-04"), RUN) is not None


def test_marking_a_window_takes_it_out_of_the_rows_that_overlap_it(conn: Conn) -> None:
    model = flexible()
    ref = set_up(conn, model)
    run_window(conn, model, interval("01-01", "01-03"))
    worker = state.claim(conn, model, ENV, unit("01-04", "01-05"), RUN)
    assert worker is not None
    marked = interval("2024-01-02T12:00Z", "2024-01-04T12:00Z")
    state.mark_applied(conn, model, ENV, [Unit(marked)], RUN)
    assert_tiles(conn, ref, WHOLE)
    assert state.coverage.islands(conn, ref).islands == (interval("2024-01-01T00:00Z", "2024-01-04T12:00Z"),)
    with pytest.raises(LeaseLostError), conn.transaction():
        state.apply(conn, worker)


def test_prune_folds_old_touching_loads_and_keeps_the_oldest_time(conn: Conn) -> None:
    model = flexible()
    ref = set_up(conn, model)
    run_window(conn, model, interval("01-01", "01-05"))
    run_window(conn, model, interval("01-06", "01-08"))
    conn.execute(
        sql.SQL("UPDATE {} SET applied_at = since + interval '1 day' WHERE until <= '2024-01-08Z'").format(
            ref.ident
        )
    )
    run_unit(conn, model, unit("01-08", "01-09"))
    assert state.prune(conn, model, ENV, timedelta(days=30)) == 4
    assert applied_ats(conn, ref) == {
        interval("01-01", "01-05"): interval("01-02", "01-03").since,
        interval("01-06", "01-08"): interval("01-07", "01-08").since,
        interval("01-08", "01-09"): applied_ats(conn, ref)[interval("01-08", "01-09")],
    }
    assert_tiles(conn, ref, WHOLE)
    assert state.prune(conn, model, ENV, timedelta(days=30)) == 0


def test_a_moved_begin_cuts_the_row_that_straddles_it(conn: Conn) -> None:
    ref = set_up(conn, flexible())
    moved = flexible(begin="2024-01-03T12:00Z")
    state.prefill(conn, moved, ENV)
    assert windows(conn, ref)[0] == interval("2024-01-03T12:00Z", "2024-01-04T00:00Z")
    assert_tiles(conn, ref, interval("2024-01-03T12:00Z", "2024-01-11T00:00Z"))


def test_a_grown_contract_adds_only_its_edges(conn: Conn) -> None:
    ref = set_up(conn, flexible())
    grown = flexible(begin="2023-12-31T12:00Z", end="2024-01-12T06:00Z")
    assert state.prefill(conn, grown, ENV) == 3
    assert_tiles(conn, ref, interval("2023-12-31T12:00Z", "2024-01-12T06:00Z"))


@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_of_runs_keeps_the_rows_disjoint_and_the_coverage_true(conn: Conn, seed: int) -> None:
    """Random windows, modes and chunks; after each step the rows tile the contract and nothing else was touched."""
    chance = random.Random(seed)
    model = flexible()
    ref = set_up(conn, model)
    chunks = [None, HOURLY, Grid("0 */7 * * *"), Grid("@monthly"), Grid("@daily", "Asia/Kathmandu")]
    for _ in range(25):
        start = WHOLE.since + timedelta(minutes=15 * chance.randrange(0, 900))
        window = Interval(start, min(start + timedelta(minutes=15 * chance.randrange(1, 300)), WHOLE.until))
        mode = chance.choice(
            ["discover", "bulldozer", "bulldozer", "torch"]
            if chance.random() < 0.1
            else ["discover", "bulldozer"]
        )
        chunk = chance.choice(chunks)
        before = applied_ats(conn, ref)
        state.prefill(conn, model, ENV, window, chunk=chunk)
        state.reset(conn, model, ENV, state.RunKey.ad_hoc(), window, mode, chunk=chunk)
        assert_tiles(conn, ref, WHOLE)
        after = applied_ats(conn, ref)
        if mode == "discover":
            assert after == before
        elif mode == "bulldozer":
            assert not any(done.overlaps(window) for done in after)
            for done, at in after.items():
                assert any(old.contains(done) and at == old_at for old, old_at in before.items())
            outside = IntervalSet(before) - IntervalSet([window])
            assert IntervalSet(after) == outside
        for row in state.units(conn, model, ENV, window):
            assert window.contains(row.covers)  # type: ignore[arg-type]
            if chance.random() < 0.6:
                run_unit(conn, model, row.unit)
        assert_tiles(conn, ref, WHOLE)
