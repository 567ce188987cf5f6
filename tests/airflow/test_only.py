"""A run with ``only`` writes one model of its DAG, or is refused: never a success that did nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG
from airflow_models import gated, windowed
from airflow_testing import state_rows, states

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.model import UpstreamContract
from bollhav_provider.operators import RunModelOperator

DAY = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-02T00:00:00Z"}
ORDERS = windowed("shop.orders")
RETURNS = windowed("shop.returns")
REPORT = windowed("mart.report", upstream=(gated("shop.orders", UpstreamContract.EXACT),))


@pytest.mark.parametrize("group_by", ["schema", "model"])
def test_a_model_of_another_dag_is_refused_with_the_dag_that_makes_it(
    run: Any, library: str, group_by: str, capsys: Any, caplog: Any
) -> None:
    dags = build_dags([ORDERS, RETURNS, REPORT], group_by=group_by)
    mine, other = ("shop.daily", "mart.daily") if group_by == "schema" else ("shop.orders", "mart.report")
    dag_run = run(dags[mine], "2024-02-01", conf={"only": "mart.report", **DAY})
    assert dag_run.state == "failed"
    assert "skipped" not in states(dag_run).values()
    told = capsys.readouterr().out + caplog.text
    held = "shop.orders, shop.returns" if group_by == "schema" else "shop.orders"
    assert f"only='mart.report' names no model of the DAG {mine}, which holds {held}: nothing was done. " in told
    assert f"It is made by the DAG {other}: trigger that one." in told


@pytest.mark.once
def test_a_name_that_is_no_models_is_refused_with_what_was_meant(
    run: Any, library: str, capsys: Any, caplog: Any
) -> None:
    dag = build_dags([ORDERS, RETURNS], group_by="schema")["shop.daily"]
    assert run(dag, "2024-02-01", conf={"only": "shop.order", **DAY}).state == "failed"
    told = capsys.readouterr().out + caplog.text
    assert "Give the full name of one of them, or leave it out; did you mean 'shop.orders'?" in told


@pytest.mark.once
def test_a_dag_of_ones_own_refuses_what_it_does_not_hold_and_skips_what_is_not_meant(
    run: Any, library: str, capsys: Any, caplog: Any
) -> None:
    with DAG("own", schedule=None, start_date=datetime(2024, 1, 1, tzinfo=UTC)) as dag:
        RunModelOperator(task_id="orders", model=ORDERS)
        RunModelOperator(task_id="returns", model=RETURNS)
    dag_run = run(dag, "2024-02-01", conf={"only": "shop.returns", **DAY})
    assert states(dag_run) == {"orders": "skipped", "returns": "success"}
    assert state_rows(library, RETURNS, "status")[0] == ("applied",)
    assert run(dag, "2024-02-02", conf={"only": "mart.report", **DAY}).state == "failed"
    assert "no model of the DAG own, which holds shop.orders, shop.returns" in capsys.readouterr().out + caplog.text
