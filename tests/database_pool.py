"""Databases for tests, made once and handed on clean: making one, and a library in it, costs more than most tests.

A database that was given back is emptied and compared with what it was like when it was new. When anything is
left that a test could notice, it is dropped and another one is made.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import sql

SCHEMA = "z_bollhav"

#: What a database holds beside what every new one has; ``kept`` is left out.
_CONTENT = """
    SELECT 'relations', count(*)::text FROM pg_class WHERE oid >= 16384 AND relkind <> 'i'
       AND relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname = ANY(%(kept)s) OR nspname ~ '^pg_')
    UNION ALL SELECT 'functions', count(*)::text FROM pg_proc WHERE oid >= 16384
       AND pronamespace <> ALL (SELECT oid FROM pg_namespace WHERE nspname = ANY(%(kept)s))
    UNION ALL SELECT 'types', count(*)::text FROM pg_type WHERE oid >= 16384
       AND typnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname = ANY(%(kept)s) OR nspname ~ '^pg_')
    UNION ALL SELECT 'schemas', count(*)::text FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> ALL (%(kept)s)
    UNION ALL SELECT 'schema public', coalesce(nspacl::text, '') || nspowner::regrole FROM pg_namespace
       WHERE nspname = 'public'
    UNION ALL SELECT 'extensions', count(*)::text FROM pg_extension
    UNION ALL SELECT 'triggers on events', count(*)::text FROM pg_event_trigger
    UNION ALL SELECT 'publications', count(*)::text FROM pg_publication
    UNION ALL SELECT 'servers', count(*)::text FROM pg_foreign_server
    UNION ALL SELECT 'languages', count(*)::text FROM pg_language
    UNION ALL SELECT 'large objects', count(*)::text FROM pg_largeobject_metadata
    UNION ALL SELECT 'default privileges', count(*)::text FROM pg_default_acl
    UNION ALL SELECT 'prepared', count(*)::text FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL SELECT 'settings', count(*)::text FROM pg_db_role_setting s, pg_database d
       WHERE d.oid = s.setdatabase AND d.datname = current_database()
    UNION ALL SELECT 'privileges', coalesce(datacl::text, '') FROM pg_database WHERE datname = current_database()
"""
#: The library's tables, columns, functions, triggers and privileges, each as it was made: a change gives a new version.
_LIBRARY = """
    SELECT 'table', c.relname, coalesce(c.relacl::text, '') || c.relowner FROM pg_class c
        WHERE c.relnamespace = {0} AND c.relkind <> 'S'
    UNION ALL SELECT 'column', a.attrelid::text || a.attname, a.attnotnull || a.atttypid::text || a.attisdropped
        || a.atthasdef FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relnamespace = {0}
    UNION ALL SELECT 'function', p.oid::text, p.xmin || coalesce(p.proacl::text, '') FROM pg_proc p
        WHERE p.pronamespace = {0}
    UNION ALL SELECT 'trigger', t.oid::text, t.tgenabled::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE c.relnamespace = {0}
    UNION ALL SELECT 'installed', i.file, i.digest FROM {1}.installed i
    UNION ALL SELECT 'schema', '', coalesce(n.nspacl::text, '') || n.nspowner FROM pg_namespace n WHERE n.oid = {0}
""".replace("{0}", f"'{SCHEMA}'::regnamespace").replace("{1}", SCHEMA)

_EMPTY = """
    DO $$
    DECLARE
        found name;
    BEGIN
        SET LOCAL client_min_messages = error;
        FOR found IN SELECT nspname FROM pg_namespace
                      WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public', '{kept}') LOOP
            EXECUTE format('DROP SCHEMA %I CASCADE', found);
        END LOOP;
        IF EXISTS (SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace)
           OR EXISTS (SELECT FROM pg_type WHERE typnamespace = 'public'::regnamespace)
           OR EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'public'::regnamespace) THEN
            DROP SCHEMA public CASCADE;
            CREATE SCHEMA public;
            IF current_setting('server_version_num')::int >= 150000 THEN
                ALTER SCHEMA public OWNER TO pg_database_owner;
                GRANT USAGE ON SCHEMA public TO public;
            ELSE
                GRANT ALL ON SCHEMA public TO public;
            END IF;
        END IF;
        EXECUTE format('ALTER DATABASE %I RESET ALL', current_database());
    END $$
