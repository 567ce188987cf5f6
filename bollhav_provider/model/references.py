"""How a model's inputs become names in SQL (Semantics: definitions)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bollhav_provider.exceptions import DefinitionError, Problem
from bollhav_provider.model.base import did_you_mean
from bollhav_provider.model.names import TableId, quote
from bollhav_provider.model.source import python_name
from bollhav_provider.model.source_model import SourceModel

if TYPE_CHECKING:
    from bollhav_provider.model.environment import Environment
    from bollhav_provider.model.model import Model
    from bollhav_provider.model.source import Source

_HOW_TO_READ = {
    "file": "it is a file: name it as a parameter of the execute function and read its .data",
    "api": "it is an API: call it in the execute function",
    "hardcoded": (
        "it is inline data: name it as a parameter of the execute function and read its .data, "
        "or call its to_dataframe()"
    ),
}


def _error(model: Model, field: str, message: str) -> DefinitionError:
    return DefinitionError([Problem(model.full_name, field, message)])


def find_source(model: Model, name: str) -> Source:
    """Return the input with an alias or key.

    Raises:
        DefinitionError: there is none, with the nearest one that there is.
    """
    alias = python_name(name)
    for source in model.inputs:
        if alias == source.alias_name or name in source.keys:
            return source
    known = list(dict.fromkeys(word for source in model.inputs for word in (*source.keys, source.alias_name)))
    declared = f"declared are {', '.join(known)}" if known else "the model declares no inputs"
    hint = did_you_mean(name, known)
    raise _error(
        model, "upstream", f"{name!r} is not declared; {declared}; add Source({name!r}) or correct the name{hint}"
    )


def table_of(model: Model, source: Source, key: str | None) -> TableId | None:
    """Return the relation that a key means by itself, without suffix; None for ``*.name`` or no relation."""
    if not isinstance(source.type, SourceModel):
        return None
    parts = (key or source.name).split(".")
    if parts[0] == "*":
        return None
    schema = parts[-2] if len(parts) > 1 else source.type.schema or model.target.schema
    own = len(parts) == 1 and source.type.schema is None
    catalog = parts[-3] if len(parts) > 2 else source.type.catalog or (model.target.catalog if own else None)
    return TableId(catalog, schema, parts[-1])


def place(source: Source, table: TableId, env: Environment) -> TableId:
    """Return where a relation is in an environment: a gated one moves with the suffix, others do not."""
    if not source.is_gated or (source.deactivate_for_dev and env.is_suffixed):
        return table
    return env.table(table)


def reference(model: Model, name: str, env: Environment, table: TableId | None) -> str:
    """Return the quoted relation of a declared input.

    Raises:
        DefinitionError: the input is not declared, is no relation, or can be several.
    """
    source = find_source(model, name)
    if not source.is_relation:
        raise _error(model, "upstream", f"ref({name!r}): {_HOW_TO_READ[source.kind]}; SQL has no name for it")
    found = table or (None if source.is_wildcard else table_of(model, source, None))
    if found is None:
        several = "it can be several relations; use the .ref of each Upstream in the function's list"
        raise _error(model, "upstream", f"ref({name!r}): {several}")
    placed = place(source, found, env)
    # A relation of another catalog keeps it, so that PostgreSQL refuses it instead of reading one of the same
    # name here.
    foreign = placed.catalog is not None and placed.catalog != model.target.catalog
    return f"{quote(str(placed.catalog))}.{placed.quoted}" if foreign else placed.quoted


def rendered_query(model: Model, env: Environment, tables: Mapping[str, TableId], *, for_parameters: bool) -> str:
    """Return a model's query with its inputs filled in.

    Raises:
        DefinitionError: the model has no query.
    """
    from bollhav_provider.model.sqltext import render

    if model.query is None:
        raise _error(model, "query", "the model has none; its rows come from an execute function")
    return render(
        model.query, lambda alias: reference(model, alias, env, tables.get(alias)), for_parameters=for_parameters
    )
