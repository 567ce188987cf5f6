"""What the target's connection may not do yet, as the GRANT statements that an owner has to run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from psycopg import sql
from psycopg.rows import tuple_row

from bollhav_provider.data.catalog import Relation, look
from bollhav_provider.data.session import Connection, name_of
from bollhav_provider.exceptions import MissingPrivilegeError
from bollhav_provider.model import Environment, Model, OnSchemaChange, TableId, WriteMode

_PRIVILEGES = {
    WriteMode.APPEND: ("INSERT",),
    # ON CONFLICT DO UPDATE reads the row that is there.
    WriteMode.UPSERT: ("INSERT", "SELECT", "UPDATE"),
    WriteMode.RECREATE_PARTITION: ("INSERT", "SELECT", "DELETE"),
    WriteMode.TRUNCATE: ("INSERT", "TRUNCATE"),
    WriteMode.RECREATE: (),
}

_RIGHTS = """
SELECT current_user,
       pg_catalog.current_database(),
       pg_catalog.to_regnamespace(%(quoted)s) IS NOT NULL,
       COALESCE(pg_catalog.has_schema_privilege(pg_catalog.to_regnamespace(%(quoted)s)::oid, 'USAGE'), false),
       COALESCE(pg_catalog.has_schema_privilege(pg_catalog.to_regnamespace(%(quoted)s)::oid, 'CREATE'), false),
       pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
       pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMP')
"""


@dataclass(frozen=True, slots=True)
class Preflight:
    """What stands in the way of writing a model's target.

    Attributes:
        model: the model's full name.
        user: the database user.
        grants: statements for an owner to run; none when nothing is missing.
        notes: peculiarities of the target that change what a write does: triggers, partitions, foreign keys,
            row-level security.
        unusable: why nothing can be written there whatever the privileges; empty otherwise.
    """

    model: str
    user: str
    grants: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unusable: str = ""

    def require(self) -> None:
        """Refuse to go on without the privileges.

        Raises:
            MissingPrivilegeError: it lists the statements.
        """
        if self.grants:
            raise MissingPrivilegeError(self.model, self.grants)


def preflight(conn: Connection, model: Model, env: Environment, *, reads: Sequence[TableId] = ()) -> Preflight:
    """Say which privileges are missing to create and write a target, and to read the relations that its query reads.

    Args:
        conn: the target's connection.
        model: the declaration.
        env: the environment.
        reads: relations in the same database that the model reads, suffixed as they will be read.
    """
    table = env.table(model.identity)
    with conn.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(_RIGHTS, {"quoted": sql.Identifier(table.schema).as_string(conn)}).fetchone()
    assert row is not None
    user, database, has_schema, may_use, may_create, may_make_schemas, may_make_temporary = row
    relation = look(conn, table) if has_schema else None
    schema = sql.Identifier(table.schema)
    missing: list[sql.Composed] = []
    if not has_schema:
        if not may_make_schemas:
            missing.append(sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(schema, sql.Identifier(user)))
    elif not may_use:
        missing.append(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, sql.Identifier(user)))
    if (
        has_schema
        and not may_create
        and (relation is None or model.target.write_mode is WriteMode.RECREATE or model.is_view)
    ):
        missing.append(sql.SQL("GRANT CREATE ON SCHEMA {} TO {}").format(schema, sql.Identifier(user)))
    if model.target.write_mode is WriteMode.UPSERT and not may_make_temporary:
        missing.append(
            sql.SQL("GRANT TEMPORARY ON DATABASE {} TO {}").format(sql.Identifier(database), sql.Identifier(user))
        )
    if relation is not None:
        missing += _on_target(conn, model, relation, user)
    for read in reads:
        missing += _on_relation(conn, read, ("SELECT",), user)
    notes = tuple(_notes(conn, relation)) if relation is not None and relation.is_table else ()
    unusable = ""
    if relation is not None and not relation.is_table and not model.is_view:
        what = f"the target {table.full_name} is a {relation.kind_name}, not a table"
        unusable = f"{what}: drop it, or name another target"
    return Preflight(model.full_name, user, tuple(statement.as_string(conn) for statement in missing), notes, unusable)


def _on_target(conn: Connection, model: Model, relation: Relation, user: str) -> Iterator[sql.Composed]:
    alters = (
        model.target.write_mode is WriteMode.RECREATE
        or model.target.on_schema_change is OnSchemaChange.ADD
        or model.is_view
    )
    if alters and not relation.owned:
        kind = sql.SQL("VIEW" if relation.kind == "v" else "TABLE")
        yield sql.SQL("ALTER {} {} OWNER TO {}").format(kind, name_of(relation.table), sql.Identifier(user))
        return
    if not model.is_view:
        needed = _PRIVILEGES[model.target.write_mode] + (("SELECT",) if model.checks else ())
        yield from _on_relation(conn, relation.table, tuple(dict.fromkeys(needed)), user)


def _on_relation(conn: Connection, table: TableId, privileges: Sequence[str], user: str) -> Iterator[sql.Composed]:
    with conn.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(
            "SELECT p FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace, "
            "unnest(%s::text[]) AS p WHERE n.nspname = %s AND c.relname = %s AND NOT "
            "pg_catalog.has_table_privilege(c.oid, p)",
            (list(privileges), table.schema, table.name),
        ).fetchall()
    if rows:
        listed = sql.SQL(", ").join(sql.SQL(privilege) for (privilege,) in rows)
        yield sql.SQL("GRANT {} ON {} TO {}").format(listed, name_of(table), sql.Identifier(user))


def _notes(conn: Connection, relation: Relation) -> Iterator[str]:
    if relation.row_security:
        yield "row-level security applies to this user: COPY is not possible, write_mode='upsert' is"
    if relation.kind == "p":
        yield "partitioned: rows go to the partitions that exist, a row without one is refused"
    with conn.cursor(row_factory=tuple_row) as cursor:
        triggers = cursor.execute(
            "SELECT tgname FROM pg_catalog.pg_trigger WHERE tgrelid = %s AND NOT tgisinternal AND tgenabled <> 'D' "
            "ORDER BY 1",
            (relation.oid,),
        ).fetchall()
        keys = cursor.execute(
            "SELECT conname, confrelid::regclass::text, conrelid::regclass::text, conrelid = %(oid)s FROM "
            "pg_catalog.pg_constraint WHERE contype = 'f' AND (conrelid = %(oid)s OR confrelid = %(oid)s) ORDER BY "
            "1",
            {"oid": relation.oid},
        ).fetchall()
    for (name,) in triggers:
        yield f"trigger {name!r} fires on writes and may change or drop rows"
    for name, referenced, referencing, ours in keys:
        if ours:
            yield f"foreign key {name!r}: rows need their counterparts in {referenced}"
        else:
            yield f"foreign key {name!r} of {referencing}: rows that it refers to cannot be deleted or truncated"
