"""Names: of state tables as other programs compute them, of staging tables, and of environments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bollhav_provider import Column, DefinitionError, Environment, Model, Source, State, TableId, Target
from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.model.names import MAX_NAME_BYTES, name_problem, quote, staging_table_name, state_table_name


@pytest.mark.parametrize(
    ("full_name", "table"),
    [
        ("wh.orders", "wh_orders_36949adfcd2526d1"),
        ("cat.wh.orders", "ct_wh_orders_edb6f7ca0dc536f0"),
        ("orders", "orders_d5acebe867b47f4d"),
        (
            "warehouse.a_very_long_table_name_that_goes_on_and_on_and_on_forever_and_ever",
            "wrhs_a_very_long_table_name_that_goes_on_and_fb15648879669b9d",
        ),
    ],
)
def test_state_tables_are_named_as_everybody_names_them(full_name: str, table: str) -> None:
    assert state_table_name(full_name) == table


def test_the_state_table_does_not_depend_on_the_environment() -> None:
    model = Model(target=Target(schema="wh", name="orders"))
    with Environment("pr1").active():
        assert model.state_table == "wh_orders_36949adfcd2526d1"


def test_names_that_differ_only_in_case_have_different_state_tables() -> None:
    assert state_table_name("wh.Orders") != state_table_name("wh.orders")
    assert state_table_name("wh.Orders").startswith("wh_orders_")
    assert state_table_name("my-schema.or-ders").startswith("my_schm_or_ders_")


@given(st.text("abcdefghijklmnop-_ABC", min_size=1, max_size=63), st.text("abcdefxyz_", min_size=1, max_size=63))
def test_every_ascii_name_has_state_and_staging_tables_that_fit(schema: str, name: str) -> None:
    tables = {state_table_name(f"{schema}.{name}"), staging_table_name(f"{schema}.{name}")}
    assert len(tables) == 2
    assert all(len(table.encode()) <= MAX_NAME_BYTES for table in tables)
    assert not tables & {"library", "errors", "coverage"}


@pytest.mark.parametrize("name", ["Sales", "order lines", 'a"b', "50%", "select", "ö" * 31, "🚚", "x" * 63])
def test_names_that_postgresql_can_hold_are_taken(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(("name", "quoted"), [("Sales", '"Sales"'), ('a"b', '"a""b"'), ("50%", '"50%"')])
def test_names_are_quoted(name: str, quoted: str) -> None:
    assert quote(name) == quoted


def test_a_table_is_a_tuple_of_names() -> None:
    table = TableId.parse("db.shop.orders")
    assert table == TableId("db", "shop", "orders") == ("db", "shop", "orders")
    assert TableId.parse("shop.orders") == TableId(None, "shop", "orders")
    assert (table.full_name, table.quoted) == ("db.shop.orders", '"shop"."orders"')
    assert TableId(None, "a.b", "c") != TableId("a", "b", "c")
    for text in ("orders", "a..b", "a.b.c.d", ""):
        with pytest.raises(ValueError, match=r"write 'schema.name' or 'catalog.schema.name'"):
            TableId.parse(text)


# Environments


def test_production_changes_no_name() -> None:
    env, table = Environment(), TableId(None, "warehouse", "orders")
    assert (env.state_schema, env.is_suffixed, env.table(table)) == ("z_bollhav", False, table)


@pytest.mark.parametrize(
    ("env", "library", "table"),
    [
        (Environment("pr123"), "z_bollhav_pr123", "warehouse_pr123.orders"),
        (Environment("pr123", "2401"), "z_bollhav_pr123_2401_", "warehouse_pr123_2401_.orders"),
        (Environment("dev", target_suffix="new"), "z_bollhav_dev", "warehouse_dev.orders_new"),
    ],
)
def test_suffixes_reach_schemas_and_tables(env: Environment, library: str, table: str) -> None:
    assert env.is_suffixed
    assert env.state_schema == library
    assert env.table(TableId("db", "warehouse", "orders")).full_name == f"db.{table}"
    assert Environment.from_json(env.to_json()) == env


def test_the_appendix_is_worked_out_once_in_utc() -> None:
    sunday_night = datetime(2024, 1, 8, 0, 30, tzinfo=timezone(timedelta(hours=1)))
    assert Environment.fixed_at(sunday_night, "dev", "%y%V") == Environment("dev", "2401")
    assert Environment.fixed_at(sunday_night + timedelta(hours=1), "dev", "%y%V") == Environment("dev", "2402")


def test_production_has_no_appendix() -> None:
    now = datetime(2024, 1, 8, tzinfo=UTC)
    assert Environment.fixed_at(now, None, "%y%V", "new") == Environment() == Environment.fixed_at(now, "")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"suffix": "pr-1"}, "environment: suffix: 'pr-1' cannot be part of the name of a schema"),
        ({"suffix": ""}, "environment: suffix: '' cannot be part of the name of a schema"),
        ({"suffix": "é"}, "environment: suffix: 'é' cannot be part of the name of a schema"),
        ({"suffix": "a.b"}, "environment: suffix: 'a.b' cannot be part of the name of a schema"),
        ({"suffix": "a", "appendix": "%y"}, "environment: appendix: '%y' cannot be part of the name of a schema"),
        ({"suffix": "x" * 60}, "environment: suffix: the library's schema 'z_bollhav_"),
        ({"appendix": "2401"}, "environment: appendix: '2401' is given without a suffix"),
        ({"target_suffix": "new"}, "environment: target_suffix: 'new' is given without a suffix"),
    ],
)
def test_what_cannot_be_the_name_of_a_schema_is_refused(parts: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Environment(**parts)
    assert str(caught.value).startswith(message)


def test_an_unknown_part_of_an_environment_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'suffix'"):
        Environment.from_json({"sufix": "a"})


def test_a_suffix_that_makes_a_name_too_long_is_refused_before_anything_runs() -> None:
    model = Model(
        target=Target(schema="s" * 60, name="n" * 50, columns=[Column("id", "integer", primary_key=True)]),
        upstream=[Source(f"{'u' * 60}.x", contract="whole")],
        state=State(),
    )
    model.check_environment(Environment())
    with pytest.raises(DefinitionError) as caught:
        model.check_environment(Environment("dev", target_suffix="a_long_suffix"))
    assert [problem.field for problem in caught.value.problems] == [
        "target.schema",
        "target.name",
        "target.columns",
        f"upstream['{'u' * 60}.x']",
    ]
    assert caught.value.problems[0].message == (
        f"the schema with the suffix '{'s' * 60}_dev' is 64 bytes long and PostgreSQL cuts names at 63 bytes "
        f"without saying so; "
        "shorten it by 1 byte, or use a shorter suffix"
    )
    with pytest.raises(ConfigurationError, match="or use a shorter suffix"):
        Environment("dev").table(model.identity)


def test_the_active_environment_is_that_of_the_block() -> None:
    assert Environment.current() == Environment()
    with Environment("a").active(), Environment("b").active():
        assert Environment.current() == Environment("b")
    assert Environment.current() == Environment()
