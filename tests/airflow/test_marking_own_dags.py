"""People mark tasks success that have no prefill before them: what they stand for, they said when they ran."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pendulum
import pytest
from airflow.providers.common.compat.sdk import DAG
from airflow_models import windowed
from airflow_testing import mark_success, rows, state_rows, states, statuses

from bollhav_provider import Upstream
from bollhav_provider.dag_factory import build_dags
from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.model import Column, Model, Source, SourceHardcoded, State, Target, Temporality, WriteMode
from bollhav_provider.operators import ExecuteOperator, MarkAppliedOperator, PrefillOperator, RunModelOperator
from bollhav_provider.operators.run_model import bollhav_task

ORDERS = windowed("shop.orders")
BROKEN = ORDERS.replace(query="SELECT %(since)s::timestamptz AS at, 1 / 0 AS n WHERE %(since)s < %(until)s")
TWO_DAYS = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-03T00:00:00Z"}
FIRST, SECOND, THIRD = "2024-01-01", "2024-01-02", "2024-01-03"
BY_ADA = {"marked_by": "ada", "reason": "task own.orders was marked success in Airflow"}


@pytest.fixture
def own_dag() -> Iterator[Any]:
    """A DAG of one's own, open."""
    with DAG("own", schedule=None, start_date=pendulum.datetime(2024, 1, 1)) as dag:
        yield dag


def by(library: str, model: Model) -> list[tuple[Any, ...]]:
    return state_rows(library, model, "status", "marked_by", "reason")


def test_a_models_whole_run_is_marked_with_the_windows_of_the_run(library: str, run: Any, own_dag: Any) -> None:
    RunModelOperator(task_id="orders", model=BROKEN)
    dag_run = run(own_dag, "2024-02-01", conf=TWO_DAYS)
    assert statuses(library, ORDERS) == {FIRST: "error", SECOND: "error", THIRD: "pending"}
    mark_success(dag_run, "orders", "ada")
    marked = ("applied", *BY_ADA.values())
    assert by(library, ORDERS) == [marked, marked, ("pending", None, None)]


def test_what_the_run_had_applied_before_it_failed_stays_as_it_is(library: str, run: Any, own_dag: Any) -> None:
    query = (
        "SELECT %(since)s::timestamptz AS at, 1 / (2 - extract(day from %(since)s::timestamptz))::integer AS n "
        "WHERE %(since)s < %(until)s"
    )
    RunModelOperator(task_id="orders", model=ORDERS.replace(query=query))
    dag_run = run(own_dag, "2024-02-01", conf=TWO_DAYS)
    assert statuses(library, ORDERS) == {FIRST: "applied", SECOND: "error", THIRD: "pending"}
    mark_success(dag_run, "orders", "ada")
    assert [row[:2] for row in by(library, ORDERS)] == [("applied", None), ("applied", "ada"), ("pending", None)]


def test_a_decorated_function_is_marked_with_the_windows_of_the_run(library: str, run: Any, own_dag: Any) -> None:
    plain = ORDERS.replace(query=None)

    @bollhav_task(model=plain)
    def orders(unit: Unit) -> None:
        raise ValueError("no vendor")

    orders()
    dag_run = run(own_dag, "2024-02-01", conf=TWO_DAYS)
    mark_success(dag_run, "orders", "ada")
    assert statuses(library, plain) == {FIRST: "applied", SECOND: "applied", THIRD: "pending"}


def test_units_that_a_dag_file_names_are_marked_and_no_others(library: str, run: Any, own_dag: Any) -> None:
    run(build_dags([ORDERS])["shop.orders"], "2024-01-04")
    second = Unit(Interval(pendulum.datetime(2024, 1, 2), pendulum.datetime(2024, 1, 3)))
    ExecuteOperator(task_id="orders", model=BROKEN, units=[second.to_json()])
    dag_run = run(own_dag, "2024-02-01")
    assert statuses(library, ORDERS) == {FIRST: "pending", SECOND: "error", THIRD: "applied"}
    mark_success(dag_run, "orders", "ada")
    assert by(library, ORDERS)[1] == ("applied", *BY_ADA.values())
    assert statuses(library, ORDERS)[FIRST] == "pending"


@pytest.mark.once
def test_units_that_a_dag_file_names_are_recorded_where_the_run_is_to_mark_them(
    library: str, run: Any, own_dag: Any
) -> None:
    days = [Unit(Interval(pendulum.datetime(2024, 1, day), pendulum.datetime(2024, 1, day + 1))) for day in (1, 3)]
    ExecuteOperator(task_id="orders", model=ORDERS, units=[day.to_json() for day in days])
    dag_run = run(own_dag, "2024-02-01", conf={"mark_applied": True})
    assert states(dag_run) == {"orders": "skipped"}
    why = f"the run parameter mark_applied of the run {dag_run.run_id} of the DAG own"
    marked = state_rows(library, ORDERS, "since", "status", "attempt", "reason")
    assert [(at.date().isoformat(), *more) for at, *more in marked] == [
        (FIRST, "applied", 1, why),
        (THIRD, "applied", 1, why),
    ]
    assert rows(library, "SELECT to_regclass('shop.orders')") == [(None,)]


