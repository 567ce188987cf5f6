"""Inputs: how they are found, what they are called in functions and in SQL, and what lineage says of them."""

from __future__ import annotations

import pytest

from bollhav_provider import (
    DefinitionError,
    Environment,
    Model,
    Source,
    SourceApi,
    SourceFile,
    SourceHardcoded,
    SourceModel,
    State,
    TableId,
    Target,
)
from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.model import Dataset, dataset_name


def model(*sources: Source | str, **fields: object) -> Model:
    target = Target(schema="shop", name="orders", catalog=fields.pop("catalog", None))  # type: ignore[arg-type]
    return Model(target=target, upstream=sources, state=State(), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "alias"),
    [
        (Source("flights"), "flights"),
        (Source("raw.flights"), "flights"),
        (Source("db.raw.flights"), "flights"),
        (Source("*.flights"), "flights"),
        (Source("raw.flights", alias="f"), "f"),
        (Source(["raw.flights", "old.flights"], many=True), "flights"),
        (Source("flights.csv", type=SourceFile(path="in/flights.csv")), "flights"),
        (Source("crm.contacts", type=SourceApi(base_url="https://crm")), "contacts"),
    ],
)
def test_the_alias_is_the_last_part_of_the_name(source: Source, alias: str) -> None:
    assert source.alias_name == alias


@pytest.mark.parametrize(
    ("source", "catalog", "table"),
    [
        (Source("flights"), None, TableId(None, "shop", "flights")),
        (Source("flights"), "db", TableId("db", "shop", "flights")),
        (Source("raw.flights"), "db", TableId(None, "raw", "flights")),
        (Source("other.raw.flights"), "db", TableId("other", "raw", "flights")),
        (Source("flights", type=SourceModel(schema="raw")), "db", TableId(None, "raw", "flights")),
        (Source("flights", type=SourceModel(schema="raw", catalog="x")), None, TableId("x", "raw", "flights")),
        (Source("*.flights"), None, None),
        (Source("f", type=SourceHardcoded(rows=[])), None, None),
    ],
)
def test_what_relation_a_key_means(source: Source, catalog: str | None, table: TableId | None) -> None:
    assert model(source, catalog=catalog).table_of(source) == table


def test_gated_and_ungated_inputs_are_told_apart() -> None:
    made = model(Source("raw.a", contract="exact"), "raw.b", Source(["x.c", "y.c"], many=True, contract="whole"))
    assert made.declared_inputs == ("raw.a", "raw.b", "x.c", "y.c")
    assert made.upstream_names == ("raw.a", "x.c", "y.c")
    assert made.source_names == ("raw.b",)
    assert made.inputs_known


def test_one_input_needs_no_list() -> None:
    target = Target(schema="shop", name="orders")
    assert Model(target=target, upstream="raw.a") == Model(target=target, upstream=[Source("raw.a")])
    assert Model(target=target, upstream=Source("raw.a")).declared_inputs == ("raw.a",)


def test_a_model_without_inputs_has_one_that_stands_for_them() -> None:
    made = model()
    (unknown,) = made.upstream
    assert unknown.name == "unknown-24d6bf7b-cbce-54f4-ac5f-b2cd384454b9"
    assert (unknown.type, unknown.kind, unknown.is_gated) == (None, "unknown", False)
    assert (made.declared_inputs, made.inputs_known, made.sources, made.source_names) == ((), False, (), ())
    assert made.lineage().inputs == (Dataset("bollhav", unknown.name, "unknown"),)


def test_the_stand_in_is_the_same_at_every_parse_and_another_for_every_model() -> None:
    other = Model(target=Target(schema="shop", name="orders2"))
    assert model().upstream == model().upstream
    assert model().upstream != other.upstream
    assert (
        Model(target=Target(schema="b", name="c", catalog="a")).upstream
        != Model(target=Target(schema="a", name="c", catalog="b")).upstream
    )


PR = Environment("pr123", target_suffix="x")


@pytest.mark.parametrize(
    ("source", "production", "suffixed"),
    [
        (Source("wh.customers", contract="whole"), '"wh"."customers"', '"wh_pr123"."customers_x"'),
        (Source("wh.customers"), '"wh"."customers"', '"wh"."customers"'),
        (Source("wh.customers", contract="whole", deactivate_for_dev=True), '"wh"."customers"', '"wh"."customers"'),
        (Source("customers", contract="whole"), '"shop"."customers"', '"shop_pr123"."customers_x"'),
        (Source('wh.Cust"omers'), '"wh"."Cust""omers"', '"wh"."Cust""omers"'),
        (Source("db.wh.customers"), '"db"."wh"."customers"', '"db"."wh"."customers"'),
    ],
)
def test_ref_follows_the_suffix_only_where_the_input_gates(source: Source, production: str, suffixed: str) -> None:
    made = model(source.replace(alias="c"))
    assert made.ref("c") == made.ref(source.name) == production
    assert made.ref("c", PR) == suffixed
    with PR.active():
        assert made.ref("c") == suffixed


def test_a_relation_of_the_own_catalog_is_named_without_it() -> None:
    assert model(Source("db.wh.customers"), catalog="db").ref("customers") == '"wh"."customers"'


