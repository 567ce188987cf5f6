"""The DAG factory: which DAGs are built, how they are scheduled, and that building them is deterministic and safe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow_models import gated, timeless, windowed

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.exceptions import ConfigurationError, DefinitionError
from bollhav_provider.model import AirflowOptions, People, UpstreamContract
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS

GOOD = """
    from bollhav_provider.model import Batch, Contract, Column, Model, State, Target, TimeChunking, WriteMode

    {name} = Model(
        target=Target(schema="shop", name="{name}", write_mode=WriteMode.RECREATE_PARTITION,
                      columns=[Column("at", "timestamptz", partition_on=True)]),
        contract=Contract(begin="2024-01-01T00:00Z"),
        batching=Batch(time=TimeChunking(chunk="@daily")),
        query="SELECT %(since)s::timestamptz AS at WHERE %(since)s < %(until)s",
        state=State(),
    )
"""


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    return folder


def serialised(dags: dict[str, Any]) -> dict[str, str]:
    from airflow.serialization.serialized_objects import SerializedDAG

    try:
        from airflow.serialization.serialized_objects import DagSerialization as Serialization
    except ImportError:
        Serialization = SerializedDAG
    return {name: json.dumps(Serialization.to_dict(dag), sort_keys=True) for name, dag in dags.items()}


def test_each_model_is_a_dag_named_like_it_with_a_prefill_its_gates_and_an_execute() -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.orders", UpstreamContract.EXACT),))
    dags = build_dags([orders, report])
    assert sorted(dags) == ["mart.report", "shop.orders"]
    assert {task.task_id for task in dags["mart.report"].tasks} == {"prefill", "unit.shop.orders", "unit.execute"}
    assert {task.task_id for task in dags["shop.orders"].tasks} == {"prefill", "unit.execute"}
    assert dags["mart.report"].get_task("unit.execute").upstream_task_ids >= {"unit.shop.orders"}
    assert dags["mart.report"].get_task("unit.execute").trigger_rule == "none_failed"


def test_the_data_intervals_are_the_windows_from_the_contracts_begin_to_its_end() -> None:
    import pendulum
    from airflow.timetables.base import TimeRestriction
    from airflow.timetables.interval import CronDataIntervalTimetable

    dag = build_dags([windowed("shop.orders")])["shop.orders"]
    assert isinstance(dag.timetable, CronDataIntervalTimetable)
    assert dag.start_date == datetime(2024, 1, 1, tzinfo=UTC)
    restriction = TimeRestriction(earliest=pendulum.instance(dag.start_date), latest=None, catchup=True)
    windows, last = [], None
    while info := dag.timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction):
        last = info.data_interval
        windows.append((last.start.isoformat()[:10], last.end.isoformat()[:10]))
    assert windows == [("2024-01-01", "2024-01-02"), ("2024-01-02", "2024-01-03"), ("2024-01-03", "2024-01-04")]
    assert dag.end_date is None
    assert dag.catchup is False


def test_a_run_covers_the_window_when_that_is_coarser_than_a_chunk() -> None:
    dag = build_dags([windowed("shop.hours", chunk="@hourly", window="@daily")])["shop.hours"]
    summary = dag.timetable.summary if hasattr(dag.timetable, "summary") else ""
    assert "0 0 * * *" in (summary or "0 0 * * *")
    assert dag.start_date == datetime(2024, 1, 1, tzinfo=UTC)


def test_a_timeless_model_follows_its_upstreams_assets() -> None:
    total = timeless("mart.total", upstream=(gated("shop.orders", UpstreamContract.WHOLE),))
    # Also those that another call builds.
    for models in ([windowed("shop.orders"), total], [total]):
        text = serialised(build_dags(models))["mart.total"]
        assert "postgres://bollhav" in text
        assert "/library/shop/orders" in text


def test_a_timeless_model_without_upstreams_is_not_scheduled_and_one_with_a_cron_is() -> None:
    plain = timeless("ref.plain")
    nightly = timeless("ref.nightly", airflow=AirflowOptions(schedule="0 3 * * *", tz="Europe/Stockholm"))
    dags = build_dags([plain, nightly])
    assert "NullTimetable" in type(dags["ref.plain"].timetable).__name__
    assert type(dags["ref.nightly"].timetable).__name__ == "ContractTimetable"


def test_windowed_models_follow_their_upstreams_assets_when_asked_to() -> None:
    report = windowed("mart.report", upstream=(gated("shop.orders", UpstreamContract.EXACT),))
    dags = build_dags([windowed("shop.orders"), report], schedule_by_assets=True)
    assert (
        "Asset" in type(dags["mart.report"].timetable).__name__
        or "Dataset" in type(dags["mart.report"].timetable).__name__
    )
    assert type(dags["shop.orders"].timetable).__name__ == "ContractTimetable"


def test_tags_owner_documentation_and_arguments_come_from_the_model() -> None:
    model = windowed(
        "shop.orders",
        tags=["daily", "shop"],
        people=People(owner="ada", team="sales"),
        airflow=AirflowOptions(retries=4, pool="heavy", max_active_runs=2, catchup=True),
    )
    dag = build_dags([model], tags=["all"], default_args={"retries": 1, "queue": "q"})["shop.orders"]
    assert set(dag.tags) == {"all", "daily", "shop"}
    assert dag.max_active_runs == 2
    assert dag.catchup is True
    assert "`shop.orders`" in dag.doc_md
    assert "team: sales" in dag.doc_md
    execute = dag.get_task("unit.execute")
    assert (execute.owner, execute.retries, execute.pool, execute.queue) == ("ada", 4, "heavy", "q")
    assert dag.get_task("prefill").pool == "default_pool"


def test_the_documentation_shows_the_contract_as_the_model_declares_it_and_leads_to_the_state() -> None:
    begin, end = "2024-01-01T00:00:00-05:00", "2024-02-01T00:00:00-05:00"
    bounded = windowed("shop.orders", tz="America/New_York", begin=begin, end=end)
    text = build_dags([bounded])["shop.orders"].doc_md
    assert "- window: `@daily` in America/New_York\n" in text
    assert "- contract: from 2024-01-01 00:00 to 2024-02-01 00:00\n" in text
    assert ("[its windows](bollhav/models/shop.orders)" in text) is AIRFLOW_V_3_0_PLUS
    text = build_dags([windowed("shop.orders", end=None)])["shop.orders"].doc_md
    assert "- contract: from 2024-01-01 00:00\n" in text


def test_every_parameter_and_every_choice_of_the_form_is_explained_in_few_words() -> None:
    params = build_dags([windowed("shop.orders"), windowed("mart.report")], group_by="all")["bollhav.daily"].params
    described = {name: params.get_param(name) for name in params}
    assert all(20 < len(param.description) < 150 for param in described.values())
    mode = described["state_mode"]
    assert all(str(choice or "null") in mode.description for choice in mode.schema["enum"])
    assert all("`" not in param.description for param in described.values())  # it shows plain text


def test_two_builds_serialise_to_the_same_text(tmp_path: Path) -> None:
    folder = write(tmp_path / "models", a=GOOD.format(name="a"), b=GOOD.format(name="b"))
    assert serialised(build_dags(folder)) == serialised(build_dags(folder))


ELSEWHERE = """
    import json, sys
    sys.path.insert(0, {tests!r})
    from airflow.models.serialized_dag import SerializedDagModel
    from test_factory import everything, serialised
    for name, text in sorted(serialised(everything()).items()):
        print(name, SerializedDagModel.hash(json.loads(text)))
