"""The provider's pages in the UI, and the links that lead to them."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from airflow_models import BEGIN, END, gated, windowed

from bollhav_provider import state
from bollhav_provider.dag_factory import build_dags
from bollhav_provider.intervals import Interval, as_utc
from bollhav_provider.links import StateLink, UpstreamLink, UpstreamStateLink, state_page
from bollhav_provider.model import Environment, Model, Source, SourceModel, UpstreamContract
from bollhav_provider.plugins import looking
from bollhav_provider.plugins.looking import UNITS, Asked
from bollhav_provider.plugins.page import show_model, show_models
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS, AIRFLOW_V_3_1_PLUS

only_3 = pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="pages of plugins are of Airflow 3")


def everything(dag_ids: set[str]) -> set[str]:
    """What a person may see who may see all DAGs."""
    return dag_ids


def kept(dsn: str, model: Model, *, suffix: str | None = None, applied: str | None = None, wait: bool = False) -> None:
    """Have the library of a model say what runs would have left.

    Args:
        dsn: of the library.
        model: its contract is prefilled.
        suffix: of the environment.
        applied: the day whose units are marked.
        wait: whether somebody looked at the gates of all other units.
    """
    env = Environment(suffix=suffix)
    with psycopg.connect(dsn, autocommit=True) as conn:
        state.bootstrap(conn, env)
        state.register(conn, model, env)
        state.prefill(conn, model, env, Interval(as_utc(BEGIN, "since"), as_utc(END, "until")))
        units = [row.unit for row in state.units(conn, model, env)]
        done = [unit for unit in units if applied and unit.label.startswith(f"[{applied}")]
        state.mark_applied(conn, model, env, done, state.RunKey.ad_hoc("ada"), "loaded by hand")
        for unit in units:
            if wait and unit not in done:
                state.observe(conn, model, env, unit)


def model_page(full_name: str, **asked: str) -> tuple[int, str]:
    return show_model(full_name, Asked(**asked), everything)


def rows_of(text: str) -> list[str]:
    """The rows of the page's table, as text without tags."""
    found = re.findall(r"<tr>(<td.*?)</tr>", text, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in found]


