"""The library's schema: made once, completed additively, never locked against readers afterwards.

``bootstrap`` and ``ensure_state_table`` first look at the catalogue and do nothing more when everything is
there: an idle reader in a transaction then blocks nobody. What is missing is made under one transaction-level
advisory lock, so that any number of first runs at once succeed, also behind a transaction pooler.

Function files ``sql/*.sql`` are installed when the digest of their content is not a recorded one. They hold

``@schema@``
    the library's schema, quoted as an identifier,
``@schema_literal@``
    the same as a string literal,
``@digest@``
    eight hex digits of the file's digest: functions named with it never replace those of another version of
    this package, which may be running at the same time on the same library,
``@lock_class@``
    the first key of this project's own two-key advisory locks.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, LiteralString, cast

import psycopg
from psycopg import sql

from bollhav_provider.exceptions import StateError
from bollhav_provider.state.refs import Conn, StateRef
from bollhav_provider.state.shapes import FIXED, FIXED_INDEXES, OUTSTANDING, STATE, Shape, outstanding_index, raw

if TYPE_CHECKING:
    from bollhav_provider.model import Environment

log = logging.getLogger(__name__)

#: First key of our two-key advisory locks; one-key locks belong to the shared protocol for units and models.
LOCK_CLASS = 0x626F6C6C
#: DDL waits this long for a lock before it steps back and lets others pass, and for this long in all.
_LOCK_TIMEOUT_MS = 1_000
_GIVE_UP_AFTER_S = 30.0

_COLUMNS_QUERY: LiteralString = """
    SELECT c.relname, a.attname, a.attnotnull
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE n.nspname = %s AND c.relname = ANY(%s) AND c.relkind IN ('r', 'p')
"""
_INDEXES_QUERY: LiteralString = """
    SELECT c.relname, i.indisunique, pg_catalog.pg_get_indexdef(i.indexrelid),
           pg_catalog.pg_get_expr(i.indpred, i.indrelid)
    FROM pg_catalog.pg_index i
    JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = ANY(%s) AND i.indisvalid
"""


@dataclass(frozen=True, slots=True)
class FunctionFile:
    """One file of server functions: its name, its content, and the digest of that."""

    name: str
    text: str
    digest: str

    def render(self, schema: str) -> bytes:
        """Return the script for one schema."""
        return (
            self.text.replace("@schema@", sql.Identifier(schema).as_string())
            .replace("@schema_literal@", sql.Literal(schema).as_string())
            .replace("@digest@", self.digest)
            .replace("@lock_class@", str(LOCK_CLASS))
            .encode()
        )


@cache
def function_files() -> tuple[FunctionFile, ...]:
    """Return the package's function files, in order of their names."""
    found = []
    for entry in resources.files("bollhav_provider.state").joinpath("sql").iterdir():
        if entry.name.endswith(".sql"):
            text = entry.read_text(encoding="utf-8")
            found.append(FunctionFile(entry.name, text, hashlib.sha256(text.encode()).hexdigest()[:8]))
    return tuple(sorted(found, key=lambda f: f.name))


@cache
def digest_of(file: str) -> str:
    """Return the digest that the functions of ``file`` carry in their names."""
    return next(f.digest for f in function_files() if f.name == file)


def function(schema: str, name: str, file: str) -> sql.Identifier:
    """Return the qualified name of a function that is named ``<name>_@digest@`` in ``file``."""
    return sql.Identifier(schema, f"{name}_{digest_of(file)}")


def bootstrap(conn: Conn, env: Environment) -> None:
    """Make, or complete, the library's schema with its tables and functions.

    Two catalogue look-ups when everything is there. Safe from any number of processes at once.
    Rule: Semantics, library.

    Args:
        conn: in autocommit.
        env: names the schema.

    Raises:
        StateError: a privilege is missing, or a lock on an existing table could not be had.
    """
    schema = env.state_schema
    with naming_grants(conn, schema):
        if _is_complete(conn, schema):
            return
        with_ddl_lock(conn, schema, lambda: _build(conn, schema), f"the library schema {schema}")


