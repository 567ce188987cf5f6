"""A run with cascade puts back what is made from its windows, across pipelines, and says what has to run again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from run_support import House, daily, day, orders, unbatched

from bollhav_provider import state
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Model, Source, SourceModel, State, UpstreamContract
from bollhav_provider.run import Prepared, execute_units, run_key
from bollhav_provider.state.restatement import outdated

Make = Callable[..., House]


def reader(name: str, upstream: str, level: str = "exact", **arguments: Any) -> Model:
    source = Source(upstream, type=SourceModel(), contract=UpstreamContract(level), alias="up")
    query = "SELECT at, amount FROM {up} WHERE at >= %(since)s AND at < %(until)s"
    return daily(name, upstream=[source], query=query, **arguments)


def steps(prepared: Prepared) -> list[tuple[str, str, int, bool]]:
    return [
        (step.model, str(step.window) if step.window else "whole", step.units, step.here)
        for step in prepared.cascade
    ]


@pytest.fixture
def chain(house: Make) -> House:
    """Orders, sums by day, and a report of everything up to a day; four days are loaded."""
    h = house(orders(), reader("mart.sums", "shop.orders"), reader("mart.report", "mart.sums", "through"))
    for model in h.models:
        h.run(model, day(1, 4))
    return h


def test_everything_downstream_is_put_back_before_anything_is_loaded(chain: House) -> None:
    source, sums, report = chain.models
    prepared = chain.prepare(source, day(2), mode="bulldozer", cascade=True)
    assert [unit.window for unit in prepared.units] == [day(2)]
    assert steps(prepared) == [("mart.sums", str(day(2)), 1, True), ("mart.report", str(day(2, 3)), 3, True)]
    assert "4 put back downstream" in prepared.message
    assert chain.states(sums)[:4] == ["applied", "pending", "applied", "applied"]
    assert chain.states(report)[:4] == ["applied", "pending", "pending", "pending"]
    assert prepared.to_json()["cascade"][0] == {
        "model": "mart.sums", "window": day(2).to_json(), "units": 1, "here": True
    }  # fmt: skip


def test_without_cascade_nothing_downstream_changes(chain: House) -> None:
    assert chain.prepare(chain.models[0], day(2), mode="bulldozer").cascade == ()
    assert chain.states(chain.models[1])[:4] == ["applied"] * 4


def test_a_retry_lists_the_same_steps_and_puts_nothing_back_again(chain: House) -> None:
    source, sums, _ = chain.models
    run = run_key("shop.orders", "manual", "prefill", 1)
    first = chain.prepare(source, day(2), mode="bulldozer", cascade=True, run=run)
    spec = chain.spec(day(2), run=run)
    execute_units(chain.connections, chain.graph(), source, first.units, spec)
    chain.run(sums, day(2))
    second = chain.prepare(source, day(2), mode="bulldozer", cascade=True, run=run)
    assert second.units == ()
    assert steps(second) == steps(first)
    assert chain.states(sums)[:4] == ["applied"] * 4


def test_the_steps_run_in_their_order_and_nothing_is_outdated_then(chain: House) -> None:
    source = chain.models[0]
    spec = chain.spec(day(2), mode="bulldozer", cascade=True)
    prepared = chain.prepare(source, day(2), mode="bulldozer", cascade=True)
    execute_units(chain.connections, chain.graph(), source, prepared.units, spec)
    by_name = {model.full_name: model for model in chain.models}
    for step in prepared.cascade:
        assert all(outcome.applied for outcome in chain.run(by_name[step.model], step.window, mode="bulldozer"))
    with chain.connections.state() as conn:
        assert outdated(conn, spec.env) == []


def test_models_of_other_pipelines_are_put_back_and_named(chain: House) -> None:
    source, sums, report = chain.models
    chain.models = [source]
    prepared = chain.prepare(source, day(2), mode="bulldozer", cascade=True)
    assert [one[3] for one in steps(prepared)] == [False, False]
    assert chain.states(sums)[1] == chain.states(report)[3] == "pending"


def test_a_model_without_windows_is_a_step_as_a_whole(house: Make) -> None:
    total = unbatched(upstream=[Source("shop.orders", type=SourceModel(), contract=UpstreamContract.WHOLE)])
    h = house(orders(), total)
    h.run(h.models[0], day(1, 10))
    h.run(total, day(1, 10))
    prepared = h.prepare(h.models[0], day(2), mode="bulldozer", cascade=True)
    assert steps(prepared) == [("shop.totals", "whole", 1, True)]


def test_a_sequential_model_is_made_again_from_the_first_changed_window_on(house: Make) -> None:
    running = orders(name="mart.running", state=State(sequential=True))
    h = house(running)
    h.run(running, day(1, 4))
    prepared = h.prepare(running, day(2), mode="bulldozer", cascade=True)
    assert steps(prepared) == [("mart.running", str(day(3, 2)), 2, True)]
    execute_units(h.connections, h.graph(), running, prepared.units, h.spec(day(2)))
    assert all(outcome.applied for outcome in h.run(running, day(3, 2)))
    h.run(running, day(1), mode="bulldozer")
    with h.connections.state() as conn:
        found = outdated(conn, h.spec().env)
    assert [one.unit.window for one in found] == [day(2), day(3), day(4)]


def test_a_pattern_and_a_unit_that_is_being_worked_on(chain: House) -> None:
    source, sums, _ = chain.models
    every = Source("*.orders", type=SourceModel(), contract=UpstreamContract.EXACT, alias="up", many=True)
    pattern = orders(name="other.copy", upstream=[every])
    chain.models.append(pattern)
    chain.run(pattern, day(1, 2))
    with chain.connections.state() as conn:
        run = state.RunKey.ad_hoc()
        state.reset(conn, sums, chain.spec().env, run, day(2), "bulldozer")
        assert state.claim(conn, sums, chain.spec().env, Unit(day(2)), run, dt.timedelta(hours=1)) is not None
        prepared = chain.prepare(source, day(2), mode="bulldozer", cascade=True)
    assert steps(prepared) == [("other.copy", str(day(2)), 1, True)]
    assert chain.states(sums)[1] == "running"  # what is not applied is nothing that was made
