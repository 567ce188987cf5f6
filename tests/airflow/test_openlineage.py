"""What OpenLineage hears of a task: the tables that its definition names, under the addresses of its connections."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from airflow_models import gated, windowed

from bollhav_provider import Upstream
from bollhav_provider.graph import build_graph
from bollhav_provider.model import Source, SourceFile, SourceHardcoded, SourceModel, UpstreamContract
from bollhav_provider.operators import ExecuteOperator, RunModelOperator
from bollhav_provider.operators.openlineage import lineage

HERE, THERE = "postgres://warehouse.example:6432", "postgres://crm.example:5432"


@pytest.fixture(autouse=True)
def addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections to servers that do not exist: nothing is connected to."""
    for conn_id, extra in (
        ("bollhav_default", {"host": "warehouse.example", "port": 6432, "schema": "dwh"}),
        ("crm", {"host": "CRM.example", "schema": "customers"}),
    ):
        said = {"conn_type": "postgres", "login": "loader", "password": "secret-word", **extra}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(said))


def sums() -> ExecuteOperator:
    orders = windowed("shop.orders")
    model = windowed("mart.sums").replace(
        query=None,
        upstream=(
            gated("shop.orders", UpstreamContract.EXACT),
            Source("sales.people", type=SourceModel(conn_id="crm"), alias="people"),
            Source("rates", type=SourceFile(path="/data/rates.csv")),
            Source("words", type=SourceHardcoded(rows=({"word": "a"},))),
        ),
    )

    @model.execute
    def rows(orders: Upstream, people: Upstream, rates: Upstream, words: Upstream) -> pl.DataFrame:
        raise AssertionError("nothing runs here")

    return ExecuteOperator(task_id="execute", model=model, graph=build_graph([orders, model]))


def test_inputs_and_outputs_are_named_by_the_servers_they_are_on() -> None:
    found = lineage(sums())
    assert [(one.namespace, one.name, one.kind) for one in found.inputs] == [
        (HERE, "dwh.shop.orders", "model"),
        (THERE, "customers.sales.people", "model"),
        ("file", "/data/rates.csv", "file"),
        ("bollhav", "mart.sums/words", "hardcoded"),
    ]
    assert [(one.namespace, one.name) for one in found.outputs] == [(HERE, "dwh.mart.sums")]
    assert "secret-word" not in str(found)


@pytest.mark.parametrize("task", [sums, lambda: RunModelOperator(task_id="run", model=windowed("shop.orders"))])
def test_the_provider_finds_it_where_it_is_installed(task: Any) -> None:
    made = task()
    base = pytest.importorskip("airflow.providers.openlineage.extractors.base")
    for told in (base.DefaultExtractor(made).extract(), base.DefaultExtractor(made).extract_on_complete(None)):
        expected = lineage(made)
        kept = [one for one in expected.inputs if one.kind not in ("hardcoded", "unknown")]
        assert [(one.namespace, one.name) for one in told.inputs] == [(one.namespace, one.name) for one in kept]
        assert [(one.namespace, one.name) for one in told.outputs] == [(HERE, f"dwh.{made.model.full_name}")]


def test_where_it_is_not_installed_nothing_is_told() -> None:
    try:
        import airflow.providers.openlineage  # noqa: F401
    except ImportError:
        assert sums().get_openlineage_facets_on_start() is None
    else:
        pytest.skip("it is installed")
