"""Targets and views are made from their declarations; what stands in the way is said as statements to run."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import psycopg
import pytest
from write_helpers import ENV, connect, model_of, rows, write

from bollhav_provider import data
from bollhav_provider.exceptions import DataError, MissingPrivilegeError, SchemaMismatchError
from bollhav_provider.model import Column, Environment, Index, Materialization, Model, Source, Target

ID = Column("id", "bigint", primary_key=True)


@pytest.fixture
def conn(module_db: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(module_db) as connection:
        connection.execute("DROP SCHEMA IF EXISTS shop CASCADE")
        yield connection


@pytest.fixture
def limited(conn: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """A connection of a user who owns nothing."""
    conn.execute("CREATE ROLE clerk")
    conn.execute("REVOKE TEMPORARY ON DATABASE " + conn.info.dbname + " FROM PUBLIC")
    with connect(conn.info.dsn) as connection:
        connection.execute("SET ROLE clerk")
        yield connection
    conn.execute("DROP OWNED BY clerk; DROP ROLE clerk")
    conn.execute("GRANT TEMPORARY ON DATABASE " + conn.info.dbname + " TO PUBLIC")


def test_a_target_has_everything_that_is_declared(conn: psycopg.Connection[Any]) -> None:
    model = model_of(
        Column("day", "date", primary_key=True, partition_on=True),
        Column("id", "integer", primary_key=True, description='it\'s 100% "quoted"'),
        Column("code", "varchar(5)", unique=True),
        Column("amount", "numeric(10,2)", nullable=False, default="0"),
        Column("net", "numeric(10,2)", generated="amount * 0.8"),
        Column("n", "bigint", identity="by default"),
        Column("tags", "text[]"),
        indexes=[Index("tags", method="gin"), Index(["code", "amount"], where="amount > 0", name="big ones")],
        description="What was sold.",
    )
    report = data.ensure_target(conn, model, ENV)
    assert report.created
    columns = conn.execute(
        "SELECT attname, format_type(atttypid, atttypmod), attnotnull, col_description(attrelid, attnum) FROM "
        "pg_attribute WHERE attrelid = 'shop.t'::regclass AND attnum > 0 ORDER BY attnum"
    ).fetchall()
    assert columns == [
        ("day", "date", True, None),
        ("id", "integer", True, 'it\'s 100% "quoted"'),
        ("code", "character varying(5)", False, None),
        ("amount", "numeric(10,2)", True, None),
        ("net", "numeric(10,2)", False, None),
        ("n", "bigint", True, None),
        ("tags", "text[]", False, None),
    ]
    indexes = {row[0] for row in conn.execute("SELECT indexname FROM pg_indexes WHERE schemaname = 'shop'").fetchall()}
    assert indexes == {"t_pkey", "t_code_key", "t_tags_idx", "big ones"}
    assert conn.execute("SELECT obj_description('shop.t'::regclass)").fetchone() == ("What was sold.",)
    assert data.ensure_target(conn, model, ENV) == data.TargetReport(report.table)


def test_the_partition_column_gets_an_index_of_its_own(conn: psycopg.Connection[Any]) -> None:
    data.ensure_target(conn, model_of(ID, Column("at", "timestamptz", partition_on=True)), ENV)
    assert conn.execute("SELECT count(*) FROM pg_indexes WHERE indexname = 't_at_idx'").fetchone() == (1,)


def test_comments_follow_the_declaration(conn: psycopg.Connection[Any]) -> None:
    data.ensure_target(conn, model_of(ID, Column("v", "text", description="old")), ENV)
    report = data.ensure_target(conn, model_of(ID, Column("v", "text", description="new"), description="a table"), ENV)
    assert len(report.statements) == 2
    assert conn.execute("SELECT col_description('shop.t'::regclass, 2)").fetchone() == ("new",)


def test_a_missing_index_is_reported_and_made_only_when_adding(conn: psycopg.Connection[Any]) -> None:
    data.ensure_target(conn, model_of(ID, Column("v", "text")), ENV)
    wanted = {"indexes": [Index("v")]}
    report = data.ensure_target(conn, model_of(ID, Column("v", "text"), **wanted), ENV)
    assert [difference.kind for difference in report.differences] == ["index"]
    assert "CREATE INDEX CONCURRENTLY" in report.differences[0].remedy
    report = data.ensure_target(conn, model_of(ID, Column("v", "text"), on_schema_change="add", **wanted), ENV)
    assert report.statements == ('CREATE INDEX "t_v_idx" ON "shop"."t" USING "btree" ("v")',)
    assert report.differences == ()


def test_sixteen_sessions_may_create_a_target_at_once(conn: psycopg.Connection[Any]) -> None:
    models = [model_of(ID, Column("v", "text"), name=f"t{number % 3}") for number in range(16)]
    barrier = Barrier(16)

    def create(model: Model) -> bool:
        with connect(conn.info.dsn) as own:
            barrier.wait(30)
            return data.ensure_target(own, model, ENV).created

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(create, models)) == 3


def test_sixteen_sessions_may_create_a_view_at_once(conn: psycopg.Connection[Any]) -> None:
    model = _view("SELECT 1 AS a")
    barrier = Barrier(16)

    def create(_: int) -> bool:
        with connect(conn.info.dsn) as own:
            barrier.wait(30)
            return data.create_view(own, model, ENV)

    with ThreadPoolExecutor(16) as pool:
        assert not any(pool.map(create, range(16)))


def test_a_target_without_columns_cannot_be_made(conn: psycopg.Connection[Any]) -> None:
    with pytest.raises(SchemaMismatchError, match=r"no columns are declared.*Target\(columns="):
        data.ensure_target(conn, model_of(write_mode="append"), ENV)


def test_a_view_in_the_place_of_a_table_is_refused(conn: psycopg.Connection[Any]) -> None:
    conn.execute("CREATE SCHEMA shop; CREATE VIEW shop.t AS SELECT 1::bigint AS id")
    with pytest.raises(SchemaMismatchError, match="it is a view, not a table"):
        data.ensure_target(conn, model_of(ID), ENV)


def test_a_type_that_does_not_exist_is_named(conn: psycopg.Connection[Any]) -> None:
    with pytest.raises(DataError, match=r'shop\.t: creating the target: type "shop\.mood" does not exist'):
        data.ensure_target(conn, model_of(ID, Column("v", "shop.mood")), ENV)
    assert conn.execute("SELECT to_regnamespace('shop')").fetchone() == (None,)


def test_a_target_can_be_made_inside_a_transaction(conn: psycopg.Connection[Any]) -> None:
    with pytest.raises(RuntimeError), conn.transaction():  # noqa: PT012
        data.ensure_target(conn, model_of(ID), ENV)
        raise RuntimeError
    assert conn.execute("SELECT to_regclass('shop.t')").fetchone() == (None,)


# Views


def _view(query: str, *columns: Column, **fields: Any) -> Model:
    return Model(
        target=Target(schema="shop", name="v", columns=columns),
        materialization=Materialization.VIEW,
        query=query,
        **fields,
    )


def test_a_view_is_made_and_replaced(conn: psycopg.Connection[Any]) -> None:
    source = {"upstream": [Source("shop.t")]}
    data.ensure_target(conn, model_of(ID, Column("v", "text")), ENV)
    write(conn, model_of(ID, Column("v", "text")), [{"id": 1, "v": "50%"}])
    view = _view("SELECT id FROM {t} WHERE v LIKE '5%' -- %", **source, description="a view")
    assert data.create_view(conn, view, ENV) is False
    assert rows(conn, view) == [(1,)]
    assert data.create_view(conn, _view("SELECT id, v FROM {t};", **source), ENV) is False
    assert rows(conn, view) == [(1, "50%")]


def test_a_view_whose_columns_changed_is_dropped_and_made_with_its_grants(
    conn: psycopg.Connection[Any],
) -> None:
    data.create_view(conn, _view("SELECT 1 AS a, 2 AS b"), ENV)
    conn.execute("GRANT SELECT ON shop.v TO PUBLIC")
    assert data.create_view(conn, _view("SELECT 'x' AS a"), ENV) is True
    assert conn.execute("SELECT has_table_privilege('pg_monitor', 'shop.v', 'SELECT')").fetchone() == (True,)
    conn.execute("CREATE VIEW shop.w AS SELECT * FROM shop.v")
    with pytest.raises(
        DataError, match=r"cannot be dropped: view shop.w depends on view shop.v.*Remedy: drop what depends"
    ):
        data.create_view(conn, _view("SELECT 1 AS z"), ENV)
    assert conn.execute("SELECT * FROM shop.w").fetchall() == [("x",)]


def test_a_view_has_to_give_the_declared_columns(conn: psycopg.Connection[Any]) -> None:
    columns = (Column("a", "integer", description="the first"), Column("b", "numeric"))
    with pytest.raises(
        SchemaMismatchError,
        match=r"'b' is declared and the query does not give it; column 'c' is not declared",
    ):
        data.create_view(conn, _view("SELECT 1 AS a, 2 AS c", *columns), ENV)
    with pytest.raises(SchemaMismatchError, match="'a' is declared integer and the query gives bigint"):
        data.create_view(conn, _view("SELECT 1::bigint AS a, 2.0 AS b", *columns), ENV)
    data.create_view(conn, _view("SELECT 1 AS a, 2.0::numeric(3,1) AS b", *columns), ENV)
    assert conn.execute("SELECT col_description('shop.v'::regclass, 1)").fetchone() == ("the first",)


def test_a_view_cannot_take_the_place_of_a_table(conn: psycopg.Connection[Any]) -> None:
    conn.execute("CREATE SCHEMA shop; CREATE TABLE shop.v (a integer)")
    with pytest.raises(SchemaMismatchError, match="is a table, not a view"):
        data.create_view(conn, _view("SELECT 1 AS a"), ENV)


def test_a_view_of_what_is_not_there_says_so(conn: psycopg.Connection[Any]) -> None:
    with pytest.raises(SchemaMismatchError, match=r'shop\.v: creating the view: relation "shop\.t" does not exist'):
        data.create_view(conn, _view("SELECT * FROM {t}", upstream=[Source("shop.t")]), ENV)


# Preflight


def _runs_after(conn: psycopg.Connection[Any], statements: tuple[str, ...]) -> None:
    for statement in statements:
        conn.execute(statement)


def test_preflight_gives_the_statements_that_are_missing(
    conn: psycopg.Connection[Any], limited: psycopg.Connection[Any]
) -> None:
    model = model_of(ID, Column("v", "text"), write_mode="upsert")
    found = data.preflight(limited, model, ENV)
    assert found.grants == (
        'CREATE SCHEMA "shop" AUTHORIZATION "clerk"',
        f'GRANT TEMPORARY ON DATABASE "{conn.info.dbname}" TO "clerk"',
    )
    with pytest.raises(MissingPrivilegeError, match="have an owner run\n  CREATE SCHEMA"):
        found.require()
    data.ensure_target(conn, model, ENV)
    found = data.preflight(limited, model, ENV)
    assert found.grants == (
        'GRANT USAGE ON SCHEMA "shop" TO "clerk"',
        f'GRANT TEMPORARY ON DATABASE "{conn.info.dbname}" TO "clerk"',
        'GRANT INSERT, SELECT, UPDATE ON "shop"."t" TO "clerk"',
    )
    _runs_after(conn, found.grants)
    assert data.preflight(limited, model, ENV).grants == ()
    data.ensure_target(limited, model, ENV)
    assert write(limited, model, [{"id": 1, "v": "a"}]).rows_changed == 1


@pytest.mark.parametrize("mode", ["append", "upsert", "recreate_partition", "truncate", "recreate"])
def test_what_preflight_asks_for_is_enough_to_write(
    conn: psycopg.Connection[Any], limited: psycopg.Connection[Any], mode: str
) -> None:
    at = [Column("at", "timestamptz", partition_on=True)] if mode == "recreate_partition" else []
    model = model_of(ID, *at, write_mode=mode, checks=[{"kind": "not_null", "columns": "id"}])
    data.ensure_target(conn, model, ENV)
    _runs_after(conn, data.preflight(limited, model, ENV).grants)
    assert data.preflight(limited, model, ENV).grants == ()
    from write_helpers import NOON, WHOLE, WINDOW

    unit = WINDOW if at else WHOLE
    with limited.transaction():
        data.write(limited, model, ENV, unit, [{"id": 1, **({"at": NOON} if at else {})}])
        assert data.run_checks(limited, model, ENV, unit).failures == ()


def test_preflight_names_what_a_query_may_not_read(
    conn: psycopg.Connection[Any], limited: psycopg.Connection[Any]
) -> None:
    data.ensure_target(conn, model_of(ID, name="source"), ENV)
    target = model_of(ID)
    data.ensure_target(conn, target, ENV)
    found = data.preflight(limited, target, ENV, reads=[model_of(ID, name="source").identity])
    assert 'GRANT SELECT ON "shop"."source" TO "clerk"' in found.grants


def test_preflight_notes_what_changes_a_write(conn: psycopg.Connection[Any]) -> None:
    data.ensure_target(conn, model_of(ID, Column("of", "bigint")), ENV)
    conn.execute(
        "ALTER TABLE shop.t ADD CONSTRAINT fk FOREIGN KEY (of) REFERENCES shop.t;CREATE FUNCTION shop.f() RETURNS "
        "trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';CREATE TRIGGER look BEFORE INSERT ON shop.t FOR EACH "
        "ROW EXECUTE FUNCTION shop.f()"
    )
    notes = data.preflight(conn, model_of(ID), ENV).notes
    assert notes == (
        "trigger 'look' fires on writes and may change or drop rows",
        "foreign key 'fk': rows need their counterparts in shop.t",
    )


@pytest.mark.parametrize("mode", ["append", "upsert", "recreate_partition", "truncate", "recreate"])
def test_a_foreign_table_is_refused_before_rows_move(conn: psycopg.Connection[Any], mode: str) -> None:
    conn.execute(
        "CREATE SCHEMA shop; CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing; "
        "CREATE FOREIGN TABLE shop.t (id bigint NOT NULL, at timestamptz) SERVER nowhere"
    )
    try:
        at = [Column("at", "timestamptz", partition_on=True)] if mode == "recreate_partition" else []
        model = model_of(ID, *at, write_mode=mode)
        with pytest.raises(DataError, match=r"(?s)shop\.t.*it is a foreign table, not a table\. Remedy"):
            data.ensure_target(conn, model, ENV)
        assert data.preflight(conn, model, ENV).unusable == (
            "the target shop.t is a foreign table, not a table: drop it, or name another target"
        )
    finally:
        conn.execute("DROP FOREIGN DATA WRAPPER nothing CASCADE")


def test_preflight_in_a_suffixed_environment_looks_there(limited: psycopg.Connection[Any]) -> None:
    found = data.preflight(limited, model_of(ID), Environment(suffix="pr9"))
    assert found.grants == ('CREATE SCHEMA "shop_pr9" AUTHORIZATION "clerk"',)