@contextlib.contextmanager
def naming_grants(conn: Conn, schema: str) -> Iterator[None]:
    """Say which statements an owner has to run, where the library refuses this role.

    Raises:
        StateError: a privilege is missing.
    """
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as exc:
        raise StateError(
            f"the role {conn.info.user!r} may not use the library {schema}: {exc.diag.message_primary}. "
            f"An owner has to run: {grants(schema, conn.info.user)}"
        ) from exc


def grants(schema: str, role: str) -> str:
    """Return the statements that let a role work with an existing library."""
    names = {"schema": sql.Identifier(schema), "role": sql.Identifier(role)}
    statements: tuple[LiteralString, ...] = (
        "GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}",
        "GRANT SELECT, INSERT, UPDATE, DELETE, TRIGGER ON ALL TABLES IN SCHEMA {schema} TO {role}",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
    )
    return "; ".join(sql.SQL(text).format(**names).as_string() for text in statements)


def ensure_state_table(conn: Conn, ref: StateRef) -> None:
    """Make, or complete, one state table with its indexes. Catalogue look-ups only when nothing lacks.

    Raises:
        StateError: as :func:`bootstrap`.
    """
    if not _state_table_steps(conn, ref):
        return

    def build() -> None:
        for statement in _state_table_steps(conn, ref):
            conn.execute(statement)

    with_ddl_lock(conn, ref.schema, build, f"the state table {ref.schema}.{ref.table} of {ref.full_name}")


