"""Rejected queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bollhav_provider import Batch, Model, Source, SourceFile, Target, TimeChunking

DAILY = Batch(time=TimeChunking("@daily"))


def table(schema: str = "shop", name: str = "orders", **fields: Any) -> Target:
    return Target(schema=schema, name=name, **fields)


#: The definition, the field that is wrong, and what is said about it.
REJECTED: dict[str, tuple[Callable[[], Model], str, str]] = {
    "query_with_undeclared_alias": (
        lambda: Model(
            target=table(), upstream=["raw.flights"], query="SELECT * FROM {flights} JOIN {fligths} USING (id)"
        ),
        "query",
        "{fligths} is no declared input; add Source('schema.fligths') to upstream or correct the "
        "placeholder; did you mean 'flights'?",
    ),
    "query_with_undeclared_alias_and_no_sources": (
        lambda: Model(target=table(), query="SELECT * FROM {flights}"),
        "query",
        "{flights} is no declared input; add Source('schema.flights') to upstream or correct the placeholder",
    ),
    "query_not_reading_a_source": (
        lambda: Model(target=table(), upstream=["raw.flights", "raw.weather"], query="SELECT * FROM {flights}"),
        "upstream['raw.weather']",
        "the query does not read it; write {weather} where it is read, or remove the source (with "
        "contract='exists' a source orders runs without being read)",
    ),
    "query_reading_a_file": (
        lambda: Model(
            target=table(), upstream=[Source("a.csv", type=SourceFile(path="a.csv"))], query="SELECT * FROM {a}"
        ),
        "query",
        "{a} is a file, which SQL cannot read; load it with a model of its own, or use an execute function",
    ),
    "query_reading_several": (
        lambda: Model(target=table(), upstream=[Source("*.flights", many=True)], query="SELECT * FROM {flights}"),
        "query",
        "{flights} can be several relations, and a query reads one at each place; name one, or use an execute function",
    ),
    "query_with_unknown_parameter": (
        lambda: Model(target=table(), batching=DAILY, query="SELECT %(since)s, %(untill)s"),
        "query",
        "%(untill)s is no parameter; a query has %(since)s and %(until)s, the bounds of its window; did you "
        "mean 'until'?",
    ),
    "query_with_wrong_format": (
        lambda: Model(target=table(), batching=DAILY, query="SELECT %(since)d"),
        "query",
        "%(since)d is no placeholder; write %(since)s",
    ),
    "query_with_quoted_parameter": (
        lambda: Model(target=table(), batching=DAILY, query="SELECT '%(since)s', %(until)s"),
        "query",
        "%(since)s stands within quotes, where it would be plain text; remove the quotes, a parameter brings "
        "its type along",
    ),
    "query_without_window": (
        lambda: Model(target=table(), batching=DAILY, query="SELECT 1"),
        "query",
        "neither %(since)s nor %(until)s is used, so every window would compute everything; restrict the "
        "rows to the window, as in WHERE day >= %(since)s AND day < %(until)s",
    ),
    "query_with_window_of_a_windowless_model": (
        lambda: Model(target=table(), query="SELECT %(since)s"),
        "query",
        "%(since)s: a model without time chunks has no window; remove it, or write "
        "batching=Batch(time=TimeChunking(...))",
    ),
    "query_with_window_of_a_view": (
        lambda: Model(target=table(), materialization="view", query="SELECT %(until)s"),
        "query",
        "%(until)s: a view has no window; remove it",
    ),
    "query_empty": (
        lambda: Model(target=table(), query="  "),
        "query",
        "the query is empty; write a SELECT, or leave it out and use an execute function",
    ),
    "query_no_query": (
        lambda: Model(target=table(), query="DELETE FROM x"),
        "query",
        "it begins with 'delete' and is no query; write SELECT, WITH, VALUES or TABLE",
    ),
    "query_of_several_statements": (
        lambda: Model(target=table(), query="SELECT 1; SELECT 2"),
        "query",
        "it holds several statements; write one, whose rows are the model's",
    ),
}


@pytest.mark.parametrize("name", REJECTED)
def test_it_is_rejected_with_its_remedy(name: str, assert_rejected: Callable[..., None]) -> None:
    assert_rejected(*REJECTED[name])
