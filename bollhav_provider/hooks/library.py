"""The hook of connection type ``bollhav``: the PostgreSQL database that holds library and state."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.hooks.dsn import conninfo
from bollhav_provider.hooks.form import field_behaviour, widgets
from bollhav_provider.hooks.settings import deployment_settings
from bollhav_provider.version_compat import AIRFLOW_V_3_2_PLUS, get_connection_async, mask_secret

if TYPE_CHECKING:
    import psycopg

    from bollhav_provider.hooks.connections import AirflowConnections
    from bollhav_provider.settings import Settings

#: Used where no Airflow connection of the wanted id exists.
DSN_VARIABLE = "BOLLHAV_DSN"
DEFAULT_CONN_ID = "bollhav_default"


class LibraryHook(BaseHook):
    """Connects to the library with psycopg 3, on every supported Airflow.

    Args:
        bollhav_conn_id: Airflow connection id. Where no such connection exists, the DSN of the ``[bollhav]
            dsn`` option or of the environment variable ``BOLLHAV_DSN`` is used.
        settings: options of this deployment or run; what is configured by default.
    """

    conn_name_attr = "bollhav_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = "bollhav"
    hook_name = "Bollhav library"

    if not AIRFLOW_V_3_2_PLUS:  # later versions find the form in the provider's info

        @staticmethod
        def get_ui_field_behaviour() -> dict[str, Any]:
            """Return how Airflow's own fields are shown."""
            return field_behaviour()

        @staticmethod
        def get_connection_form_widgets() -> dict[str, Any]:
            """Return the further fields of the form."""
            return widgets()

    def __init__(
        self,
        bollhav_conn_id: str | None = None,
        *,
        settings: Settings | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.settings = settings if settings is not None else deployment_settings()
        self.bollhav_conn_id = bollhav_conn_id or self.settings.conn_id

    def dsn(self) -> str:
        """Return the connection string of the library, with its password masked in this process's logs.

        Raises:
            ConfigurationError: there is neither a connection of that id nor a DSN.
        """
        fallback = self.settings.dsn or os.environ.get(DSN_VARIABLE, "")
        try:
            return self.connection_string(self.bollhav_conn_id)
        except ConnectionMissing:
            if fallback:
                return masked(fallback)
            raise ConfigurationError(_no_library(self.bollhav_conn_id)) from None

    @classmethod
    def connection_string(cls, conn_id: str) -> str:
        """Return the connection string of an Airflow connection, with its password masked.

        Raises:
            ConnectionMissing: no such connection exists.
            ConfigurationError: it does not lead to PostgreSQL.
        """
        try:
            connection = cls.get_connection(conn_id)
        except AirflowNotFoundException:
            raise ConnectionMissing(f"Airflow connection {conn_id!r} does not exist.") from None
        return masked(conninfo(connection, f"Airflow connection {conn_id!r}"))

    @classmethod
    async def connect_async(
        cls, conn_id: str | None = None, *, dsn_env_var: str | None = None
    ) -> psycopg.AsyncConnection[Any]:
        """Open a connection to the library from the triggerer's event loop: autocommit, UTC. The caller
        closes it.

        Args:
            conn_id: Airflow connection id; the configured one by default.
            dsn_env_var: environment variable with the DSN, instead of a connection.

        Raises:
            ConfigurationError: there is neither a connection of that id nor a DSN.
            psycopg.OperationalError: the server cannot be reached.
        """
        import psycopg

        from bollhav_provider.run.connections import parts_of

        settings = deployment_settings()
        if dsn_env_var is not None:
            dsn = _dsn_of(dsn_env_var)
        else:
            dsn = await cls._dsn_async(conn_id or settings.conn_id, settings)
        parts_of(dsn)  # says what is wrong without quoting it
        conn = await psycopg.AsyncConnection.connect(
            dsn,
            autocommit=True,
            connect_timeout=settings.connect_timeout,
            application_name="bollhav triggerer",
            prepare_threshold=5 if settings.prepared_statements else None,
        )
        return conn

    @classmethod
    async def _dsn_async(cls, conn_id: str, settings: Settings) -> str:
        try:
            connection = await get_connection_async(conn_id)
        except AirflowNotFoundException:
            if fallback := settings.dsn or os.environ.get(DSN_VARIABLE):
                return fallback
            raise ConfigurationError(_no_library(conn_id)) from None
        # Airflow masked the password when it looked the connection up; doing it again would block the loop.
        return conninfo(connection, f"Airflow connection {conn_id!r}")

    def connections(self, application_name: str = "bollhav") -> AirflowConnections:
        """Return where a run gets its connections from: library, targets and sources."""
        from bollhav_provider.hooks.connections import AirflowConnections, ConnectionStrings
        from bollhav_provider.run.connections import ConnectOptions

        settings = self.settings
        return AirflowConnections(
            dsn=self.dsn(),
            application_name=application_name,
            options=ConnectOptions(
                connect_timeout=settings.connect_timeout,
                attempts=settings.connect_attempts,
                prepared=settings.prepared_statements,
                statement_timeout=settings.statement_timeout,
                lock_timeout=settings.lock_timeout,
            ),
            by_id=ConnectionStrings(self.connection_string),
            find=self.get_connection,
        )

    def get_conn(self) -> psycopg.Connection[Any]:
        """Open a connection to the library: autocommit, UTC. The caller closes it."""
        return self.connections().state()

    def test_connection(self) -> tuple[bool, str]:
        """Say whether the library answers, for the Test button of the connection form."""
        try:
            with self.get_conn() as conn:
                info = conn.info
                version = info.server_version
                return True, (
                    f"Connected to database {info.dbname!r} on PostgreSQL {version // 10000}.{version % 10000} "
                    f"as {info.user!r}."
                )
        except Exception as exc:
            return False, f"{type(exc).__name__}: {exc}"


def _no_library(conn_id: str) -> str:
    return (
        f"Airflow connection {conn_id!r} does not exist: add it (type 'Bollhav library', or "
        f"AIRFLOW_CONN_{conn_id.upper()} in the environment of workers and triggerer), or set {DSN_VARIABLE}."
    )


def _dsn_of(variable: str) -> str:
    if not (dsn := os.environ.get(variable)):
        raise ConfigurationError(
            f"dsn_env_var is {variable!r} and the environment does not have it: set {variable} to the DSN of the "
            "library, in the triggerer's environment too."
        )
    return dsn


class ConnectionMissing(ConfigurationError):
    """An Airflow connection id that nobody defined."""


def masked(dsn: str) -> str:
    """Return ``dsn`` after telling Airflow's log masker the secrets in it."""
    from bollhav_provider.run.connections import parts_of

    parts = parts_of(dsn)
    for name in ("password", "sslpassword"):
        if parts.get(name):
            mask_secret(str(parts[name]))
    return dsn
