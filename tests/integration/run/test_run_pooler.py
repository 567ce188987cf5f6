"""Whole runs behind PgBouncer in transaction mode, where a session is somebody else's a moment later."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polars as pl
import psycopg
import pytest
from run_support import House, daily, day, killed_model

from bollhav_provider.data.upstream import Upstream
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Model, Source, SourceModel, UpstreamContract
from bollhav_provider.run import connect, execute_units

ROWS = 25


def orders() -> Model:
    model = daily()

    @model.execute
    def rows(unit: Unit) -> pl.DataFrame:
        assert unit.since is not None
        times = [unit.since + dt.timedelta(minutes=minute) for minute in range(ROWS)]
        return pl.DataFrame({"at": times, "amount": range(ROWS)}, schema_overrides={"amount": pl.Int32})

    return model


@pytest.fixture
def pooled(pooled_dsn: str) -> Callable[..., House]:
    return lambda *models: House(pooled_dsn, list(models))


def copied(name: str, upstreams: tuple[str, ...] = ("shop.orders",)) -> Model:
    """A model that hands its upstreams on in batches, as they come."""
    sources = [
        Source(one, type=SourceModel(), contract=UpstreamContract.EXACT, alias=f"up{number}")
        for number, one in enumerate(upstreams)
    ]
    model = daily(name, upstream=sources)
    if len(upstreams) == 1:

        @model.execute
        def copy(up0: Upstream) -> Iterator[pl.DataFrame]:
            yield from up0.batches(4)

    else:

        @model.execute
        def copy_both(up0: Upstream, up1: Upstream) -> Iterator[pl.DataFrame]:
            for one, other in zip(up0.batches(4), up1.batches(4), strict=True):
                assert one.height == other.height
                yield one

    return model


def test_batches_are_read_through_the_pooler_whoever_comes_in_between(
    pooled: Callable[..., House], pooled_dsn: str
) -> None:
    source = orders()
    copy = daily("mart.copy", upstream=[Source("shop.orders", type=SourceModel(), alias="up0")])

    @copy.execute
    def disturbed(up0: Upstream) -> Iterator[pl.DataFrame]:
        frames = up0.batches(20)
        yield next(frames)
        with connect(pooled_dsn) as other:
            other.execute("BEGIN")  # keeps the server process that was used last
            yield from frames
            other.execute("ROLLBACK")

    h = pooled(source, copy)
    h.run(source, day(1, 2))
    assert [outcome.stats.rows_written for outcome in h.run(copy, day(1, 2))] == [ROWS] * 2


def test_two_upstreams_are_read_in_batches_side_by_side(
    pooled: Callable[..., House], house: Callable[..., House]
) -> None:
    source, first = orders(), copied("mart.first")
    both = copied("mart.both", ("shop.orders", "mart.first"))
    h = pooled(source, first, both)
    for model in h.models:
        h.run(model, day(1))
    assert house().sql("SELECT count(*) FROM mart.both") == [(ROWS,)]


def test_more_workers_than_server_connections_share_a_model(
    pooled: Callable[..., House], house: Callable[..., House]
) -> None:
    model = killed_model(hours=24)
    h = pooled(model)
    prepared = h.prepare(model)

    def work(_: int) -> int:
        return sum(o.applied for o in execute_units(h.connections, h.graph(), model, prepared.units, h.spec()))

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(work, range(6))) == 24
    found = house().sql("SELECT count(*), count(DISTINCT (at, number)) FROM shop.clicks")
    assert found == [(960, 960)]


def test_statements_are_not_prepared_where_another_session_would_lack_them(pooled_dsn: str, db: str) -> None:
    with connect(pooled_dsn) as through, connect(db) as direct:
        assert through.prepare_threshold is None
        assert direct.prepare_threshold is not None


def test_a_function_may_do_what_it_likes_to_its_connection(house: Callable[..., House]) -> None:
    model = daily()
    seen: list[Any] = []

    @model.execute
    def rough(conn: psycopg.Connection[Any], unit: Unit) -> list[dict[str, Any]]:
        seen.append(conn.execute("SELECT 1").fetchone())
        conn.execute("SET TimeZone TO 'Asia/Tokyo'; SET search_path TO pg_temp")
        conn.execute("SET default_transaction_read_only TO on")
        if unit.since is not None and unit.since.day == 2:
            conn.close()
        return [{"at": unit.since, "amount": 1}]

    h = house(model)
    assert [outcome.status for outcome in h.run(model, day(1, 3))] == ["applied"] * 3
    assert len(seen) == 3
    assert h.sql("SELECT count(*) FROM shop.orders WHERE extract(hour FROM at AT TIME ZONE 'UTC') = 0") == [(3,)]
