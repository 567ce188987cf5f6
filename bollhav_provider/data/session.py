"""Small things that all writing statements share: one trip for several statements, the caller's transaction, names."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from typing import Any

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from bollhav_provider.data import catalog
from bollhav_provider.data.catalog import Relation
from bollhav_provider.exceptions import DataError, SchemaMismatchError
from bollhav_provider.model import Model, TableId

Connection = psycopg.Connection[Any]
Cursor = psycopg.Cursor[Any]
Statement = tuple[sql.Composed | sql.SQL | str, "dict[str, Any] | None"]


def name_of(table: TableId) -> sql.Identifier:
    """The relation as an identifier, without the catalog: PostgreSQL has one a connection."""
    return sql.Identifier(table.schema, table.name)


def stage_of(table: TableId) -> sql.Identifier:
    """The temporary table that the rows for a keyed target go through; it ends with the transaction."""
    digest = blake2b(f"{table.schema}\0{table.name}".encode(), digest_size=8).hexdigest()
    return sql.Identifier("pg_temp", f"bollhav_stage_{digest}")


def names(columns: Sequence[str]) -> sql.Composed:
    """Column names, quoted and separated by commas."""
    return sql.SQL(", ").join(map(sql.Identifier, columns))


def escaped(identifier: sql.Composable, conn: Connection) -> sql.SQL:
    """An identifier for a statement with parameters, where psycopg reads a percent sign as a placeholder."""
    return sql.SQL(identifier.as_string(conn).replace("%", "%%"))


def require_transaction(conn: Connection, model: Model) -> None:
    """Refuse to write where nothing would tie the rows to the state (Semantics: commit).

    Raises:
        DataError: no transaction is open.
    """
    if conn.info.transaction_status != TransactionStatus.INTRANS and conn.autocommit:
        raise DataError(
            f"{model.full_name}: writing needs an open transaction, so that the rows and the unit's state are "
            "committed together. Remedy: call it inside `with conn.transaction():`."
        )


def trip(conn: Connection) -> AbstractContextManager[object]:
    """Send the statements of a block in one round trip where libpq can."""
    return conn.pipeline() if psycopg.capabilities.has_pipeline() else nullcontext()


def run_all(conn: Connection, statements: Sequence[Statement]) -> list[Cursor]:
    """Execute statements in order, in one round trip, and return their cursors.

    Statements name users' tables, whose shape may change under a prepared plan, so none is prepared.
    """
    cursors = []
    with trip(conn):
        for statement, parameters in statements:
            cursor = conn.cursor(row_factory=tuple_row)
            cursor.execute(statement, parameters, prepare=False)
            cursors.append(cursor)
    return cursors


def look_after(
    conn: Connection, model: Model, table: TableId, statements: Sequence[Statement]
) -> tuple[Relation, list[Cursor]]:
    """Execute statements that lock the target, and look it up after them: what is seen stays so until the commit.

    Returns:
        The target as it is, and the statements' cursors.

    Raises:
        SchemaMismatchError: there is no such table, or it is nothing that rows can be copied into.
    """
    *cursors, seen = run_all(conn, [*statements, (catalog.LOOK, catalog.parameters(table))])
    relation = catalog.relation_of(table, seen.fetchone())
    if relation is None or not relation.is_table:
        what = "does not exist" if relation is None else f"is a {relation.kind_name}, which no rows are written to"
        raise SchemaMismatchError(
            f"{model.full_name}: target {table.full_name} {what}. Remedy: let ensure_target create it, or name "
            "another target."
        )
    return relation, cursors
