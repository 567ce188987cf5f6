"""Order, cycles, parts, and what building costs."""

from __future__ import annotations

import random
import sys
from itertools import pairwise
from time import process_time

import pytest
from graph_models import names, only_problem, timeless
from hypothesis import given, settings
from hypothesis import strategies as st

from bollhav_provider.exceptions import GraphError
from bollhav_provider.graph import build_graph
from bollhav_provider.graph.order import cycles, reachable, topological
from bollhav_provider.model import Model, Source, TableId


def chain(length: int) -> list[Model]:
    return [timeless(f"s.m{n:05}", *([f"s.m{n - 1:05}"] if n else [])) for n in range(length)]


def test_order_follows_what_is_read_then_names() -> None:
    graph = build_graph(
        [
            timeless("a.last", "z.first", "m.middle"),
            timeless("m.middle", "z.first"),
            timeless("z.first"),
            timeless("b.alone"),
        ]
    )
    assert names(graph.order()) == ["b.alone", "z.first", "m.middle", "a.last"]
    assert names(graph.models) == ["a.last", "b.alone", "m.middle", "z.first"]
    assert [(edge.upstream.full_name, edge.downstream.full_name) for edge in graph.edges] == [
        ("z.first", "a.last"),
        ("m.middle", "a.last"),
        ("z.first", "m.middle"),
    ]
    assert names(graph.ancestors("a.last")) == ["z.first", "m.middle"]
    assert names(graph.descendants("z.first")) == ["m.middle", "a.last"]
    assert names(graph.downstreams("z.first")) == ["a.last", "m.middle"]
    node = graph.node(TableId(None, "m", "middle"))
    assert (node.model.full_name, node.enabled, list(node.upstreams), names(node.downstreams)) == (
        "m.middle",
        True,
        ["first"],
        ["a.last"],
    )


def test_a_cycle_is_reported_with_its_path_and_takes_no_other_model_down() -> None:
    graph = build_graph(
        [
            timeless("s.one", "s.three"),
            timeless("s.two", "s.one"),
            timeless("s.three", "s.two"),
            timeless("s.before"),
            timeless("s.after", "s.three", "s.before"),
        ]
    )
    text = "a cycle, each reads the next: s.one -> s.three -> s.two -> s.one; remove one of these sources"
    assert [(problem.model, problem.field, problem.message) for problem in graph.errors] == [
        (name, "upstream", text) for name in ("s.one", "s.three", "s.two")
    ]
    assert names(graph.models) == ["s.after", "s.before"]
    assert names(graph.order()) == ["s.before", "s.after"]
    assert [item.model is not None for item in graph.upstreams("s.after")["three"]] == [True]
    assert list(graph.rejected) == ["s.one", "s.three", "s.two"]
    with pytest.raises(GraphError) as caught:
        graph.require_good()
    assert caught.value.problems == graph.errors


def test_two_models_with_one_target_are_both_set_aside() -> None:
    one, other = timeless("s.orders"), timeless("s.orders", description="another one")
    graph = build_graph([one, other, timeless("s.report", "s.orders")])
    assert only_problem(graph) == (
        "s.orders",
        "target",
        "2 models have this target; one table is made by one model: rename or remove",
    )
    assert names(graph.models) == ["s.report"]
    assert graph == build_graph([timeless("s.report", "s.orders"), other, one])
    assert build_graph([one, one]).models == (one,), "the same object twice is one model"


def test_a_disabled_model_is_ordered_and_only_read() -> None:
    graph = build_graph([timeless("s.report", "s.orders"), timeless("s.orders", enabled=False)])
    assert names(graph.order()) == ["s.orders", "s.report"]
    assert not graph.is_enabled("s.orders")
    assert graph.is_enabled("s.report")
    assert not graph.errors


