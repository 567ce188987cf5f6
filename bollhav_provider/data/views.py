"""Views: created or replaced from the model's query."""

from __future__ import annotations

from collections.abc import Mapping

from psycopg import errors, sql

from bollhav_provider.data import ddl
from bollhav_provider.data.catalog import Relation, look
from bollhav_provider.data.errors import translated
from bollhav_provider.data.session import Connection, name_of
from bollhav_provider.exceptions import DataError, SchemaMismatchError
from bollhav_provider.model import Environment, Model, TableId


def create_view(
    conn: Connection, model: Model, env: Environment, *, tables: Mapping[str, TableId] | None = None
) -> bool:
    """Create a view or replace its query; call it once its gates are open, since the query's relations must exist.

    A view whose columns changed cannot be replaced: it is dropped and created, with the privileges that were granted
    on it.

    Args:
        conn: the target's connection, in autocommit or in a transaction.
        model: a view's declaration.
        env: the environment.
        tables: relations that the graph bound to aliases, without suffix.

    Returns:
        Whether the view had to be dropped.

    Raises:
        SchemaMismatchError: a table has the view's name, or the query does not give the declared columns.
        DataError: other objects depend on a view that has to be dropped, or PostgreSQL refused the query.
    """
    table = env.table(model.identity)
    query = model.render_query(env, tables=tables, for_parameters=False).strip().rstrip(";")
    body = sql.SQL("VIEW {} AS\n{}").format(name_of(table), sql.SQL(query))
    dropped = False
    with translated(model, "creating the view"), conn.transaction():
        ddl.lock_ddl(conn)
        existing = look(conn, table)
        if existing is not None and existing.kind != "v":
            raise SchemaMismatchError(
                f"{model.full_name}: target {table.full_name} is a {existing.kind_name}, not a view. Remedy: drop "
                "it, or name another target."
            )
        for statement in ddl.ensure_schema(conn, table):
            conn.execute(statement)
        try:
            with conn.transaction():
                conn.execute(sql.SQL("CREATE OR REPLACE {}").format(body))
        except errors.InvalidTableDefinition:
            # PostgreSQL replaces a view only when its columns stay and new ones come last.
            if existing is None:
                raise
            grants = ddl.granted(conn, existing)
            _drop(conn, model, existing)
            conn.execute(sql.SQL("CREATE {}").format(body))
            for grant in grants:
                conn.execute(grant)
            dropped = True
        made = look(conn, table)
        assert made is not None
        _compare(model, made)
        for comment in ddl.comments(model, table, made):
            conn.execute(comment)
    return dropped


def _drop(conn: Connection, model: Model, view: Relation) -> None:
    try:
        conn.execute(sql.SQL("DROP VIEW {}").format(name_of(view.table)))
    except errors.DependentObjectsStillExist as error:
        raise DataError(
            f"{model.full_name}: the columns of view {view.table.full_name} changed and it cannot be dropped: "
            f"{error.diag.message_detail}. Remedy: drop what depends on it first, or keep the old columns in place "
            "and add new ones at the end."
        ) from error


def _compare(model: Model, view: Relation) -> None:
    """Refuse a query that gives other columns than are declared; without declared columns any will do."""
    declared = [(column.name, column.pg_type.sql) for column in model.target.columns]
    problems = []
    for name, kind in declared:
        column = view.by_name.get(name)
        if column is None:
            problems.append(f"column {name!r} is declared and the query does not give it")
        elif column.type.display != kind and column.type.display.partition("(")[0] != kind:
            problems.append(f"column {name!r} is declared {kind} and the query gives {column.type.display}")
    given = {name for name, _ in declared}
    if declared:
        problems += [f"column {column.name!r} is not declared" for column in view.columns if column.name not in given]
    if problems:
        raise SchemaMismatchError(
            f"{model.full_name}: view {view.table.full_name}: {'; '.join(problems)}. Remedy: change the query or "
            "the declaration."
        )
