"""What a model asks of its upstreams, and what a watched row says while its unit waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from gate_support import ENV, Counting, Library, own_database, state_sql, window
from state_support import Conn, daily, timeless, unbatched

from bollhav_provider import state
from bollhav_provider.exceptions import StateError
from bollhav_provider.intervals import WHOLE, Interval, Unit
from bollhav_provider.model import (
    Environment,
    Freshness,
    Model,
    Source,
    SourceModel,
    TableId,
    UpstreamContract,
)
from bollhav_provider.state import GateRequest, GateWatch


@pytest.fixture(scope="module")
def library(pg_dsn: str) -> Iterator[Library]:
    with own_database(pg_dsn, "gates_observed") as conn:
        yield Library(conn)


def gated(name: str, contract: str = "encapsulate", **fields: Any) -> Source:
    return Source(name, type=SourceModel(), contract=UpstreamContract(contract), **fields)


# What a model asks


def test_a_model_asks_for_each_gated_source(library: Library) -> None:
    model = daily(
        "mart.day",
        upstream=[
            gated("raw.orders", "through", freshness=Freshness(timedelta(days=2), scope="all"), max_lag=1),
            gated("customers", "whole"),
            Source("raw.landing", type=SourceModel()),
            gated("shared.rates", "whole", deactivate_for_dev=True),
        ],
        sequential=True,
    )
    unit = Unit(Interval("2024-01-02T00:00Z", "2024-01-03T00:00Z"))
    orders = GateRequest(
        "raw.orders", "through", unit.window, timedelta(days=2), "all", 1, "mart.day", "raw.orders"
    )
    asked = state.gate_requests(model, ENV, unit)
    assert asked[0] == orders
    assert [(r.upstream, r.level) for r in asked] == [
        ("raw.orders", "through"), ("mart.customers", "whole"), ("shared.rates", "whole"), ("mart.day", "past"),
    ]  # fmt: skip
    assert asked.skipped == ()
    dev = state.gate_requests(model, Environment("pr1"), unit)
    assert [r.upstream for r in dev] == ["raw_pr1.orders", "mart_pr1.customers", "mart_pr1.day"]
    assert [r.source for r in dev] == ["raw.orders", "mart.customers", "mart.day"]
    assert dev.skipped == ("shared.rates",)


def test_a_pattern_is_what_the_graph_says(library: Library) -> None:
    model = daily("mart.day", upstream=[gated("*.orders", many=True)])
    unit = Unit(Interval("2024-01-02T00:00Z", "2024-01-03T00:00Z"))
    with pytest.raises(StateError, match=r"mart\.day: upstream '\*\.orders' is a pattern"):
        state.gate_requests(model, ENV, unit)
    bound = {"orders": (TableId(None, "eu", "orders"), TableId(None, "us", "orders"))}
    assert [r.upstream for r in state.gate_requests(model, ENV, unit, bound)] == ["eu.orders", "us.orders"]
    assert list(state.gate_requests(model, ENV, unit, {"orders": ()})) == []


# Watched rows


def row_of(conn: Conn, model: Model) -> list[tuple[Any, ...]]:
    ref = state.StateRef.of(model, ENV)
    return state_sql(conn, ref, "SELECT status, blocked_reason FROM {} ORDER BY since").fetchall()


def ready(conn: Conn, *models: Model) -> None:
    for model in models:
        state.register(conn, model, ENV)
        state.prefill(conn, model, ENV, None)


def set_all(conn: Conn, model: Model, status: str) -> None:
    state_sql(conn, state.StateRef.of(model, ENV), "UPDATE {} SET status = %s, applied_at = now()", status)


def test_a_watched_unit_is_blocked_with_the_reason_and_pending_again_when_its_gates_open(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn = library.conn
    up = daily("w.up", end="2024-01-03T00:00Z")
    down = daily("w.down", end="2024-01-02T00:00Z", upstream=[gated("w.up")])
    ready(conn, up, down)
    unit = Unit(window(0, 24))
    report = state.observe(conn, down, ENV, unit)
    reason = "STATE_002: upstream 'w.up' (encapsulate) missing [2024-01-01T00:00Z, 2024-01-02T00:00Z)"
    assert report.reason == reason
    assert row_of(conn, down) == [("blocked", reason)]
    counting = Counting(monkeypatch)
    state.observe(conn, down, ENV, unit)
    assert counting.sent == 1
    set_all(conn, up, "applied")
    counting.sent = 0
    assert state.observe(conn, down, ENV, unit).open
    assert counting.sent == 2
    assert row_of(conn, down) == [("pending", None)]


@pytest.mark.parametrize("status", ["running", "applied", "error"])
def test_watching_touches_no_row_that_does_not_wait(library: Library, status: str) -> None:
    conn = library.conn
    up = daily("w.up2", end="2024-01-02T00:00Z")
    down = daily("w.down2", end="2024-01-02T00:00Z", upstream=[gated("w.up2")])
    ready(conn, up, down)
    for upstream in ("pending", "applied"):
        set_all(conn, up, upstream)
        set_all(conn, down, status)
        state.observe(conn, down, ENV, Unit(window(0, 24)))
        assert row_of(conn, down) == [(status, None)]


def test_a_growing_age_alone_rewrites_no_row(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    conn = library.conn
    up = daily("w.up3", end="2024-01-02T00:00Z")
    down = daily(
        "w.down3", end="2024-01-02T00:00Z", upstream=[gated("w.up3", freshness=Freshness(timedelta(hours=1)))]
    )
    ready(conn, up, down)
    ref = state.StateRef.of(up, ENV)
    for age, changed in ((90, True), (200, False), (4000, False)):
        state_sql(
            conn,
            ref,
            "UPDATE {} SET status = 'applied', applied_at = now() - %s * interval '1 minute'",
            age,
        )
        before = row_of(conn, down)
        assert not state.observe(conn, down, ENV, Unit(window(0, 24))).open
        assert (row_of(conn, down) != before) is changed
    assert row_of(conn, down) == [
        ("blocked", "STATE_002: upstream 'w.up3' (encapsulate, stale) age 1h 30m, limit 1h")
    ]


def test_many_units_are_watched_together_and_carried_as_json(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn = library.conn
    up = daily("w.up4", end="2024-01-06T00:00Z")
    down = daily("w.down4", end="2024-01-06T00:00Z", upstream=[gated("w.up4")])
    whole = timeless("w.whole4", upstream=[gated("w.up4", "whole")])
    grown = unbatched("w.grown4", upstream=[gated("w.up4", "whole")])
    ready(conn, up, down, whole, grown)
    ref = state.StateRef.of(up, ENV)
    state_sql(conn, ref, "UPDATE {} SET status = 'applied', applied_at = now() WHERE since <> '2024-01-03'")
    watches = [GateWatch.of(down, ENV, Unit(window(24 * d, 24 * d + 24))) for d in range(5)]
    watches += [GateWatch.of(whole, ENV, WHOLE), GateWatch.of(grown, ENV, WHOLE)]
    carried = [GateWatch.from_json(watch.to_json()) for watch in watches]
    assert carried == watches
    counting = Counting(monkeypatch)
    reports = state.observe_all(conn, carried)
    assert counting.sent == 2
    assert [r.open for r in reports] == [True, True, False, True, True, False, False]
    assert [status for status, _ in row_of(conn, down)] == [
        "pending",
        "pending",
        "blocked",
        "pending",
        "pending",
    ]
    assert [status for status, _ in row_of(conn, whole)] == ["blocked"]
    assert [status for status, _ in row_of(conn, grown)] == ["blocked"]
    set_all(conn, up, "applied")

    async def later() -> list[bool]:
        aconn = await psycopg.AsyncConnection.connect(conn.info.dsn, autocommit=True)
        async with aconn:
            one = await state.aobserve(aconn, down, ENV, Unit(window(48, 72)))
            return [one.open, *(r.open for r in await state.aobserve_all(aconn, carried))]

    assert all(asyncio.run(later()))
    assert [status for status, _ in row_of(conn, whole)] == ["pending"]
    assert [status for status, _ in row_of(conn, grown)] == ["pending"]
    assert state.observe_all(conn, []) == []


def test_an_ungated_unit_is_open(library: Library) -> None:
    model = daily("w.alone", end="2024-01-02T00:00Z")
    ready(library.conn, model)
    assert state.observe(library.conn, model, ENV, Unit(window(0, 24))).open
