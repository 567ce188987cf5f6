"""The hook: from an Airflow connection, or a DSN, to the library."""

from __future__ import annotations

import asyncio
import json
import traceback
from typing import Any

import psycopg
import pytest
from airflow_models import windowed
from airflow_testing import airflow_connection, forget_connections

from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.hooks import LibraryHook
from bollhav_provider.hooks.dsn import asset_uri
from bollhav_provider.model import State, TableId, Target


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_BOLLHAV_DEFAULT", raising=False)
    monkeypatch.delenv("BOLLHAV_DSN", raising=False)
    forget_connections()


def connect_as(monkeypatch: pytest.MonkeyPatch, name: str, dsn: str, **more: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(airflow_connection(dsn, **more)))
    forget_connections()


def database(conn: psycopg.Connection[Any]) -> str:
    with conn:
        return conn.info.dbname


def test_it_connects_in_utc_and_autocommit(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect_as(monkeypatch, "bollhav_default", db)
    with LibraryHook().get_conn() as conn:
        assert conn.autocommit
        assert conn.execute("SHOW TimeZone").fetchone() in {("UTC",), ("Etc/UTC",)}


def test_a_host_that_is_a_path_is_a_sockets_directory(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = airflow_connection(db)
    directory = connection.pop("host")
    assert directory.startswith("/")
    extra = {"socket_directory": directory, "application_name": "mine"}
    monkeypatch.setenv("AIRFLOW_CONN_BOLLHAV_DEFAULT", json.dumps({**connection, "extra": extra}))
    with LibraryHook().get_conn() as conn:
        assert conn.info.host == directory


def test_extras_go_to_libpq_and_unknown_ones_are_refused(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect_as(monkeypatch, "bollhav_default", db, extra={"sslmode": "prefer", "options": "-c work_mem=8MB"})
    with LibraryHook().get_conn() as conn:
        assert conn.execute("SHOW work_mem").fetchone() == ("8MB",)
    connect_as(monkeypatch, "bollhav_default", db, extra={"ssl_mode": "prefer"})
    with pytest.raises(ConfigurationError, match="extra has 'ssl_mode'"):
        LibraryHook().dsn()


def test_a_connection_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_BOLLHAV_DEFAULT", json.dumps({"conn_type": "mysql", "host": "h"}))
    with pytest.raises(ConfigurationError, match="is of type 'mysql'"):
        LibraryHook().dsn()


def test_a_connection_of_the_postgres_provider_will_do(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect_as(monkeypatch, "bollhav_default", db, conn_type="postgres", extra={"cursor": "dictcursor"})
    assert database(LibraryHook().get_conn()) in db


def test_without_a_connection_the_dsn_of_the_environment_is_used(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOLLHAV_DSN", db)
    assert database(LibraryHook().get_conn()) in db


def test_without_either_it_says_what_to_set() -> None:
    with pytest.raises(ConfigurationError, match=r"AIRFLOW_CONN_BOLLHAV_DEFAULT.*BOLLHAV_DSN"):
        LibraryHook().dsn()


def test_the_configured_connection_is_the_default(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__BOLLHAV__CONN_ID", "warehouse")
    connect_as(monkeypatch, "warehouse", db)
    assert LibraryHook().bollhav_conn_id == "warehouse"
    assert database(LibraryHook().get_conn()) in db


def test_a_models_own_connections_are_airflows(db: str, pg_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect_as(monkeypatch, "bollhav_default", pg_dsn)
    connect_as(monkeypatch, "elsewhere", db)
    model = windowed("shop.orders")
    moved = model.replace(target=model.target.replace(conn_id="elsewhere"))
    kept = model.replace(state=State(conn_id="elsewhere"), target=Target(schema="a", name="b", conn_id="elsewhere"))
    connections = LibraryHook().connections()
    assert database(connections.state(moved)) == "postgres"
    assert database(connections.target(moved)) in db
    assert not connections.same_database(moved)
    assert connections.same_database(model)
    assert connections.same_database(kept.replace(query=None))


def test_the_test_button_says_what_it_reached(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect_as(monkeypatch, "bollhav_default", db)
    worked, text = LibraryHook().test_connection()
    assert worked
    assert text.startswith("Connected to database")
    connect_as(monkeypatch, "bollhav_default", db, host="/nowhere")
    worked, text = LibraryHook().test_connection()
    assert not worked
    assert "/nowhere" in text


def test_a_password_is_masked_in_logs(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    masked: list[str] = []
    monkeypatch.setattr("bollhav_provider.hooks.library.mask_secret", masked.append)
    connect_as(monkeypatch, "bollhav_default", db, password="p@ss/w#rd")
    assert "p@ss/w#rd" in LibraryHook().dsn()
    assert masked == ["p@ss/w#rd"]


@pytest.mark.parametrize("dsn", ["postgresql//reader:hunter2secret@host/db", "host=h password=hunter2secret port"])
def test_a_dsn_that_is_none_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch, dsn: str) -> None:
    monkeypatch.setenv("BOLLHAV_DSN", dsn)
    monkeypatch.setenv("OTHER_DSN", dsn)
    for connect in (
        lambda: LibraryHook("nowhere").dsn(),
        lambda: asyncio.run(LibraryHook.connect_async("nowhere")),
        lambda: asyncio.run(LibraryHook.connect_async(dsn_env_var="OTHER_DSN")),
    ):
        with pytest.raises(ConfigurationError, match="no connection string of PostgreSQL") as caught:
            connect()
        assert "hunter2secret" not in "".join(traceback.format_exception(caught.value))


def test_it_connects_from_an_event_loop(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect_as(monkeypatch, "bollhav_default", db)

    async def name() -> str:
        async with await LibraryHook.connect_async() as conn:
            return conn.info.dbname

    assert asyncio.run(name()) in db


def test_cancelling_stops_what_the_server_does_and_never_raises(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading
    import time

    connect_as(monkeypatch, "bollhav_default", db)
    connections = LibraryHook().connections()
    conn = connections.state()
    threading.Timer(0.5, connections.cancel).start()
    started = time.monotonic()
    with conn, pytest.raises(psycopg.errors.QueryCanceled):
        conn.execute("SELECT pg_sleep(60)")
    assert time.monotonic() - started < 20
    connections.cancel()


@pytest.mark.parametrize(
    ("table", "uri"),
    [
        (TableId(None, "shop", "orders"), "postgres://db:5433/warehouse/shop/orders"),
        (TableId("other", "shop", "orders"), "postgres://db:5433/other/shop/orders"),
        (TableId(None, "Shop", "a/b c"), "postgres://db:5433/warehouse/Shop/a%2Fb%20c"),
    ],
)
def test_an_assets_uri_is_made_of_quoted_parts(table: TableId, uri: str) -> None:
    assert asset_uri(table, "db:5433", "warehouse") == uri
