"""What people say to the factory about tasks and DAGs: what does not fit one model or operator harms no other."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow_models import gated, timeless, windowed

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.model import AirflowOptions, Model, UpstreamContract
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS

ENCAPSULATE = UpstreamContract.ENCAPSULATE
REFUSED = AirflowOptions(task_args={"nonsense": 1})


def two_days() -> tuple[Model, Model]:
    return windowed("shop.orders"), windowed("mart.report", upstream=(gated("shop.orders", ENCAPSULATE),))


def task_ids(dag: Any) -> set[str]:
    return {task.task_id for task in dag.tasks}


def test_default_args_go_to_the_tasks_that_take_them() -> None:
    said = {"postgres_conn_id": "elsewhere", "poke_interval": 7.0, "retries": 4, "bollhav_conn_id": "library"}
    dag = build_dags(two_days(), default_args=said)["mart.report"]
    assert task_ids(dag) == {"prefill", "unit.shop.orders", "unit.execute"}
    assert {task.retries for task in dag.tasks} == {4}
    assert {task.bollhav_conn_id for task in dag.tasks} == {"library"}


YAML = """
target: {schema: shop, name: orders, columns: [{name: n, type: integer}]}
batching: {time: {chunk: "@daily"}}
query: SELECT 1 AS n WHERE %(since)s < %(until)s
state: {}
airflow:
  retries: 4
  queue: slow
  priority_weight: 7
  pool: heavy
  execution_timeout: 2h
  executor_config: {pod: {cpu: 2}}
  on_failure_callback: alerts:tell
  on_retry_callback: [alerts:tell, alerts:more]
  max_active_runs: 3
  task_args: {max_active_tis_per_dag: 2}
  dag_args: {max_consecutive_failed_dag_runs: 5}
"""


def test_a_model_says_all_of_its_dag_and_tasks_in_yaml_too(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(YAML)
    under = {"retries": 1, "queue": "quick", "email_on_retry": False, "on_success_callback": print}
    dag = build_dags(tmp_path, strict=True, default_args=under)["shop.orders"]
    assert (dag.max_active_runs, dag.max_consecutive_failed_dag_runs) == (3, 5)
    prefill, execute = dag.get_task("prefill"), dag.get_task("unit.execute")
    for task in (prefill, execute):
        assert (task.retries, task.queue, task.priority_weight) == (4, "slow", 7)
        assert [call.path for call in callbacks(task.on_failure_callback)] == ["alerts:tell"]
        assert [call.path for call in callbacks(task.on_retry_callback)] == ["alerts:tell", "alerts:more"]
        assert callbacks(task.on_success_callback) == [print]  # the factory's, of which the model says nothing
    # Neither the room nor the time of the work is taken by what only prepares it.
    assert (prefill.pool, prefill.execution_timeout, prefill.executor_config) == ("default_pool", None, {})
    assert (execute.pool, execute.execution_timeout) == ("heavy", timedelta(hours=2))
    assert (execute.executor_config, execute.max_active_tis_per_dag) == ({"pod": {"cpu": 2}}, 2)


def callbacks(said: Any) -> list[Any]:
    """Return the callbacks of a task, which Airflow keeps one by one or as a list."""
    return list(said) if isinstance(said, list | tuple) else [said]


def test_a_callback_is_imported_when_it_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "orders.yaml").write_text(YAML)
    task = build_dags(tmp_path, strict=True)["shop.orders"].get_task("unit.execute")
    (tmp_path / "alerts.py").write_text("told = []\ntell = told.append\n")
    monkeypatch.syspath_prepend(tmp_path)
    (call,) = callbacks(task.on_failure_callback)
    call({"run_id": "r"})
    import alerts  # type: ignore[import-not-found]

    assert alerts.told == [{"run_id": "r"}]


def test_executing_tasks_take_further_outlets_beside_the_models_asset() -> None:
    from bollhav_provider.version_compat import make_asset

    more = make_asset("done", "postgres://other/db/shop/done")
    dag = build_dags([windowed("shop.orders")], execute_args={"outlets": [more]})["shop.orders"]
    assert len(dag.get_task("unit.execute").outlets) == 2
    assert dag.get_task("unit.execute").outlets[1] == more


def test_a_model_whose_arguments_airflow_refuses_stands_aside_from_its_group() -> None:
    orders, report = two_days()
    bad = windowed("shop.bad", airflow=REFUSED)
    dags = build_dags([orders, report, bad], group_by="all")
    assert sorted(dags) == ["bollhav.daily", "shop.bad"]
    assert "nonsense" in dags["shop.bad"].get_task("definition_error").problem
    expected = {"shop-orders.prefill", "shop-orders.unit.execute", "mart-report.prefill", "mart-report.unit.execute"}
    assert task_ids(dags["bollhav.daily"]) == expected


def test_a_worker_finds_the_dag_of_a_model_that_stands_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = "_AIRFLOW_PARSING_CONTEXT"
    monkeypatch.setenv(f"{prefix}_DAG_ID", "shop.bad")
    monkeypatch.setenv(f"{prefix}_TASK_ID", "definition_error")
    assert list(build_dags([windowed("shop.orders"), windowed("shop.bad", airflow=REFUSED)], group_by="all")) == [
        "shop.bad"
    ]
    monkeypatch.setenv(f"{prefix}_DAG_ID", "bollhav.daily")
    dags = build_dags([windowed("shop.orders"), windowed("shop.bad", airflow=REFUSED)], group_by="all")
    assert list(dags) == ["bollhav.daily"]


DAG_FILE = """
    import sys  # airflow dag
    sys.path.insert(0, {tests!r})
    from airflow_models import windowed
    from bollhav_provider import build_dags
    from bollhav_provider.model import AirflowOptions

    refused = AirflowOptions(task_args={{"nonsense": 1}})
    build_dags([windowed(f"shop.bad{{n}}", airflow=refused) for n in range(20)], {into})