def test_it_shows_the_units_of_a_window_with_why_they_wait(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.nobody", UpstreamContract.EXACT),))
    run(build_dags([orders])["shop.orders"], "2024-01-02")
    run(build_dags([report])["mart.report"], "2024-01-02")
    status, text = model_page("shop.orders", since="2024-01-01T00:00:00+00:00", until="2024-01-02T00:00:00+00:00")
    assert status == 200
    (row,) = rows_of(text)
    assert row.startswith("[2024-01-01T00:00Z, 2024-01-02T00:00Z) applied")
    assert "'../../dags/shop.orders/runs/" in text
    status, text = model_page("mart.report")
    assert "STATE_001: upstream &#x27;shop.nobody&#x27; not registered" in text
    assert "Waits for <code>shop.nobody</code>." in text


def test_the_latest_windows_come_first_by_status_and_page_by_page(library: str) -> None:
    kept(library, windowed("shop.hours", chunk="@hourly", end="2024-01-08T00:00:00+00:00"), applied="2024-01-01")
    _, text = model_page("shop.hours")
    shown = rows_of(text)
    assert len(shown) == UNITS
    assert "pending" in shown[0]
    assert shown == sorted(shown, reverse=True)
    (older,) = re.findall(r"before=([^&']+)'>Older", text)
    assert older.startswith(shown[-1][1:11])
    _, text = model_page("shop.hours", status="applied")
    assert len(rows_of(text)) == 24
    assert rows_of(text)[0].startswith("[2024-01-01T23:00Z, ")
    _, text = model_page("shop.hours", since="2024-01-01", until="2024-01-02", before="2024-01-01T02:00+00:00")
    assert [row[1:14] for row in rows_of(text)] == ["2024-01-01T01", "2024-01-01T00"]
    _, text = model_page("shop.hours", since="2024-01-07T22:00+00:00")
    assert [row[1:14] for row in rows_of(text)] == ["2024-01-07T23", "2024-01-07T22"]
    _, text = model_page("shop.hours", until="2024-01-01T01:00+00:00")
    assert [row[1:14] for row in rows_of(text)] == ["2024-01-01T00"]


def test_a_day_of_another_zone_is_shown_as_its_date_and_taken_as_one(library: str) -> None:
    begin, end = "2024-01-01T00:00:00-05:00", "2024-01-04T00:00:00-05:00"
    kept(library, windowed("shop.local", tz="America/New_York", begin=begin, end=end), applied="2024-01-01")
    _, text = model_page("shop.local", since="2024-01-01", until="2024-01-02")
    (row,) = rows_of(text)
    assert row.startswith("[2024-01-01T05:00Z, 2024-01-02T05:00Z) 2024-01-01 America/New_York applied marked by ada")


def test_all_models_are_listed_with_what_needs_a_look(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = show_models(everything)
    assert (status, "no model yet" in text) == (200, True)
    orders, slow = windowed("shop.orders", tags=["core"]), windowed("shop.slow", chunk="@hourly", window="@daily")
    report = windowed("mart.report", upstream=(gated("shop.nobody", UpstreamContract.EXACT),))
    kept(library, orders)
    kept(library, slow, applied="2024-01-01")
    kept(library, report, applied="2024-01-01", wait=True)
    _, text = show_models(everything)
    assert [row.split()[0] for row in rows_of(text)] == ["mart.report", "shop.orders", "shop.slow"]
    assert "<a href='models/shop.orders'>" in text
    assert "href='models/mart.report?status=blocked'>2</a>" in text
    assert "href='models/shop.slow?status=applied'>24</a>" in text
    _, text = show_models(everything, trouble=True)
    assert [row.split()[0] for row in rows_of(text)] == ["mart.report"]
    _, text = show_models(everything, "Core")
    assert [row.split()[0] for row in rows_of(text)] == ["shop.orders"]
    monkeypatch.setattr(looking, "MODELS", 1)
    _, text = show_models(everything, "shop.")
    assert [row.split()[0] for row in rows_of(text)] == ["shop.orders"]
    assert "href='?q=shop.&amp;after=shop.orders'>More models" in text
    _, text = show_models(everything, "shop.", after="shop.orders")
    assert ([row.split()[0] for row in rows_of(text)], "More models" in text) == (["shop.slow"], False)
    _, text = show_models(everything, trouble=True)
    assert ([row.split()[0] for row in rows_of(text)], "More models" in text) == (["mart.report"], False)
    _, text = show_models(everything, "<b>")
    assert "<b>" not in text


def test_who_may_not_read_a_models_dag_sees_nothing_of_it(library: str) -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.orders", UpstreamContract.EXACT),))
    for model in (orders, report):
        kept(library, model)

    def orders_only(dag_ids: set[str]) -> set[str]:
        return dag_ids & {"shop.orders"}

    _, text = show_models(orders_only)
    assert "mart.report" not in text
    assert show_model("mart.report", Asked(), orders_only)[0] == 403
    status, text = show_model("shop.orders", Asked(), orders_only)
    assert (status, "mart.report" in text) == (200, False)
    _, text = model_page("shop.orders")
    assert "<a href='mart.report'>" in text


def test_a_model_of_a_suffixed_environment_is_found_by_its_own_name(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOLLHAV_SCHEMA_SUFFIX", "dev")
    kept(library, windowed("shop.orders"), suffix="dev", applied="2024-01-01")
    status, text = model_page("shop.orders")
    assert status == 200
    assert "applied" in rows_of(text)[-1]
    assert show_model("shop.orders", Asked(), lambda ids: ids & {"shop.orders"})[0] == 200


def test_what_is_not_there_is_said_and_nothing_is_taken_for_markup(library: str) -> None:
    odd = Source("shop.a<b>", type=SourceModel(), alias="odd", contract=UpstreamContract.EXACT)
    kept(library, windowed("shop.orders", upstream=(odd,)), wait=True)
    status, text = model_page("shop.orders")
    assert (status, "<b>" in text, "a&lt;b&gt;" in text) == (200, False, True)
    status, text = model_page("<b>alert(1)</b>.x")
    assert (status, "<b>" in text, "connection &#x27;bollhav_default&#x27;" in text) == (404, False, True)
    status, text = model_page("shop.orders", since="2024-01-02T00:00:00", until="2024-01-01T00:00:00")
    assert status == 400
    status, text = model_page("shop.orders", since="2024-01-02", until="2024-01-02")
    assert (status, "is not before until" in text) == (400, True)
    status, text = model_page("shop.orders", since="2024-01-02'><b>")
    assert (status, "<b>" in text) == (400, False)
    status, text = model_page("shop.orders", status="'><b>")
    assert (status, "<b>" in text) == (200, False)


def test_a_library_that_cannot_be_reached_by_name_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_testing import forget_connections

    monkeypatch.delenv("AIRFLOW_CONN_BOLLHAV_DEFAULT", raising=False)
    monkeypatch.delenv("BOLLHAV_DSN", raising=False)
    forget_connections()
    for status, text in (model_page("shop.orders"), show_models(everything)):
        assert status == 503
        assert "BOLLHAV_DSN" in text
    monkeypatch.setenv("BOLLHAV_DSN", "host=127.0.0.1 port=1 dbname=nothing connect_timeout=2")
    monkeypatch.setenv("BOLLHAV_CONNECT_ATTEMPTS", "1")
    status, text = show_models(everything)
    assert status == 503
    assert "The library cannot be read: OperationalError" in text


@only_3
def test_nobody_sees_it_without_being_known(library: str) -> None:
    from fastapi.testclient import TestClient

    from bollhav_provider.plugins.page import build_app

    client = TestClient(build_app(), raise_server_exceptions=False)
    for path in ("/models", "/models/shop.orders"):
        assert client.get(path).status_code != 200


@only_3
def test_who_is_known_sees_it(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.api_fastapi.core_api import security
    from fastapi.testclient import TestClient

    from bollhav_provider.plugins import page

    kept(library, windowed("shop.orders"), applied="2024-01-01")
    app = page.build_app()
    asked: list[object] = []
    monkeypatch.setattr(page, "dags_of", lambda user: asked.append(user) or everything)
    monkeypatch.setattr(security, "get_auth_manager", lambda: SimpleNamespace(is_authorized_view=lambda **_: True))
    app.dependency_overrides[security.get_user] = lambda: "ada"
    client = TestClient(app)
    answer = client.get("/models?q=shop&trouble=0")
    assert (answer.status_code, "shop.orders" in answer.text) == (200, True)
    assert answer.headers["content-type"].startswith("text/html")
    answer = client.get("/models/shop.orders?status=applied&since=2024-01-01&until=2024-01-02")
    assert (answer.status_code, len(rows_of(answer.text))) == (200, 1)
    assert asked == ["ada", "ada"]


@pytest.mark.skipif(not AIRFLOW_V_3_1_PLUS, reason="Airflow 3.0 has no such views")
def test_the_list_is_in_the_navigation() -> None:
    from bollhav_provider.plugins.bollhav import BollhavPlugin

    (view,) = BollhavPlugin.external_views
    assert (view["destination"], view["href"]) == ("nav", "bollhav/models")


@only_3
def test_tasks_link_to_their_units_and_sensors_to_the_dag_and_the_page_of_their_upstream() -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.orders", UpstreamContract.EXACT),))
    dag = build_dags([orders, report])["mart.report"]
    key: Any = SimpleNamespace()
    execute, sensor = dag.get_task("unit.execute"), dag.get_task("unit.shop.orders")
    execute.units = [{"since": "2024-01-01T00:00:00+00:00", "until": "2024-01-02T00:00:00+00:00"}]
    link = StateLink().get_link(execute, ti_key=key)
    assert link.startswith("bollhav/models/mart.report?since=2024-01-01T00%3A00%3A00%2B00%3A00")
    assert UpstreamLink().get_link(sensor, ti_key=key) == "dags/shop.orders"
    assert UpstreamStateLink().get_link(sensor, ti_key=key) == "bollhav/models/shop.orders"
    sensor.units = execute.units
    assert UpstreamStateLink().get_link(sensor, ti_key=key) == link.replace("mart.report", "shop.orders")
    assert StateLink().get_link(sensor, ti_key=key) == link
    assert {type(link) for link in sensor.operator_extra_links} == {StateLink, UpstreamLink, UpstreamStateLink}
    grouped = build_dags([orders, report], group_by="schema")["mart.daily"]
    assert UpstreamLink().get_link(grouped.get_task("mart-report.unit.shop.orders"), ti_key=key) == "dags/shop.daily"
    assert state_page("a b.c", None) == "bollhav/models/a%20b.c"
