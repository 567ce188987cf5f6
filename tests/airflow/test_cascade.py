"""A run with ``cascade`` puts back what was made from its windows and starts the runs that make it again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from airflow_models import gated, timeless, windowed
from airflow_testing import again, clear, published, state_rows, states

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.intervals import Interval
from bollhav_provider.model import Model, State, UpstreamContract
from bollhav_provider.operators.cascade import fewer, run_id
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS, AIRFLOW_V_3_2_PLUS

EXACT, THROUGH, WHOLE = UpstreamContract.EXACT, UpstreamContract.THROUGH, UpstreamContract.WHOLE
ALL = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-04T00:00:00Z"}
SECOND = {"since": "2024-01-02T00:00:00Z", "until": "2024-01-03T00:00:00Z"}
DAY = Interval(datetime(2024, 1, 2, tzinfo=UTC), datetime(2024, 1, 3, tzinfo=UTC))
_2, _3, _4 = (f"2024-01-0{day}T00:00:00+00:00" for day in (2, 3, 4))


def runs(*dag_ids: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the waiting runs of DAGs that somebody started, with their parameters, and forget none."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(select(DagRun).where(DagRun.dag_id.in_(dag_ids)).order_by(DagRun.id)).all()
        return [(run.dag_id, dict(run.conf)) for run in found if run.run_id.startswith("cascade__")]


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


def attempts(library: str, model: Model) -> list[tuple[str, int]]:
    return state_rows(library, model, "status", "attempt")


def again_by_their_runs(run: Any, dags: dict[str, Any]) -> None:
    """Run what was started, in its order, as the scheduler would."""
    for number, (dag_id, conf) in enumerate(runs(*dags)):
        assert run(dags[dag_id], f"2024-03-{1 + number:02}", conf=conf).state == "success"


ORDERS = windowed("shop.orders")
SUMS = windowed("mart.sums", upstream=(gated("shop.orders", EXACT),))
REPORT = windowed("mart.report", upstream=(gated("mart.sums", THROUGH),))
TOTAL = timeless("mart.total", upstream=(gated("mart.report", WHOLE),))


@pytest.fixture
def chain(library: str, run: Any) -> dict[str, Any]:
    """Four models of two DAG files, all loaded."""
    dags = build_dags([ORDERS, SUMS]) | build_dags([REPORT, TOTAL])
    for model in (ORDERS, SUMS, REPORT, TOTAL):
        dag = published(dags[model.full_name])
        assert run(dag, "2024-02-01", conf=ALL if model.is_temporal else {}).state == "success"
    return dags


def test_every_model_downstream_runs_its_windows_again_whatever_dag_file_it_is_of(
    library: str, run: Any, chain: dict[str, Any]
) -> None:
    assert run(chain["shop.orders"], "2024-02-02", conf=SECOND | {"cascade": True}).state == "success"
    how = {"state_mode": "discover", "cascade": False}
    assert runs(*chain) == [
        ("mart.sums", {"since": _2, "until": _3, **how}),
        ("mart.report", {"since": _2, "until": _4, **how}),
        ("mart.total", how),
    ]
    assert attempts(library, SUMS) == [("applied", 1), ("pending", 1), ("applied", 1)]
    again_by_their_runs(run, chain)
    assert attempts(library, ORDERS) == [("applied", 1), ("applied", 2), ("applied", 1)]
    assert attempts(library, SUMS) == [("applied", 1), ("applied", 2), ("applied", 1)]
    assert attempts(library, REPORT) == [("applied", 1), ("applied", 2), ("applied", 2)]
    assert attempts(library, TOTAL) == [("applied", 2)]


@pytest.mark.once
def test_a_run_without_cascade_starts_nothing(run: Any, chain: dict[str, Any]) -> None:
    assert run(chain["shop.orders"], "2024-02-02", conf=SECOND).state == "success"
    assert runs(*chain) == []


@pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="tasks are run one by one through Airflow 3's runner")
def test_neither_a_retry_nor_a_clear_starts_a_run_twice(library: str, run: Any, chain: dict[str, Any]) -> None:
    chain["shop.orders"] = build_dags([ORDERS, SUMS], default_args={"retries": 1})["shop.orders"]
    dag_run = run(chain["shop.orders"], "2024-02-02", conf=SECOND | {"cascade": True})
    first = runs(*chain)
    assert len(first) == 3
    assert again(chain["shop.orders"], dag_run, "prefill") == "success"  # a retry
    assert runs(*chain) == first
    clear(dag_run, "prefill", "unit.execute[0]")  # before any of them has begun
    for name in ("prefill", "unit.execute[0]"):
        assert again(chain["shop.orders"], dag_run, name) == "success"
    assert attempts(library, ORDERS)[1] == ("applied", 3)
    assert runs(*chain) == first
    again_by_their_runs(run, chain)
    clear(dag_run, "prefill", "unit.execute[0]")  # and after: everything is put back once more
    assert again(chain["shop.orders"], dag_run, "prefill") == "success"
    assert runs(*chain) == first * 2
    assert attempts(library, SUMS)[1] == ("pending", 2)


def test_what_is_not_of_this_deployment_is_named_with_what_to_do(
    run: Any, chain: dict[str, Any], caplog: Any, capsys: Any
) -> None:
    elsewhere = windowed("other.copy", upstream=(gated("shop.orders", EXACT),))
    (dag,) = build_dags([elsewhere]).values()
    run(dag, "2024-02-01", conf=ALL)
    forget(dag.dag_id)
    assert run(chain["shop.orders"], "2024-02-02", conf=SECOND | {"cascade": True}).state == "success"
    told = capsys.readouterr().out + caplog.text
    assert "no run of the DAG other.copy could be started (there is no such DAG here)" in told
    assert f"bollhav run other.copy --since {_2} --until {_3} --mode discover" in told


def forget(dag_id: str) -> None:
    """Have a DAG vanish, as when its file is deleted."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        if AIRFLOW_V_3_0_PLUS:
            session.query(DagModel).where(DagModel.dag_id == dag_id).update({"is_stale": True})
        else:
            session.query(DagModel).where(DagModel.dag_id == dag_id).delete()


