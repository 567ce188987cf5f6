"""How many connections the tasks of a run need, shown by a role that may have no more."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from airflow_models import gated, windowed
from airflow_testing import airflow_connection, execute, forget_connections, rows, states, statuses
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.model import State, UpstreamContract

SLOW = "SELECT %(since)s::timestamptz AS at, 1 AS n FROM pg_sleep(3.5) WHERE %(since)s < %(until)s"  # past a renewal


@pytest.fixture
def few(db: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty library whose role may have two connections at a time; its DSN."""
    role, database = f"few_{uuid4().hex[:12]}", conninfo_to_dict(db)["dbname"]
    execute(db, f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 2", f"GRANT CREATE ON DATABASE {database} TO {role}")
    dsn = make_conninfo(db, user=role)
    monkeypatch.setenv("AIRFLOW_CONN_BOLLHAV_DEFAULT", json.dumps(airflow_connection(dsn)))
    forget_connections()
    try:
        yield dsn
    finally:
        execute(db, f"DROP OWNED BY {role}", f"DROP ROLE {role}")
        forget_connections()


def test_two_connections_suffice_for_every_task_and_a_lease_that_is_renewed(few: str, db: str, run: Any) -> None:
    orders = windowed("shop.orders").model_copy(update={"query": SLOW, "state": State(lease_seconds=5)})
    report = windowed("mart.report", upstream=(gated("shop.orders", UpstreamContract.EXACT),))
    role, over, most = conninfo_to_dict(few)["user"], threading.Event(), [0]

    def count() -> None:
        with psycopg.connect(db, autocommit=True) as conn:
            while not over.wait(0.05):
                found = conn.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = %s", (role,)).fetchone()
                most[0] = max(most[0], found[0] if found else 0)

    counting = threading.Thread(target=count)
    counting.start()
    try:
        dags = build_dags([orders, report])
        assert set(states(run(dags["shop.orders"], "2024-01-02")).values()) == {"success"}
        assert set(states(run(dags["mart.report"], "2024-01-02")).values()) == {"success"}
    finally:
        over.set()
        counting.join()
    assert most[0] == 2
    assert statuses(db, report)["2024-01-01"] == "applied"


def test_a_task_that_finds_the_server_full_tries_again_until_there_is_room(
    few: str, db: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = windowed("shop.orders")
    held = [psycopg.connect(few, application_name="others") for _ in range(2)]
    pauses: list[tuple[float, float]] = []

    def jitter(least: float, most: float) -> float:
        """Called for each pause before the next try."""
        pauses.append((least, most))
        if len(pauses) == 2:
            for conn in held:
                conn.close()
        return least

    monkeypatch.setattr("bollhav_provider.run.connections.random", SimpleNamespace(uniform=jitter))
    dag_run = run(build_dags([orders])["shop.orders"], "2024-01-02")
    assert len(pauses) >= 2
    assert all(least < most for least, most in pauses)
    assert states(dag_run) == {"prefill": "success", "unit.execute[0]": "success"}
    assert {ti.try_number for ti in dag_run.get_task_instances()} == {1}
    assert rows(db, "SELECT count(*) FROM shop.orders") == [(1,)]
