"""Create the target from its declaration, and bring an existing one in line as far as ``on_schema_change`` says.

Everything runs under one advisory lock that ends with the transaction: PostgreSQL's ``IF NOT EXISTS`` is no help
against a second session doing the same at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from bollhav_provider.data.catalog import Relation, look
from bollhav_provider.data.compare import Difference, compare
from bollhav_provider.data.errors import translated
from bollhav_provider.data.session import Connection, name_of, names
from bollhav_provider.data.staging import ensure_staging, staging_table
from bollhav_provider.exceptions import DataError, SchemaMismatchError
from bollhav_provider.model import Column, Environment, Index, Model, OnSchemaChange, TableId
from bollhav_provider.model.target import KeyConstraint

logger = logging.getLogger(__name__)

#: One key for all DDL on targets: it is short, and schemas are shared between tables.
_DDL_LOCK = 0x626F6C6C68617601


@dataclass(frozen=True, slots=True)
class TargetReport:
    """What became of a target.

    Attributes:
        table: the target, suffixed.
        created: whether it was made just now.
        statements: the DDL that was run.
        differences: what still differs from the declaration, and is left so.
    """

    table: TableId
    created: bool = False
    statements: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = field(default=())


def ensure_target(conn: Connection, model: Model, env: Environment) -> TargetReport:
    """Create the target's schema and table, or compare the table that is there with the declaration.

    Args:
        conn: the target's connection, in autocommit or in a transaction.
        model: a table's declaration.
        env: the environment, whose suffix the target gets.

    Returns:
        What was done and what differs. With nothing to do it costs one look at the catalogue.

    Raises:
        SchemaMismatchError: the table differs in a way that ``on_schema_change`` does not mend or allow; all
            differences are named.
        DataError: PostgreSQL refused.
    """
    table = env.table(model.identity)
    relation = look(conn, table)
    if relation is not None:
        found = compare(conn, model, relation)
        if not _repairs(conn, model, env, relation, found):
            return TargetReport(table, differences=_settle(model, relation, found))
    with translated(model, "creating the target"), conn.transaction():
        lock_ddl(conn)
        relation = look(conn, table)
        created = relation is None
        done = _run(conn, creation(conn, model, table)) if created else []
        relation = relation or look(conn, table)
        assert relation is not None
        done += _run(conn, _repairs(conn, model, env, relation, () if created else compare(conn, model, relation)))
        relation = look(conn, table)
        assert relation is not None
        if model.target.staging is not None and relation.is_table:
            # Once more, for the columns that the target gained just now.
            done += _run(conn, ensure_staging(conn, model, env, relation))
        return TargetReport(table, created, tuple(done), _settle(model, relation, compare(conn, model, relation)))


def recreate(conn: Connection, model: Model, env: Environment) -> None:
    """Drop the table and create it from the declaration, keeping the privileges that were granted on it.

    Raises:
        DataError: other objects depend on the table.
    """
    table = env.table(model.identity)
    with translated(model, "recreating the target"):
        lock_ddl(conn)
        relation = look(conn, table)
        grants: list[sql.Composed] = []
        if relation is not None:
            if not relation.is_table:
                raise SchemaMismatchError(
                    f"{model.full_name}: target {table.full_name} is a {relation.kind_name}. Remedy: drop it, or "
                    "name another target."
                )
            grants = granted(conn, relation)
            try:
                conn.execute(sql.SQL("DROP TABLE {}").format(name_of(table)))
            except psycopg.errors.DependentObjectsStillExist as error:
                raise DataError(
                    f"{model.full_name}: target {table.full_name} cannot be dropped: {error.diag.message_detail}. "
                    "Remedy: use write_mode='truncate', which keeps the table, or drop what depends on it."
                ) from error
        _run(conn, [*creation(conn, model, table), *grants])


def lock_ddl(conn: Connection) -> None:
    """Wait until no other session runs DDL on targets; until the end of the transaction nobody else does."""
    conn.execute("SELECT pg_catalog.pg_advisory_xact_lock(%s)", (_DDL_LOCK,))


def granted(conn: Connection, relation: Relation) -> list[sql.Composed]:
    """The GRANT statements that give a relation made anew the privileges that the old one has."""
    rows = conn.execute(
        "SELECT CASE WHEN a.grantee = 0 THEN NULL ELSE pg_catalog.pg_get_userbyid(a.grantee) END, "
        "a.privilege_type, a.is_grantable FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a WHERE "
        "c.oid = %s AND a.grantee <> c.relowner",
        (relation.oid,),
    ).fetchall()
    found = []
    for grantee, privilege, grantable in rows:
        found.append(
            sql.SQL("GRANT {} ON {} TO {}{}").format(
                sql.SQL(privilege),
                name_of(relation.table),
                sql.Identifier(grantee) if grantee else sql.SQL("PUBLIC"),
                sql.SQL(" WITH GRANT OPTION" if grantable else ""),
            )
        )
    return found


def ensure_schema(conn: Connection, table: TableId) -> Iterator[sql.Composed]:
    """The statement that makes the schema, if it is not there: with it there, CREATE would still ask for privileges."""
    row = conn.execute("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", (table.schema,)).fetchone()
    if row is None:
        yield sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(table.schema))


def creation(conn: Connection, model: Model, table: TableId) -> Iterator[sql.Composed]:
    """The statements that make schema, table, keys, indexes and comments.

    Raises:
        SchemaMismatchError: the model declares no columns.
    """
    if not model.target.columns:
        raise SchemaMismatchError(
            f"{model.full_name}: target {table.full_name} does not exist and no columns are declared to make it of. "
            "Remedy: declare Target(columns=[Column(...), ...]), or create the table."
        )
    yield from ensure_schema(conn, table)
    parts = [column_definition(column) for column in model.target.columns]
    parts += [key_definition(conn, model, key) for key in model.target.keys(model.key, table.name)]
    yield sql.SQL("CREATE TABLE {} ({})").format(name_of(table), sql.SQL(", ").join(parts))
    for index in model.target.index_list(table.name):
        yield index_creation(table, index)
    yield from comments(model, table, None)


def column_definition(column: Column) -> sql.Composed:
    """One column as CREATE TABLE and ADD COLUMN have it."""
    parts: list[sql.Composable] = [sql.Identifier(column.name), _raw(column.pg_type.sql)]
    if column.generated is not None:
        parts.append(_raw(f"GENERATED ALWAYS AS ({column.generated}) STORED"))
    if column.identity:
        parts.append(_raw(f"GENERATED {column.identity.upper()} AS IDENTITY"))
    if column.default is not None:
        parts.append(_raw(f"DEFAULT {column.default}"))
    if not column.nullable:
        parts.append(sql.SQL("NOT NULL"))
    return sql.SQL(" ").join(parts)


def key_definition(conn: Connection, model: Model, key: KeyConstraint) -> sql.Composed:
    """One key as a named constraint.

    Raises:
        DataError: the server is too old for keys in which two NULLs are the same.
    """
    kind = "PRIMARY KEY" if key.primary else "UNIQUE"
    if key.nulls_not_distinct:
        if conn.info.server_version < 150000:
            raise DataError(
                f"{model.full_name}: key ({', '.join(key.columns)}) has a nullable column, which needs UNIQUE NULLS "
                "NOT DISTINCT and so PostgreSQL 15 or later. Remedy: declare its columns nullable=False, or "
                "upgrade the server."
            )
        kind += " NULLS NOT DISTINCT"
    return sql.SQL("CONSTRAINT {} {} ({})").format(sql.Identifier(key.name), sql.SQL(kind), names(key.columns))


def index_creation(table: TableId, index: Index) -> sql.Composed:
    """The statement that makes an index."""
    assert index.name is not None
    return sql.SQL("CREATE {unique}INDEX {name} ON {table} USING {method} ({columns}){where}").format(
        unique=sql.SQL("UNIQUE " if index.unique else ""),
        name=sql.Identifier(index.name),
        table=name_of(table),
        method=sql.Identifier(index.method),
        columns=names(index.columns),
        where=_raw(f" WHERE {index.where}" if index.where else ""),
    )


def comments(model: Model, table: TableId, relation: Relation | None) -> Iterator[sql.Composed]:
    """The statements that make comments follow the descriptions; where none is declared, a comment stays."""
    kind = sql.SQL("VIEW" if model.is_view else "TABLE")
    if model.description and (relation is None or relation.description != model.description):
        yield sql.SQL("COMMENT ON {} {} IS {}").format(kind, name_of(table), model.description)
    for column in model.target.columns:
        there = relation.by_name.get(column.name) if relation else None
        if column.description and (relation is None or (there is not None and there.description != column.description)):
            yield sql.SQL("COMMENT ON COLUMN {} IS {}").format(
                sql.Identifier(table.schema, table.name, column.name), column.description
            )


def _repairs(
    conn: Connection, model: Model, env: Environment, relation: Relation, differences: tuple[Difference, ...]
) -> list[sql.Composed]:
    """What may be done about differences: comments and the staging table always, additions with ``add``."""
    found: list[sql.Composed] = []
    if model.target.on_schema_change is OnSchemaChange.ADD:
        found = [difference.repair for difference in differences if difference.repair is not None]
    if relation.owned:
        found += comments(model, relation.table, relation)
    if model.target.staging is not None and relation.is_table:
        found += ensure_schema(conn, staging_table(model, env))
        found += ensure_staging(conn, model, env, relation)
    return found


def _settle(model: Model, relation: Relation, differences: tuple[Difference, ...]) -> tuple[Difference, ...]:
    """Raise what the policy does not allow, log what it does."""
    policy = model.target.on_schema_change
    fatal = [difference for difference in differences if difference.is_fatal(policy)]
    if fatal:
        listed = "".join(f"\n  - {difference.message}. Remedy: {difference.remedy}" for difference in fatal)
        raise SchemaMismatchError(
            f"{model.full_name}: target {relation.table.full_name} is not what the model declares "
            f"(on_schema_change='{policy}'):{listed}"
        )
    for difference in differences:
        logger.warning(
            "%s: target %s: %s; left as it is", model.full_name, relation.table.full_name, difference.message
        )
    return differences


def _run(conn: Connection, statements: Any) -> list[str]:
    done = []
    for statement in statements:
        conn.execute(statement)
        done.append(statement.as_string(conn))
    return done


def _raw(text: str) -> sql.SQL:
    """SQL that the declaration gives as such: types, defaults, expressions."""
    return sql.SQL(text)
