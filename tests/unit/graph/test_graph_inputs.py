"""Optional, many, inferred and explicit inputs, and how parameters are filled from them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Optional

import pytest
from graph_models import inputs, model, names, only_problem

from bollhav_provider.exceptions import DefinitionError, GraphError
from bollhav_provider.graph import Graph, Injection, build_graph
from bollhav_provider.model import Model, Source, SourceFile

if TYPE_CHECKING:
    from bollhav_provider import Upstream, data

ORDERS = ("shop.orders", "crm.orders", "web.orders")


@pytest.mark.parametrize(
    ("options", "candidates", "expected"),
    [
        ({}, ["shop.orders"], ["shop.orders"]),
        ({"optional": True}, ["shop.orders"], ["shop.orders"]),
        ({"optional": True}, [], []),
        ({"many": True}, [*ORDERS], sorted(ORDERS)),
        ({"many": True, "optional": True}, [], []),
        ({"many": True}, ["shop.orders"], ["shop.orders"]),
    ],
)
def test_optional_and_many(options: dict[str, Any], candidates: list[str], expected: list[str]) -> None:
    graph = build_graph([model("mart.report", Source("*.orders", **options)), *map(model, candidates)])
    assert not graph.errors
    assert names(graph.upstreams("mart.report")["orders"]) == expected


@pytest.mark.parametrize("optional", [False, True])
def test_a_single_source_that_matches_several_is_an_error_that_lists_them(optional: bool) -> None:
    graph = build_graph([model("mart.report", Source("*.orders", optional=optional)), *map(model, ORDERS)])
    assert only_problem(graph) == (
        "mart.report",
        "upstream['*.orders']",
        "the source takes one model and matches 3: crm.orders, shop.orders, web.orders; write the full name of the one "
        "that is meant, many=True to take them all, or choose with graph.bind(...)",
    )
    assert graph.upstreams("mart.report")["orders"] == ()


@pytest.mark.parametrize("many", [False, True])
def test_a_required_source_that_matches_nothing_is_an_error(many: bool) -> None:
    graph = build_graph([model("mart.report", Source("*.ordres", many=many)), model("shop.orders")])
    assert only_problem(graph) == (
        "mart.report",
        "upstream['*.ordres']",
        "no model matches '*.ordres'; add one, correct the key ('orders', 'shop.orders', 'db.shop.orders' or "
        "'*.orders'), "
        "or write optional=True if there may be none; did you mean 'orders'?",
    )


def test_an_optional_source_by_name_that_matches_nothing_is_nothing() -> None:
    graph = build_graph([model("mart.report", Source("shop.orders", optional=True))])
    assert graph.upstreams("mart.report")["orders"] == ()
    assert not graph.errors


def test_keys_of_a_list_are_a_union_for_many_and_alternatives_for_one() -> None:
    many = Source(["shop.orders", "crm.orders"], many=True)
    one = Source(["shop.orders", "crm.orders"])
    assert inputs(build_graph([model("mart.report", many), model("shop.orders")]), "mart.report", "orders") == [
        ("crm.orders", False),
        ("shop.orders", True),
    ]
    assert inputs(build_graph([model("mart.report", one), model("crm.orders")]), "mart.report", "orders") == [
        ("crm.orders", True)
    ]
    both = build_graph([model("mart.report", one), model("crm.orders"), model("shop.orders")])
    assert "matches 2: crm.orders, shop.orders" in only_problem(both)[2]


def test_what_is_no_relation_is_an_input_without_a_table() -> None:
    graph = build_graph([model("raw.flights", Source("flights.csv", type=SourceFile(path="flights.csv")))])
    (item,) = graph.upstreams("raw.flights")["flights"]
    assert (item.model, item.table) == (None, None)
    assert not graph.errors


def test_depending_on_oneself_is_refused() -> None:
    with pytest.raises(DefinitionError, match="the model depends on itself"):
        model("shop.orders", "orders")
    graph = build_graph([model("db.shop.orders", "shop.orders")])
    assert only_problem(graph)[2].startswith("the model depends on itself; remove the source")


# Parameters


def executing(function: Callable[..., Any], *upstream: Source | str) -> Model:
    found = model("shop.report", *upstream)
    found.execute(function)
    return found


def _reserved(run: Any, unit: Any, model: Any, conn: Any, context: Any) -> None: ...
def _one(orders: Upstream) -> None: ...
def _qualified(orders: data.Upstream) -> None: ...
def _text(orders: "Upstream") -> None: ...  # noqa: UP037
def _optional(orders: Upstream | None) -> None: ...
def _optional_default(orders: Upstream | None = None) -> None: ...
def _optional_old(orders: Optional[Upstream]) -> None: ...  # noqa: UP045
def _optional_turned(orders: None | Upstream) -> None: ...  # noqa: RUF036
def _many(orders: list[Upstream]) -> None: ...
def _bare(orders) -> None: ...  # type: ignore[no-untyped-def]
def _nothing() -> None: ...


@pytest.mark.parametrize(
    ("function", "upstream", "expected"),
    [
        (
            _reserved,
            [],
            {name: Injection(name, "reserved") for name in ("run", "unit", "model", "conn", "context")},
        ),
        (_one, ["orders"], {"orders": Injection("orders", "upstream")}),
        (_qualified, ["orders"], {"orders": Injection("orders", "upstream")}),
        (_text, ["orders"], {"orders": Injection("orders", "upstream")}),
        (_bare, ["orders"], {"orders": Injection("orders", "upstream")}),
        (_optional, ["orders"], {"orders": Injection("orders", "upstream", optional=True)}),
        (
            _optional_default,
            [Source("orders", optional=True)],
            {"orders": Injection("orders", "upstream", optional=True)},
        ),
        (_optional_old, ["orders"], {"orders": Injection("orders", "upstream", optional=True)}),
        (_optional_turned, ["orders"], {"orders": Injection("orders", "upstream", optional=True)}),
        (_many, [Source("orders", many=True)], {"orders": Injection("orders", "upstream", many=True)}),
        # Nothing declared: the model of that name in the own schema is meant.
        (_one, [], {"orders": Injection("orders", "upstream", inferred=True)}),
        (_optional, [], {"orders": Injection("orders", "upstream", optional=True, inferred=True)}),
        (_many, [], {"orders": Injection("orders", "upstream", many=True, inferred=True)}),
        # A declared source that no parameter names gates and orders, and is never read.
        (_nothing, ["orders"], {}),
        (_one, [Source("crm.sales", alias="orders")], {"orders": Injection("orders", "upstream")}),
    ],
)
def test_parameters_are_filled_by_name(
    function: Callable[..., Any], upstream: list[Source | str], expected: dict[str, Injection]
) -> None:
    report = executing(function, *upstream)
    graph = build_graph([report, model("shop.orders"), model("crm.sales")])
    assert not graph.errors
    found = graph.injection(report)
    for injection in found.values():
        if injection.kind == "upstream":
            assert injection.inputs == graph.upstreams(report)[injection.parameter]
            assert len(injection.inputs) == 1
    plain = {name: Injection(name, one.kind, one.optional, one.many, one.inferred) for name, one in found.items()}
    assert plain == expected


def _unknown(amount: int) -> None: ...
def _unannotated(amount) -> None: ...  # type: ignore[no-untyped-def]
def _stars(*orders: Upstream) -> None: ...
def _options(**options: Any) -> None: ...
def _positional(orders: Upstream, /) -> None: ...
def _itself(report: Upstream) -> None: ...


@pytest.mark.parametrize(
    ("function", "upstream", "parameter", "message"),
    [
        (_unknown, [], "amount", "nothing could fill it: the annotation is 'int'"),
        (_unannotated, [], "amount", "nothing could fill it: it is none of run, unit, model, conn, context"),
        (_stars, [], "orders", "nothing fills *orders; name each upstream that the function reads"),
        (_options, [], "options", "nothing fills **options"),
        (_positional, [], "orders", "parameters are filled by name; remove the '/'"),
        (_itself, [], "report", "it means the model itself"),
        (_many, ["orders"], "orders", "list[Upstream] takes many, but the source 'orders' is single"),
        (_one, [Source("orders", many=True)], "orders", "has many=True; annotate the parameter as list[Upstream]"),
        (_one, [Source("orders", optional=True)], "orders", "is optional, so None may come"),
    ],
)
def test_a_parameter_that_nothing_fills_names_function_file_and_parameter(
    function: Callable[..., Any], upstream: list[Source | str], parameter: str, message: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        executing(function, *upstream)
    (problem,) = caught.value.problems
    line = function.__code__.co_firstlineno
    assert problem.model == "shop.report"
    assert problem.field == f"execute: {function.__name__} ({__file__}:{line}): parameter {parameter!r}"
    assert message in problem.message


@pytest.mark.parametrize("function", [_one, _many])
def test_an_inferred_upstream_that_does_not_exist_is_an_error(function: Callable[..., Any]) -> None:
    graph = build_graph([executing(function), model("shop.order_lines"), model("crm.orders")])
    assert only_problem(graph) == (
        "shop.report",
        "execute: parameter 'orders'",
        "there is no model 'orders' in schema 'shop'; declare the source that is meant with Source(..., "
        "alias='orders'), "
        "or annotate the parameter as Upstream | None; did you mean 'orders'?",
    )


def test_an_inferred_optional_upstream_that_does_not_exist_is_none() -> None:
    graph = build_graph([executing(_optional)])
    assert graph.upstreams("shop.report")["orders"] == ()
    assert not graph.errors


def test_reading_signatures_imports_nothing_heavy() -> None:
    program = (
        "from __future__ import annotations\n"
        "import sys\n"
        "from bollhav_provider import Model, Target, Source\n"
        "from bollhav_provider.graph import build_graph\n"
        "report = Model(target=Target(schema='shop', name='report'), upstream=[Source('orders')])\n"
        "@report.execute\n"
        "def make(orders: Upstream, unit: Unit) -> pl.DataFrame: ...\n"
        "graph = build_graph([report])\n"
        "assert list(graph.injection(report)) == ['orders', 'unit'], graph.injection(report)\n"
        "heavy = {'polars', 'psycopg', 'airflow', 'sqlglot', 'yaml', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)


# Binding by hand


def bindable(**options: Any) -> Graph:
    return build_graph([model("mart.report", Source("*.orders", **options)), *map(model, ORDERS)])


def test_binding_chooses_among_several() -> None:
    graph = bindable()
    assert graph.errors
    assert graph.bind("mart.report", "orders", graph.model("crm.orders")) is graph
    assert not graph.errors
    assert inputs(graph, "mart.report", "orders") == [("crm.orders", True)]
    assert names(graph.node("crm.orders").downstreams) == ["mart.report"]
    # A single source is replaced.
    graph.bind("mart.report", "orders", graph.model("web.orders"))
    assert inputs(graph, "mart.report", "orders") == [("web.orders", True)]
    assert graph.downstreams("crm.orders") == ()
    graph.unbind("mart.report", "orders")
    assert graph.errors


def test_binding_many_accumulates() -> None:
    graph = bindable(many=True)
    graph.bind("mart.report", "orders", graph.model("web.orders"))
    graph.bind("mart.report", "orders", graph.model("crm.orders"))
    assert names(graph.upstreams("mart.report")["orders"]) == ["crm.orders", "web.orders"]


def test_binding_is_never_overwritten_by_binding_something_else() -> None:
    graph = build_graph(
        [model("mart.report", Source("*.orders"), Source("*.refunds", many=True, optional=True)), *map(model, ORDERS)]
    )
    graph.bind("mart.report", "orders", graph.model("crm.orders"))
    graph.bind("mart.report", "refunds", model("shop.refunds"))
    assert names(graph.upstreams("mart.report")["orders"]) == ["crm.orders"]
    assert names(graph.upstreams("mart.report")["refunds"]) == ["shop.refunds"]
    assert not graph.is_enabled("shop.refunds"), "a model that joins by binding is only read"


@pytest.mark.parametrize("many", [False, True])
def test_only_an_optional_source_can_be_emptied(many: bool) -> None:
    optional = bindable(optional=True, many=many).bind("mart.report", "orders")
    assert optional.upstreams("mart.report")["orders"] == ()
    assert not optional.errors
    with pytest.raises(GraphError, match="the source is required and would be empty"):
        bindable(many=many).bind("mart.report", "orders")


@pytest.mark.parametrize(
    ("alias", "bound", "message"),
    [
        ("ordres", ["shop.orders"], "there is no source with this alias; did you mean 'orders'?"),
        ("orders", ["shop.orders", "crm.orders"], "the source takes one model, not shop.orders, crm.orders"),
        (
            "orders",
            ["shop.refunds"],
            "'shop.refunds' is not what '*.orders' matches; add its name to the source's keys",
        ),
    ],
)
def test_a_binding_that_cannot_be_is_refused(alias: str, bound: list[str], message: str) -> None:
    graph = bindable()
    before = dict(graph.upstreams("mart.report"))
    with pytest.raises(GraphError) as caught:
        graph.bind("mart.report", alias, *map(model, bound))
    assert f"mart.report: bind({alias!r}): {message}" in str(caught.value)
    assert dict(graph.upstreams("mart.report")) == before


def test_a_binding_that_makes_a_cycle_is_seen() -> None:
    graph = build_graph([model("shop.orders", Source("*.report", optional=True)), model("crm.report", "shop.orders")])
    assert len(graph.errors) == 2
    graph.bind("shop.orders", "report")
    assert not graph.errors
