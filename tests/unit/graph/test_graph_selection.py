"""Selecting models by tags."""

from __future__ import annotations

import pytest
from graph_models import names, timeless
from hypothesis import given
from hypothesis import strategies as st

from bollhav_provider.exceptions import DefinitionWarning, SelectionError
from bollhav_provider.graph import build_graph, parse_selection

MODELS = [
    timeless("s.a", tags=["finance", "daily"]),
    timeless("s.b", tags=["finance", "hourly"]),
    timeless("s.c", tags=["daily", "not-yet"]),
    timeless("s.d"),
]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("finance", "ab"),
        ("finance & daily", "a"),
        ("finance | daily", "abc"),
        ("not:finance", "cd"),
        ("NOT:finance", "cd"),
        ("not: finance", "cd"),
        ("not:not:finance", "ab"),
        ("not:(finance | daily)", "d"),
        ("not:finance & daily", "c"),
        ("finance & not:hourly", "a"),
        # And binds stronger than or.
        ("hourly | finance & daily", "ab"),
        ("(hourly | finance) & daily", "a"),
        ("daily & finance | hourly", "ab"),
        ("daily&(finance|hourly)", "a"),
        ("((finance))", "ab"),
        ("not-yet", "c"),
    ],
)
def test_expressions_select(expression: str, expected: str) -> None:
    assert names(build_graph(MODELS).select(expression)) == [f"s.{name}" for name in expected]


@pytest.mark.parametrize(
    ("expression", "column", "message"),
    [
        ("", 1, "a tag, 'not:' or '(' expected, the expression ends"),
        ("   ", 1, "a tag, 'not:' or '(' expected, the expression ends"),
        ("finance &", 10, "a tag, 'not:' or '(' expected, the expression ends"),
        ("finance & | daily", 11, "a tag, 'not:' or '(' expected, found '|'"),
        ("& finance", 1, "a tag, 'not:' or '(' expected, found '&'"),
        ("finance daily", 9, "'&', '|' or the end expected, found 'daily'"),
        ("finance not:daily", 9, "'&', '|' or the end expected, found 'not:'"),
        ("finance (daily)", 9, "'&', '|' or the end expected, found '('"),
        ("(finance | daily", 1, "'(' is never closed"),
        ("a | (b & (c)", 5, "'(' is never closed"),
        ("finance)", 8, "')' has no '(' before it"),
        ("()", 2, "a tag, 'not:' or '(' expected, found ')'"),
        ("finance, daily", 8, "',' cannot be part of a tag"),
        ("finance & 'daily'", 11, '"\'" cannot be part of a tag'),
        ("not:", 5, "a tag, 'not:' or '(' expected, the expression ends"),
    ],
)
def test_errors_name_the_column(expression: str, column: int, message: str) -> None:
    with pytest.raises(SelectionError) as caught:
        parse_selection(expression)
    assert caught.value.column == column
    assert str(caught.value).startswith(f"tags: {expression!r}: column {column}: {message}")


def test_a_tag_that_no_model_has_is_a_warning() -> None:
    with pytest.warns(DefinitionWarning, match="no model has the tag 'dialy'; did you mean 'daily'?"):
        assert build_graph(MODELS).select("dialy") == ()


def test_depth_is_no_limit() -> None:
    depth = 20_000
    assert parse_selection("(" * depth + "a" + ")" * depth).matches(["a"])
    assert parse_selection("not:" * depth + "a").matches(["a"])
    assert parse_selection(" | ".join(f"t{n}" for n in range(depth))).matches([f"t{depth - 1}"])


TAGS = ("a", "b", "c")
trees = st.recursive(
    st.sampled_from(TAGS),
    lambda inner: st.one_of(
        st.tuples(st.just("not:"), inner), st.tuples(st.just("&"), inner, inner), st.tuples(st.just("|"), inner, inner)
    ),
    max_leaves=12,
)


def written(tree: object) -> str:
    if isinstance(tree, str):
        return tree
    assert isinstance(tree, tuple)
    if tree[0] == "not:":
        return f"not:({written(tree[1])})"
    return f"({written(tree[1])}) {tree[0]} ({written(tree[2])})"


def meant(tree: object, tags: set[str]) -> bool:
    if isinstance(tree, str):
        return tree in tags
    assert isinstance(tree, tuple)
    if tree[0] == "not:":
        return not meant(tree[1], tags)
    if tree[0] == "&":
        return meant(tree[1], tags) and meant(tree[2], tags)
    return meant(tree[1], tags) or meant(tree[2], tags)


@given(trees, st.sets(st.sampled_from(TAGS)))
def test_any_expression_means_what_it_says(tree: object, tags: set[str]) -> None:
    assert parse_selection(written(tree)).matches(tags) == meant(tree, tags)