@pytest.mark.skipif(AIRFLOW_V_3_0_PLUS and not AIRFLOW_V_3_2_PLUS, reason="3.1 does not tell a task")
def test_a_paused_dag_is_named(run: Any, chain: dict[str, Any], caplog: Any, capsys: Any) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        session.query(DagModel).where(DagModel.dag_id != "mart.sums").update({"is_paused": False})
        session.query(DagModel).where(DagModel.dag_id == "mart.sums").update({"is_paused": True})
    run(chain["shop.orders"], "2024-02-02", conf=SECOND | {"cascade": True})
    told = capsys.readouterr().out + caplog.text
    assert "the DAG mart.sums is paused: unpause it" in told
    assert "the DAG mart.report is paused" not in told


def test_models_of_one_dag_do_their_own_windows_and_the_others_get_runs_for_one_model_each(
    library: str, run: Any, caplog: Any, capsys: Any
) -> None:
    dag = published(build_dags([ORDERS, SUMS, REPORT], group_by="all")["bollhav.daily"])
    dags = {dag.dag_id: dag}
    assert run(dag, "2024-02-01", conf=ALL).state == "success"
    dag_run = run(dag, "2024-02-02", conf=SECOND | {"cascade": True})
    assert set(states(dag_run).values()) == {"success"}
    assert runs(*dags) == [
        ("bollhav.daily", {"since": _3, "until": _4, "state_mode": "discover", "cascade": False, "only": "mart.report"})
    ]
    assert attempts(library, REPORT) == [("applied", 1), ("applied", 2), ("pending", 1)]
    assert "1 unit(s) of mart.report in [2024-01-03T00:00Z, 2024-01-04T00:00Z)" in capsys.readouterr().out + caplog.text
    again_by_their_runs(run, dags)
    assert attempts(library, REPORT) == [("applied", 1), ("applied", 2), ("applied", 2)]
    assert attempts(library, SUMS) == [("applied", 1), ("applied", 2), ("applied", 1)]


@pytest.mark.once
def test_one_model_alone_of_a_dag_has_the_others_run_by_runs_of_their_own(library: str, run: Any) -> None:
    dag = published(build_dags([ORDERS, SUMS], group_by="all")["bollhav.daily"])
    assert run(dag, "2024-02-01", conf=ALL).state == "success"
    assert run(dag, "2024-02-02", conf=SECOND | {"cascade": True, "only": "shop.orders"}).state == "success"
    assert [conf["only"] for _, conf in runs(dag.dag_id)] == ["mart.sums"]


def test_a_dag_of_several_models_in_another_file_is_found_by_what_it_made(library: str, run: Any) -> None:
    orders = published(build_dags([ORDERS])["shop.orders"])
    together = published(build_dags([SUMS, REPORT], group_by="schema")["mart.daily"])
    run(orders, "2024-02-01", conf=ALL)
    assert run(together, "2024-02-01", conf=ALL).state == "success"
    run(orders, "2024-02-02", conf=SECOND | {"cascade": True})
    found = runs(together.dag_id)
    assert [(conf["only"], conf["since"], conf["until"]) for _, conf in found] == [
        ("mart.sums", _2, _3),
        ("mart.report", _2, _4),
    ]
    again_by_their_runs(run, {together.dag_id: together})
    assert [status for status, _ in attempts(library, REPORT)] == ["applied"] * 3


@pytest.mark.once
def test_a_model_that_reads_its_own_past_makes_its_later_windows_again(library: str, run: Any) -> None:
    running = windowed("mart.running", units_per_task=3).model_copy(update={"state": State(sequential=True)})
    dag = published(build_dags([running])["mart.running"])
    assert run(dag, "2024-02-01", conf=ALL).state == "success"
    assert run(dag, "2024-02-02", conf=SECOND | {"cascade": True}).state == "success"
    assert [(conf["since"], conf["until"]) for _, conf in runs(dag.dag_id)] == [(_3, _4)]
    again_by_their_runs(run, {dag.dag_id: dag})
    assert attempts(library, running) == [("applied", 1), ("applied", 2), ("applied", 2)]


@pytest.mark.once
@pytest.mark.parametrize("cause", ["shop.orders", "shop.größe", 'sh"op.or ders', "shop.100%", "c." + "ö" * 200])
def test_every_run_has_an_id_that_airflow_accepts(cause: str) -> None:
    from airflow.models.dagrun import DagRun

    ids = {run_id(cause, name, uuid4(), window) for name in ("mart.sums", "mart.åäö") for window in (None, DAY)}
    assert len(ids) == 4
    for found in ids:
        assert DagRun(run_id=found).run_id == found
        assert len(found) <= 250


def test_stretches_are_joined_across_the_smallest_gaps() -> None:
    def days(first: int, last: int) -> Interval:
        start = datetime(2024, 1, 1, tzinfo=UTC)
        return Interval(start + timedelta(first), start + timedelta(last))

    apart = [days(0, 1), days(2, 3), days(10, 11), days(13, 14)]
    assert fewer(apart, 4) == apart
    assert fewer(apart, 3) == [days(0, 3), days(10, 11), days(13, 14)]
    assert fewer(apart, 2) == [days(0, 3), days(10, 14)]
    assert fewer(apart, 1) == [days(0, 14)]
    assert fewer([], 1) == []
