"""Reset and reconciliation: how much a run invalidates, once, and what is looked at again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from psycopg import sql
from state_support import (
    ENV,
    Conn,
    connect,
    count,
    daily,
    gated_on,
    interval,
    one,
    run_unit,
    run_window,
    set_up,
    statuses,
    timeless,
    unit,
)

from bollhav_provider import state
from bollhav_provider.exceptions import ConfigurationError, LeaseLostError
from bollhav_provider.model import Source, SourceHardcoded


def test_bulldozer_puts_the_windows_rows_back_and_leaves_all_others(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    run_window(conn, model)
    conn.execute(
        sql.SQL(
            "UPDATE {} SET status = 'blocked', blocked_reason = 'why' WHERE since = '2024-01-04Z'"
        ).format(ref.ident)
    )
    assert state.reset(conn, model, ENV, state.RunKey.ad_hoc(), interval("01-03", "01-05"), "bulldozer") == 2
    assert count(conn, ref, "applied") == 8
    assert [s for s, status in statuses(conn, ref) if status == "pending"] == ["01-03", "01-04"]
    assert one(conn, "SELECT count(*) FROM @state WHERE blocked_reason IS NOT NULL", ref=ref) == 0
    assert state.coverage.verify(conn, ref).right


def test_bulldozer_without_a_window_resets_everything(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    run_window(conn, model)
    assert state.reset(conn, model, ENV, state.RunKey.ad_hoc(), None, "bulldozer") == 10
    assert count(conn, ref, "pending") == 10


def test_discover_invalidates_nothing(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    run_window(conn, model, interval("01-03", "01-05"))
    assert state.reset(conn, model, ENV, state.RunKey.ad_hoc(), interval("01-03", "01-06"), "discover") == 0
    assert count(conn, ref, "applied") == 2
    assert [r.unit for r in state.units(conn, model, ENV, interval("01-03", "01-06"))] == [
        unit("01-05", "01-06")
    ]


def test_a_retry_of_the_same_run_never_resets_again(conn: Conn) -> None:
    model = daily()
    set_up(conn, model)
    run = state.RunKey.ad_hoc()
    window = interval("01-01", "01-11")
    run_window(conn, model)
    assert state.reset(conn, model, ENV, run, window, "bulldozer") == 10
    for row in state.units(conn, model, ENV, window)[:6]:
        run_unit(conn, model, row.unit, run)
    assert state.reset(conn, model, ENV, run, window, "bulldozer") == 0
    assert len(state.units(conn, model, ENV, window)) == 4
    assert state.reset(conn, model, ENV, state.RunKey.ad_hoc(), window, "bulldozer") == 6


def test_four_tasks_of_one_run_reset_once_between_them(db: str, conn: Conn) -> None:
    model = daily()
    set_up(conn, model)
    run_window(conn, model)
    run = state.RunKey.ad_hoc()

    def task(_: int) -> int:
        with connect(db) as mine:
            return state.reset(mine, model, ENV, run, interval("01-01", "01-11"), "bulldozer")

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(task, range(4))) == [0, 0, 0, 10]


def test_a_unit_that_somebody_works_on_is_left_to_them(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    claim = state.claim(conn, model, ENV, unit("01-03", "01-04"), state.RunKey.ad_hoc())
    assert claim is not None
    assert state.reset(conn, model, ENV, state.RunKey.ad_hoc(), interval("01-03", "01-05"), "bulldozer") == 0
    assert ("01-03", "running") in statuses(conn, ref)
    assert [r.unit for r in state.units(conn, model, ENV, interval("01-03", "01-05"))] == [
        unit("01-04", "01-05")
    ]
    with conn.transaction():
        state.apply(conn, claim)


def test_torch_deletes_and_refills_and_fences_whoever_is_at_work(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    run_window(conn, model, interval("01-01", "01-08"))
    claim = state.claim(conn, model, ENV, unit("01-09", "01-10"), state.RunKey.ad_hoc())
    assert claim is not None
    run = state.RunKey.ad_hoc()
    assert state.reset(conn, model, ENV, run, interval("01-01", "01-03"), "torch") == 10
    assert count(conn, ref, "pending") == 10
    with pytest.raises(LeaseLostError, match="its row is gone"), conn.transaction():
        state.apply(conn, claim)
    assert state.fail(conn, claim, LeaseLostError("x")) is False
    run_window(conn, model, interval("01-01", "01-03"))
    # total, and once a run, whatever the window of the task that asks
    assert state.reset(conn, model, ENV, run, interval("01-03", "01-04"), "torch") == 0
    assert count(conn, ref, "applied") == 2
    assert one(conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


def test_torch_is_one_transaction(conn: Conn, other: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    run_window(conn, model)
    other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert count(other, ref, "applied") == 10
    state.reset(conn, model, ENV, state.RunKey.ad_hoc(), None, "torch")
    assert count(other, ref, "applied") == 10
    other.execute("COMMIT")
    assert (count(other, ref), count(other, ref, "applied")) == (10, 0)


def test_an_unknown_mode_is_refused(conn: Conn) -> None:
    set_up(conn, daily())
    with pytest.raises(
        ConfigurationError, match=r"wh\.orders: mode 'nuke' is none of discover, bulldozer, torch"
    ):
        state.reset(conn, daily(), ENV, state.RunKey.ad_hoc(), None, "nuke")


def test_changed_inline_content_re_applies_a_timeless_model_even_in_discover(conn: Conn) -> None:
    def regions(*names: str) -> object:
        rows = [{"name": name} for name in names]
        return timeless("ref.regions", upstream=[Source("inline", type=SourceHardcoded(rows=rows))])

    before, after = regions("north"), regions("north", "south")
    set_up(conn, before)  # type: ignore[arg-type]
    run_window(conn, before)  # type: ignore[arg-type]
    run = state.RunKey.ad_hoc()
    assert state.reset(conn, before, ENV, run, None, "discover") == 0  # type: ignore[arg-type]
    assert state.reset(conn, after, ENV, run, None, "discover") == 1  # type: ignore[arg-type]
    assert run_window(conn, after) == 1  # type: ignore[arg-type]
    assert state.reset(conn, after, ENV, run, None, "discover") == 0  # type: ignore[arg-type]


def test_reconciliation_recovers_errors_and_orphans_and_looks_at_gates(conn: Conn) -> None:
    upstream = daily("wh.orders")
    model = daily("wh.marts", upstream=gated_on("wh.orders"))
    set_up(conn, upstream)
    ref = set_up(conn, model)
    run_window(conn, upstream, interval("01-01", "01-06"))
    run = state.RunKey.ad_hoc()
    dead = state.claim(conn, model, ENV, unit("01-01", "01-02"), run, locks="off")
    alive = state.claim(conn, model, ENV, unit("01-02", "01-03"), run, locks="off")
    failed = state.claim(conn, model, ENV, unit("01-03", "01-04"), run)
    blocked = state.claim(conn, model, ENV, unit("01-04", "01-05"), run)
    assert dead
    assert alive
    assert failed
    assert blocked
    conn.execute(
        sql.SQL("UPDATE {} SET lease_until = now() - interval '1s' WHERE id = %s").format(ref.ident),
        (dead.id,),
    )
    state.fail(conn, failed, ValueError("no"))
    state.block(conn, blocked, "STATE_002: not yet")
    done = state.reconcile(conn, model, ENV, run)
    assert (done.errors, done.orphans, done.opened, done.closed, done.outstanding) == (1, 1, 1, 5, 9)
    assert statuses(conn, ref) == [
        ("01-01", "pending"), ("01-02", "running"), ("01-03", "pending"), ("01-04", "pending"), ("01-05", "pending"),
        *[(f"01-{day:02}", "blocked") for day in range(6, 11)],
    ]  # fmt: skip
    reason = one(conn, "SELECT blocked_reason FROM @state WHERE since = '2024-01-06Z'", ref=ref)
    assert (
        reason
        == "STATE_002: upstream 'wh.orders' (encapsulate) missing [2024-01-06T00:00Z, 2024-01-07T00:00Z)"
    )
    state.reset(conn, upstream, ENV, run, interval("01-01", "01-02"), "bulldozer")
    assert state.reconcile(conn, model, ENV, run).closed == 1


def test_the_worker_whose_orphan_was_recovered_commits_nothing(conn: Conn) -> None:
    model = daily()
    ref = set_up(conn, model)
    zombie = state.claim(conn, model, ENV, unit("01-01", "01-02"), state.RunKey.ad_hoc(), locks="off")
    assert zombie is not None
    conn.execute(sql.SQL("UPDATE {} SET lease_until = now() - interval '1s'").format(ref.ident))
    assert state.reconcile(conn, model, ENV, state.RunKey.ad_hoc()).orphans == 1
    conn.execute(sql.SQL("UPDATE {} SET lease_until = now() + interval '1h'").format(ref.ident))
    with pytest.raises(LeaseLostError), conn.transaction():
        state.apply(conn, zombie)
