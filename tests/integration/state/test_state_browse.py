"""What people look at: units of the latest windows first, and models in numbers, whatever lies in the tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from psycopg import sql
from state_support import ENV, Conn, daily, interval, run_window, set_up, timeless, unbatched, unit

from bollhav_provider import state
from bollhav_provider.model import Environment
from bollhav_provider.state import browse


def entry_of(conn: Conn, name: str) -> state.LibraryEntry:
    return {entry.full_name: entry for entry in browse.registered(conn, ENV)}[name]


def foreign(conn: Conn, ref: state.StateRef, since: str, until: str, status: str = "applied") -> None:
    """A row that another writer left."""
    query = "INSERT INTO {} (model_name, run_id, since, until, status) VALUES ('x', gen_random_uuid(), %s, %s, %s)"
    conn.execute(sql.SQL(query).format(ref.ident), (since, until, status))


def test_without_a_library_there_is_nothing_to_see(conn: Conn) -> None:
    assert browse.registered(conn, Environment(suffix="nowhere")) == []


def test_rows_of_another_grain_are_shown_and_rows_that_are_no_window_are_not(conn: Conn) -> None:
    ref = set_up(conn, daily())
    foreign(conn, ref, "2024-01-05Z", "2024-01-05T06:00Z")
    foreign(conn, ref, "2024-02-08Z", "2024-02-07Z")
    foreign(conn, ref, "2024-01-02Z", "infinity")
    shown = browse.recent(conn, entry_of(conn, "wh.orders"))
    starts = [row.unit.since for row in shown]
    assert starts == sorted(starts, reverse=True)
    assert datetime(2024, 1, 5, tzinfo=UTC) in starts
    assert datetime(2024, 2, 8, tzinfo=UTC) not in starts
    (odd,) = [row for row in shown if row.status == "applied"]
    assert odd.unit.until - odd.unit.since == timedelta(hours=6)


@pytest.mark.parametrize("model", [timeless(), unbatched()])
def test_a_model_without_windows_has_its_one_unit_whatever_is_asked_for(conn: Conn, model: object) -> None:
    set_up(conn, model)
    run_window(conn, model)
    (entry,) = browse.registered(conn, ENV)
    since = datetime(2030, 1, 1, tzinfo=UTC)
    (row,) = browse.recent(conn, entry, since=since)
    assert (row.unit.windowless, row.status) == (True, "applied")


def test_models_are_counted_together_and_tables_that_are_gone_are_left_out(
    conn: Conn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browse, "_AT_ONCE", 2)
    names = ("wh.orders", "wh.stock", "wh.gone", "wh.empty")
    refs = {name: set_up(conn, daily(name)) for name in names}
    assert run_window(conn, daily(), interval("01-01", "01-03")) == 2
    run = state.RunKey.ad_hoc()
    claim = state.claim(conn, daily("wh.stock"), ENV, unit("01-01", "01-02"), run)
    assert claim is not None
    expire = sql.SQL("UPDATE {} SET lease_until = now() - interval '1 minute' WHERE status = 'running'")
    conn.execute(expire.format(refs["wh.stock"].ident))
    conn.execute(sql.SQL("DELETE FROM {}").format(refs["wh.empty"].ident))
    conn.execute(sql.SQL("DROP TABLE {}").format(refs["wh.gone"].ident))
    found = browse.standings(conn, refs.values())
    assert refs["wh.gone"] not in found
    assert browse.recent(conn, entry_of(conn, "wh.gone")) == []
    orders, stock, empty = (found[refs[name]] for name in ("wh.orders", "wh.stock", "wh.empty"))
    assert (orders.counts["applied"], orders.until, orders.troubled) == (2, datetime(2024, 1, 3, tzinfo=UTC), False)
    assert orders.loaded_at is not None
    assert (stock.counts["running"], stock.stuck, stock.troubled) == (1, 1, True)
    assert (sum(empty.counts.values()), empty.until, empty.loaded_at) == (0, None, None)