"""
_EMPTY_LIBRARY = """
    DO $$
    DECLARE
        found text;
    BEGIN
        SET LOCAL client_min_messages = error;
        SELECT string_agg(oid::regclass::text, ', ') INTO found FROM pg_class
         WHERE relnamespace = 'z_bollhav'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
           AND relname <> ALL (%(tables)s);
        IF found IS NOT NULL THEN
            EXECUTE 'DROP TABLE ' || found || ' CASCADE';
        END IF;
        SELECT string_agg(oid::regprocedure::text, ', ') INTO found FROM pg_proc
         WHERE pronamespace = 'z_bollhav'::regnamespace AND oid <> ALL (%(functions)s);
        IF found IS NOT NULL THEN
            EXECUTE 'DROP FUNCTION ' || found || ' CASCADE';
        END IF;
        SELECT string_agg(oid::regclass::text, ', ') INTO found FROM pg_class
         WHERE relnamespace = 'z_bollhav'::regnamespace AND relkind = 'r' AND relname <> 'installed';
        EXECUTE 'TRUNCATE ' || found || ' RESTART IDENTITY';
    END $$
"""
_END_OTHERS = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


class Databases:
    """Hands databases out, and takes them back.

    Args:
        dsn: of a superuser on the server.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._free: dict[bool, list[tuple[str, Any]]] = {False: [], True: []}

    @contextlib.contextmanager
    def empty(self) -> Iterator[str]:
        """Lend an empty database; yields its DSN."""
        with self._lent(library=False) as dsn:
            yield dsn

    @contextlib.contextmanager
    def library(self) -> Iterator[str]:
        """Lend a database that holds an empty library and nothing else; yields its DSN."""
        with self._lent(library=True) as dsn:
            yield dsn

    def close(self) -> None:
        """Drop the databases that nobody has."""
        for names in self._free.values():
            for name, _ in names:
                self._drop(name)
            names.clear()

    @contextlib.contextmanager
    def _lent(self, *, library: bool) -> Iterator[str]:
        free = self._free[library]
        name, new = free.pop() if free else self._make(library=library)
        try:
            yield self._dsn_of(name)
        finally:
            try:
                clean = self._clean(name, new, library=library)
            except psycopg.Error:
                clean = False
            if clean:
                free.append((name, new))
            else:
                self._drop(name)

    def _dsn_of(self, name: str) -> str:
        return psycopg.conninfo.make_conninfo(self._dsn, dbname=name)

    def _make(self, *, library: bool) -> tuple[str, Any]:
        name = f"t_{uuid.uuid4().hex}"
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            # Copying files is the cheaper way to an empty database; PostgreSQL 14 knows no other.
            strategy = sql.SQL(" STRATEGY FILE_COPY" if conn.info.server_version >= 150000 else "")
            conn.execute(sql.SQL("CREATE DATABASE {}{}").format(sql.Identifier(name), strategy))
        with psycopg.connect(self._dsn_of(name), autocommit=True) as conn:
            if library:
                from bollhav_provider.model import Environment
                from bollhav_provider.state import bootstrap

                bootstrap(conn, Environment())
            return name, _look(conn, library=library)

    def _drop(self, name: str) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _clean(self, name: str, new: Any, *, library: bool) -> bool:
        """Empty a database; return whether it is as it was when it was new."""
        with psycopg.connect(self._dsn_of(name), autocommit=True) as conn:
            _end_others(conn)
            conn.execute(_EMPTY.replace("{kept}", SCHEMA if library else ""))  # type: ignore[arg-type]
            if library:
                tables = [row[1] for row in new[1] if row[0] == "table"]
                functions = [int(row[1]) for row in new[1] if row[0] == "function"]
                text = _EMPTY_LIBRARY.replace("%(tables)s", _array(tables, "name"))
                text = text.replace("%(functions)s", _array(functions, "oid"))
                conn.execute(text)  # type: ignore[arg-type]
            return bool(_look(conn, library=library) == new)


def _array(values: list[Any], kind: str) -> str:
    return sql.SQL("{}::{}[]").format(sql.Literal(values), sql.SQL(kind)).as_string(None)  # type: ignore[arg-type]


def _look(conn: psycopg.Connection[Any], *, library: bool) -> tuple[frozenset[Any], frozenset[Any]]:
    kept = ["information_schema", *([SCHEMA] if library else [])]
    content = frozenset(conn.execute(_CONTENT, {"kept": kept}).fetchall())
    return content, frozenset(conn.execute(_LIBRARY).fetchall()) if library else frozenset()


def _end_others(conn: psycopg.Connection[Any]) -> None:
    """End every other session of the database, and wait until their locks are gone."""
    deadline = time.monotonic() + 10
    while conn.execute(_END_OTHERS).fetchone() != (0,):
        if time.monotonic() > deadline:
            raise psycopg.OperationalError("sessions of a test do not end")
        time.sleep(0.01)
