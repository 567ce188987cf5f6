"""When models without windows run, and those that are to follow their upstreams: after what they are made of."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow_models import gated, timeless, windowed
from airflow_testing import rows, states

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.model import (
    AirflowOptions,
    Materialization,
    Model,
    Source,
    State,
    Target,
    Temporality,
    UpstreamContract,
)
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS

EXISTS = UpstreamContract.EXISTS
READ, WAITED = Source("shop.orders"), gated("shop.orders", EXISTS)


def view(source: Source | None, **more: Any) -> Model:
    """Return a view of the orders; with a gate it has a state, which gates are part of."""
    return Model(
        target=Target(schema="mart", name="shown"),
        temporality=Temporality.TIMELESS,
        materialization=Materialization.VIEW,
        upstream=[source] if source else [],
        query="SELECT n FROM {orders}" if source else "SELECT 1 AS n",
        state=State() if source and source.contract else None,
        **more,
    )


def followed(dag: Any) -> set[str]:
    """Return the tables whose assets start a DAG's runs, out of what Airflow stores of it."""
    from airflow.serialization import serialized_objects

    found: Any = serialized_objects
    stored = getattr(found, "DagSerialization", None) or found.SerializedDAG
    timetable = json.dumps(stored.to_dict(dag)["dag"]["timetable"])
    return {name for name in ("shop/orders", "ref/rates") if f"/library/{name}" in timetable}


@pytest.mark.parametrize("source", [WAITED, READ], ids=["gated", "not gated"])
def test_a_view_runs_after_its_upstreams(source: Source) -> None:
    assert followed(build_dags([windowed("shop.orders"), view(source)], strict=True)["mart.shown"]) == {"shop/orders"}


def test_gates_say_what_a_table_runs_after_and_without_any_whatever_it_reads() -> None:
    rates, orders = timeless("ref.rates"), windowed("shop.orders")
    reads = timeless("mart.total", upstream=(Source("ref.rates"),))
    assert followed(build_dags([rates, reads], strict=True)["mart.total"]) == {"ref/rates"}
    waits = Model(
        target=Target(schema="mart", name="both"),
        temporality=Temporality.TIMELESS,
        upstream=[gated("shop.orders", UpstreamContract.WHOLE), Source("ref.rates")],
        query="SELECT count(*)::integer AS n FROM {orders} JOIN {rates} USING (n)",
        state=State(),
    )
    assert followed(build_dags([rates, orders, waits], strict=True)["mart.both"]) == {"shop/orders"}


def test_a_cron_comes_before_upstreams_and_none_at_all_is_never() -> None:
    nightly = view(READ, airflow=AirflowOptions(schedule="0 3 * * *"))
    assert build_dags([windowed("shop.orders"), nightly])["mart.shown"].timetable.summary.startswith("0 3 * * *")
    never = view(READ, airflow=AirflowOptions(schedule=None))
    assert type(build_dags([windowed("shop.orders"), never])["mart.shown"].timetable).__name__ == "NullTimetable"
    # Of a plain table nobody hears, and of a model that is not enabled neither.
    assert type(build_dags([view(READ)])["mart.shown"].timetable).__name__ == "NullTimetable"
    idle = windowed("shop.orders", enabled=False)
    assert type(build_dags([idle, view(READ)])["mart.shown"].timetable).__name__ == "NullTimetable"


def test_a_group_without_windows_runs_after_what_its_models_read_of_others() -> None:
    dags = build_dags([windowed("shop.orders"), view(READ), timeless("mart.total")], group_by="schema")
    assert followed(dags["mart.timeless"]) == {"shop/orders"}


def test_a_model_that_is_to_follow_its_upstreams_does_without_a_gate_too() -> None:
    report = windowed("mart.report", upstream=(READ,))
    assert followed(build_dags([windowed("shop.orders"), report], schedule_by_assets=True)["mart.report"]) == {
        "shop/orders"
    }
    assert followed(build_dags([windowed("shop.orders"), report])["mart.report"]) == set()


@pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="a run without any date is one of Airflow 3")
def test_a_view_without_state_is_made_by_a_run_without_a_date(library: str, run: Any) -> None:
    dags = build_dags([windowed("shop.orders"), view(READ)])
    run(dags["shop.orders"], "2024-01-02")
    assert set(states(run(dags["mart.shown"])).values()) == {"success"}
    assert rows(library, "SELECT n FROM mart.shown") == [(1,)]
