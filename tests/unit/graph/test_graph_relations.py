"""What models share: the names of relations in a schema, and the library in which gates look."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from graph_models import model, names, only_problem, timeless, view

from bollhav_provider import Column, DefinitionError, DefinitionWarning, Index, Model, Source, State, Target
from bollhav_provider.graph import build_graph


def table(name: str, *columns: Column, indexes: Any = (), **fields: Any) -> Model:
    schema, _, name = name.rpartition(".")
    target = Target(schema=schema, name=name, columns=columns, indexes=indexes, catalog=fields.pop("catalog", None))
    return Model(target=target, temporality="timeless", **fields)


TEXT = [Column(name, "text", nullable=False) for name in ("a", "b", "a_b", "c", "b_c")]


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (
            table("s.orders", *TEXT, indexes=[Index("a", name="by_a")]),
            table("s.refunds", *TEXT, indexes=[Index("a", name="by_a")]),
            ["the index would be called 'by_a', as the index of 's.refunds' is; rename one of them, or give the "
             "Index a name",
             "the index would be called 'by_a', as the index of 's.orders' is; rename one of them, or give the "
             "Index a name"],
        ),
        (
            table("s.orders", *TEXT, indexes=[Index("a_b")]),
            table("s.orders_a", Column("b", "text"), indexes=[Index("b")]),
            ["the index would be called 'orders_a_b_idx', as the index of 's.orders_a' is",
             "the index would be called 'orders_a_b_idx', as the index of 's.orders' is"],
        ),
        (
            table("s.orders", Column("id", "integer", primary_key=True)),
            table("s.orders_pkey"),
            ["the key would be called 'orders_pkey', as the table of 's.orders_pkey' is",
             "the table would be called 'orders_pkey', as the key of 's.orders' is"],
        ),
        (
            table("s.orders", Column("a", "text", unique=True)),
            view("s.orders_a_key"),
            ["the key would be called 'orders_a_key', as the view of 's.orders_a_key' is",
             "the view would be called 'orders_a_key', as the key of 's.orders' is"],
        ),
    ],
)  # fmt: skip
def test_two_models_cannot_make_relations_of_one_name(one: Model, other: Model, said: list[str]) -> None:
    graph = build_graph([one, other, timeless("s.bystander")])
    assert [problem.message[: len(text)] for problem, text in zip(graph.errors, said, strict=True)] == said
    assert names(graph.models) == ["s.bystander"]
    assert graph == build_graph([timeless("s.bystander"), other, one])


def test_names_of_other_schemas_and_databases_do_not_meet() -> None:
    models = [table(f"{schema}.orders", *TEXT, indexes=[Index("a", name="by_a")]) for schema in ("s", "t")]
    models.append(table("s.orders", *TEXT, indexes=[Index("a", name="by_a")], catalog="other"))
    assert not build_graph(models).errors


def test_a_view_makes_no_indexes() -> None:
    columns = [Column("day", "date", partition_on=True), Column("id", "integer", primary_key=True)]
    seen = Model(
        target=Target(schema="s", name="seen", columns=columns), materialization="view", query="SELECT 1 AS id"
    )
    assert not build_graph([seen, table("s.seen_pkey"), table("s.seen_day_idx")]).errors


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        (
            {"columns": [*TEXT[:3], Column("x", "text")], "key": ["a", "b"], "unique": "a_b"},
            "key",
            "the key on (a, b) would be called 'orders_a_b_key', as the key on (a_b) is; rename a column",
        ),
        (
            {"columns": TEXT, "indexes": [Index("a", name="orders")]},
            "target.indexes[0]",
            "the name 'orders' is taken by another index, a constraint or the table; give the Index another name",
        ),
    ],
)
def test_one_model_cannot_either(fields: dict[str, Any], field: str, message: str) -> None:
    unique, key = fields.pop("unique", None), fields.pop("key", ())
    columns = [column.replace(unique=column.name == unique) for column in fields.pop("columns")]
    with pytest.raises(DefinitionError) as caught:
        Model(target=Target(schema="s", name="orders", columns=columns, **fields), key=key)
    assert [(problem.field, problem.message) for problem in caught.value.problems] == [(field, message)]


# Gates that could never open


@pytest.mark.parametrize("contract", ["exact", "encapsulate", "through"])
def test_a_view_has_no_windows_to_wait_for(contract: str) -> None:
    reader = model("m.reader", Source("m.view", contract=contract), chunk="@daily")
    graph = build_graph([reader, view("m.view", "raw.source"), model("raw.source", chunk="@daily")])
    assert only_problem(graph) == (
        "m.reader",
        "upstream['m.view']",
        f"{contract!r} asks for windows of 'm.view', which is timeless and has none; write contract='exists', and "
        f"beside it a source with {contract!r} on what the view reads",
    )
    beside = model(
        "m.reader", Source("m.view", contract="exists"), Source("raw.source", contract=contract), chunk="@daily"
    )
    assert not build_graph([beside, view("m.view", "raw.source"), model("raw.source", chunk="@daily")]).errors


@pytest.mark.parametrize("contract", ["exact", "encapsulate", "through"])
def test_a_model_without_chunks_has_no_windows_to_wait_for(contract: str) -> None:
    reader = model("m.reader", Source("raw.source", contract=contract), chunk="@daily")
    graph = build_graph([reader, model("raw.source", state=State())])
    assert only_problem(graph) == (
        "m.reader",
        "upstream['raw.source']",
        f"{contract!r} asks for windows of 'raw.source', which has no time chunks and one unit without bounds; write "
        "contract='whole', or batching=Batch(time=TimeChunking(...)) on it",
    )
    for other in ("whole", "exists"):
        reader = model("m.reader", Source("raw.source", contract=other), chunk="@daily")
        assert not build_graph([reader, model("raw.source", state=State())]).errors
    windowless = model("m.reader", Source("raw.source", contract=contract))
    assert not build_graph([windowless, model("raw.source", state=State())]).errors, "for it, each means whole"


def test_a_gate_on_a_model_that_does_not_register_warns() -> None:
    reader = timeless("m.reader", Source("raw.table", contract="whole"), Source("raw.view", contract="exists"))
    graph = build_graph([reader, timeless("raw.table", library=False), view("raw.view").replace(library=False)])
    with pytest.warns(DefinitionWarning) as caught:
        assert not graph.errors
    assert [str(warning.message) for warning in caught] == [
        "m.reader: upstream['raw.table']: 'raw.table' does not register in the library, so that the gate stays shut; "
        "write state=State(), or library=True, on it, or leave the contract out",
        "m.reader: upstream['raw.view']: 'raw.view' does not register in the library, so that the gate stays shut; "
        "write library=True on it, or leave the contract out",
    ]
    assert not graph.errors


def test_a_disabled_model_may_stand_for_one_that_registers_elsewhere() -> None:
    reader = timeless("m.reader", Source("raw.table", contract="whole"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not build_graph([reader, timeless("raw.table", library=False, enabled=False)]).errors
