"""The key forms: what each accepts, what it rejects, and what it stands for."""

from __future__ import annotations

import pytest
from graph_models import inputs, model, names, only_problem

from bollhav_provider.exceptions import DefinitionError
from bollhav_provider.graph import accepts, build_graph
from bollhav_provider.model import Source, SourceModel, TableId


def table(text: str) -> TableId:
    return TableId.parse(text)


@pytest.mark.parametrize(
    ("owner", "keys", "accepted", "rejected"),
    [
        ("shop.report", "orders", ["shop.orders"], ["crm.orders", "shop.order", "db.shop.orders", "shop.Orders"]),
        ("db.shop.report", "orders", ["db.shop.orders"], ["shop.orders", "other.shop.orders", "db.crm.orders"]),
        ("crm.report", "shop.orders", ["shop.orders"], ["crm.orders", "shop.orders2"]),
        ("crm.report", "shop.orders", ["db.shop.orders"], ["db.crm.orders"]),
        ("crm.report", "db.shop.orders", ["db.shop.orders"], ["shop.orders", "other.shop.orders"]),
        ("crm.report", "*.orders", ["shop.orders", "crm.orders", "db.shop.orders"], ["shop.order", "shop.myorders"]),
        ("shop.orders", "*.orders", ["crm.orders", "db.shop.orders"], ["shop.orders"]),
        ("crm.report", ["shop.orders", "refunds"], ["shop.orders", "crm.refunds"], ["crm.orders", "shop.refunds"]),
        ("crm.report", ["*.orders", "refunds"], ["a.orders", "b.orders", "crm.refunds"], ["a.refunds"]),
    ],
)
def test_a_key_accepts_and_rejects(owner: str, keys: str | list[str], accepted: list[str], rejected: list[str]) -> None:
    me, source = model(owner), Source(keys, many=True, alias="them")
    for name in accepted:
        assert accepts(me, source, table(name)), name
    for name in rejected:
        assert not accepts(me, source, table(name)), name
    # And the graph binds exactly these.
    me = model(owner, source)
    graph = build_graph([me, *map(model, accepted), *(model(name) for name in rejected if name != owner)])
    assert names(graph.upstreams(me)["them"]) == sorted(accepted)
    assert not graph.errors


@pytest.mark.parametrize(
    "key",
    ["", ".orders", "shop.", "a.b.c.d", "*", "shop.*", "*.shop.orders", "sh*p.orders", "shop. orders ", " orders"],
)
def test_a_malformed_key_is_refused_at_definition(key: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        model("shop.report", Source(key, alias="them"))
    assert "write 'orders', 'shop.orders', 'db.shop.orders' or '*.orders'" in str(caught.value) or "empty" in str(
        caught.value
    )


def test_the_schema_of_a_key_may_be_written_in_the_type() -> None:
    graph = build_graph([model("crm.report", Source("orders", type=SourceModel(schema="shop"))), model("shop.orders")])
    assert inputs(graph, "crm.report", "orders") == [("shop.orders", True)]


def test_of_several_catalogs_mine_is_meant() -> None:
    graph = build_graph([model("one.crm.report", "shop.orders"), model("one.shop.orders"), model("two.shop.orders")])
    assert inputs(graph, "one.crm.report", "orders") == [("one.shop.orders", True)]
    strange = build_graph([model("crm.report", "shop.orders"), model("one.shop.orders"), model("two.shop.orders")])
    assert only_problem(strange)[2].startswith(
        "the source takes one model and matches 2: one.shop.orders, two.shop.orders"
    )


def test_a_relation_that_no_model_makes_is_left_to_the_library() -> None:
    graph = build_graph([model("crm.report", "orders", "shop.customers", "db.shop.items")])
    assert inputs(graph, "crm.report", "orders") == [("crm.orders", False)]
    assert inputs(graph, "crm.report", "customers") == [("shop.customers", False)]
    assert inputs(graph, "crm.report", "items") == [("db.shop.items", False)]
    assert not graph.errors
    assert not graph.edges


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("raw.flight", "raw.flights"),
        ("raw.flihgts", "raw.flights"),
        ("raw.Flights", "raw.flights"),
        ("rw.flights", "raw.flights"),
        ("raw.flightss", "raw.flights"),
        ("raw.weaher", "raw.weather"),
    ],
)
def test_a_misspelt_key_is_an_error_with_what_was_meant(key: str, meant: str) -> None:
    graph = build_graph([model("mart.day", key), model("raw.flights"), model("raw.weather")])
    assert only_problem(graph) == (
        "mart.day",
        f"upstream[{key!r}]",
        f"{key!r} is no model; did you mean {meant!r}? Correct the key, or, if {key!r} is a relation that no "
        f"model here "
        "makes, write type=SourceModel(external=True)",
    )
    assert names(graph.models) == ["raw.flights", "raw.weather"]


@pytest.mark.parametrize("key", ["raw.airlines", "raw.orders_2023", "raw.f", "other.thing", "raw.airportz_x"])
def test_a_different_name_is_not_a_misspelt_one(key: str) -> None:
    graph = build_graph([model("mart.day", key), model("raw.airports"), model("raw.orders_2024"), model("raw.e")])
    assert not graph.errors
    assert inputs(graph, "mart.day", key.partition(".")[2]) == [(key, False)]


def test_an_external_relation_is_never_a_model() -> None:
    graph = build_graph(
        [
            model("mart.day", Source("raw.flight", type=SourceModel(external=True))),
            model("mart.night", Source("raw.flights", type=SourceModel(external=True))),
            model("raw.flights"),
        ]
    )
    assert not graph.errors
    assert inputs(graph, "mart.day", "flight") == [("raw.flight", False)]
    assert inputs(graph, "mart.night", "flights") == [("raw.flights", False)]