def test_a_mini_graph_writes_its_model_and_reads_its_parents() -> None:
    graph = build_graph(
        [
            timeless("m.report", Source("*.orders", many=True), "s.rates"),
            timeless("a.orders", "a.raw"),
            timeless("b.orders"),
            timeless("s.rates"),
            timeless("a.raw"),
            timeless("z.other", "m.report"),
        ]
    )
    mini = graph.mini("m.report")
    assert [(found.full_name, mini.is_enabled(found)) for found in mini.order()] == [
        ("a.orders", False),
        ("b.orders", False),
        ("s.rates", False),
        ("m.report", True),
    ]
    assert mini.upstreams("m.report") == graph.upstreams("m.report")
    assert not mini.errors
    bound = graph.bind("m.report", "orders", graph.model("b.orders")).mini("m.report")
    assert names(bound.upstreams("m.report")["orders"]) == ["b.orders"]
    assert names(bound.models) == ["b.orders", "m.report", "s.rates"]


def test_an_unknown_model_is_an_error_with_the_nearest() -> None:
    graph = build_graph([timeless("shop.orders")])
    with pytest.raises(GraphError, match=r"shop\.ordres: graph: there is no such model; did you mean 'shop\.orders'"):
        graph.node("shop.ordres")
    assert "shop.orders" in graph
    assert graph.model("shop.orders") in graph
    assert "shop.ordres" not in graph
    assert len(graph) == 1
    assert not build_graph([]).models


@given(st.randoms(use_true_random=False), st.integers(1, 25))
@settings(max_examples=40, deadline=None)
def test_the_order_of_models_does_not_matter(random: random.Random, count: int) -> None:
    models = [
        timeless(f"s.m{n}", *{f"s.m{random.randrange(n)}" for _ in range(random.randrange(3))} if n else [])
        for n in range(count)
    ]
    shuffled = models[:]
    random.shuffle(shuffled)
    one, other = build_graph(models), build_graph(shuffled)
    assert one == other
    assert names(one.order()) == names(other.order())
    assert one.edges == other.edges
    position = {name: at for at, name in enumerate(names(one.order()))}
    assert len(position) == count
    for edge in one.edges:
        assert position[edge.upstream.full_name] < position[edge.downstream.full_name]


reads = st.dictionaries(
    st.sampled_from("abcdefgh"), st.lists(st.sampled_from("abcdefgh"), max_size=4, unique=True), max_size=8
).map(lambda found: {node: [other for other in others if other in found] for node, others in found.items()})


@given(reads)
def test_cycles_are_what_cannot_be_ordered(reads: dict[str, list[str]]) -> None:
    found = cycles(reads)
    members = {node for knot, _ in found for node in knot}
    # A node is on a cycle exactly when it can reach itself.
    assert members == {node for node in reads if node in reachable(reads[node], reads)}
    for knot, path in found:
        assert path[0] == path[-1] == min(knot)
        assert len(set(path[:-1])) == len(path) - 1
        assert all(after in reads[before] for before, after in pairwise(path))
    ordered = topological(reads)
    stuck = {node for node in reads if node in members or reachable([node], reads) & members}
    assert set(ordered) == set(reads) - stuck
    for position, node in enumerate(ordered):
        assert set(reads[node]) <= set(ordered[:position])


def test_five_thousand_models_in_a_chain_need_no_recursion() -> None:
    models = chain(5000)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        graph = build_graph(models)
        assert not graph.errors
        assert len(graph.order()) == 5000
        assert len(graph.ancestors("s.m04999")) == 4999
        assert graph.order()[0].full_name == "s.m00000"
    finally:
        sys.setrecursionlimit(limit)
    closed = build_graph([timeless("s.m00000", "s.m04999"), *models[1:]])
    assert len(closed.errors) == 5000
    assert closed.models == ()


def test_building_is_linear_in_edges() -> None:
    def cost(leaves: int) -> float:
        models = [timeless("s.root"), *(timeless(f"f{n}.leaf", "s.root") for n in range(leaves))]
        models.append(timeless("s.all", Source("*.leaf", many=True)))
        best = float("inf")
        for _ in range(2):
            start = process_time()
            graph = build_graph(models)
            assert len(graph.order()) == leaves + 2
            assert not graph.errors
            best = min(best, process_time() - start)
        return best

    small, large = cost(200), cost(2000)
    assert large < 40 * max(small, 0.005), f"10 times the edges took {large / small:.0f} times as long"
