"""The plan says what would happen, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from run_support import House, daily, day, orders, unbatched

from bollhav_provider.exceptions import GateClosedError
from bollhav_provider.intervals import Interval
from bollhav_provider.model import Model, Source, SourceModel, State, UpstreamContract
from bollhav_provider.run.plan import plan
from bollhav_provider.run.planned import Plan

Make = Callable[..., House]
QUERY = "SELECT at, amount FROM {orders} WHERE at >= %(since)s AND at < %(until)s"


def reader(level: UpstreamContract, name: str = "mart.sums", **arguments: Any) -> Model:
    source = Source("shop.orders", type=SourceModel(), contract=level)
    return daily(name, upstream=[source], query=QUERY, **arguments)


def planned(h: House, window: Interval | None, **fields: Any) -> Plan:
    return plan(h.connections, h.graph(), h.models, h.spec(window, **fields))


def actions(found: Plan) -> dict[str, list[tuple[str, int]]]:
    return {m.model.full_name: [(r["action"], r["units"]) for r in m.ranges()] for m in found.models}


def test_on_an_empty_database_everything_runs_in_order_and_nothing_is_made(empty_house: Make) -> None:
    h = empty_house(reader(UpstreamContract.EXACT), orders())
    found = planned(h, day(1, 3))
    assert actions(found) == {"shop.orders": [("run", 3)], "mart.sums": [("after", 3)]}
    assert found.models[1].units[0].after == ("shop.orders",)
    assert not found.blocked
    assert h.sql("SELECT count(*) FROM pg_namespace WHERE nspname IN ('z_bollhav', 'shop', 'mart')") == [(0,)]
    json.dumps(found.to_json())


def test_what_is_applied_stays_and_what_lacks_its_upstream_is_blocked(house: Make) -> None:
    source, mart = orders(), reader(UpstreamContract.EXACT)
    h = house(source, mart)
    h.run(source, day(1, 2))
    h.run(mart, day(1))
    before = h.sql("SELECT * FROM z_bollhav." + source.state_table + " ORDER BY id")  # noqa: S608
    alone = plan(h.connections, h.graph(), [mart], h.spec(day(1, 3)))
    assert actions(alone) == {"mart.sums": [("applied", 1), ("run", 1), ("blocked", 1)]}
    assert alone.blocked
    assert alone.models[0].units[2].reason.startswith("STATE_002: upstream 'shop.orders' (exact)")
    together = planned(h, day(1, 3))
    assert actions(together)["mart.sums"] == [("applied", 1), ("run", 1), ("after", 1)]
    assert h.sql("SELECT * FROM z_bollhav." + source.state_table + " ORDER BY id") == before  # noqa: S608


def test_bulldozer_runs_a_reader_after_what_is_loaded_again(house: Make) -> None:
    source, mart = orders(), reader(UpstreamContract.ENCAPSULATE)
    h = house(source, mart)
    h.run(source, day(1, 2))
    h.run(mart, day(1, 2))
    found = planned(h, day(1, 2), mode="bulldozer")
    assert actions(found) == {"shop.orders": [("run", 2)], "mart.sums": [("after", 2)]}


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (UpstreamContract.ENCAPSULATE, [("after", 1)]),
        (UpstreamContract.THROUGH, [("blocked", 1)]),  # the days before are in nobody's plan
        (UpstreamContract.WHOLE, [("blocked", 1)]),
    ],
)
def test_a_plan_of_one_day_covers_what_one_day_covers(
    house: Make, level: UpstreamContract, expected: list[tuple[str, int]]
) -> None:
    h = house(orders(), reader(level))
    assert actions(planned(h, day(5)))["mart.sums"] == expected
    whole = planned(h, day(1, 10))
    assert {action for action, _ in actions(whole)["mart.sums"]} == {"after"}


def test_what_waits_for_something_blocked_is_blocked(house: Make) -> None:
    middle = reader(UpstreamContract.THROUGH)
    last = daily(
        "mart.last",
        upstream=[Source("mart.sums", type=SourceModel(), contract=UpstreamContract.EXACT)],
        query="SELECT at, amount FROM {sums} WHERE at >= %(since)s AND at < %(until)s",
    )
    h = house(orders(), middle, last)
    found = actions(planned(h, day(5)))
    assert found["mart.sums"] == [("blocked", 1)]
    assert found["mart.last"][0][0] in ("blocked", "hard")


def test_an_upstream_that_nobody_plans_or_registered_is_hard(house: Make) -> None:
    h = house(reader(UpstreamContract.EXACT))
    found = planned(h, day(1))
    assert actions(found) == {"mart.sums": [("hard", 1)]}
    assert found.hard
    assert "STATE_001" in found.models[0].units[0].reason


def test_sequential_units_run_after_their_own_past(house: Make) -> None:
    model = orders(state=State(sequential=True))
    h = house(model)
    found = actions(planned(h, day(1, 3)))
    assert found == {"shop.orders": [("run", 1), ("after", 2)]}
    h.prepare(model, day(1, 3))
    assert actions(planned(h, day(4))) == {"shop.orders": [("blocked", 1)]}


def test_the_plan_of_a_dry_run_is_what_the_run_then_does(house: Make) -> None:
    source, mart = orders(), reader(UpstreamContract.EXACT)
    h = house(source, mart)
    h.run(source, day(1))
    dry = h.prepare(mart, day(1, 2), dry_state=True)
    assert dry.skip
    assert dry.plan is not None
    assert dry.plan["counts"] == {"run": 1, "blocked": 1}
    with pytest.raises(GateClosedError):
        h.run(mart, day(1, 2))
    assert h.states(mart)[:2] == ["applied", "blocked"]


def test_the_plan_knows_what_an_unbatched_model_covers(house: Make) -> None:
    model = unbatched()
    h = house(model)
    assert actions(planned(h, day(3), mode="bulldozer")) == {"shop.totals": [("run", 1)]}
    h.run(model, day(3), mode="bulldozer")
    assert actions(planned(h, day(2), mode="bulldozer")) == {"shop.totals": [("applied", 1)]}
    assert actions(planned(h, day(3), mode="bulldozer")) == {"shop.totals": [("run", 1)]}
    assert actions(planned(h, day(3), mode="discover")) == {"shop.totals": [("applied", 1)]}
    assert actions(planned(h, day(4), mode="discover")) == {"shop.totals": [("run", 1)]}
    assert h.states(model, "until") == [day(3).until]
