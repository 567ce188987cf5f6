"""The rules of a model's query, and of the promise that a flexible model makes (Semantics: definitions)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bollhav_provider.model.base import did_you_mean, shown
from bollhav_provider.model.enums import UpstreamContract, WriteMode
from bollhav_provider.model.sqltext import (
    PARAMETERS,
    aliases,
    has_several_statements,
    parameters,
    pieces,
    quoted_parameters,
    render,
)
from bollhav_provider.model.timing import ChunkFlex

if TYPE_CHECKING:
    from bollhav_provider.model.base import Finding
    from bollhav_provider.model.model import Model

#: Aggregates of PostgreSQL that the parser knows as functions of any kind.
_AGGREGATES = frozenset(
    [
        "array_agg",
        "string_agg",
        "json_agg",
        "jsonb_agg",
        "json_object_agg",
        "jsonb_object_agg",
        "xmlagg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bool_and",
        "bool_or",
        "every",
        "any_value",
        "range_agg",
        "range_intersect_agg",
        "mode",
        "percentile_cont",
        "percentile_disc",
        "corr",
        "covar_pop",
        "covar_samp",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "variance",
        "var_pop",
        "var_samp",
    ]
)


def query_problems(model: Model) -> Iterator[Finding]:
    """Yield what is wrong with a model's query and its flexibility."""
    if model.query is not None:
        if not model.query.strip():
            yield "query", "the query is empty; write a SELECT, or leave it out and use an execute function"
        else:
            yield from _statement_problems(model.query)
            yield from _alias_problems(model, model.query)
            yield from _parameter_problems(model, model.query)
    yield from _flexible_problems(model)


def _statement_problems(query: str) -> Iterator[Finding]:
    code = "".join(piece.text for piece in pieces(query) if piece.kind == "code").strip()
    word = code.split(maxsplit=1)[0].lower() if code else ""
    if not word.startswith(("select", "with", "values", "table", "(")):
        begin = shown(word or "a comment")
        yield "query", f"it begins with {begin} and is no query; write SELECT, WITH, VALUES or TABLE"
    if has_several_statements(query):
        yield "query", "it holds several statements; write one, whose rows are the model's"


def _alias_problems(model: Model, query: str) -> Iterator[Finding]:
    sources = {source.alias_name: source for source in model.sources}
    used = aliases(query)
    for alias in used:
        source = sources.get(alias)
        if source is None:
            hint = did_you_mean(alias, sources) or (f"; declared are {', '.join(sources)}" if sources else "")
            yield (
                "query",
                (
                    f"{{{alias}}} is no declared input; add Source('schema.{alias}') to upstream or "
                    f"correct the placeholder{hint}"
                ),
            )
        elif not source.is_relation:
            yield (
                "query",
                (
                    f"{{{alias}}} is {_a(source.kind)}, which SQL cannot read; load it with a model of "
                    "its own, or use an execute function"
                ),
            )
        elif source.is_wildcard:
            yield (
                "query",
                (
                    f"{{{alias}}} can be several relations, and a query reads one at each place; name "
                    "one, or use an execute function"
                ),
            )
    for alias, source in sources.items():
        # What is only waited for, or only orders, need not be read.
        if alias not in used and source.contract is not UpstreamContract.EXISTS:
            yield (
                f"upstream[{source.name!r}]",
                f"the query does not read it; write {{{alias}}} where it is read, or remove the source "
                "(with contract='exists' a source orders runs without being read)",
            )


def _a(kind: str) -> str:
    return {"file": "a file", "api": "an API", "hardcoded": "inline data"}.get(kind, kind)


def _parameter_problems(model: Model, query: str) -> Iterator[Finding]:
    found = parameters(query)
    for name in found:
        if name not in PARAMETERS:
            hint = did_you_mean(name, PARAMETERS)
            yield (
                "query",
                f"%({name})s is no parameter; a query has %(since)s and %(until)s, the bounds of its window{hint}",
            )
    for piece in pieces(query):
        if piece.kind == "parameter" and piece.text in PARAMETERS and piece.format != "s":
            yield "query", f"%({piece.text}){piece.format} is no placeholder; write %({piece.text})s"
    for text in quoted_parameters(query):
        yield (
            "query",
            (
                f"{text} stands within quotes, where it would be plain text; remove the quotes, a "
                "parameter brings its type along"
            ),
        )
    window = [name for name in found if name in PARAMETERS]
    if window and model.is_windowless:
        what = "a view" if model.is_view else "a model without time chunks"
        yield (
            "query",
            (
                f"%({window[0]})s: {what} has no window; remove "
                f"it{'' if model.is_view else ', or write batching=Batch(time=TimeChunking(...))'}"
            ),
        )
    elif not window and not model.is_windowless and not model.is_view:
        yield (
            "query",
            "neither %(since)s nor %(until)s is used, so every window would compute everything; "
            "restrict the rows to the window, as in WHERE day >= %(since)s AND day < %(until)s",
        )


def _flexible_problems(model: Model) -> Iterator[Finding]:
    time = model.batching.time if model.batching is not None else None
    if time is None or not isinstance(time.flexibility, ChunkFlex) or time.flexibility.attest is not None:
        return
    field = "batching.time.flexibility"
    lift = "or ChunkFlex(attest='why splitting a window gives the same rows')"
    if model.target.write_mode is WriteMode.APPEND:
        yield (
            field,
            (
                "a flexible model covers ranges again, and append would add their rows twice; use "
                f"another write_mode, {lift}"
            ),
        )
    if model.target.write_mode is WriteMode.UPSERT and not model.target.order_columns:
        yield (
            field,
            "upsert keeps the row that was written last, which depends on how the range is cut; "
            "write order_by=True on the column whose greatest "
            f"value wins, use write_mode='recreate_partition', {lift}",
        )
    if model.query is not None:
        for what in _partition_dependent(model.query):
            yield field, f"the query {what}, so its result depends on how the range is cut; use ChunkFix, {lift}"


def _partition_dependent(query: str) -> Iterator[str]:
    """Name what in a query makes its rows depend on how its window is cut."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    text = render(query, lambda alias: f'"{alias}"', for_parameters=False)
    for name in PARAMETERS:
        text = text.replace(f"%({name})s", "CURRENT_TIMESTAMP")
    try:
        tree = sqlglot.parse_one(text, read="postgres")
    except (SqlglotError, RecursionError):
        yield "cannot be read here"
        return
    windows = list(tree.find_all(exp.Window))
    over_rows = {id(window.this) for window in windows}
    if tree.find(exp.Group) or any(
        _is_aggregate(node) and id(node) not in over_rows for node in tree.find_all(exp.Func)
    ):
        yield "aggregates"
    if tree.find(exp.Distinct):
        yield "uses DISTINCT"
    if any(node.args.get("distinct") for node in tree.find_all(exp.Union, exp.Intersect, exp.Except)):
        yield "removes duplicates (UNION, INTERSECT or EXCEPT without ALL)"
    if tree.find(exp.Limit, exp.Fetch, exp.Offset):
        yield "uses LIMIT"
    if windows:
        yield "uses a window function"


def _is_aggregate(node: Any) -> bool:
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in _AGGREGATES
    return isinstance(node, exp.AggFunc)
