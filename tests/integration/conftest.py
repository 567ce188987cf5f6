"""PgBouncer in transaction mode before the test server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bollhav_provider.testing.postgres import PostgresServer


def pgbouncer_binary() -> str:
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found:
        return found
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip("pgbouncer is not installed, and only root on a system with apt-get can install it")
    steps = (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "pgbouncer"])
    for command in steps:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=240, check=False
        )
        if done.returncode:
            pytest.skip(f"pgbouncer cannot be installed: {' '.join(command)}: {done.stderr.strip()[-300:]}")
    return "/usr/sbin/pgbouncer"


@pytest.fixture(scope="session")
def pooler(pg_server: PostgresServer | None) -> Iterator[int]:
    """PgBouncer before the test server, with three server connections for everybody; yields its port."""
    if pg_server is None:
        pytest.skip("the server that BOLLHAV_TEST_DSN names is not ours to put a pooler in front of")
    binary = pgbouncer_binary()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = Path(pg_server.home) / "pooler"
    home.mkdir()
    (home / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={pg_server.socket_directory} port={pg_server.port} user=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        f"pool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 200\nserver_reset_query =\n"
        f"ignore_startup_parameters = extra_float_digits\nlogfile = {home}/log\npidfile = {home}/pid\n"
    )
    owner = Path(pg_server.data).stat()
    as_owner = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    if as_owner:
        for path in (home, home / "pgbouncer.ini"):
            os.chown(path, owner.st_uid, owner.st_gid)
    process = subprocess.Popen(
        [binary, str(home / "pgbouncer.ini")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **as_owner,
    )  # type: ignore[call-overload]
    try:
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None, (home / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
def pooled_dsn(db: str, pooler: int) -> str:
    """DSN of the test's database through the pooler."""
    return make_conninfo(
        dbname=conninfo_to_dict(db)["dbname"], host="127.0.0.1", port=pooler, user="postgres"
    )
