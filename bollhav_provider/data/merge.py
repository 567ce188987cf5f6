"""UPSERT: from the temporary table into the target, one row a key, touching only rows that change.

INSERT .. ON CONFLICT is safe against other writers of the same keys, MERGE is not; the rows go in the key's order so
that two writers cannot wait for each other (Semantics: writing).
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql
from psycopg.rows import tuple_row

from bollhav_provider.data.catalog import Relation
from bollhav_provider.data.session import Connection, name_of, names, stage_of
from bollhav_provider.exceptions import DuplicateKeyError, SchemaMismatchError
from bollhav_provider.model import Model

#: Keys that an error names.
_SAMPLES = 20


def check_key(model: Model, relation: Relation) -> tuple[str, ...]:
    """Return the key's columns, having seen that the table can find rows by them.

    Raises:
        SchemaMismatchError: no unique index over exactly these columns can serve ON CONFLICT.
    """
    key = tuple(column.name for column in model.key_columns)
    index = relation.arbiter(key)
    loose = any(column.nullable for column in model.key_columns)
    target = relation.table.full_name
    listed = ", ".join(f'"{name}"' for name in key)
    if index is None:
        raise SchemaMismatchError(
            f"{model.full_name}: target {target} has no unique index over exactly ({listed}) that ON CONFLICT can "
            f"use (valid, not partial, not deferrable). Remedy: CREATE UNIQUE INDEX ON {relation.table.quoted} "
            f"({listed}){' NULLS NOT DISTINCT' if loose else ''}, or on_schema_change='add'."
        )
    if loose and not index.nulls_not_distinct:
        raise SchemaMismatchError(
            f"{model.full_name}: target {target}: index {index.name!r} over ({listed}) takes two NULLs for "
            "different, so rows with a NULL key would be inserted again by every run. Remedy: make it UNIQUE NULLS "
            "NOT DISTINCT (PostgreSQL 15 and later), or declare the key columns nullable=False."
        )
    return key


def merge(conn: Connection, model: Model, relation: Relation, columns: Sequence[str]) -> tuple[int | None, int]:
    """Merge the staged rows into the target: one round trip.

    Args:
        conn: inside the caller's transaction, in which the temporary table was filled.
        model: whose key and order columns count.
        relation: the target.
        columns: the columns that were staged.

    Returns:
        The number of rows offered (one a key; None: all that were staged), and of rows inserted or updated.

    Raises:
        DuplicateKeyError: staged rows share a key, and no order column decides between them.
    """
    key = check_key(model, relation)
    order = [column.name for column in model.target.order_columns if column.name in columns]
    statement = sql.SQL(
        "WITH duplicates AS MATERIALIZED ({duplicates}), merged AS ({merge} RETURNING 1) SELECT (SELECT count(*) "
        "FROM merged), (SELECT array_agg(sample) FROM duplicates), {offered}"
    ).format(
        duplicates=_duplicates(relation, key, order),
        merge=_merge(relation, key, order, columns),
        offered=_distinct(relation, key) if order else sql.SQL("NULL"),
    )
    with conn.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(statement, prepare=False).fetchone()
    assert row is not None
    changed, duplicates, offered = row
    if duplicates:
        raise DuplicateKeyError(model.full_name, key, tuple(duplicates))
    return offered, changed


def _duplicates(relation: Relation, key: Sequence[str], order: Sequence[str]) -> sql.Composed:
    """The keys of more than one row; with an order, rows that are the same in everything are one."""
    stage = stage_of(relation.table)
    listed = sql.SQL(", ', ', ").join(
        sql.SQL("coalesce({}::text, 'NULL')").format(sql.Identifier(name)) for name in key
    )
    sample = sql.SQL("concat('(', {}, ') ', count(*), ' times') AS sample").format(listed)
    if not order:
        return sql.SQL(
            "SELECT {sample} FROM {stage} GROUP BY {key} HAVING count(*) > 1 ORDER BY {key} LIMIT {limit}"
        ).format(sample=sample, key=names(key), stage=stage, limit=sql.Literal(_SAMPLES))
    return sql.SQL(
        "SELECT {sample} FROM (SELECT {key}, s::text AS bollhav_whole, rank() OVER (PARTITION BY {key} ORDER BY "
        "{order}) AS bollhav_place FROM {stage} AS s) AS ranked WHERE bollhav_place = 1 GROUP BY {key} HAVING "
        "min(bollhav_whole) <> max(bollhav_whole) ORDER BY {key} LIMIT {limit}"
    ).format(sample=sample, key=names(key), order=_greatest(order), stage=stage, limit=sql.Literal(_SAMPLES))


def _distinct(relation: Relation, key: Sequence[str]) -> sql.Composed:
    return sql.SQL("(SELECT count(*) FROM (SELECT DISTINCT {} FROM {}) AS k)").format(
        names(key), stage_of(relation.table)
    )


def _greatest(order: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL("{} DESC NULLS LAST").format(sql.Identifier(name)) for name in order)


def _merge(relation: Relation, key: Sequence[str], order: Sequence[str], columns: Sequence[str]) -> sql.Composed:
    by_name = relation.by_name
    # A key may be equal and yet not the same ('A' and 'a' of citext, 1.0 and 1.00): then the new spelling is kept too.
    changed = [
        name
        for name in columns
        if name not in key or not (by_name[name].type.is_bytewise and by_name[name].plain_order)
    ]
    # With duplicates nothing is merged, since which of two rows would win is chance; the caller gets their keys
    # instead.
    chosen = sql.SQL(
        "SELECT {distinct}{columns} FROM {stage} WHERE NOT EXISTS (SELECT FROM duplicates) ORDER BY {key}{rest}"
    ).format(
        distinct=sql.SQL("DISTINCT ON ({}) ").format(names(key)) if order else sql.SQL(""),
        columns=names(columns),
        stage=stage_of(relation.table),
        key=names(key),
        rest=sql.SQL(", {}").format(_greatest(order)) if order else sql.SQL(""),
    )
    if changed:
        action: sql.Composable = sql.SQL("UPDATE SET {sets} WHERE {differs}{newer}").format(
            sets=sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in changed),
            # Compares the stored bytes, so every type is comparable, and NULL is the same as NULL. As records: two
            # bare rows would be compared field by field, each with the operator of its type.
            differs=sql.SQL("ROW({})::record *<> ROW({})::record").format(
                _of("bollhav_target", changed), _of("excluded", changed)
            ),
            newer=sql.SQL("").join(_not_older(name) for name in order[:1]),
        )
    else:
        action = sql.SQL("NOTHING")
    return sql.SQL(
        "INSERT INTO {target} AS bollhav_target ({columns}) {chosen} ON CONFLICT ({key}) DO {action}"
    ).format(target=name_of(relation.table), columns=names(columns), chosen=chosen, key=names(key), action=action)


def _of(row: str, columns: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(row, name) for name in columns)


def _not_older(name: str) -> sql.Composed:
    """A row that comes late does not replace a newer one, whatever the order in which units run."""
    there, given = sql.Identifier("bollhav_target", name), sql.Identifier("excluded", name)
    return sql.SQL(" AND ({there} IS NULL OR {given} >= {there})").format(there=there, given=given)
