"""What one unit costs, counted between client and server: connections and round trips.

The proxy counts a round trip whenever the client sends after the server has answered.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator

import polars as pl
import pytest
from run_support import House, daily, day
from wire_proxy import WireProxy

from bollhav_provider.data.upstream import Upstream
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Column, Model, Source, SourceModel, UpstreamContract, WriteMode
from bollhav_provider.run import Worker, execute_unit

Make = Callable[..., House]
UPSTREAMS = ("shop.a", "shop.b", "shop.c")


@pytest.fixture
def wire(db: str) -> Iterator[WireProxy]:
    with WireProxy(db) as proxy:
        yield proxy


def constant(name: str) -> Model:
    model = daily(name)

    @model.execute
    def rows(unit: Unit) -> pl.DataFrame:
        return pl.DataFrame({"at": [unit.since], "amount": [1]})

    return model


def gated(write_mode: WriteMode, **arguments: object) -> Model:
    return daily(
        "mart.joined",
        target={"write_mode": write_mode},
        columns=[
            Column("at", "timestamptz", nullable=False, primary_key=True, partition_on=True),
            Column("amount", "integer"),
        ],
        upstream=[Source(n, type=SourceModel(), contract=UpstreamContract.ENCAPSULATE) for n in UPSTREAMS],
        **arguments,
    )


QUERY = (
    "SELECT at, a.amount + b.amount AS amount FROM {a} a JOIN {b} b USING (at) JOIN {c} c USING (at) "
    "WHERE at >= %(since)s AND at < %(until)s"
)


def measured(house: Make, wire: WireProxy, model: Model) -> int:
    """Round trips of the second of two units on one worker: what a unit costs once the worker is connected."""
    upstreams = [constant(name) for name in UPSTREAMS]
    h = house(*upstreams, model)
    for upstream in upstreams:
        h.run(upstream, day(1, 2))
    h.prepare(model, day(1, 2))
    watched = House(wire.dsn, h.models)
    with Worker(watched.connections, h.graph(), model, h.spec()) as worker:
        assert worker.execute(Unit(day(1))).applied
        before = wire.trips
        assert worker.execute(Unit(day(2))).applied
        assert wire.connections == 1
        return wire.trips - before


@pytest.mark.parametrize("mode", [WriteMode.RECREATE_PARTITION, WriteMode.APPEND])
def test_a_query_with_three_gated_upstreams_costs_at_most_eight_round_trips(
    house: Make, wire: WireProxy, mode: WriteMode
) -> None:
    model = gated(mode, query=QUERY)
    assert measured(house, wire, model) <= 8


def test_a_function_with_three_gated_upstreams_costs_at_most_eight_round_trips(
    house: Make, wire: WireProxy
) -> None:
    model = gated(WriteMode.RECREATE_PARTITION)

    @model.execute
    def rows(unit: Unit) -> pl.DataFrame:
        return pl.DataFrame({"at": [unit.since], "amount": [1]})

    assert measured(house, wire, model) <= 8


def test_a_long_unit_opens_one_more_connection_for_its_lease_and_a_short_one_does_not(
    house: Make, wire: WireProxy
) -> None:
    model = daily()
    pause = [0.0]

    @model.execute
    def slow(unit: Unit) -> pl.DataFrame:
        time.sleep(pause[0])
        return pl.DataFrame({"at": [unit.since], "amount": [1]})

    h = house(model)
    h.prepare(model, day(1, 2))
    watched = House(wire.dsn, h.models)
    lease = dt.timedelta(seconds=1.2)
    execute_unit(watched.connections, h.graph(), model, Unit(day(1)), h.spec(lease=lease))
    assert wire.connections == 1
    pause[0] = 1.6
    assert execute_unit(watched.connections, h.graph(), model, Unit(day(2)), h.spec(lease=lease)).applied
    assert wire.connections == 3
    assert not [t for t in threading.enumerate() if t.name.startswith("lease of")]


def test_an_upstream_in_batches_and_the_lease_share_the_second_connection(
    house: Make, wire: WireProxy
) -> None:
    source = constant("shop.a")
    model = daily(
        "mart.copied", upstream=[Source("shop.a", type=SourceModel(), contract=UpstreamContract.EXACT)]
    )

    @model.execute
    def copied(unit: Unit, a: Upstream) -> Iterator[pl.DataFrame]:
        for frame in a.batches(1):
            time.sleep(0.6)
            yield frame

    h = house(source, model)
    h.run(source, day(1))
    h.prepare(model, day(1))
    watched = House(wire.dsn, h.models)
    spec = h.spec(lease=dt.timedelta(seconds=1.2))
    assert execute_unit(watched.connections, h.graph(), model, Unit(day(1)), spec).applied
    assert wire.connections == 2
