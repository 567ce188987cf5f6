"""Servers and databases that live as long as a test."""

from __future__ import annotations

import atexit
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from bollhav_provider.testing.postgres import PostgresServer

#: A server to use instead of starting one; its role must be able to create databases.
VARIABLE = "BOLLHAV_TEST_DSN"


@contextmanager
def scratch_server() -> Iterator[str]:
    """Give the DSN of the server that ``BOLLHAV_TEST_DSN`` names, or of one that is started for the block.

    Raises:
        ConfigurationError: no PostgreSQL server is installed; the text names the ways to get one.
    """
    if given := os.environ.get(VARIABLE):
        yield given
        return
    server = _server()
    try:
        yield server.start()
    finally:
        server.destroy()


@lru_cache(maxsize=1)
def lasting_server() -> str:
    """Return the DSN of a server that ends with this process."""
    if given := os.environ.get(VARIABLE):
        return given
    server = _server()
    atexit.register(server.destroy)
    return server.start()


def _server() -> PostgresServer:
    return PostgresServer(Path(tempfile.mkdtemp(prefix="bollhav-testing-")), durable=False)


@contextmanager
def scratch_database(dsn: str) -> Iterator[str]:
    """Give the DSN of an empty database on a server; it is dropped after the block."""
    name = f"bollhav_test_{uuid.uuid4().hex}"
    with psycopg.connect(dsn, autocommit=True) as conn:
        # A copy of files takes a quarter of the time of the default, which writes a log of it all.
        copy = sql.SQL("STRATEGY FILE_COPY") if conn.info.server_version >= 150000 else sql.SQL("")
        conn.execute(sql.SQL("CREATE DATABASE {} {}").format(sql.Identifier(name), copy))
    try:
        yield make_conninfo(dsn, dbname=name)
    finally:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
