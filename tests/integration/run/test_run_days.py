"""What happens over several days of runs: late windows, mixed grains, tries, and what the records say afterwards."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import closing
from typing import Any

import polars as pl
import pytest
from run_support import House, daily, day, orders

from bollhav_provider import state
from bollhav_provider.exceptions import GateClosedError
from bollhav_provider.intervals import Interval, Unit, resolve_window
from bollhav_provider.model import (
    Batch,
    Contract,
    Environment,
    Model,
    Source,
    SourceModel,
    State,
    TimeChunking,
    UpstreamContract,
)
from bollhav_provider.run import execute_unit
from bollhav_provider.run.plan import plan
from bollhav_provider.state.summary import summary

Make = Callable[..., House]
ENV = Environment()
QUERY = "SELECT at, amount FROM {orders} WHERE at >= %(since)s AND at < %(until)s"


def hourly(model: Model) -> Model:
    return orders().replace(batching=Batch(time=TimeChunking(chunk="@hourly")), target=model.target)


def reader(level: UpstreamContract, name: str = "mart.sums", **source: Any) -> Model:
    return daily(name, upstream=[Source("shop.orders", type=SourceModel(), contract=level, **source)], query=QUERY)


def test_what_an_edge_was_allowed_to_miss_stays_with_the_unit(house: Make) -> None:
    source, mart = orders(), reader(UpstreamContract.THROUGH, max_lag=1)
    strict = reader(UpstreamContract.THROUGH, "mart.strict")
    h = house(source, mart, strict)
    h.run(source, day(1))
    with pytest.raises(GateClosedError):
        h.run(strict, day(2))
    h.run(mart, day(1, 2))
    rows = h.states(mart, "status, details")
    assert rows[0] == ("applied", None)
    status, details = rows[1]
    assert status == "applied"
    (lag,) = details["lag"]
    assert (lag["upstream"], lag["lag"]) == ("shop.orders", 1)


@pytest.mark.parametrize("level", [UpstreamContract.EXACT, UpstreamContract.ENCAPSULATE])
def test_a_reader_that_is_started_first_waits_for_the_rows_and_not_for_the_start(
    house: Make, level: UpstreamContract
) -> None:
    """One request for both: whatever order they come in, the reader's unit is done after its upstream's commit."""
    source, mart = orders(), reader(level)
    h = house(source, mart)
    h.prepare(source, day(1, 3))
    h.prepare(mart, day(1, 3))
    with closing(h.connections.state(source)) as conn:
        claim = state.claim(conn, source, ENV, Unit(day(2)), h.spec().run)
        assert claim is not None
        with pytest.raises(GateClosedError, match="STATE_002"):
            execute_unit(h.connections, h.graph(), mart, Unit(day(2)), h.spec())
        state.release(conn, claim, "interrupted")
    h.run(source, day(2))
    assert [o.status for o in h.run(mart, day(2))] == ["applied"]
    assert h.states(mart)[:3] == ["pending", "applied", "pending"]


def test_days_without_any_run_stay_visible_and_are_worked_off_on_request(house: Make) -> None:
    """Paused for three days and started again: Airflow runs the latest window and says nothing of the three."""
    now = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    source = orders().replace(contract=Contract(begin=now - dt.timedelta(days=6)))
    h = house(source)

    def ago(days: int) -> Interval:
        return Interval(now - dt.timedelta(days=days), now - dt.timedelta(days=days - 1))

    h.run(source, ago(6))
    h.run(source, ago(5))
    h.run(source, ago(1), mode="bulldozer")
    assert h.states(source)[:6] == ["applied", "applied", "pending", "pending", "pending", "applied"]
    with closing(h.connections.state(source)) as conn:
        stands = summary(conn, source, ENV)
    assert (stands.gaps, stands.counts["pending"] >= 3) == (1, True)
    assert stands.first_gap == Interval(ago(4).since, ago(2).until)
    done = h.run(source, ago(1), reconcile=True)
    assert [outcome.unit.window for outcome in done][:3] == [ago(4), ago(3), ago(2)]
    assert set(h.states(source)) == {"applied"}


def test_only_what_is_missing_runs_across_grains_in_one_request(house: Make) -> None:
    source = hourly(daily())
    mart = reader(UpstreamContract.ENCAPSULATE)
    h = house(source, mart)
    hour = dt.timedelta(hours=1)
    h.run(source, day(1, 2))
    h.run(mart, day(1))
    late = Interval(day(2).since + 5 * hour, day(2).since + 7 * hour)
    h.run(source, Interval(day(3).since, day(3).since + 20 * hour))
    with closing(h.connections.state(source)) as conn:
        state.reset(conn, source, ENV, h.spec().run, late, "bulldozer")
    planned = plan(h.connections, h.graph(), h.models, h.spec(day(1, 3)))
    found = {
        one.model.full_name: [(r["action"], r["units"]) for r in one.ranges()] for one in planned.models
    }
    assert found["shop.orders"] == [("applied", 29), ("run", 2), ("applied", 37), ("run", 4)]
    assert found["mart.sums"] == [("applied", 1), ("after", 2)]
    assert [len(h.run(model, day(1, 3))) for model in h.models] == [6, 2]
    assert [len(h.run(model, day(1, 3))) for model in h.models] == [0, 0]


@pytest.mark.parametrize("lookback", [0, 3])
def test_nothing_runs_past_the_end_of_a_contract_however_far_a_run_looks_back(house: Make, lookback: int) -> None:
    source = orders()  # ends on the eleventh
    h = house(source)
    assert source.grid is not None

    def run(now: str) -> list[Any]:
        found = resolve_window(
            source.grid, now=dt.datetime.fromisoformat(now), begin=source.contract.begin, end=source.contract.end,
            lookback=lookback,
        )  # fmt: skip
        return [] if found.empty else h.run(source, found.window)

    assert len(run("2024-01-11T03:00Z")) == 1 + lookback
    assert run("2024-01-11T03:00Z") == []
    for later in ("2024-01-12T03:00Z", "2024-01-13T03:00Z", "2026-01-01T00:00Z"):
        assert run(later) == []
    assert max(h.states(source, "until")) == source.contract.end


def test_the_last_days_are_loaded_again_each_night_and_the_record_says_how(house: Make) -> None:
    """Late rows: a lookback with the mode that invalidates, and a record of which run did it in which mode."""
    source = orders()
    h = house(source)
    h.run(source, day(1, 5))
    nights = []
    for last in (6, 7):
        spec = h.spec(day(last - 2, 3), mode="bulldozer")
        nights.append(spec.run.run_id)
        h.run(source, spec.window, mode="bulldozer", run=spec.run)
    assert h.states(source, "attempt")[:7] == [1, 1, 1, 2, 3, 2, 1]
    recorded = h.sql("SELECT run_id, mode, window_key, units FROM z_bollhav.resets ORDER BY reset_at")
    assert [(run_id, mode, units) for run_id, mode, _, units in recorded] == [
        (nights[0], "bulldozer", 2), (nights[1], "bulldozer", 2),
    ]  # fmt: skip
    assert recorded[0][2] == "2024-01-04T00:00:00+00:00|2024-01-07T00:00:00+00:00"


def test_a_unit_is_tried_once_a_try_and_every_try_is_counted_once(house: Make) -> None:
    """Trying again is Airflow's: nothing in here multiplies it."""
    calls: list[int] = []
    source = daily()

    @source.execute
    def rows(unit: Unit) -> pl.DataFrame:
        calls.append(len(calls))
        if len(calls) < 3:
            raise ConnectionError("not there")
        return pl.DataFrame({"at": [unit.since], "amount": [1]})

    h = house(source)
    for tries in (1, 2):
        with pytest.raises(ConnectionError):
            h.run(source, day(1))
        assert len(calls) == tries
    h.run(source, day(1))
    assert h.states(source, "status, attempt")[0] == ("applied", 3)
    assert h.sql("SELECT count(*) FROM z_bollhav.errors") == [(2,)]


def test_the_first_window_of_a_running_total_waits_for_nothing_and_a_blocked_one_lets_go(house: Make) -> None:
    """A run that is shut out ends, so that the one that has to come first finds a free slot."""
    source = orders(state=State(sequential=True))
    h = house(source)
    assert [o.status for o in h.run(source, day(1))] == ["applied"]
    h.prepare(source, day(2, 2))
    started = dt.datetime.now(dt.UTC)
    with pytest.raises(GateClosedError) as caught:
        execute_unit(h.connections, h.graph(), source, Unit(day(3)), h.spec())
    assert dt.datetime.now(dt.UTC) - started < dt.timedelta(seconds=10)
    assert caught.value.retryable
    assert h.states(source, "status, owner")[2] == ("blocked", None)
    h.run(source, day(2))
    assert [o.status for o in h.run(source, day(3))] == ["applied"]
