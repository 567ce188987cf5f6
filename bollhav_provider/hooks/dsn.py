"""From an Airflow connection to a libpq connection string, and back to nothing secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from bollhav_provider.exceptions import ConfigurationError

#: Fields of a connection's extra that are ours.
OWN_EXTRAS = ("socket_directory",)
#: Connection types that lead to a PostgreSQL server.
POSTGRES_TYPES = ("bollhav", "postgres", "postgresql", "pgsql")


def conninfo(connection: Any, what: str) -> str:
    """Return the connection string of an Airflow connection.

    Args:
        connection: host (a name, an address or, with a leading slash, the directory of a Unix socket), port,
            login, password, schema (the database) and extra.
        what: said in errors, for instance ``connection 'bollhav_default'``.

    Raises:
        ConfigurationError: the connection is of another type, or its extra holds fields that mean nothing
            here.
    """
    if connection.conn_type and connection.conn_type.lower() not in POSTGRES_TYPES:
        raise ConfigurationError(
            f"{what} is of type {connection.conn_type!r}: make it a connection of type 'bollhav' or 'postgres'."
        )
    extra = _extra(connection, what)
    host = extra.get("socket_directory") or connection.host
    parts: dict[str, Any] = {
        "host": host,
        "port": connection.port,
        "user": connection.login,
        "password": connection.password,
        "dbname": connection.schema,
    }
    parts.update({name: value for name, value in extra.items() if name not in OWN_EXTRAS and value not in (None, "")})
    from psycopg.conninfo import make_conninfo

    return make_conninfo("", **{name: value for name, value in parts.items() if value not in (None, "")})


def _extra(connection: Any, what: str) -> Mapping[str, Any]:
    raw = connection.extra
    if not raw:
        return {}
    try:
        extra = json.loads(raw)
    except ValueError:
        raise ConfigurationError(
            f'{what}: extra is not JSON: write an object such as {{"sslmode": "require"}}.'
        ) from None
    if not isinstance(extra, dict):
        raise ConfigurationError(f"{what}: extra is {type(extra).__name__}: write a JSON object.")
    known = _libpq_names()
    unknown = sorted(set(extra) - known - set(OWN_EXTRAS))
    if unknown and (connection.conn_type or "").lower() == "bollhav":
        raise ConfigurationError(
            f"{what}: extra has {', '.join(map(repr, unknown))}, which is neither a connection parameter of "
            f"PostgreSQL's libpq (such as sslmode) nor {' nor '.join(OWN_EXTRAS)}: remove it."
        )
    # A connection of the postgres provider carries options of that provider's hook, which are not ours to
    # judge.
    return {name: value for name, value in extra.items() if name in known or name in OWN_EXTRAS}


def _libpq_names() -> set[str]:
    from psycopg.pq import Conninfo

    return {option.keyword.decode() for option in Conninfo.get_defaults()}


def asset_uri(table: Any, host: str, database: str) -> str:
    """Return the URI of a table's asset: ``postgres://host/database/schema/table``, each part
    percent-encoded.

    Args:
        table: a ``TableId``; its catalog, when it has one, stands in for ``database``.
        host: host and port as OpenLineage names the server.
        database: the database.
    """
    parts = (table.catalog or database, table.schema, table.name)
    return f"postgres://{host}/" + "/".join(quote(part, safe="") for part in parts)
