"""A DAG that allows one run at a time never waits for a run of its own that a cascade asked for."""

from __future__ import annotations

from typing import Any

import pytest
from airflow_models import gated, windowed
from airflow_testing import published, state_rows, states

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.model import Model, State, UpstreamContract

EXACT, THROUGH, WHOLE = UpstreamContract.EXACT, UpstreamContract.THROUGH, UpstreamContract.WHOLE
ALL = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-04T00:00:00Z"}
SECOND = {"since": "2024-01-02T00:00:00Z", "until": "2024-01-03T00:00:00Z"}
ONE_AT_A_TIME = {"max_active_runs": 1}

ORDERS = windowed("shop.orders")
SUMS = windowed("mart.sums", upstream=(gated("shop.orders", EXACT),))
REPORT = windowed("mart.report", upstream=(gated("mart.sums", THROUGH),))
#: Every window of it reads all of the report.
SHARES = windowed("mart.shares", upstream=(gated("mart.report", WHOLE),))


@pytest.fixture(autouse=True)
def no_runs(airflow_db: None) -> None:
    """Forget the runs of other tests, whose DAGs have the same ids."""
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    with create_session() as session:
        session.execute(delete(DagRun))
        session.execute(delete(DagModel))


def queued(dag_id: str) -> list[str]:
    """Return the models that a cascade asked a DAG to make again."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(select(DagRun).where(DagRun.dag_id == dag_id).order_by(DagRun.id)).all()
        return [run.conf.get("only", dag_id) for run in found if run.run_id.startswith("cascade__")]


def loaded(run: Any, models: list[Model], **how: Any) -> Any:
    """Return the one DAG of the models, which has loaded all their windows."""
    (dag,) = build_dags(models, dag_args=ONE_AT_A_TIME, **({"group_by": "all"} | how)).values()
    assert run(published(dag), "2024-02-01", conf=ALL).state == "success"
    return dag


def rows(library: str, *models: Model) -> list[Any]:
    return [state_rows(library, model, "status", "attempt") for model in models]


def test_a_cascade_whose_run_would_wait_for_itself_is_refused_and_puts_nothing_back(
    library: str, run: Any, capsys: Any, caplog: Any
) -> None:
    models = [ORDERS, SUMS, REPORT, SHARES]
    dag = loaded(run, models)
    before = rows(library, *models)
    dag_run = run(dag, "2024-02-02", conf=SECOND | {"cascade": True})
    assert states(dag_run)["shop-orders.prefill"] == "failed"
    assert rows(library, *models) == before
    assert queued(dag.dag_id) == []
    told = capsys.readouterr().out + caplog.text
    assert "with cascade would wait for itself: mart.shares waits for 1 unit(s) of mart.report in " in told
    assert "another run of the DAG bollhav.daily has to make again, and that DAG allows one run at a time" in told


def test_a_window_that_holds_all_of_it_needs_no_further_run(library: str, run: Any) -> None:
    models = [ORDERS, SUMS, REPORT, SHARES]
    dag = loaded(run, models)
    assert run(dag, "2024-02-02", conf=ALL | {"cascade": True}).state == "success"
    assert queued(dag.dag_id) == []
    assert rows(library, *models) == [[("applied", 2)] * 3] * 4


def test_where_nothing_waits_for_them_further_runs_stand_in_line(library: str, run: Any) -> None:
    dag = loaded(run, [ORDERS, SUMS, REPORT])
    assert run(dag, "2024-02-02", conf=SECOND | {"cascade": True}).state == "success"
    assert queued(dag.dag_id) == ["mart.report"]


@pytest.mark.once
def test_a_model_that_reads_its_own_past_is_refused_for_every_later_run_would_wait(
    library: str, run: Any, capsys: Any, caplog: Any
) -> None:
    running = windowed("mart.running", units_per_task=3).model_copy(update={"state": State(sequential=True)})
    dag = loaded(run, [running], group_by="model")
    before = rows(library, running)
    assert run(dag, "2024-02-02", conf=SECOND | {"cascade": True}).state == "failed"
    assert rows(library, running) == before
    assert "mart.running waits for 1 unit(s) of mart.running in " in capsys.readouterr().out + caplog.text
    assert run(dag, "2024-02-03", conf=SECOND | {"until": ALL["until"], "cascade": True}).state == "success"
    assert rows(library, running) == [[("applied", 1), ("applied", 2), ("applied", 2)]]
