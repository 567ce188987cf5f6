"""Rejected inputs: contracts, freshness, keys, aliases, files, APIs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from bollhav_provider import (
    Freshness,
    Model,
    Source,
    SourceApi,
    SourceFile,
    SourceHardcoded,
    SourceModel,
    State,
    Target,
)


def table(schema: str = "shop", name: str = "orders", **fields: Any) -> Target:
    return Target(schema=schema, name=name, **fields)


#: The definition, the field that is wrong, and what is said about it.
REJECTED: dict[str, tuple[Callable[[], Model], str, str]] = {
    "contract_on_a_file": (
        lambda: Model(
            target=table(),
            state=State(),
            upstream=[Source("raw.flights", type=SourceFile(path="flights.csv"), contract="exact")],
        ),
        "upstream['raw.flights'].contract",
        "'exact' on a SourceFile: files, APIs and inline data have no state to wait for; leave contract out, "
        "or load the input with a model of its own and wait for that",
    ),
    "contract_on_an_api": (
        lambda: Model(
            target=table(),
            state=State(),
            upstream=[Source("crm.contacts", type=SourceApi(base_url="https://crm"), contract="whole")],
        ),
        "upstream['crm.contacts'].contract",
        "'whole' on a SourceApi: files, APIs and inline data have no state to wait for; leave contract out, "
        "or load the input with a model of its own and wait for that",
    ),
    "contract_on_inline_data": (
        lambda: Model(
            target=table(),
            state=State(),
            upstream=[Source("ref.regions", type=SourceHardcoded(rows=[{"id": 1}]), contract="exists")],
        ),
        "upstream['ref.regions'].contract",
        "'exists' on a SourceHardcoded: files, APIs and inline data have no state to wait for; leave "
        "contract out, or load the input with a model of its own and wait for that",
    ),
    "gate_without_state": (
        lambda: Model(target=table(), upstream=[Source("raw.flights", contract="exact")]),
        "upstream['raw.flights'].contract",
        "exact would never be enforced, because gates are part of the state; write state=State(), or leave "
        "contract out",
    ),
    "freshness_without_contract": (
        lambda: Model(
            target=table(), state=State(), upstream=[Source("raw.flights", freshness=Freshness(timedelta(days=1)))]
        ),
        "upstream['raw.flights'].freshness",
        "there is no contract, so nothing selects the rows whose age is meant; add contract=..., for instance 'whole'",
    ),
    "freshness_with_exists": (
        lambda: Model(
            target=table(),
            state=State(),
            upstream=[Source("raw.flights", contract="exists", freshness=Freshness("1d"))],
        ),
        "upstream['raw.flights'].freshness",
        "'exists' never looks at rows, so there is no age; use another contract, or leave freshness out",
    ),
    "freshness_of_no_age": (
        lambda: Model(
            target=table(),
            state=State(),
            upstream=[Source("raw.flights", contract="whole", freshness=Freshness(timedelta(0)))],
        ),
        "upstream['raw.flights'].freshness.within",
        "0:00:00 is no age that anything can have; write a positive duration such as timedelta(days=1)",
    ),
    "hardcoded_with_both": (
        lambda: Model(
            target=table(), upstream=[Source("ref.regions", type=SourceHardcoded(rows=[], sql="VALUES (1)"))]
        ),
        "upstream['ref.regions'].type.sql",
        "both rows and sql are given; keep one",
    ),
    "hardcoded_with_neither": (
        lambda: Model(target=table(), upstream=[Source("ref.regions", type=SourceHardcoded())]),
        "upstream['ref.regions'].type.rows",
        "neither rows nor sql is given; write rows=[{...}] or sql='VALUES ...'",
    ),
    "hardcoded_with_empty_sql": (
        lambda: Model(target=table(), upstream=[Source("ref.regions", type=SourceHardcoded(sql=" "))]),
        "upstream['ref.regions'].type.sql",
        "the statement is empty; write a SELECT or VALUES, or use rows=[...]",
    ),
    "two_connections_of_a_source": (
        lambda: Model(target=table(), upstream=[Source("a.b", type=SourceModel(dsn_env_var="A", conn_id="b"))]),
        "upstream['a.b'].type.conn_id",
        "dsn_env_var and conn_id both say where the relation is; keep one",
    ),
    "self_dependency": (
        lambda: Model(
            target=table(), state=State(), upstream=[Source("shop.orders", alias="earlier", contract="through")]
        ),
        "upstream['shop.orders'].name",
        "the model depends on itself; remove the source (a running total that reads its own past needs "
        "state=State(sequential=True))",
    ),
    "self_dependency_by_bare_name": (
        lambda: Model(target=table(), upstream=["orders"]),
        "upstream['orders'].name",
        "the model depends on itself; remove the source (a running total that reads its own past needs "
        "state=State(sequential=True))",
    ),
    "key_malformed": (
        lambda: Model(target=table(), upstream=[Source("shop..orders", alias="a")]),
        "upstream['shop..orders'].name",
        "'shop..orders' is no key; write 'orders', 'shop.orders', 'db.shop.orders' or '*.orders'",
    ),
    "key_with_four_parts": (
        lambda: Model(target=table(), upstream=["a.b.c.d"]),
        "upstream['a.b.c.d'].name",
        "'a.b.c.d' is no key; write 'orders', 'shop.orders', 'db.shop.orders' or '*.orders'",
    ),
    "key_with_star_inside": (
        lambda: Model(target=table(), upstream=["shop.*"]),
        "upstream['shop.*'].name",
        "'shop.*' has its star in the wrong place; write 'orders', 'shop.orders', 'db.shop.orders' or '*.orders'",
    ),
    "key_with_spaces": (
        lambda: Model(target=table(), upstream=[" shop.x"]),
        "upstream[' shop.x'].name",
        "' shop.x' is no key; write 'orders', 'shop.orders', 'db.shop.orders' or '*.orders'",
    ),
    "equal_aliases": (
        lambda: Model(target=table(), upstream=["a.flights", "b.flights"]),
        "upstream['b.flights'].alias",
        "'flights' is the alias of 'a.flights' too, so a function or query could not tell them apart; give "
        "one of them an alias",
    ),
    "reserved_alias": (
        lambda: Model(target=table(), upstream=["raw.unit"]),
        "upstream['raw.unit'].alias",
        "'unit' is a parameter with a meaning of its own (run, unit, model, conn, context); give the source "
        "another alias, such as alias='unit_rows'",
    ),
    "alias_no_word": (
        lambda: Model(target=table(), upstream=["raw.order-lines"]),
        "upstream['raw.order-lines'].alias",
        "'order-lines' cannot be the name of a parameter; give the source an alias such as alias='order_lines'",
    ),
    "source_schema_contradiction": (
        lambda: Model(target=table(), upstream=[Source("raw.flights", type=SourceModel(schema="landing"))]),
        "upstream['raw.flights'].type.schema",
        "'landing' contradicts the name 'raw.flights'; keep one of the two",
    ),
    "typeless_source": (
        lambda: Model(target=table(), upstream=[Source("raw.flights", type=None)]),
        "upstream['raw.flights'].type",
        "None stands for inputs that nobody declared; write type=SourceModel(), SourceFile(...), "
        "SourceApi(...) or SourceHardcoded(...)",
    ),
    "deactivate_without_contract": (
        lambda: Model(target=table(), upstream=[Source("raw.flights", deactivate_for_dev=True)]),
        "upstream['raw.flights'].deactivate_for_dev",
        "a source without contract is read from production in any case; leave it out, or add contract=...",
    ),
    "max_lag_with_exact": (
        lambda: Model(target=table(), state=State(), upstream=[Source("raw.flights", contract="exact", max_lag=1)]),
        "upstream['raw.flights'].max_lag",
        "lag is what a contract over several windows may miss; it needs contract 'encapsulate', 'through' or 'whole'",
    ),
    "separator_too_long": (
        lambda: Model(target=table(), upstream=[Source("a.csv", type=SourceFile(path="a.csv", separator="||"))]),
        "upstream['a.csv'].type.separator",
        "'||' is not one byte; write for instance ',' or '\\t'",
    ),
    "encoding_unknown": (
        lambda: Model(target=table(), upstream=[Source("a.csv", type=SourceFile(path="a.csv", encoding="utf-9"))]),
        "upstream['a.csv'].type.encoding",
        "'utf-9' is no encoding that Python knows; write for instance 'utf-8' or 'cp1252'",
    ),
    "api_without_scheme": (
        lambda: Model(target=table(), upstream=[Source("crm.contacts", type=SourceApi(base_url="crm.example"))]),
        "upstream['crm.contacts'].type.base_url",
        "'crm.example' has no scheme; write 'https://crm.example'",
    ),
}


@pytest.mark.parametrize("name", REJECTED)
def test_it_is_rejected_with_its_remedy(name: str, assert_rejected: Callable[..., None]) -> None:
    assert_rejected(*REJECTED[name])
