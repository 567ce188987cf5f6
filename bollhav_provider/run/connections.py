"""Where a run's database connections come from.

A connection of a run is psycopg's, in autocommit, with TimeZone UTC and an application name that says who it
is. The caller of the protocol's methods owns and closes what it gets.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.model import Model, Source, SourceModel

#: What every variable falls back to (Semantics: the DSN of the deployment).
DSN_VARIABLE = "BOLLHAV_DSN"
#: Refusals that heal by themselves: too many clients, the server starts up, stops or recovers.
_TRANSIENT = frozenset({"53300", "57P03", "57P01", "57P02"})
#: What libpq says of a connection string without quoting any part of it that could be secret.
_HARMLESS = re.compile(r'invalid (?:URI query parameter|connection option): "\w+"|invalid connection option "\w+"')


@runtime_checkable
class Connections(Protocol):
    """Opens the connections of one run. Every call opens a new one, which the caller closes."""

    def state(self, model: Model | None = None) -> psycopg.Connection[Any]:
        """Connect to the database of library and state (the model's own, when its ``State`` names one)."""
        ...

    def target(self, model: Model) -> psycopg.Connection[Any]:
        """Connect to the database of the model's target."""
        ...

    def source(self, source: Source, model: Model) -> psycopg.Connection[Any]:
        """Connect to the database that ``source`` of ``model`` lies in."""
        ...

    def same_database(self, model: Model) -> bool:
        """Return whether one transaction can hold the model's target and its state."""
        ...

    def source_in_target(self, source: Source, model: Model) -> bool:
        """Return whether ``source`` is read from the database of the model's target."""
        ...

    def api(self, source: Source, model: Model) -> Any:
        """Return what the ``conn_id`` of a ``SourceApi`` stands for, or None where nothing resolves it."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """How to connect.

    Attributes:
        connect_timeout: seconds to wait for the server.
        attempts: tries, with jitter between them, when the server has too many clients or is starting.
        prepared: let psycopg prepare statements it sees often.
        statement_timeout: seconds; 0 for none.
        lock_timeout: seconds; 0 for none.
    """

    connect_timeout: int = 10
    attempts: int = 5
    prepared: bool = True
    statement_timeout: int = 0
    lock_timeout: int = 0
    pause: Callable[[float], None] = time.sleep


def connect(
    dsn: str, application_name: str = "bollhav", options: ConnectOptions | None = None
) -> psycopg.Connection[Any]:
    """Open a connection as this project uses them: autocommit, UTC, named.

    Args:
        dsn: URI or key/value connection string.
        application_name: shown in ``pg_stat_activity``; cut at 63 bytes.
        options: time-outs and tries.

    Raises:
        ConfigurationError: ``dsn`` is no connection string.
        psycopg.OperationalError: the server cannot be reached, or stays full after the last try.
    """
    parts_of(dsn)
    options = options or ConnectOptions()
    for attempt in range(1, options.attempts + 1):
        try:
            conn = psycopg.connect(
                dsn,
                autocommit=True,
                connect_timeout=options.connect_timeout,
                application_name=application_name.encode()[:63].decode(errors="ignore"),
                prepare_threshold=5 if options.prepared else None,
                keepalives_idle=30,
                keepalives_interval=10,
                keepalives_count=3,
            )
        except psycopg.OperationalError as exc:
            if attempt == options.attempts or not _heals(exc):
                raise
            options.pause(random.uniform(0.1, 0.5) * 2**attempt)
        else:
            try:
                _prepare_session(conn, options)
            except BaseException:
                conn.close()
                raise
            return conn
    raise AssertionError("unreachable")


def _prepare_session(conn: psycopg.Connection[Any], options: ConnectOptions) -> None:
    """Set what the project relies on, in one round trip.

    Start-up options would save it, but a transaction pooler refuses those it does not know.
    """
    settings = ["set_config('TimeZone', 'UTC', false)"]
    # A deployment may default to more; what waits for a row's lock here relies on seeing what was committed meanwhile.
    # Only where it is needed, for behind a pooler it stays with the server connection.
    settings.append(
        "CASE WHEN current_setting('default_transaction_isolation') <> 'read committed' "
        "THEN set_config('default_transaction_isolation', 'read committed', false) END"
    )
    for name, seconds in (("statement_timeout", options.statement_timeout), ("lock_timeout", options.lock_timeout)):
        if seconds:
            settings.append(f"set_config('{name}', '{int(seconds)}s', false)")
    # A server process that is busy, or waits for a lock, does not look at its client otherwise: it would go on to the
    # end of a killed worker's statement, holding the unit's lock, for a commit that nobody asks for any more.
    lost_clients = "set_config('client_connection_check_interval', '5s', false)"
    settings.append("pg_catalog.pg_backend_pid()")
    if conn.info.server_version < 140000:
        found = _select(conn, settings)
    else:
        try:
            found = _select(conn, [lost_clients, *settings])
        except psycopg.errors.InvalidParameterValue:
            found = _select(conn, settings)  # not every platform that a server runs on can look
    if found != conn.info.backend_pid:
        # A transaction pooler: the next statement may meet a session that lacks what was prepared.
        conn.prepare_threshold = None


def _select(conn: psycopg.Connection[Any], calls: list[str]) -> Any:
    """Call functions of the catalogue in one round trip; returns what the last one gives. The text is our own."""
    text: Any = "SELECT " + ", ".join(calls)
    row = conn.execute(sql.SQL(text), prepare=False).fetchone()
    return row[-1] if row is not None else None


def _heals(exc: psycopg.OperationalError) -> bool:
    if exc.sqlstate is not None:
        return exc.sqlstate in _TRANSIENT
    text = str(exc).lower()  # libpq gives no SQLSTATE for a refusal during start-up
    return any(
        sign in text
        for sign in (
            "too many clients",
            "too many connections",
            "remaining connection slots",
            "starting up",
            "shutting down",
        )
    )


@dataclass(frozen=True)
class DsnConnections:
    """Connections from connection strings, for the command line and for tests.

    Args:
        dsn: library, state and, unless a model says otherwise, targets and sources.
        environ: where ``dsn_env_var`` of a model, state or source is looked up; the process's by default.
        application_name: shown in ``pg_stat_activity``.
        options: time-outs and tries.
        by_id: connection strings for ``conn_id`` of models, states and sources.
    """

    dsn: str
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    application_name: str = "bollhav"
    options: ConnectOptions = field(default_factory=ConnectOptions)
    by_id: Mapping[str, str] = field(default_factory=dict)

    def state(self, model: Model | None = None) -> psycopg.Connection[Any]:
        return self._connect(self._state_dsn(model), "state")

    def target(self, model: Model) -> psycopg.Connection[Any]:
        return self._connect(self._target_dsn(model), model.full_name)

    def source(self, source: Source, model: Model) -> psycopg.Connection[Any]:
        return self._connect(self._source_dsn(source, model), model.full_name)

    def same_database(self, model: Model) -> bool:
        return same_place(self._state_dsn(model), self._target_dsn(model))

    def source_in_target(self, source: Source, model: Model) -> bool:
        return same_place(self._source_dsn(source, model), self._target_dsn(model))

    def target_place(self, model: Model) -> tuple[str, str]:
        """Return the namespace (``postgres://host:port``) and the database of a model's target, as lineage names them.

        Raises:
            ConfigurationError: there is no such connection.
        """
        return _lineage_place(self._target_dsn(model))

    def source_place(self, source: Source, model: Model) -> tuple[str, str]:
        """Return the same of a relation that a model reads."""
        return _lineage_place(self._source_dsn(source, model))

    def api(self, source: Source, model: Model) -> Any:
        return None

    def _connect(self, dsn: str, what: str) -> psycopg.Connection[Any]:
        return connect(dsn, f"{self.application_name} {what}", self.options)

    def _state_dsn(self, model: Model | None) -> str:
        state = model.state if model is not None else None
        if state is None:
            return self.dsn
        return self._named(model, "state", state.dsn_env_var, state.conn_id)

    def _target_dsn(self, model: Model) -> str:
        return self._named(model, "target", model.target.dsn_env_var, model.target.conn_id)

    def _source_dsn(self, source: Source, model: Model) -> str:
        if not isinstance(source.type, SourceModel) or not (source.type.dsn_env_var or source.type.conn_id):
            return self._target_dsn(model)
        return self._named(model, f"source {source.name}", source.type.dsn_env_var, source.type.conn_id)

    def _named(self, model: Model | None, what: str, variable: str | None, conn_id: str | None) -> str:
        name = model.full_name if model else "bollhav"
        if conn_id and conn_id in self.by_id:
            return self.by_id[conn_id]
        if variable:
            if not self.environ.get(variable):
                raise ConfigurationError(
                    f"{name}: {what}: dsn_env_var is {variable!r} and the environment does not have it: set "
                    f"{variable} "
                    "to the DSN of that database."
                )
            return self.environ[variable]
        if conn_id:
            variable = f"BOLLHAV_CONN_{conn_id.upper()}"
            if not self.environ.get(variable):
                raise ConfigurationError(
                    f"{name}: {what}: conn_id {conn_id!r} is an Airflow connection, which cannot be seen "
                    f"from here: give "
                    f"its DSN in the environment variable {variable}."
                )
            return self.environ[variable]
        return self.dsn


def parts_of(dsn: str) -> dict[str, Any]:
    """Return what a connection string says, by libpq's names.

    Raises:
        ConfigurationError: it is none. The text never holds the string: it may hold a password.
    """
    try:
        return conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as exc:
        told = _HARMLESS.match(str(exc))
        why = f": {told[0]}" if told else ""
        raise ConfigurationError(
            f"a DSN is no connection string of PostgreSQL{why}. Write postgresql://user:password@host:5432/database, "
            "with reserved characters percent-encoded, or key=value pairs: host=... dbname=... user=..."
        ) from None


def same_place(one: str, other: str) -> bool:
    """Return whether two connection strings lead to one database. Who connects does not matter."""
    if one == other:
        return True
    return _place(one) == _place(other)


def _place(dsn: str) -> tuple[str, str, str]:
    """Return host, port and database."""
    parts = parts_of(dsn)
    database = parts.get("dbname") or parts.get("user") or ""
    host = parts.get("host") or parts.get("hostaddr") or ""
    return str(host).lower(), str(parts.get("port") or "5432"), str(database)


def _lineage_place(dsn: str) -> tuple[str, str]:
    """Return OpenLineage's namespace of the server, and the database. A Unix socket is this machine's."""
    host, port, database = _place(dsn)
    return f"postgres://{'localhost' if host.startswith(('/', '@')) or not host else host}:{port}", database
