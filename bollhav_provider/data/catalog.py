"""What a target really is: its columns, types, keys and peculiarities, in one look at the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from bollhav_provider.data.types import PhysicalType, resolve
from bollhav_provider.model.names import TableId

#: One row: everything that the writer needs to know of one relation. Two parameters: schema, name. ``to_jsonb(i) ->>
#: ...`` reads columns that older servers lack.
LOOK = """
WITH RECURSIVE rel AS (
    SELECT c.oid, c.relkind, c.relowner, c.relispartition
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = %(name)s
), att AS (
    SELECT a.*, d.adbin, d.adrelid FROM rel
    JOIN pg_catalog.pg_attribute a ON a.attrelid = rel.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
), reach(oid) AS (
    SELECT atttypid FROM att
    UNION
    SELECT x.oid FROM reach JOIN pg_catalog.pg_type t ON t.oid = reach.oid
    CROSS JOIN LATERAL (VALUES (t.typbasetype), (CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE 0 END)) x(oid)
    WHERE x.oid <> 0
)
SELECT
    rel.oid,
    rel.relkind::text,
    pg_catalog.row_security_active(rel.oid),
    (SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
        'name', att.attname, 'number', att.attnum, 'type', att.atttypid::bigint, 'modifier', att.atttypmod,
        'display', pg_catalog.format_type(att.atttypid, att.atttypmod), 'not_null', att.attnotnull,
        'identity', att.attidentity, 'generated', att.attgenerated,
        'default', CASE WHEN att.attgenerated = '' THEN pg_catalog.pg_get_expr(att.adbin, att.adrelid) END,
        'expression', CASE WHEN att.attgenerated <> '' THEN pg_catalog.pg_get_expr(att.adbin, att.adrelid) END,
        'plain_order', COALESCE((SELECT o.collisdeterministic FROM pg_catalog.pg_collation o
                                 WHERE o.oid = att.attcollation), true),
        'description', pg_catalog.col_description(rel.oid, att.attnum)
     ) ORDER BY att.attnum) FROM att),
    (SELECT pg_catalog.jsonb_object_agg(t.oid::bigint, pg_catalog.jsonb_build_object(
        'name', CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace OR t.typname = 'citext' THEN t.typname::text
                     ELSE t.oid::regtype::text END, 'kind', t.typtype, 'base', t.typbasetype::bigint, 'base_modifier',
                     t.typtypmod,
        'element', CASE WHEN t.typcategory = 'A' THEN t.typelem::bigint ELSE 0 END,
        'labels', (SELECT pg_catalog.jsonb_agg(e.enumlabel ORDER BY e.enumsortorder)
                   FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid)
     )) FROM reach JOIN pg_catalog.pg_type t ON t.oid = reach.oid),
    (SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
        'name', x.relname, 'primary', i.indisprimary, 'unique', i.indisunique, 'valid', i.indisvalid,
        'immediate', i.indimmediate, 'partial', i.indpred IS NOT NULL, 'expressions', i.indexprs IS NOT NULL,
        'nulls_not_distinct', COALESCE((pg_catalog.to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false),
        'columns', (SELECT pg_catalog.jsonb_agg(a.attname ORDER BY k.ord)
                    FROM pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY k(num, ord)
                    JOIN pg_catalog.pg_attribute a ON a.attrelid = rel.oid AND a.attnum = k.num
                    WHERE k.ord <= i.indnkeyatts)
     ) ORDER BY i.indisprimary DESC, x.relname)
     FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = rel.oid),
    pg_catalog.obj_description(rel.oid, 'pg_class'),
    pg_catalog.pg_has_role(rel.relowner, 'USAGE')
