"""A deployment's PostgreSQL: a server of its own or one that is given, and two databases on it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import sql

from tools import bootstrap
from tools.console import Sentence
from tools.demo.places import Places
from tools.processes import Guarded

_PATIENCE = 90.0


@contextlib.contextmanager
def databases(places: Places, given: str | None, keep: bool) -> Iterator[str]:
    """Start a server unless one is given, make the two databases there, and yield the server's connection string.

    Args:
        places: of the deployment.
        given: connection string of a server to use instead; its role must be able to create databases.
        keep: continue from databases that are there already, and leave them at the end.

    Raises:
        Sentence: the server does not start, cannot be reached or does not let us.
    """
    with contextlib.nullcontext(given) if given else _own_server(places, keep) as server:
        _make(server, places, keep)
        try:
            yield server
        finally:
            if given and not keep:
                _drop(server, places)


@contextlib.contextmanager
def _own_server(places: Places, keep: bool) -> Iterator[str]:
    server = places.server()
    if not keep:
        server.destroy()
    log = places.logs / "postgres.log"
    arguments = [str(places.home), *(["--keep"] if keep else [])]
    command = [str(bootstrap.python_of_venv()), "-m", "tools.demo.hold_postgres", *arguments]
    with Guarded(command, environment=bootstrap.environment(), log=log, grace=30) as holder:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                psycopg.connect(server.dsn(), connect_timeout=5).close()
                break
            except psycopg.OperationalError:
                if holder.poll() is not None or time.monotonic() > deadline:
                    raise Sentence(f"PostgreSQL did not start: {last_line(log)}") from None
                time.sleep(0.1)
        yield server.dsn()


def _make(server: str, places: Places, keep: bool) -> None:
    names = (places.warehouse, places.metadata)
    try:
        with psycopg.connect(server, autocommit=True, connect_timeout=10) as conn:
            for name in names:
                exists = conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
                if exists and not keep:
                    conn.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))
                if not exists or not keep:
                    conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    except psycopg.Error as error:
        told = " ".join(str(error).split()).rstrip(".?")
        raise Sentence(f"The databases {' and '.join(names)} cannot be made on the server: {told}.") from None


def _drop(server: str, places: Places) -> None:
    with contextlib.suppress(psycopg.Error), psycopg.connect(server, autocommit=True, connect_timeout=10) as conn:
        for name in (places.warehouse, places.metadata):
            conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def last_line(log: Path) -> str:
    """Return the last line of a log that says anything."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")
