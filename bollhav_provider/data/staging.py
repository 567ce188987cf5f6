"""Keep the rows of each unit in a staging table, for those who want to see afterwards what a unit delivered.

The table lies beside the model's state, has the target's columns without its constraints, and says for each row which
unit brought it and when. Rows get into it in the transaction that writes the target, and leave when they are older
than ``Staging(keep=...)``. Nothing reads them back: writing needs no staging.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from bollhav_provider.data.catalog import Relation, look
from bollhav_provider.data.session import Connection, escaped, name_of, names, run_all, stage_of
from bollhav_provider.exceptions import SchemaMismatchError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Environment, Model, TableId

#: The staging table's own columns, named so that no column of a target is called the same.
_OWN = {
    "bollhav_since": "timestamptz",
    "bollhav_until": "timestamptz",
    "bollhav_loaded_at": "timestamptz NOT NULL DEFAULT now()",
}


def staging_table(model: Model, env: Environment) -> TableId:
    """The model's staging table: in the library's schema, named like its state table."""
    return TableId(model.target.catalog, env.state_schema, model.staging_table)


def ensure_staging(conn: Connection, model: Model, env: Environment, target: Relation) -> list[sql.Composed]:
    """The statements that create the staging table or give it the columns that the target gained.

    Raises:
        SchemaMismatchError: a column has another type than in the target.
    """
    assert model.target.staging is not None
    table = staging_table(model, env)
    there = look(conn, table)
    if there is None:
        unlogged = sql.SQL("UNLOGGED " if model.target.staging.unlogged else "")
        own = sql.SQL(", ").join(
            sql.SQL("ADD COLUMN {} {}").format(sql.Identifier(n), sql.SQL(t)) for n, t in _OWN.items()
        )
        return [
            # Of the target's types, but without what would refuse or make values.
            sql.SQL("CREATE {}TABLE {} AS SELECT * FROM {} WITH NO DATA").format(
                unlogged, name_of(table), name_of(target.table)
            ),
            sql.SQL("ALTER TABLE {} {}").format(name_of(table), own),
            sql.SQL("CREATE INDEX ON {} (bollhav_loaded_at)").format(name_of(table)),
        ]
    statements = []
    for column in target.columns:
        staged = there.by_name.get(column.name)
        if staged is None:
            statements.append(
                sql.SQL("ALTER TABLE {} ADD COLUMN {} {}").format(
                    name_of(table), sql.Identifier(column.name), sql.SQL(column.type.display)
                )
            )
        elif staged.type.display != column.type.display:
            raise SchemaMismatchError(
                f"{model.full_name}: staging table {table.full_name}: column {column.name!r} is {staged.type} and the "
                f"target has {column.type}. Remedy: DROP TABLE {table.quoted}; it holds copies only and is made anew."
            )
    return statements


def keep_rows(conn: Connection, model: Model, env: Environment, unit: Unit, columns: Sequence[str]) -> None:
    """Copy the rows of the temporary table into the staging table and drop what is too old: one round trip."""
    assert model.target.staging is not None
    table = staging_table(model, env)
    listed = escaped(names(columns), conn)
    insert = sql.SQL(
        "INSERT INTO {staging} (bollhav_since, bollhav_until, {columns}) SELECT %(since)s, %(until)s, {columns} "
        "FROM {stage}"
    ).format(staging=name_of(table), columns=listed, stage=escaped(stage_of(env.table(model.identity)), conn))
    purge = sql.SQL("DELETE FROM {} WHERE bollhav_loaded_at < now() - %(keep)s::interval").format(name_of(table))
    run_all(
        conn,
        [(purge, {"keep": model.target.staging.keep}), (insert, {"since": unit.since, "until": unit.until})],
    )
