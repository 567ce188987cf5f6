"""What goes wrong from outside: signals, roles without rights, secrets in messages, addresses that are none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from bollhav_provider.cli.main import main

MODELS = """
import time

from bollhav_provider import Batch, Column, Contract, Model, State, Target, TimeChunking, Unit, WriteMode

def daily(name, **more):
    return Model(
        target=Target(schema="shop", name=name, write_mode=WriteMode.RECREATE_PARTITION,
                      columns=[Column("at", "timestamptz", nullable=False, partition_on=True), Column("n", "integer")]),
        contract=Contract(begin="2024-01-01T00:00Z", end="2024-01-06T00:00Z"),
        batching=Batch(time=TimeChunking(chunk="@daily")), state=State(), **more)

orders = daily("orders", query="SELECT %(since)s::timestamptz AS at, 1 AS n")
in_server = daily("in_server", query="SELECT %(since)s::timestamptz AS at, 1 AS n FROM pg_sleep(60)")
in_python = daily("in_python")
secretive = daily("secretive")
leaving = daily("leaving")

@in_python.execute
def slow(unit: Unit):
    print("at work", flush=True)
    time.sleep(60)

@secretive.execute
def secret(unit: Unit):
    raise RuntimeError("cannot reach postgresql://etl:s3cr3t-pw@db:5432/wh?password=hunter2 " + "x" * 1_000_000)

@leaving.execute
def leave(unit: Unit):
    raise SystemExit(7)
"""
DAY = ("--since", "2024-01-01", "--until", "2024-01-02")

Call = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def db(library_db: str) -> str:
    return library_db


@pytest.fixture
def command(db: str, tmp_path: Path) -> Iterator[Call]:
    """Start the command line as a process of its own."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "shop_faults.py").write_text(MODELS)
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, dsn: str = db, before: Callable[[], None] | None = None) -> subprocess.Popen[str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("BOLLHAV_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "bollhav_provider.cli.main", *arguments],
            cwd=tmp_path, env={**environ, "BOLLHAV_DSN": dsn}, text=True, preexec_fn=before,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def tell(
    db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Call the command line in this process; returns exit code and output."""
    package = tmp_path / "models"
    package.mkdir(exist_ok=True)
    (package / f"told_{tmp_path.name.replace('-', '_')}.py").write_text(MODELS)

    def call(*arguments: str, dsn: str = db) -> tuple[int, str]:
        monkeypatch.setenv("BOLLHAV_DSN", dsn)
        monkeypatch.setattr(sys, "argv", ["bollhav", *arguments, "--models", str(package)])
        with pytest.raises(SystemExit) as caught:
            main()
        told = capsys.readouterr()
        return int(caught.value.code or 0), told.out + told.err

    return call


def status(dsn: str, name: str) -> tuple[object, ...] | None:
    with psycopg.connect(dsn) as conn:
        table = conn.execute("SELECT state_table FROM z_bollhav.library WHERE full_name = %s", (name,)).fetchone()
        assert table is not None
        query = sql.SQL("SELECT status, reason FROM z_bollhav.{} ORDER BY since LIMIT 1")
        return conn.execute(query.format(sql.Identifier(table[0]))).fetchone()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_unit_back_and_is_the_exit_code(db: str, command: Call, number: signal.Signals) -> None:
    # whoever runs the tests may ignore a signal, nohup for instance, and children inherit that
    process = command("run", "shop.in_python", *DAY, before=lambda: signal.signal(number, signal.SIG_DFL))
    assert process.stdout is not None
    while process.stdout.readline().strip() != "at work":
        assert process.poll() is None
    process.send_signal(number)
    told, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert "the unit is given back" in told
    assert "Traceback" not in told
    found = status(db, "shop.in_python")
    assert found is not None
    assert found[0] == "pending"
    assert str(found[1]).startswith("interrupted")


def test_a_signal_stops_what_the_server_does(db: str, command: Call) -> None:
    query = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE state = 'active' AND query ~ 'pg_sleep' AND pid <> pg_backend_pid()"
    )
    process = command("run", "shop.in_server", *DAY)
    with psycopg.connect(db, autocommit=True) as conn:
        wait_until(lambda: conn.execute(query).fetchone() == (1,))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert conn.execute(query).fetchone() == (0,)
    assert process.returncode == 128 + signal.SIGTERM
    assert (status(db, "shop.in_server") or ("",))[0] == "pending"


def test_a_signal_that_was_ignored_from_the_start_stays_ignored(command: Call) -> None:
    process = command(
        "run", "shop.in_python", *DAY, before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN) and None
    )
    assert process.stdout is not None
    while process.stdout.readline().strip() != "at work":
        assert process.poll() is None
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None


def test_a_function_that_leaves_is_named(command: Call) -> None:
    process = command("run", "shop.leaving", *DAY)
    told, _ = process.communicate(timeout=60)
    assert process.returncode == 7
    assert "stopped by SystemExit" in told


def test_no_secret_and_no_endless_message_is_printed(tell: Callable[..., tuple[int, str]]) -> None:
    for arguments in (("run", "shop.secretive", *DAY), ("status",), ("explain", "shop.secretive", *DAY)):
        _, told = tell(*arguments)
        assert "cannot reach postgresql://etl:***@db" in told
        assert "s3cr3t-pw" not in told
        assert "hunter2" not in told
        assert len(told) < 15_000


def test_a_role_without_rights_is_told_what_an_owner_has_to_run(
    db: str, tell: Callable[..., tuple[int, str]]
) -> None:
    tell("run", "shop.orders", *DAY)
    with psycopg.connect(db, autocommit=True) as conn:
        role = f"r_{conn.info.dbname}"
        conn.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        try:
            weak = psycopg.conninfo.make_conninfo(db, user=role)
            code, told = tell("run", "shop.orders", *DAY, dsn=weak)
            assert code == 1
            assert f'GRANT USAGE, CREATE ON SCHEMA "z_bollhav" TO "{role}"' in told
            for arguments in (("status",), ("plan", "shop.orders", *DAY), ("explain", "shop.orders", *DAY)):
                code, told = tell(*arguments, dsn=weak)
                assert code == 1
                assert "permission denied for schema z_bollhav" in told
            _, told = tell("doctor", "shop.orders", dsn=weak)
            assert "GRANT SELECT, INSERT, UPDATE, DELETE, TRIGGER ON ALL TABLES IN SCHEMA" in told
        finally:
            conn.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role)))
            conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
