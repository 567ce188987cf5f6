"""A server that cannot do its part: a full disk, locks that are not had in time. The state is right, the text clear."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import psycopg
import pytest
from psycopg import sql
from run_support import House, daily, day

from bollhav_provider.exceptions import ServerRefusedError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Model
from bollhav_provider.run import ConnectOptions, DsnConnections, execute_unit, execute_units, pointless
from bollhav_provider.testing.postgres import PostgresServer

Make = Callable[..., House]
UNIT = Unit(day(1))
#: A trigger that says what the server says when its disk is full.
_FULL = """
    CREATE FUNCTION public.disk_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'could not extend file "base/1/2": No space left on device',
            HINT = 'Check free disk space.';
    END $$
"""


def wide() -> Model:
    """A model whose days are some megabytes each."""
    model = daily(target={"write_mode": "append"})

    @model.execute
    def rows(unit: Unit) -> pl.DataFrame:
        return pl.DataFrame(
            {"at": [unit.since] * 200_000, "amount": range(200_000)}, schema_overrides={"amount": pl.Int32}
        )

    return model


@pytest.fixture
def prepared(house: Make) -> tuple[House, Model]:
    model = daily(target={"write_mode": "append"}, query="SELECT %(since)s::timestamptz AS at, 1 AS amount")
    h = house(model)
    h.prepare(model, day(1, 3))
    return h, model


def last_error(h: House) -> tuple[str, str]:
    return h.sql("SELECT error_type, error_message FROM z_bollhav.errors ORDER BY id DESC LIMIT 1")[0]  # type: ignore[return-value]


def test_a_full_disk_under_the_target(prepared: tuple[House, Model]) -> None:
    h, model = prepared
    h.sql(_FULL)
    h.sql("CREATE TRIGGER disk_full BEFORE INSERT ON shop.orders FOR EACH ROW EXECUTE FUNCTION public.disk_full()")
    with pytest.raises(ServerRefusedError, match="No space left on device") as caught:
        execute_unit(h.connections, h.graph(), model, UNIT, h.spec())
    assert (caught.value.model, caught.value.sqlstate, caught.value.retryable) == ("shop.orders", "53100", True)
    assert isinstance(caught.value.__cause__, psycopg.errors.DiskFull)
    assert pointless(caught.value)
    kind, message = last_error(h)
    assert kind.endswith("ServerRefusedError")
    assert "Remedy: free space on the server's disk" in message
    assert h.states(model)[:1] == ["error"]
    h.sql("DROP TRIGGER disk_full ON shop.orders")
    assert execute_unit(h.connections, h.graph(), model, UNIT, h.spec()).applied
    assert h.sql("SELECT count(*) FROM shop.orders") == [(1,)]


def test_a_disk_that_is_full_when_the_unit_is_to_be_applied(prepared: tuple[House, Model]) -> None:
    h, model = prepared
    h.sql(_FULL)
    statement = (
        "CREATE TRIGGER disk_full BEFORE UPDATE ON z_bollhav.{} FOR EACH ROW WHEN (NEW.status = 'applied') "
        "EXECUTE FUNCTION public.disk_full()"
    )
    h.sql(sql.SQL(statement).format(sql.Identifier(model.state_table)).as_string())
    with pytest.raises(ServerRefusedError):
        execute_unit(h.connections, h.graph(), model, UNIT, h.spec())
    assert h.states(model)[:1] == ["error"]
    assert h.sql("SELECT count(*) FROM shop.orders") == [(0,)]


def test_a_disk_that_is_full_under_the_state_as_well(
    prepared: tuple[House, Model], caplog: pytest.LogCaptureFixture
) -> None:
    h, model = prepared
    h.sql(_FULL)
    statement = (
        "CREATE TRIGGER disk_full BEFORE UPDATE ON z_bollhav.{} FOR EACH ROW WHEN (NEW.status <> 'running') "
        "EXECUTE FUNCTION public.disk_full()"
    )
    h.sql(sql.SQL(statement).format(sql.Identifier(model.state_table)).as_string())
    with pytest.raises(ServerRefusedError):
        execute_unit(h.connections, h.graph(), model, UNIT, h.spec(lease=dt.timedelta(seconds=1)))
    assert "The unit is free again when its lease ends" in caplog.text
    assert h.states(model)[:1] == ["running"]
    assert h.sql("SELECT count(*) FROM shop.orders") == [(0,)]
    h.sql("DROP FUNCTION public.disk_full() CASCADE")
    assert execute_unit(h.connections, h.graph(), model, UNIT, h.spec(busy_timeout=dt.timedelta(seconds=20))).applied


@pytest.fixture
def small_disk(pg_server: PostgresServer | None) -> Iterator[Path]:
    """A file system of a few megabytes that the server may use."""
    if pg_server is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system, beside a server of our own")
    place = Path(tempfile.mkdtemp(prefix="small-disk-", dir=pg_server.home))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6M", "tmpfs", str(place)], check=False).returncode:
        pytest.skip("this machine lets nobody mount a file system")
    try:
        inside = place / "space"
        inside.mkdir(mode=0o700)
        owner = Path(pg_server.data).stat()
        os.chown(place, owner.st_uid, owner.st_gid)
        os.chown(inside, owner.st_uid, owner.st_gid)
        yield inside
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_disk_that_really_is_full(house: Make, small_disk: Path) -> None:
    model = wide()
    h = house(model)
    space = f"small_{os.getpid()}"
    h.sql(f"CREATE TABLESPACE {space} LOCATION '{small_disk}'")
    try:
        h.prepare(model, day(1, 3))
        h.sql(f"ALTER TABLE shop.orders SET TABLESPACE {space}")
        with pytest.raises(ServerRefusedError, match="No space left on device"):
            execute_units(h.connections, h.graph(), model, [UNIT, Unit(day(2))], h.spec())
        assert h.states(model)[:2] == ["error", "pending"]  # the second would meet the same
        assert h.sql("SELECT count(*) FROM shop.orders") == [(0,)]
        h.sql("ALTER TABLE shop.orders SET TABLESPACE pg_default")
        assert execute_unit(h.connections, h.graph(), model, UNIT, h.spec()).applied
        assert h.sql("SELECT count(*) FROM shop.orders") == [(200_000,)]
    finally:
        h.sql("DROP TABLE shop.orders")
        h.sql(f"DROP TABLESPACE {space}")


def impatient(h: House) -> DsnConnections:
    return DsnConnections(h.dsn, options=ConnectOptions(lock_timeout=1))


def test_a_lock_on_the_target_that_is_not_had_in_time(prepared: tuple[House, Model]) -> None:
    h, model = prepared
    with psycopg.connect(h.dsn) as other:
        other.execute("LOCK TABLE shop.orders IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(ServerRefusedError, match=r"lock timeout.*Remedy: find the session that holds") as got:
            execute_units(impatient(h), h.graph(), model, [UNIT, Unit(day(2))], h.spec())
    assert not pointless(got.value)
    assert got.value.__notes__[0].startswith("shop.orders [2024-01-02T00:00Z")  # the second was tried as well
    assert h.states(model)[:2] == ["error", "error"]
    assert execute_unit(impatient(h), h.graph(), model, UNIT, h.spec()).applied


def test_a_lock_on_the_units_row_that_is_not_had_in_time(prepared: tuple[House, Model]) -> None:
    h, model = prepared
    with psycopg.connect(h.dsn) as other:
        query = sql.SQL("SELECT 1 FROM z_bollhav.{} FOR UPDATE").format(sql.Identifier(model.state_table))
        other.execute(query)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            execute_unit(impatient(h), h.graph(), model, UNIT, h.spec())
    assert h.states(model)[:1] == ["pending"]
    assert h.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [(0,)]
    assert execute_unit(impatient(h), h.graph(), model, UNIT, h.spec()).applied


def test_a_statement_that_takes_too_long(house: Make) -> None:
    model = daily(query="SELECT %(since)s::timestamptz AS at, 1 AS amount FROM pg_sleep(5)")
    h = house(model)
    h.prepare(model, day(1))
    patient = DsnConnections(h.dsn, options=ConnectOptions(statement_timeout=1))
    with pytest.raises(ServerRefusedError, match=r"statement timeout.*option statement_timeout"):
        execute_unit(patient, h.graph(), model, UNIT, h.spec())
    assert h.states(model)[0] == "error"