"""
PARSE = """
    import sys
    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:
        from airflow.models.dagbag import DagBag
    bag = DagBag(sys.argv[1])
    assert not bag.import_errors, bag.import_errors
    print("found", sum([task.task_id for task in dag.tasks] == ["definition_error"] for dag in bag.dags.values()))
"""


@pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="Airflow 2 needs a metadata database for it")
@pytest.mark.parametrize("into", ["into=globals()", ""])
def test_airflow_never_takes_up_what_was_half_made(airflow_db: None, tmp_path: Path, into: str) -> None:
    file = tmp_path / "shop.py"
    file.write_text(textwrap.dedent(DAG_FILE.format(tests=str(Path(__file__).parent), into=into)))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PARSE), str(file)], capture_output=True, text=True, check=False
    )
    assert "found 20" in done.stdout, done.stdout + done.stderr


def test_models_without_windows_that_share_a_dag_keep_the_cron_that_they_name() -> None:
    named = [timeless(f"shop.{n}", airflow=AirflowOptions(schedule="0 6 * * *")) for n in "ab"]
    dag = build_dags([*named, timeless("shop.c")], group_by="all")["bollhav.timeless"]
    assert dag.timetable.summary.startswith("0 6 * * *")


def test_models_that_name_different_crons_are_told_that_one_dag_has_one() -> None:
    named = [timeless(f"shop.{n}", airflow=AirflowOptions(schedule=f"0 {n} * * *")) for n in (6, 7)]
    problem = build_dags(named, group_by="all")["bollhav.timeless"].get_task("definition_error").problem
    assert "one DAG has one schedule, and its models name 2: '0 6 * * *' (UTC, shop.6), '0 7 * * *'" in problem


def test_a_group_that_follows_no_other_group_keeps_to_the_clock() -> None:
    dags = build_dags(two_days(), group_by="schema", schedule_by_assets=True)
    assert type(dags["mart.daily"].timetable).__name__.endswith("TriggeredTimetable")
    assert dags["shop.daily"].timetable.summary.startswith("0 0 * * *")


def test_a_group_of_models_that_are_never_scheduled_is_not_either() -> None:
    dags = build_dags([windowed(f"shop.{n}", airflow=AirflowOptions(schedule=None)) for n in "ab"], group_by="all")
    assert type(dags["bollhav.daily"].timetable).__name__ == "NullTimetable"


def test_patience_may_be_a_duration_for_an_executing_task_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from bollhav_provider.operators.execute import ExecuteOperator
    from bollhav_provider.run import DsnConnections, RunSpec, run_key

    asked: dict[str, Any] = {}
    monkeypatch.setattr(ExecuteOperator, "defer", lambda self, **said: asked.update(said))
    dag = build_dags(two_days(), group_by="all", sensor_args={"timeout": timedelta(minutes=1)})["bollhav.daily"]
    dag.get_task("mart-report.unit.execute")._wait_for(DsnConnections(""), RunSpec(run=run_key()), [])
    assert asked["timeout"] == timedelta(minutes=1)
