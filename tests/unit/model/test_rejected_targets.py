"""Rejected targets: names, columns, keys, indexes, write modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bollhav_provider import Batch, Column, Index, Model, Target, TimeChunking

DAY = Column("day", "date", primary_key=True, partition_on=True)
DAILY = Batch(time=TimeChunking("@daily"))
LONG = "n" * 64


def table(schema: str = "shop", name: str = "orders", **fields: Any) -> Target:
    return Target(schema=schema, name=name, **fields)


#: The definition, the field that is wrong, and what is said about it.
REJECTED: dict[str, tuple[Callable[[], Model], str, str]] = {
    "upsert_without_key": (
        lambda: Model(target=table(write_mode="upsert", columns=[Column("id", "integer")])),
        "target.write_mode",
        "upsert needs a key to find rows again by; write primary_key=True on the columns that identify a "
        "row, or key=[...] on the model, or write_mode='recreate_partition'",
    ),
    "upsert_with_a_key_that_is_no_column": (
        lambda: Model(target=table(write_mode="upsert", columns=[Column("id", "integer")]), key="ids"),
        "key",
        "column 'ids' is not declared; declared are id; add Column('ids', ...) to target.columns or correct the name",
    ),
    "key_without_any_columns": (
        lambda: Model(target=table(write_mode="upsert"), key="id"),
        "key",
        "column 'id' is not declared; the target declares no columns; add Column('id', ...) to "
        "target.columns or correct the name",
    ),
    "key_with_a_column_twice": (
        lambda: Model(target=table(columns=[Column("id", "integer", nullable=False)]), key=["id", "id"]),
        "key",
        "a column is named twice; name each once",
    ),
    "nullable_key_column": (
        lambda: Model(target=table(write_mode="upsert", columns=[Column("id", "integer")]), key="id"),
        "target.columns['id'].nullable",
        "the column is part of the key, and a row with NULL in it would be added again by every run; write "
        "nullable=False, or nulls_not_distinct=True so that NULLs are the same (PostgreSQL 15 and later)",
    ),
    "nullable_primary_key_column": (
        lambda: Model(target=table(columns=[Column("id", "integer", primary_key=True, nullable=True)])),
        "target.columns['id'].nullable",
        "the column is part of the key, and a row with NULL in it would be added again by every run; write "
        "nullable=False, or nulls_not_distinct=True so that NULLs are the same (PostgreSQL 15 and later)",
    ),
    "recreate_partition_without_partition_column": (
        lambda: Model(target=table(write_mode="recreate_partition", columns=[Column("id", "integer")]), batching=DAILY),
        "target.write_mode",
        "recreate_partition deletes the rows of a window and needs the column that says which they are; "
        "write partition_on=True on one column of type date, timestamp or timestamptz",
    ),
    "two_partition_columns": (
        lambda: Model(
            target=table(
                write_mode="recreate_partition",
                columns=[Column("a", "date", partition_on=True), Column("b", "date", partition_on=True)],
            ),
            batching=DAILY,
        ),
        "target.columns",
        "'a', 'b' all have partition_on=True; a row belongs to one window, so keep it on one column",
    ),
    "recreate_partition_without_windows": (
        lambda: Model(target=table(write_mode="recreate_partition", columns=[DAY])),
        "target.write_mode",
        "recreate_partition deletes a window, and a model without time chunks has none; write "
        "batching=Batch(time=TimeChunking(...)), or write_mode='truncate'",
    ),
    "recreate_partition_of_a_timeless_model": (
        lambda: Model(target=table(write_mode="recreate_partition", columns=[DAY]), temporality="timeless"),
        "target.write_mode",
        "recreate_partition deletes a window, and a model without time chunks has none; write "
        "batching=Batch(time=TimeChunking(...)), or write_mode='truncate'",
    ),
    "partition_column_of_another_type": (
        lambda: Model(target=table(columns=[Column("a", "text", partition_on=True)]), batching=DAILY),
        "target.columns['a'].partition_on",
        "a column of type text cannot say which window a row belongs to; choose one of type date, timestamp "
        "or timestamptz",
    ),
    "name_too_long": (
        lambda: Model(target=table(name=LONG)),
        "target.name",
        "the target's name 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn' is 64 bytes "
        "long and PostgreSQL cuts names at 63 bytes without saying so; shorten it by 1 byte",
    ),
    "schema_too_long": (
        lambda: Model(target=table(schema="å" * 32)),
        "target.schema",
        "the target's schema 'åååååååååååååååååååååååååååååååå' is 64 bytes long and PostgreSQL cuts names "
        "at 63 bytes without saying so; shorten it by 1 byte",
    ),
    "name_empty": (
        lambda: Model(target=table(name="")),
        "target.name",
        "the target's name is empty; give it a name",
    ),
    "name_with_dot": (
        lambda: Model(target=table(name="a.b")),
        "target.name",
        "the target's name 'a.b' holds a dot, which separates catalog, schema and name; write the parts as "
        "fields of their own",
    ),
    "name_with_nul": (
        lambda: Model(target=table(name="a\x00b")),
        "target.name",
        "the target's name 'a\\x00b' holds a NUL byte, which no PostgreSQL name can; remove it",
    ),
    "catalog_with_dot": (
        lambda: Model(target=table(catalog="a.b")),
        "target.catalog",
        "the target's catalog 'a.b' holds a dot, which separates catalog, schema and name; write the parts "
        "as fields of their own",
    ),
    "column_name_too_long": (
        lambda: Model(target=table(columns=[Column("ö" * 32, "text")])),
        "target.columns['öööööööööööööööööööööööööööööööö'].name",
        "the column name 'öööööööööööööööööööööööööööööööö' is 64 bytes long and PostgreSQL cuts names at 63 "
        "bytes without saying so; shorten it by 1 byte",
    ),
    "column_name_empty": (
        lambda: Model(target=table(columns=[Column("", "text")])),
        "target.columns[0].name",
        "the column name is empty; give it a name",
    ),
    "derived_primary_key_name_too_long": (
        lambda: Model(target=table(name="n" * 60, columns=[DAY])),
        "target.columns",
        "the primary key's name 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn_pkey' is 65 "
        "bytes long and PostgreSQL cuts names at 63 bytes without saying so; shorten it by 2 bytes (it is "
        "made of the table's and the columns' names)",
    ),
    "derived_unique_name_too_long": (
        lambda: Model(target=table(name="n" * 50, columns=[Column("customer_number", "integer", unique=True)])),
        "target.columns",
        "the unique constraint's name "
        "'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn_customer_number_key' is 70 bytes long and "
        "PostgreSQL cuts names at 63 bytes without saying so; shorten it by 7 bytes (it is made of the "
        "table's and the columns' names)",
    ),
    "derived_key_name_too_long": (
        lambda: Model(
            target=table(
                name="n" * 50,
                columns=[Column("customer", "integer", nullable=False), Column("number", "integer", nullable=False)],
            ),
            key=["customer", "number"],
        ),
        "key",
        "the unique constraint's name "
        "'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn_customer_number_key' is 70 bytes long and "
        "PostgreSQL cuts names at 63 bytes without saying so; shorten it by 7 bytes (it is made of the "
        "table's and the key's names)",
    ),
    "derived_index_name_too_long": (
        lambda: Model(
            target=table(
                name="n" * 50, columns=[Column("customer_number", "integer")], indexes=[Index("customer_number")]
            )
        ),
        "target.indexes[0].name",
        "the index name 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn_customer_number_idx' is 70 bytes "
        "long and PostgreSQL cuts names at 63 bytes without saying so; shorten it by 7 bytes (it is made of "
        "the table's and the columns' names; or give the Index a name)",
    ),
    "derived_partition_index_name_too_long": (
        lambda: Model(target=table(name="n" * 50, columns=[Column("departure_time", "date", partition_on=True)])),
        "target.columns",
        "the index name 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn_departure_time_idx' is 69 bytes "
        "long and PostgreSQL cuts names at 63 bytes without saying so; shorten it by 6 bytes (it is made of "
        "the table's and the columns' names; or give the Index a name)",
    ),
    "given_index_name_too_long": (
        lambda: Model(target=table(columns=[Column("a", "integer")], indexes=[Index("a", name=LONG)])),
        "target.indexes[0].name",
        "the index name 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn' is 64 bytes long "
        "and PostgreSQL cuts names at 63 bytes without saying so; shorten it by 1 byte",
    ),
    "derived_state_table_name_too_long": (
        lambda: Model(target=table(name="å" * 31)),
        "target.name",
        "the state table's name 'shp_ååååååååååååååååååååååååååååååå_3d773f85f1ca3e13' is 83 bytes long and "
        "PostgreSQL cuts names at 63 bytes without saying so; shorten it by 20 bytes (it is made of the "
        "model's full name; letters beyond ASCII take several bytes each)",
    ),
    "column_twice": (
        lambda: Model(target=table(columns=[Column("a", "text"), Column("a", "integer")])),
        "target.columns['a']",
        "the column is declared twice; keep one",
    ),
    "index_on_unknown_column": (
        lambda: Model(target=table(columns=[Column("a", "text")], indexes=[Index(["a", "b"])])),
        "target.indexes[0]",
        "column 'b' is not declared; declare it, or index one of a",
    ),
    "index_column_twice": (
        lambda: Model(target=table(columns=[Column("a", "text")], indexes=[Index(["a", "a"])])),
        "target.indexes[0].columns",
        "a column is named twice; name each once",
    ),
    "index_method_no_word": (
        lambda: Model(target=table(columns=[Column("a", "text")], indexes=[Index("a", method="b tree")])),
        "target.indexes[0].method",
        "'b tree' is no access method; write btree, hash, gin, gist, brin or spgist",
    ),
    "index_name_taken": (
        lambda: Model(
            target=table(
                columns=[Column("a", "text")], indexes=[Index("a", name="x"), Index("a", name="x", unique=True)]
            )
        ),
        "target.indexes[1]",
        "the name 'x' is taken by another index, a constraint or the table; give the Index another name",
    ),
    "serial": (
        lambda: Model(target=table(columns=[Column("id", "bigserial")])),
        "target.columns['id'].type",
        "'bigserial' is no type but a way to make a default; write 'bigint' with identity=True",
    ),
    "type_misspelt": (
        lambda: Model(target=table(columns=[Column("id", "integr")])),
        "target.columns['id'].type",
        "PostgreSQL has no type 'integr'; a type of your own is written with its schema, as in "
        "'public.integr'; did you mean 'integer'?",
    ),
    "type_from_elsewhere": (
        lambda: Model(target=table(columns=[Column("id", "datetime")])),
        "target.columns['id'].type",
        "PostgreSQL has no type 'datetime'; write 'timestamptz'",
    ),
    "type_with_wrong_modifier": (
        lambda: Model(target=table(columns=[Column("id", "text(20)")])),
        "target.columns['id'].type",
        "text takes no modifier, not 'text(20)'; write 'varchar(20)' or 'text'",
    ),
    "numeric_scale": (
        lambda: Model(target=table(columns=[Column("id", "numeric(2,4)")])),
        "target.columns['id'].type",
        "'numeric(2,4)' has more digits after the point than digits; write 'numeric(4,4)' or a lower scale",
    ),
    "identity_of_text": (
        lambda: Model(target=table(columns=[Column("id", "text", identity=True)])),
        "target.columns['id'].identity",
        "PostgreSQL numbers smallint, integer and bigint only, not text; write type 'bigint'",
    ),
    "default_and_generated": (
        lambda: Model(target=table(columns=[Column("id", "integer", default="1", generated="2")])),
        "target.columns['id'].generated",
        "default and generated exclude each other; keep one",
    ),
    "empty_default": (
        lambda: Model(target=table(columns=[Column("id", "integer", default=" ")])),
        "target.columns['id'].default",
        "the SQL expression is empty; leave the argument out",
    ),
    "unique_primary_key": (
        lambda: Model(target=table(columns=[Column("id", "integer", primary_key=True, unique=True)])),
        "target.columns['id'].unique",
        "a primary key column needs no unique=True; for a key of several columns use an Index with unique=True",
    ),
    "two_write_mode_flags": (
        lambda: Model(target=table(truncate_table=True, recreate_table=True)),
        "target.recreate_table",
        "truncate_table and recreate_table exclude each other; keep one, or write write_mode",
    ),
    "write_mode_flag_against_write_mode": (
        lambda: Model(target=table(truncate_table=True, write_mode="append")),
        "target.truncate_table",
        "means write_mode='truncate', but write_mode is 'append'; keep one of the two",
    ),
    "two_connections_of_the_target": (
        lambda: Model(target=table(dsn_env_var="A", conn_id="b")),
        "target.conn_id",
        "dsn_env_var and conn_id both say where the target is; keep one",
    ),
}


@pytest.mark.parametrize("name", REJECTED)
def test_it_is_rejected_with_its_remedy(name: str, assert_rejected: Callable[..., None]) -> None:
    assert_rejected(*REJECTED[name])