@pytest.mark.once
def test_a_prefill_by_any_other_name_says_what_its_tasks_stand_for(library: str, run: Any, own_dag: Any) -> None:
    plan = PrefillOperator(task_id="plan", model=BROKEN)
    ExecuteOperator.partial(task_id="work", model=BROKEN, prefill_task_id="plan").expand(units=plan.output)
    dag_run = run(own_dag, "2024-02-01", conf=TWO_DAYS)
    mark_success(dag_run, "work[1]", "ada")
    assert statuses(library, ORDERS) == {FIRST: "error", SECOND: "applied", THIRD: "pending"}


def test_a_task_that_never_ran_marks_nothing_and_says_so(library: str, run: Any, own_dag: Any, caplog: Any) -> None:
    run(build_dags([ORDERS])["shop.orders"], "2024-01-04")
    failing = PrefillOperator(task_id="before", model=ORDERS)
    failing >> RunModelOperator(task_id="orders", model=ORDERS)
    dag_run = run(own_dag, "2024-02-01", conf={"since": "2024-01-02", "until": "2024-01-01"})
    assert states(dag_run)["orders"] == "upstream_failed"
    mark_success(dag_run, "orders", "ada")
    assert statuses(library, ORDERS) == {FIRST: "pending", SECOND: "pending", THIRD: "applied"}
    said = [r.getMessage() for r in caplog.records if "marked success" in r.getMessage()]
    assert said == [
        f"own.orders of run {dag_run.run_id} was marked success, and none of its windows is marked applied: it had not "
        "got so far as to say which they are. Use the run parameter mark_applied or `bollhav mark-applied`."
    ]


@pytest.mark.once
def test_a_run_without_anything_to_do_is_marked_without_marking_anything(library: str, run: Any, own_dag: Any) -> None:
    RunModelOperator(task_id="orders", model=ORDERS)
    dag_run = run(own_dag, "2024-02-01", conf={"since": "2023-01-01", "until": "2023-01-02"})
    run(build_dags([ORDERS])["shop.orders"], "2024-01-04")
    mark_success(dag_run, "orders", "ada")
    assert statuses(library, ORDERS) == {FIRST: "pending", SECOND: "pending", THIRD: "applied"}


def regions(*codes: str) -> Model:
    return Model(
        target=Target(schema="ref", name="regions", write_mode=WriteMode.TRUNCATE, columns=[Column("code", "text")]),
        temporality=Temporality.TIMELESS,
        upstream=[Source("codes", type=SourceHardcoded(rows=[{"code": code} for code in codes]))],
        state=State(),
    )


@pytest.mark.parametrize("way", ["generated", "whole run"])
def test_a_marked_model_of_inline_rows_runs_again_when_they_change_and_only_then(
    library: str, run: Any, own_dag: Any, way: str
) -> None:
    def of(model: Model, *, works: bool) -> Model:
        @model.execute
        def load(codes: Upstream) -> Any:
            if not works:
                raise ValueError("not today")
            return codes.data

        return model

    if way == "generated":
        dag, task = build_dags([of(regions("a"), works=False)])["ref.regions"], "unit.execute[0]"
    else:
        RunModelOperator(task_id="regions", model=of(regions("a"), works=False))
        dag, task = own_dag, "regions"
    dag_run = run(dag, "2024-02-01")
    assert state_rows(library, regions(), "status") == [("error",)]
    mark_success(dag_run, task, "ada")
    assert state_rows(library, regions(), "status", "content_hash") == [("applied", regions("a").content_hash)]
    same = run(build_dags([of(regions("a"), works=True)])["ref.regions"], "2024-02-02", conf={"state_mode": "discover"})
    assert "unit.execute[0]" not in states(same)
    run(build_dags([of(regions("a", "b"), works=True)])["ref.regions"], "2024-02-03", conf={"state_mode": "discover"})
    assert state_rows(library, regions(), "marked_by", "content_hash") == [(None, regions("a", "b").content_hash)]


@pytest.mark.once
def test_marking_a_models_table_by_its_name_keeps_the_inline_rows_that_it_stands_for(
    library: str, run: Any, own_dag: Any
) -> None:
    model = regions("a")

    @model.execute
    def load(codes: Upstream) -> Any:
        return codes.data

    assert run(build_dags([model])["ref.regions"], "2024-02-01").state == "success"
    MarkAppliedOperator(task_id="mark", model="ref.regions")
    assert run(own_dag, "2024-02-02").state == "success"
    marked = state_rows(library, model, "marked_by", "content_hash")
    assert [(by is not None, content) for by, content in marked] == [(True, model.content_hash)]