FROM rel
"""

RELATION_KINDS = {
    "r": "table",
    "p": "partitioned table",
    "v": "view",
    "m": "materialized view",
    "f": "foreign table",
    "S": "sequence",
    "c": "composite type",
    "i": "index",
    "I": "partitioned index",
    "t": "TOAST table",
}


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """One column as the table has it.

    Attributes:
        name: as stored, case kept.
        type: its physical type.
        type_oid: the OID of the type as declared: a domain's own, not its base's.
        not_null: NOT NULL, or part of a primary key.
        identity: ``""``, ``"a"`` (ALWAYS) or ``"d"`` (BY DEFAULT).
        generated: ``""``, ``"s"`` (stored) or ``"v"`` (virtual).
        default: the default's SQL, None without one.
        expression: the generation expression, None on an ordinary column.
        plain_order: False under a nondeterministic collation, where different strings are equal.
        description: the column's comment.
    """

    name: str
    type: PhysicalType
    type_oid: int = 0
    not_null: bool = False
    identity: str = ""
    generated: str = ""
    default: str | None = None
    expression: str | None = None
    plain_order: bool = True
    description: str | None = None

    @property
    def writable(self) -> bool:
        """Whether a value may be given at all."""
        return not self.generated and self.identity != "a"

    @property
    def fills_itself(self) -> bool:
        """Whether the table provides a value when none is given."""
        return bool(self.default or self.identity or self.generated)


@dataclass(frozen=True, slots=True)
class TableIndex:
    """One index of the table.

    Attributes:
        name: the index's name.
        columns: names of its key columns, in order; an expression index lacks the expressions.
        arbiter: whether ON CONFLICT can use it: unique, valid, immediate, neither partial nor over expressions.
    """

    name: str
    columns: tuple[str, ...]
    unique: bool
    primary: bool
    nulls_not_distinct: bool
    arbiter: bool
    plain: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table (or view) as the database has it at this instant.

    Attributes:
        table: its schema and name.
        oid: its OID.
        kind: ``pg_class.relkind``.
        row_security: whether row-level security applies to the current user, who then cannot COPY.
        columns: in the table's order.
        indexes: the primary key's first.
        description: the table's comment.
        owned: whether the current user may alter it.
        by_name: the columns by their names.
    """

    table: TableId
    oid: int
    kind: str
    row_security: bool
    columns: tuple[TargetColumn, ...]
    indexes: tuple[TableIndex, ...]
    description: str | None = None
    owned: bool = False
    by_name: Mapping[str, TargetColumn] = field(default_factory=dict, repr=False, compare=False)

    @property
    def kind_name(self) -> str:
        return RELATION_KINDS.get(self.kind, self.kind)

    @property
    def is_table(self) -> bool:
        """Whether rows can be copied into it."""
        return self.kind in ("r", "p")

    def arbiter(self, key: Sequence[str]) -> TableIndex | None:
        """The unique index over exactly these columns that ON CONFLICT can use."""
        return next((i for i in self.indexes if i.arbiter and set(i.columns) == set(key)), None)


def parameters(table: TableId) -> dict[str, str]:
    """The parameters of ``LOOK``."""
    return {"schema": table.schema, "name": table.name}


def relation_of(table: TableId, row: Sequence[Any] | None) -> Relation | None:
    """Read the row that ``LOOK`` gave; None when there is no such relation."""
    if row is None:
        return None
    oid, kind, row_security, columns, types, indexes, description, owned = row
    known = {int(k): v for k, v in (types or {}).items()}
    found = tuple(
        TargetColumn(
            name=c["name"],
            type=resolve(c["type"], c["modifier"], known, c["display"]),
            type_oid=c["type"],
            not_null=c["not_null"],
            identity=c["identity"],
            generated=c["generated"],
            default=c["default"],
            expression=c["expression"],
            plain_order=c["plain_order"],
            description=c["description"],
        )
        for c in columns or ()
    )
    return Relation(
        table=table,
        oid=oid,
        kind=kind,
        row_security=row_security,
        columns=found,
        indexes=tuple(_index(i) for i in indexes or ()),
        description=description,
        owned=owned,
        by_name={c.name: c for c in found},
    )


def look(conn: psycopg.Connection[Any], table: TableId) -> Relation | None:
    """Look one relation up: one round trip.

    Args:
        conn: any connection to the target's database.
        table: the (suffixed) schema and name.

    Returns:
        The relation; None when there is none of that name.
    """
    with conn.cursor(row_factory=tuple_row) as cursor:
        return relation_of(table, cursor.execute(LOOK, parameters(table), prepare=False).fetchone())


def _index(row: Mapping[str, Any]) -> TableIndex:
    plain = not row["partial"] and not row["expressions"]
    return TableIndex(
        name=row["name"],
        columns=tuple(row["columns"] or ()),
        unique=row["unique"],
        primary=row["primary"],
        nulls_not_distinct=row["nulls_not_distinct"],
        arbiter=row["unique"] and row["valid"] and row["immediate"] and plain,
        plain=plain,
    )