def test_what_the_graph_bound_wins_over_the_key() -> None:
    made = model(Source("*.customers", contract="whole"))
    assert made.ref("customers", PR, table=TableId(None, "eu", "customers")) == '"eu_pr123"."customers_x"'


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "wh.custmers",
            "shop.orders: upstream: 'wh.custmers' is not declared; declared are wh.customers, customers, "
            "in.csv, in, "
            "crm.api, api, ref.regions, regions, *.many, many; add Source('wh.custmers') or correct the "
            "name; "
            "did you mean 'wh.customers'?",
        ),
        (
            "in.csv",
            "shop.orders: upstream: ref('in.csv'): it is a file: name it as a parameter of the execute "
            "function and read "
            "its .data; SQL has no name for it",
        ),
        (
            "crm.api",
            "shop.orders: upstream: ref('crm.api'): it is an API: call it in the execute function; SQL has "
            "no name for it",
        ),
        (
            "regions",
            "shop.orders: upstream: ref('regions'): it is inline data: name it as a parameter of the execute "
            "function and "
            "read its .data, or call its to_dataframe(); SQL has no name for it",
        ),
        (
            "many",
            "shop.orders: upstream: ref('many'): it can be several relations; use the .ref of each Upstream "
            "in the "
            "function's list",
        ),
    ],
)
def test_ref_of_what_sql_cannot_name_says_how_to_read_it(name: str, message: str) -> None:
    made = model(
        "wh.customers",
        Source("in.csv", type=SourceFile(path="in.csv")),
        Source("crm.api", type=SourceApi(base_url="https://crm")),
        Source("ref.regions", type=SourceHardcoded(rows=[])),
        Source("*.many", many=True),
    )
    with pytest.raises(DefinitionError) as caught:
        made.ref(name)
    assert str(caught.value) == message


def test_ref_of_a_model_without_inputs_says_so() -> None:
    with pytest.raises(DefinitionError, match="'x' is not declared; the model declares no inputs"):
        model().ref("x")


def test_lineage_names_inputs_and_outputs_as_openlineage_does() -> None:
    made = model(
        Source("wh.customers", contract="whole"),
        "raw.flights",
        Source("in.csv", type=SourceFile(path="drop/in.csv")),
        Source("crm.api", type=SourceApi(base_url="https://me:secret@crm.example:8443/v1", endpoint="/contacts")),
        Source("ref.regions", type=SourceHardcoded(rows=[])),
        Source("erp", type=SourceApi(conn_id="erp_default", endpoint="items"), alias="erp"),
    )
    lineage = made.lineage(Environment("pr1"), namespace="postgres://db:5432", database="dwh")
    assert lineage.outputs == (Dataset("postgres://db:5432", "dwh.shop_pr1.orders", "model"),)
    assert lineage.inputs == (
        Dataset("postgres://db:5432", "dwh.wh_pr1.customers", "model", "whole"),
        Dataset("postgres://db:5432", "dwh.raw.flights", "model"),
        Dataset("file", "drop/in.csv", "file"),
        Dataset("https://crm.example:8443", "/v1/contacts", "api"),
        Dataset("bollhav", "shop.orders/ref.regions", "hardcoded"),
        Dataset("airflow://erp_default", "items", "api"),
    )
    assert "secret" not in str(lineage.to_json())


def test_an_environment_reaches_target_staging_state_ref_and_lineage_alike() -> None:
    made = model(
        Source("wh.customers", contract="whole"),
        Source("wh.rates", contract="whole", deactivate_for_dev=True),
        Source("*.routes", contract="exists", many=True),
        "raw.flights",
    )
    env = Environment("pr1", "2401", target_suffix="x")
    bound = {"routes": [TableId(None, "a", "routes"), TableId(None, "b", "routes")]}
    lineage = made.lineage(env, tables=bound)
    assert env.state_schema == "z_bollhav_pr1_2401_"
    assert env.table(made.identity) == TableId(None, "shop_pr1_2401_", "orders_x")
    assert [item.name for item in lineage.outputs] == ["shop_pr1_2401_.orders_x"]
    assert [item.name for item in lineage.inputs] == [
        "wh_pr1_2401_.customers_x",
        "wh.rates",
        "a_pr1_2401_.routes_x",
        "b_pr1_2401_.routes_x",
        "raw.flights",
    ]
    assert [made.ref(name, env) for name in ("customers", "rates", "flights")] == [
        '"wh_pr1_2401_"."customers_x"',
        '"wh"."rates"',
        '"raw"."flights"',
    ]
    assert [item.name for item in made.lineage(env).inputs][2] == "*.routes", "all that is known without the graph"


@pytest.mark.parametrize(("schema", "suffix"), [("z", "bollhav"), ("pg", "mine")])
def test_no_suffix_turns_a_schema_into_one_that_is_taken(schema: str, suffix: str) -> None:
    made = Model(target=Target(schema=schema, name="orders"))
    with pytest.raises(DefinitionError, match=r"with the suffix .* write another schema, or use another suffix"):
        made.check_environment(Environment(suffix))
    with pytest.raises(ConfigurationError, match="or use another suffix"):
        Environment(suffix).table(made.identity)


def test_one_function_names_relations_in_lineage() -> None:
    assert dataset_name(TableId(None, "a", "b"), "db") == "db.a.b"
    assert dataset_name(TableId("cat", "a", "b"), "db") == "cat.a.b"
