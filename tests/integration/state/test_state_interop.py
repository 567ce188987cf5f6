"""The other implementation beside us on the same tables, played in plain SQL: both register, prefill, run and lock."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from psycopg import sql
from state_support import (
    ENV,
    Conn,
    Peer,
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
    unbatched,
    unit,
)

from bollhav_provider import state
from bollhav_provider.exceptions import LeaseLostError, ModelLockedError
from bollhav_provider.intervals import WHOLE, Grid, Unit
from bollhav_provider.model import Column, Model, Target
from bollhav_provider.state import sound
from bollhav_provider.state.loads import loads
from bollhav_provider.state.restatement import outdated
from bollhav_provider.state.summary import summary

RUN = state.RunKey.ad_hoc("us")
DAYS = list(Grid("@daily").windows(interval("01-01", "01-11")))
DAY = interval("01-03", "01-04")


def settle(conn: Conn) -> None:
    """Wait until the server has noticed that a session is gone."""
    deadline = time.monotonic() + 5
    while (
        one(conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") and time.monotonic() < deadline
    ):
        time.sleep(0.01)


def test_the_lock_key_of_a_unit_is_the_shared_one(conn: Conn) -> None:
    ref = state.StateRef.of(daily(), ENV)
    assert (
        ref.unit_key(unit("01-01", "01-02"))
        == "wh.orders|2024-01-01T00:00:00+00:00|2024-01-02T00:00:00+00:00"
    )
    assert one(conn, "SELECT hashtext(%s)", ref.unit_key(unit("01-01", "01-02"))) == -293876642
    assert ref.unit_key(WHOLE) == "wh.orders|oneshot"


@pytest.mark.parametrize(
    "instant", ["2024-01-01T00:00:00Z", "2024-06-01T12:34:56.789012Z", "0099-02-03T04:05:06Z"]
)
def test_the_server_writes_instants_as_pythons_isoformat(conn: Conn, instant: str) -> None:
    from bollhav_provider.intervals import as_utc
    from bollhav_provider.state.schema import function

    state.bootstrap(conn, ENV)
    conn.execute("SET TimeZone = 'Asia/Tokyo'")
    query = sql.SQL("SELECT {}(%s::timestamptz)").format(function("z_bollhav", "iso", "claims.sql"))
    row = conn.execute(query, (instant,)).fetchone()
    assert row == (as_utc(instant, "x").isoformat(),)


def test_a_peer_that_came_first_and_we_share_one_model(conn: Conn, peer: Peer) -> None:
    model = daily()
    ref = state.StateRef.of(model, ENV)
    peer.make_library()
    peer.make_state_table(ref.table)
    peer.register("wh.orders", ref.table)
    peer.prefill("wh.orders", ref.table, DAYS)
    for window in DAYS[:4]:
        peer.set_status(ref.table, window, "running")
        peer.set_status(ref.table, window, "applied")
    set_up(conn, model)
    assert [r.unit.window for r in state.units(conn, model, ENV)] == DAYS[4:]
    run_window(conn, model, interval("01-05", "01-08"))
    peer.register("wh.orders", ref.table)
    peer.prefill("wh.orders", ref.table, DAYS)
    peer.set_status(ref.table, DAYS[9], "applied")
    assert [s for _, s in statuses(conn, ref)] == ["applied"] * 7 + ["pending"] * 2 + ["applied"]
    assert state.coverage.islands(conn, ref).islands == (
        interval("01-01", "01-08"),
        interval("01-10", "01-11"),
    )
    entry = state.get_entry(conn, ENV, "wh.orders")
    assert entry is not None
    assert entry.metadata["table"] == "orders"  # what the peer does not write stays


def test_our_downstream_gates_on_a_peers_upstream_that_we_never_registered(conn: Conn, peer: Peer) -> None:
    peer.make_library()
    table = state.StateRef.of(daily("raw.landing"), ENV).table
    peer.make_state_table(table)
    peer.register("raw.landing", table)
    peer.prefill("raw.landing", table, DAYS)
    model = daily("wh.marts", upstream=gated_on("raw.landing"))
    set_up(conn, model)
    upstream = state.StateRef.of(daily("raw.landing"), ENV)
    assert state.coverage.verify(conn, upstream).kept  # for our gates' sake
    assert not state.observe(conn, model, ENV, Unit(DAY)).open
    peer.set_status(table, DAY, "applied")
    assert state.observe(conn, model, ENV, Unit(DAY)).open
    peer.set_status(table, DAY, "pending")
    assert not state.observe(conn, model, ENV, Unit(DAY)).open


def test_a_peer_gates_on_what_we_applied(conn: Conn, peer: Peer) -> None:
    model = daily()
    ref = set_up(conn, model)
    run_unit(conn, model, Unit(DAY))
    query = sql.SQL("SELECT status, applied_at IS NOT NULL FROM {} WHERE since = %s AND until = %s").format(
        ref.ident
    )
    assert peer.conn.execute(query, (DAY.since, DAY.until)).fetchone() == ("applied", True)
    library = peer.conn.execute(
        "SELECT model_type, state_schema, state_table, temporality, fixed_intervals, upstream FROM z_bollhav.library"
    ).fetchone()
    assert library == ("TABLE", "z_bollhav", "wh_orders_36949adfcd2526d1", "temporal", True, [])


def test_we_keep_off_a_unit_that_a_peer_has_locked_and_it_off_ours(conn: Conn, peer: Peer) -> None:
    model = daily()
    ref = set_up(conn, model)
    assert peer.lock("wh.orders", DAY)
    peer.set_status(ref.table, DAY, "running")
    assert state.claim(conn, model, ENV, Unit(DAY), RUN) is None
    assert state.claim(conn, model, ENV, Unit(DAY), RUN, locks="off") is None  # behind a pooler as well
    assert state.units(conn, model, ENV, DAY) == []
    peer.set_status(ref.table, DAY, "applied")
    assert peer.unlock("wh.orders", DAY)
    assert state.claim(conn, model, ENV, Unit(DAY), RUN) is None  # applied
    claim = state.claim(conn, model, ENV, unit("01-04", "01-05"), RUN)
    assert claim is not None
    assert not peer.lock("wh.orders", interval("01-04", "01-05"))
    with conn.transaction():
        state.apply(conn, claim)
    assert peer.lock("wh.orders", interval("01-04", "01-05"))


def test_a_peers_running_row_is_reclaimed_only_when_its_lock_is_free(conn: Conn, peer: Peer) -> None:
    model = daily()
    ref = set_up(conn, model)
    assert peer.lock("wh.orders", DAY)
    peer.set_status(ref.table, DAY, "running")
    assert state.reconcile(conn, model, ENV, RUN).orphans == 0
    assert state.reset(conn, model, ENV, RUN, DAY, "bulldozer") == 0
    peer.close()
    settle(conn)
    assert [r.unit.window for r in state.units(conn, model, ENV, DAY)] == [DAY]
    assert state.reconcile(conn, model, ENV, RUN).orphans == 1
    peer = Peer(conn.info.dsn)
    peer.set_status(ref.table, DAY, "running")  # a peer that died without a trace
    claim = state.claim(conn, model, ENV, Unit(DAY), RUN)
    assert claim is not None
    peer.close()


def test_a_peers_running_row_of_a_windowless_model(conn: Conn, peer: Peer) -> None:
    model = timeless()
    ref = set_up(conn, model)
    assert peer.lock("ref.airlines", None)
    peer.set_status(ref.table, None, "running")
    assert state.claim(conn, model, ENV, WHOLE, RUN) is None
    assert state.units(conn, model, ENV) == []
    peer.unlock("ref.airlines", None)
    assert len(state.units(conn, model, ENV)) == 1
    peer.set_status(ref.table, None, "applied")
    assert state.claim(conn, model, ENV, WHOLE, RUN) is None


def test_a_peer_that_takes_over_our_dead_claim_is_left_alone(conn: Conn, peer: Peer, db: str) -> None:
    """Our worker died; the peer put its row back and runs it. Our expired lease on the row must not mislead us."""
    model = daily()
    ref = set_up(conn, model)
    with connect(db) as dead:
        assert state.claim(dead, model, ENV, Unit(DAY), RUN, timedelta(milliseconds=50))
    settle(conn)
    time.sleep(0.06)
    assert peer.lock("wh.orders", DAY)
    peer.set_status(ref.table, DAY, "pending")
    peer.set_status(ref.table, DAY, "running")
    assert state.claim(conn, model, ENV, Unit(DAY), RUN) is None
    assert state.claim(conn, model, ENV, Unit(DAY), RUN, locks="off") is None
    assert state.reconcile(conn, model, ENV, RUN).orphans == 0
    peer.set_status(ref.table, DAY, "applied")
    assert state.coverage.islands(conn, ref).islands == (DAY,)


@pytest.mark.parametrize("status", ["applied", "pending", "error"])
def test_a_peer_that_sets_our_claimed_row_wins(conn: Conn, peer: Peer, status: str) -> None:
    """It has no business there while we hold the lock; if it does so all the same, we commit nothing on top."""
    model = daily()
    ref = set_up(conn, model)
    claim = state.claim(conn, model, ENV, Unit(DAY), RUN)
    assert claim is not None
    peer.set_status(ref.table, DAY, status)
    with pytest.raises(LeaseLostError), conn.transaction():
        state.apply(conn, claim)
    assert ("01-03", status) in statuses(conn, ref)


def test_a_peer_that_holds_the_model_excludes_a_model_that_allows_one_run(conn: Conn, peer: Peer) -> None:
    model = daily(allow_concurrent_runs=False)
    set_up(conn, model)
    assert peer.lock_model("wh.orders")
    for locks in ("auto", "off"):
        with pytest.raises(ModelLockedError, match="another implementation"):
            state.claim(conn, model, ENV, Unit(DAY), RUN, locks=locks)
    peer.close()
    settle(conn)
    claim = state.claim(conn, model, ENV, Unit(DAY), RUN)
    assert claim is not None
    peer = Peer(conn.info.dsn)
    assert not peer.lock_model("wh.orders")
    with conn.transaction():
        state.apply(conn, claim)
    assert peer.lock_model("wh.orders")
    peer.close()


def test_errors_of_both_are_one_history(conn: Conn, peer: Peer) -> None:
    model = daily()
    ref = set_up(conn, model)
    peer.conn.execute(
        "INSERT INTO z_bollhav.errors (full_name, run_id, since, until, error_type, error_message, traceback) "
        "VALUES ('wh.orders', %s, %s, %s, 'ValueError', 'theirs', 'tb')",
        (peer.run_id, DAY.since, DAY.until),
    )
    peer.set_status(ref.table, DAY, "error")
    claim = state.claim(conn, model, ENV, Unit(DAY), RUN)
    assert claim is not None
    state.fail(conn, claim, ValueError("ours"))
    assert [e.message for e in state.errors(conn, ENV, "wh.orders", unit=Unit(DAY))] == ["ours", "theirs"]


def test_a_peers_bulk_operations_keep_the_coverage_true(conn: Conn, peer: Peer) -> None:
    model = daily()
    ref = set_up(conn, model)
    run_window(conn, model)
    peer.conn.execute(
        sql.SQL("UPDATE {} SET status = 'pending' WHERE since >= '2024-01-05Z'").format(ref.ident)
    )
    assert state.coverage.islands(conn, ref).islands == (interval("01-01", "01-05"),)
    peer.conn.execute(sql.SQL("DELETE FROM {}").format(ref.ident))
    peer.prefill("wh.orders", ref.table, DAYS)
    assert state.coverage.islands(conn, ref).islands == ()
    assert count(conn, ref) == 10
    assert state.prefill(conn, model, ENV) == 0


def test_a_state_table_that_is_not_ours_to_change_says_what_is_needed(
    db: str, conn: Conn, peer: Peer
) -> None:
    from psycopg.conninfo import make_conninfo

    from bollhav_provider.exceptions import StateError

    model = daily()
    ref = state.StateRef.of(model, ENV)
    state.bootstrap(conn, ENV)
    peer.make_state_table(ref.table)
    role = sql.Identifier(f"guest_{db[-8:]}")
    conn.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
    conn.execute(sql.SQL("GRANT USAGE, CREATE ON SCHEMA z_bollhav TO {}").format(role))
    conn.execute(sql.SQL("GRANT ALL ON ALL TABLES IN SCHEMA z_bollhav TO {}").format(role))
    try:
        with (
            connect(make_conninfo(db, user=f"guest_{db[-8:]}")) as guest,
            pytest.raises(StateError, match="must belong to a role that"),
        ):
            state.register(guest, model, ENV)
    finally:
        conn.execute(sql.SQL("DROP OWNED BY {}").format(role))
        conn.execute(sql.SQL("DROP ROLE {}").format(role))


def test_a_peers_library_only_entry_satisfies_by_presence(conn: Conn, peer: Peer) -> None:
    state.bootstrap(conn, ENV)
    peer.conn.execute(
        "INSERT INTO z_bollhav.library (full_name, upstream, model_type) VALUES ('wh.countries', '{}', 'TABLE')"
    )
    model = daily("wh.marts", upstream=gated_on("wh.countries"))
    set_up(conn, model)
    assert state.observe(conn, model, ENV, Unit(DAY)).open
    table = Target(schema="wh", name="countries", columns=[Column("code", "text")])
    entry = state.register(conn, Model(target=table, library=True), ENV)
    assert entry is not None
    assert entry.ref is None


def test_who_waits_hears_of_a_peers_commit_as_well(conn: Conn, other: Conn, peer: Peer) -> None:
    window = interval("01-03", "01-04")
    for model, found in ((daily(), window), (timeless(), None)):
        ref = set_up(conn, model)
        other.execute(sql.SQL("LISTEN {}").format(sql.Identifier(state.channel(ENV))))
        assert peer.set_status(ref.table, found, "running") == 1
        assert list(other.notifies(timeout=0.05)) == []
        assert peer.set_status(ref.table, found, "applied") == 1
        (heard,) = other.notifies(timeout=5, stop_after=1)
        assert heard.payload == ref.table


#: What a careless writer can leave in a state table; its types and constraints allow it.
UNSOUND = {
    "inverted": ("2024-01-04Z", "2024-01-03Z"),
    "without width": ("2024-01-05Z", "2024-01-05Z"),
    "without end": ("2024-01-05Z", None),
    "without start": (None, "2024-01-05Z"),
    "infinite": ("-infinity", "infinity"),
    "endless": ("2024-01-02Z", "infinity"),
    "before our era": ("0044-03-15 BC", "0044-03-16 BC"),
    "after year 9999": ("20000-01-01Z", "20000-01-02Z"),
}


@pytest.mark.parametrize("status", ["pending", "applied", "error"])
@pytest.mark.parametrize("kind", UNSOUND)
@pytest.mark.parametrize("make", [daily, lambda: daily(flexible=True), unbatched])
def test_a_row_that_is_no_window_keeps_nobody_from_the_rest(
    conn: Conn, make: Callable[[], Model], kind: str, status: str
) -> None:
    model = make()
    ref = set_up(conn, model)
    conn.execute(
        sql.SQL(
            "INSERT INTO {} (model_name, run_id, since, until, status, applied_at) "
            "VALUES ('x', gen_random_uuid(), %s, %s, %s, 'infinity')"
        ).format(ref.ident),
        (*UNSOUND[kind], status),
    )
    sound.unsound(conn, ref)
    for window in (None, interval("01-01", "01-11")):
        state.prefill(conn, model, ENV, window)
        assert state.units(conn, model, ENV, window, outstanding=False)
    assert run_window(conn, model, interval("01-01", "01-11")) > 0
    state.reset(conn, model, ENV, state.RunKey.ad_hoc(), interval("01-02", "01-03"), "bulldozer")
    state.reconcile(conn, model, ENV, state.RunKey.ad_hoc())
    run_window(conn, model)
    found = summary(conn, model, ENV)
    assert found.applied_range is not None
    assert found.applied_range.since == interval("01-01", "01-02").since
    assert outdated(conn, ENV) == []
    assert loads(conn, ref)
    assert state.coverage.verify(conn, ref).right


def test_an_error_with_no_window_is_listed_all_the_same(conn: Conn) -> None:
    set_up(conn, daily())
    for since, until in UNSOUND.values():
        conn.execute(
            "INSERT INTO z_bollhav.errors (full_name, run_id, since, until, error_type) "
            "VALUES ('wh.orders', gen_random_uuid(), %s, %s, 'E')",
            (since, until),
        )
    assert [error.unit for error in state.errors(conn, ENV)] == [WHOLE] * len(UNSOUND)