def with_ddl_lock(conn: Conn, schema: str, build: Callable[[], None], what: str) -> None:
    """Run ``build`` in one transaction under the schema's DDL lock.

    A lock on an existing table that is not had within a second is given up and asked for again: waiting in
    the queue would block every reader that comes after us.

    Args:
        conn: in autocommit.
        schema: the library's schema.
        build: looks again and does what is still missing.
        what: names the thing in errors.
    """
    deadline = time.monotonic() + _GIVE_UP_AFTER_S
    while True:
        try:
            with conn.transaction():
                # whoever had the lock before us must be seen, whatever the session's default is
                conn.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                conn.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK_CLASS, schema))
                conn.execute(raw(f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}"))
                conn.execute("SET LOCAL check_function_bodies = off")
                conn.execute("SET LOCAL client_min_messages = warning")
                build()
            return
        except psycopg.errors.LockNotAvailable as exc:
            if time.monotonic() > deadline:
                raise StateError(
                    f"{what} needs a change that other sessions' open transactions do not let through "
                    f"(waited {_GIVE_UP_AFTER_S:.0f} s): end the sessions that are idle in a transaction on "
                    "it, then run again."
                ) from exc
            time.sleep(random.uniform(0.1, 0.4))
        except psycopg.errors.InsufficientPrivilege as exc:
            raise StateError(
                f"{what} cannot be made by the role {conn.info.user!r}: {str(exc).strip()}. Let the owner run it once, "
                f"or: {_making_grants(conn, schema)}"
            ) from exc


def _making_grants(conn: Conn, schema: str) -> str:
    """Return what lets a role make what is missing: the schema with all that is in it, or tables in it."""
    names = {
        "schema": sql.Identifier(schema),
        "database": sql.Identifier(conn.info.dbname),
        "role": sql.Identifier(conn.info.user),
    }
    row = conn.execute("SELECT to_regnamespace(%s) IS NULL", (names["schema"].as_string(conn),)).fetchone()
    if row and row[0]:
        return sql.SQL("GRANT CREATE ON DATABASE {database} TO {role}").format(**names).as_string(conn) + "."
    granted = sql.SQL("GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}").format(**names).as_string(conn)
    return f"{granted}; existing tables must belong to a role that {conn.info.user} is a member of."


def _columns(conn: Conn, schema: str, tables: list[str]) -> dict[str, dict[str, bool]]:
    found: dict[str, dict[str, bool]] = {}
    for table, column, not_null in conn.execute(_COLUMNS_QUERY, (schema, tables)):
        found.setdefault(table, {})[column] = not_null
    return found


def _lacks(shape: Shape, present: dict[str, bool] | None) -> bool:
    if present is None:
        return True
    return any(name not in present for name in shape.column_names) or any(present[n] for n in shape.relaxed)


def _is_complete(conn: Conn, schema: str) -> bool:
    present = _columns(conn, schema, list(FIXED))
    if any(_lacks(shape, present.get(name)) for name, shape in FIXED.items()):
        return False
    return not _missing_files(conn, schema)


def _missing_files(conn: Conn, schema: str) -> list[FunctionFile]:
    query = sql.SQL("SELECT file, digest FROM {}").format(sql.Identifier(schema, "installed"))
    recorded = set(conn.execute(query).fetchall())
    return [f for f in function_files() if (f.name, f.digest) not in recorded]


def _build(conn: Conn, schema: str) -> None:
    if not conn.execute("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", (schema,)).fetchone():
        conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    present = _columns(conn, schema, list(FIXED))
    for name, shape in FIXED.items():
        table = sql.Identifier(schema, name)
        if name not in present:
            conn.execute(shape.create(table))
        elif (completion := shape.complete(table, present[name])) is not None:
            conn.execute(completion)
    indexes = conn.execute(_INDEXES_QUERY, (schema, list(FIXED_INDEXES))).fetchall()
    for table_name, wanted in FIXED_INDEXES.items():
        have = [definition for t, _, definition, _ in indexes if t == table_name]
        for index, columns in wanted:
            if not any(definition.endswith(columns) for definition in have):
                conn.execute(
                    sql.SQL("CREATE INDEX {} ON {} {}").format(
                        sql.Identifier(index), sql.Identifier(schema, table_name), raw(columns)
                    )
                )
    files = _missing_files(conn, schema)
    for file in files:
        conn.execute(file.render(schema))
        conn.execute(
            sql.SQL("INSERT INTO {} (file, digest) VALUES (%s, %s)").format(
                sql.Identifier(schema, "installed")
            ),
            (file.name, file.digest),
        )
    if files:
        named = ", ".join(f"{file.name} {file.digest}" for file in files)
        log.info("the library %s is made, or brought up to date, with %s", schema, named)


def _state_table_steps(conn: Conn, ref: StateRef) -> list[sql.Composed]:
    """Return the statements that ``ref``'s table lacks; empty when it is complete."""
    present = _columns(conn, ref.schema, [ref.table]).get(ref.table)
    indexes = conn.execute(_INDEXES_QUERY, (ref.schema, [ref.table])).fetchall()
    steps: list[sql.Composed] = []
    if present is None:
        steps.append(STATE.create(ref.ident))
        # now, while nobody writes: on a busy table it has to wait
        steps.append(
            sql.SQL("CREATE INDEX {} ON {} {}").format(
                sql.Identifier(outstanding_index(ref.table)), ref.ident, raw(OUTSTANDING)
            )
        )
    elif (completion := STATE.complete(ref.ident, present)) is not None:
        steps.append(completion)
    # a table whose peer made it already has the first two under names of the peer's
    if present is not None and not any(
        unique and predicate is None and definition.endswith("(since, until)")
        for _, unique, definition, predicate in indexes
    ):
        steps.append(sql.SQL("CREATE UNIQUE INDEX ON {} (since, until)").format(ref.ident))
    if not any(unique and _is_windowless_predicate(predicate) for _, unique, _, predicate in indexes):
        steps.append(
            sql.SQL("CREATE UNIQUE INDEX ON {} ((since IS NULL)) WHERE since IS NULL").format(ref.ident)
        )
    return steps


def _is_windowless_predicate(predicate: Any) -> bool:
    return (
        isinstance(predicate, str) and predicate.replace("(", "").replace(")", "").strip() == "since IS NULL"
    )


def execute(conn: Conn, query: sql.Composable, parameters: object = None) -> psycopg.Cursor[Any]:
    """Run a composed statement; one place for the cast that psycopg's types ask for."""
    return conn.execute(cast(sql.Composed, query), cast(Any, parameters))