"""


def everything() -> dict[str, Any]:
    """Return DAGs of every grouping of models that have something of everything."""
    options = AirflowOptions(executor_config={"z": 1, "a": {"k": [1, 2]}})
    orders = windowed("shop.orders", tags=["b", "a", "c"], airflow=options)
    hours = windowed("shop.hours", chunk="@hourly", tags=["x", "a"])
    waits = (gated("shop.orders", UpstreamContract.EXACT), gated("*.hours", UpstreamContract.EXISTS, many=True))
    report = windowed("mart.report", tags=["a", "q"], upstream=waits, people=People(owner="a", stewards=["z", "b"]))
    total = timeless("mart.total", upstream=(gated("mart.report", UpstreamContract.WHOLE),))
    built: dict[str, Any] = {}
    for way in ("model", "tag", "schema", "all"):
        built |= build_dags([orders, hours, report, total, timeless("ref.free")], group_by=way, tags=["zz", "aa"])
    return built


@pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="DAG versions are of Airflow 3")
def test_no_process_makes_a_new_version_of_a_dag_that_did_not_change() -> None:
    said = []
    for seed in ("1", "77"):
        script = textwrap.dedent(ELSEWHERE.format(tests=str(Path(__file__).parent)))
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        said.append([line for line in done.stdout.splitlines() if line.count(" ") == 1 and "." in line])
    assert len(said[0]) == 17
    assert said[0] == said[1]


def test_a_relative_path_is_relative_to_the_dag_file(tmp_path: Path) -> None:
    write(tmp_path / "models", a=GOOD.format(name="a"))
    namespace: dict[str, Any] = {"__file__": str(tmp_path / "warehouse.py")}
    build_dags("models", into=namespace)
    assert [value.dag_id for value in namespace.values() if hasattr(value, "dag_id")] == ["shop.a"]


def test_a_worker_builds_the_dag_that_it_runs_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "models", a=GOOD.format(name="a"), b=GOOD.format(name="b"))
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "shop.b")
    assert list(build_dags(folder)) == ["shop.b"]


def test_a_broken_file_is_shown_as_a_dag_and_all_others_are_built(tmp_path: Path) -> None:
    folder = write(tmp_path / "models", good=GOOD.format(name="good"), broken="import no_such_module_anywhere")
    dags = build_dags(folder)
    assert "shop.good" in dags
    (broken,) = [dag for name, dag in dags.items() if name != "shop.good"]
    assert "broken" in broken.dag_id
    assert "definition-error" in broken.tags
    assert "no_such_module_anywhere" in broken.doc_md
    serialised(dags)


def test_a_broken_model_is_a_dag_of_its_name_and_the_others_of_its_file_are_built(tmp_path: Path) -> None:
    bad = "\n    bad = Model(target=Target(schema='shop', name='bad', columns=[Column('a', 'integr')]))\n"
    folder = write(tmp_path / "models", good=GOOD.format(name="good") + bad)
    dags = build_dags(folder)
    assert set(dags) == {"shop.good", "shop.bad"}
    assert "definition-error" in dags["shop.bad"].tags
    assert "did you mean 'integer'?" in dags["shop.bad"].doc_md


def test_a_broken_dag_fails_with_its_problem_when_it_is_run() -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    from bollhav_provider.factory.broken import broken_dag

    dag = broken_dag("shop.orders", "shop.orders: target: nothing fits", [])
    assert dag.dag_id == "shop.orders"
    with pytest.raises(AirflowFailException, match="nothing fits"):
        dag.get_task("definition_error").execute({})


def test_models_that_do_not_fit_stand_aside_and_the_rest_is_built() -> None:
    orders = windowed("shop.orders")
    lonely = windowed("shop.orders", chunk="@hourly")
    other = windowed("shop.other")
    dags = build_dags([orders, lonely, other])
    assert "shop.other" in dags
    assert "definition-error" in dags["shop.orders"].tags


def test_strict_raises_what_is_wrong(tmp_path: Path) -> None:
    folder = write(tmp_path / "models", broken="import no_such_module_anywhere")
    with pytest.raises(DefinitionError, match="no_such_module_anywhere"):
        build_dags(folder, strict=True)


@pytest.mark.parametrize("name", ["Shop.Orders", "shöp.orders", 'sh"op.or ders', "shop.100%", "shop." + "x" * 58])
def test_every_name_makes_a_dag_id_that_airflow_accepts(name: str) -> None:
    dags = build_dags([windowed(name)])
    assert len(dags) == 1
    serialised(dags)


def test_groups_share_a_dag_by_grain_and_are_joined_by_edges() -> None:
    orders = windowed("shop.orders", tags=["core"])
    report = windowed("mart.report", tags=["core"], upstream=(gated("shop.orders", UpstreamContract.EXACT),))
    hours = windowed("shop.hours", chunk="@hourly", tags=["core"])
    dags = build_dags([orders, report, hours], group_by="tag")
    assert sorted(dags) == ["core.daily", "core.hourly"]
    daily = dags["core.daily"]
    assert {t.task_id for t in daily.tasks} == {
        "shop-orders.prefill",
        "shop-orders.unit.execute",
        "mart-report.prefill",
        "mart-report.unit.execute",
    }
    assert "shop-orders.unit.execute" in daily.get_task("mart-report.prefill").upstream_task_ids
    assert sorted(build_dags([orders, report, hours], group_by="schema")) == ["mart.daily", "shop.daily", "shop.hourly"]
    assert sorted(build_dags([orders, report, hours], group_by="all")) == ["bollhav.daily", "bollhav.hourly"]
    serialised(dags)


def test_a_model_of_another_group_is_waited_for_by_a_sensor() -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.orders", UpstreamContract.EXACT),))
    dags = build_dags([orders, report], group_by="schema")
    assert "mart-report.unit.shop.orders" in {t.task_id for t in dags["mart.daily"].tasks}


def test_an_unknown_grouping_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="group_by is 'colour'"):
        build_dags([windowed("shop.orders")], group_by="colour")


def test_selected_models_get_dags_and_the_others_stay_in_the_graph() -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", tags=["mart"], upstream=(gated("shop.orders", UpstreamContract.EXACT),))
    dags = build_dags([orders, report], select="mart")
    assert list(dags) == ["mart.report"]
    assert "unit.shop.orders" in {t.task_id for t in dags["mart.report"].tasks}


def test_run_parameters_fit_the_model() -> None:
    dags = build_dags([windowed("shop.orders"), timeless("ref.plain")])
    assert {"since", "until", "state_mode", "dry_state", "mark_applied"} <= set(dags["shop.orders"].params)
    assert "interval_override" not in dags["shop.orders"].params
    assert "since" not in dags["ref.plain"].params
    dags["shop.orders"].params.validate()


def test_parsing_opens_no_socket_and_asks_for_no_connection(tmp_path: Path) -> None:
    write(tmp_path / "models", a=GOOD.format(name="a"))
    script = f"""
        import socket, sys
        def refuse(*a, **k): raise AssertionError("a socket was opened while parsing")
        socket.socket.connect = refuse
        from airflow.providers.common.compat.sdk import BaseHook
        BaseHook.get_connection = classmethod(lambda *a: refuse())
        from bollhav_provider import build_dags
        dags = build_dags({str(tmp_path / "models")!r})
        assert list(dags) == ["shop.a"], dags
        known = {{"polars", "psycopg", "fastapi", "sqlglot", "airflow.sdk.definitions.decorators"}}
        heavy = known & set(sys.modules)
        print("HEAVY", sorted(heavy))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "HEAVY []" in done.stdout, done.stdout
