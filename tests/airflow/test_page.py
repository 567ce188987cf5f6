"""The page behind a task's State link, and the links that lead to it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow_models import gated, windowed

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.links import StateLink, UpstreamLink, state_page
from bollhav_provider.model import UpstreamContract
from bollhav_provider.plugins.page import model_page
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS

only_3 = pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="pages of plugins are of Airflow 3")


def test_it_shows_the_units_of_a_window_with_why_they_wait(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.nobody", UpstreamContract.EXACT),))
    run(build_dags([orders])["shop.orders"], "2024-01-02")
    run(build_dags([report])["mart.report"], "2024-01-02")
    status, text = model_page("shop.orders", "2024-01-01T00:00:00+00:00", "2024-01-02T00:00:00+00:00")
    assert status == 200
    assert "[2024-01-01T00:00Z, 2024-01-02T00:00Z)" in text
    assert "applied" in text
    assert "2024-01-03" not in text
    status, text = model_page("mart.report")
    assert "STATE_001: upstream &#x27;shop.nobody&#x27; not registered" in text
    assert "<code>shop.nobody</code>" in text


def test_what_is_not_there_is_said_and_nothing_is_taken_for_markup(library: str, run: Any) -> None:
    run(build_dags([windowed("shop.orders")])["shop.orders"], "2024-01-02")
    status, text = model_page("<script>alert(1)</script>.x")
    assert status == 404
    assert "<script>" not in text
    status, text = model_page("shop.orders", "2024-01-02T00:00:00", "2024-01-01T00:00:00")
    assert status == 400


def test_a_library_that_cannot_be_reached_by_name_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_testing import forget_connections

    monkeypatch.delenv("AIRFLOW_CONN_BOLLHAV_DEFAULT", raising=False)
    monkeypatch.delenv("BOLLHAV_DSN", raising=False)
    forget_connections()
    status, text = model_page("shop.orders")
    assert status == 503
    assert "BOLLHAV_DSN" in text


@only_3
def test_nobody_sees_it_without_being_known(library: str) -> None:
    from fastapi.testclient import TestClient

    from bollhav_provider.plugins.page import build_app

    client = TestClient(build_app(), raise_server_exceptions=False)
    assert client.get("/models/shop.orders").status_code != 200


@only_3
def test_tasks_link_to_their_units_and_sensors_to_the_dag_of_their_upstream() -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.orders", UpstreamContract.EXACT),))
    dag = build_dags([orders, report])["mart.report"]
    key: Any = SimpleNamespace()
    execute, sensor = dag.get_task("unit.execute"), dag.get_task("unit.shop.orders")
    execute.units = [{"since": "2024-01-01T00:00:00+00:00", "until": "2024-01-02T00:00:00+00:00"}]
    link = StateLink().get_link(execute, ti_key=key)
    assert link.startswith("/bollhav/models/mart.report?since=2024-01-01T00%3A00%3A00%2B00%3A00")
    assert UpstreamLink().get_link(sensor, ti_key=key) == "/dags/shop.orders"
    grouped = build_dags([orders, report], group_by="schema")["mart.daily"]
    assert UpstreamLink().get_link(grouped.get_task("mart-report.unit.shop.orders"), ti_key=key) == "/dags/shop.daily"
    assert state_page("a b.c", None) == "/bollhav/models/a%20b.c"
