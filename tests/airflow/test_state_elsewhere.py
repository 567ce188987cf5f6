"""Models whose state says by itself where it is: whoever waits for them waits there, too."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow_models import gated, windowed
from airflow_testing import airflow_connection, forget_connections, rows, states

from bollhav_provider import run as core
from bollhav_provider.dag_factory import build_dags
from bollhav_provider.graph import build_graph
from bollhav_provider.intervals import Interval, as_utc
from bollhav_provider.model import Model, State, UpstreamContract

DAY = Interval(as_utc("2024-01-01T00:00:00Z", "since"), as_utc("2024-01-02T00:00:00Z", "until"))


@pytest.fixture(params=["conn_id", "dsn_env_var"])
def elsewhere(request: Any, databases: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The DSN of another library, and a state that is there."""
    with databases.empty() as dsn:
        monkeypatch.setenv("AIRFLOW_CONN_ELSEWHERE", json.dumps(airflow_connection(dsn)))
        monkeypatch.setenv("ELSEWHERE_DSN", dsn)
        forget_connections()
        yield dsn, State(**{request.param: {"conn_id": "elsewhere", "dsn_env_var": "ELSEWHERE_DSN"}[request.param]})


def loaded(model: Model, library: str, elsewhere: str) -> None:
    connections = core.DsnConnections(library, environ={"ELSEWHERE_DSN": elsewhere}, by_id={"elsewhere": elsewhere})
    graph = build_graph([model])
    spec = core.RunSpec(run=core.run_key(), window=DAY)
    core.execute_units(connections, graph, model, core.prepare(connections, graph, model, spec).units, spec)


def test_a_run_by_itself_asks_the_clock_of_that_library(
    library: str, elsewhere: tuple[str, State], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn, state = elsewhere
    nowhere = json.dumps({"conn_type": "bollhav", "host": "127.0.0.1", "port": 1, "schema": "none"})
    monkeypatch.setenv("AIRFLOW_CONN_BOLLHAV_DEFAULT", nowhere)
    forget_connections()
    orders = windowed("shop.orders", begin=None, end=None)
    orders = orders.replace(target=orders.target.replace(conn_id="elsewhere")).model_copy(update={"state": state})
    dag_run = run(
        build_dags([orders])["shop.orders"], conf={"since": (datetime.now(UTC) - timedelta(days=2)).date().isoformat()}
    )
    assert states(dag_run)["prefill"] == "success"
    assert rows(dsn, "SELECT count(*) FROM shop.orders") in ([(2,)], [(3,)])  # midnight may pass meanwhile


@pytest.mark.parametrize("group_by", ["model", "all"])
def test_a_gate_is_waited_for_in_the_library_of_the_models_state(
    library: str, elsewhere: tuple[str, State], run: Any, group_by: str
) -> None:
    dsn, state = elsewhere
    orders = windowed("shop.orders").model_copy(update={"state": state})
    source = gated("shop.orders", UpstreamContract.ENCAPSULATE)
    report = windowed("mart.report", upstream=(source,)).model_copy(update={"state": state})
    dags = build_dags([orders, report], group_by=group_by)
    connections = core.DsnConnections(library, environ={"ELSEWHERE_DSN": dsn}, by_id={"elsewhere": dsn})
    core.prepare(connections, build_graph([orders]), orders, core.RunSpec(run=core.run_key(), window=DAY))

    def later() -> None:
        time.sleep(2)
        loaded(orders, library, dsn)

    upstream = threading.Thread(target=later)
    upstream.start()
    try:
        dag = dags["mart.report" if group_by == "model" else "bollhav.daily"]
        dag_run = run(dag, "2024-01-02", conf={"only": "mart.report"})
    finally:
        upstream.join()
    name = "unit.execute[0]" if group_by == "model" else "mart-report.unit.execute[0]"
    assert states(dag_run)[name] == "success"
    assert rows(library, "SELECT n, to_regnamespace('z_bollhav') FROM mart.report") == [(1, None)]
