"""One database for all tests of a module that clean up themselves: making one costs more than most tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql


@pytest.fixture(scope="module")
def module_db(pg_dsn: str) -> Iterator[str]:
    """DSN of a database that the tests of one module share."""
    name = sql.Identifier(f"m_{uuid.uuid4().hex}")
    with psycopg.connect(pg_dsn, autocommit=True) as conn:
        # Copying files is the cheaper way to an empty database; PostgreSQL 14 knows no other.
        strategy = sql.SQL(" STRATEGY FILE_COPY" if conn.info.server_version >= 150000 else "")
        conn.execute(sql.SQL("CREATE DATABASE {}{}").format(name, strategy))
    try:
        yield psycopg.conninfo.make_conninfo(pg_dsn, dbname=name.as_string().strip('"'))
    finally:
        with psycopg.connect(pg_dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
