"""What one test leaves behind in a database is never seen by the next."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from database_pool import Databases

LEFT = (
    "CREATE TABLE public.t (n int)",
    "CREATE SCHEMA shop; CREATE VIEW shop.v AS SELECT 1",
    "CREATE DOMAIN public.positive AS int CHECK (VALUE > 0)",
    "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone TO ''Asia/Tokyo''', current_database()); END $$",
    "SELECT lo_create(0)",
    "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO public",
    "REVOKE USAGE ON SCHEMA public FROM public",
)
IN_LIBRARY = (
    "CREATE TABLE z_bollhav.orders_0123456789abcdef (n int)",
    "INSERT INTO z_bollhav.library (full_name, upstream, model_type) VALUES ('a.b', '{}', 'TABLE')",
    "ALTER TABLE z_bollhav.library ALTER COLUMN upstream DROP NOT NULL",
    "ALTER TABLE z_bollhav.errors DROP COLUMN details",
    "DROP TABLE z_bollhav.upkeep",
    "DROP SCHEMA z_bollhav CASCADE",
    "CREATE OR REPLACE FUNCTION z_bollhav.g() RETURNS int LANGUAGE sql AS 'SELECT 1'",
)
_SEEN = (
    "SELECT (SELECT count(*) FROM pg_class WHERE oid >= 16384 AND relnamespace::regnamespace::text !~ '^pg_'), "
    "(SELECT count(*) FROM pg_proc WHERE oid >= 16384), (SELECT count(*) FROM pg_largeobject_metadata), "
    "(SELECT count(*) FROM pg_default_acl), current_setting('timezone') <> 'Asia/Tokyo', "
    "(SELECT nspacl::text FROM pg_namespace WHERE nspname = 'public')"
)


def seen(dsn: str) -> tuple[object, ...] | None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        return conn.execute(_SEEN).fetchone()  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def pool(pg_dsn: str) -> Iterator[Databases]:
    found = Databases(pg_dsn)
    yield found
    found.close()


@pytest.mark.parametrize("statement", LEFT)
def test_an_empty_database_is_empty_again(pool: Databases, statement: str) -> None:
    with pool.empty() as dsn:
        new = seen(dsn)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(statement)  # type: ignore[arg-type]
    with pool.empty() as dsn:
        assert seen(dsn) == new


@pytest.mark.parametrize("statement", IN_LIBRARY)
def test_a_library_is_as_new_again(pool: Databases, statement: str) -> None:
    with pool.library() as dsn:
        new = seen(dsn)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(statement)  # type: ignore[arg-type]
    with pool.library() as dsn:
        assert seen(dsn) == new
        with psycopg.connect(dsn, autocommit=True) as conn:
            assert conn.execute("SELECT count(*) FROM z_bollhav.library").fetchone() == (0,)


def test_a_session_that_stays_open_is_ended(pool: Databases) -> None:
    with pool.empty() as dsn:
        forgotten = psycopg.connect(dsn)
        forgotten.execute("CREATE SCHEMA open")
    with pool.empty() as dsn, pytest.raises(psycopg.OperationalError):
        forgotten.execute("SELECT 1")
    forgotten.close()
