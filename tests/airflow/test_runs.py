"""Whole DAG runs in this process, against a real library and real tables."""

from __future__ import annotations

from typing import Any

import pytest
from airflow_models import BEGIN, END, gated, timeless, windowed
from airflow_testing import rows, state_rows, states, statuses

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Batch, Column, Contract, Model, State, Target, TimeChunking, UpstreamContract
from bollhav_provider.operators import base, prefill
from bollhav_provider.version_compat import AIRFLOW_V_3_3_PLUS

EXACT, ENCAPSULATE, WHOLE = UpstreamContract.EXACT, UpstreamContract.ENCAPSULATE, UpstreamContract.WHOLE

DAY = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-02T00:00:00Z"}


def test_a_run_loads_its_data_interval_and_nothing_else(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    dag_run = run(build_dags([orders])["shop.orders"], "2024-01-03")
    assert dag_run.state == "success"
    assert states(dag_run) == {"prefill": "success", "unit.execute[0]": "success"}
    assert statuses(library, orders) == {
        "2024-01-01": "pending",
        "2024-01-02": "applied",
        "2024-01-03": "pending",
    }
    assert rows(library, "SELECT at::text, n FROM shop.orders") == [("2024-01-02 00:00:00+00", 1)]


def test_the_parameters_since_and_until_are_the_window(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    conf = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-03T00:00:00Z"}
    dag_run = run(build_dags([orders])["shop.orders"], "2024-02-01", conf=conf)
    assert states(dag_run) == {"prefill": "success", "unit.execute[0]": "success", "unit.execute[1]": "success"}
    assert list(statuses(library, orders).values()) == ["applied", "applied", "pending"]


def test_units_of_a_run_share_tasks_as_the_model_says(library: str, run: Any) -> None:
    hours = windowed("shop.hours", chunk="@hourly", window="@daily", units_per_task=24)
    dag_run = run(build_dags([hours])["shop.hours"], "2024-01-02")
    assert states(dag_run) == {"prefill": "success", "unit.execute[0]": "success"}
    assert rows(library, "SELECT count(*) FROM shop.hours") == [(24,)]
    (ti,) = [ti for ti in dag_run.get_task_instances() if ti.task_id == "unit.execute"]
    assert ti.rendered_map_index == "2024-01-01T00:00Z to 2024-01-02T00:00Z (24)"


def test_a_task_is_labelled_by_its_window(library: str, run: Any) -> None:
    dag_run = run(build_dags([windowed("shop.orders")])["shop.orders"], "2024-01-02")
    (ti,) = [ti for ti in dag_run.get_task_instances() if ti.task_id == "unit.execute"]
    assert ti.rendered_map_index == "[2024-01-01T00:00Z, 2024-01-02T00:00Z)"


def test_a_gate_that_is_open_lets_the_unit_pass(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.orders", EXACT),))
    dags = build_dags([orders, report])
    run(dags["shop.orders"], "2024-01-02")
    dag_run = run(dags["mart.report"], "2024-01-02")
    assert states(dag_run) == {
        "prefill": "success",
        "unit.shop.orders[0]": "success",
        "unit.execute[0]": "success",
    }
    assert rows(library, "SELECT at::text, n FROM mart.report") == [("2024-01-01 00:00:00+00", 1)]


def test_an_upstream_that_nobody_registered_fails_at_once_and_says_so_on_the_row(library: str, run: Any) -> None:
    report = windowed("mart.report", upstream=(gated("shop.orders", EXACT),))
    dag_run = run(build_dags([report])["mart.report"], "2024-01-02")
    assert dag_run.state == "failed"
    assert states(dag_run)["unit.shop.orders[0]"] == "failed"
    status, reason = state_rows(library, report, "status", "blocked_reason")[0]
    assert status == "blocked"
    assert reason == "STATE_001: upstream 'shop.orders' not registered"


def test_a_timeless_model_is_one_unit(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    total = timeless("mart.total", upstream=(gated("shop.orders", WHOLE),))
    dags = build_dags([orders, total])
    conf = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-04T00:00:00Z"}
    run(dags["shop.orders"], "2024-02-01", conf=conf)
    dag_run = run(dags["mart.total"])
    assert states(dag_run)["unit.execute[0]"] == "success"
    assert rows(library, "SELECT n FROM mart.total") == [(3,)]


def test_a_retry_does_not_reset_and_a_second_run_of_the_window_does(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    dag = build_dags([orders])["shop.orders"]
    run(dag, "2024-01-02")
    first = state_rows(library, orders, "attempt")
    run(dag, "2024-02-01", conf={"since": "2024-01-01T00:00:00Z", "until": "2024-01-02T00:00:00Z"})
    second = state_rows(library, orders, "attempt")
    assert second[0][0] > first[0][0]


def test_discover_does_only_what_is_outstanding(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    dag = build_dags([orders])["shop.orders"]
    run(dag, "2024-01-02")
    conf = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-03T00:00:00Z", "state_mode": "discover"}
    dag_run = run(dag, "2024-02-01", conf=conf)
    assert states(dag_run) == {"prefill": "success", "unit.execute[0]": "success"}
    assert list(statuses(library, orders).values()) == ["applied", "applied", "pending"]


def test_mark_applied_records_state_and_moves_no_data(library: str, run: Any, capsys: Any, caplog: Any) -> None:
    orders = windowed("shop.orders")
    conf = {"since": "2024-01-01T00:00:00Z", "until": "2024-01-03T00:00:00Z", "mark_applied": True}
    dag_run = run(build_dags([orders])["shop.orders"], "2024-02-01", conf=conf)
    assert dag_run.state == "success"
    assert rows(library, "SELECT to_regclass('shop.orders')") == [(None,)]
    why = f"the run parameter mark_applied of the run {dag_run.run_id} of the DAG shop.orders"
    marked = state_rows(library, orders, "status", "marked_by", "reason")
    assert [(status, by is not None, reason) for status, by, reason in marked[:2]] == [("applied", True, why)] * 2
    said = f"2 unit(s) of [2024-01-01T00:00Z, 2024-01-03T00:00Z) are marked applied by {marked[0][1]} ({why})"
    logs = capsys.readouterr().out, caplog.text  # this Airflow's tasks write to one of them, or to both
    seen = [[line for line in text.splitlines() if "marked applied" in line] for text in logs]
    assert {len(lines) for lines in seen} <= {0, 1}
    assert any(seen)
    assert all(said in line and "warning" in line.lower() for lines in seen for line in lines)


@pytest.mark.skipif(not AIRFLOW_V_3_3_PLUS, reason="Airflow tells a task of its run's note from 3.3 on")
def test_the_note_of_a_run_is_the_reason_of_what_it_marks(
    library: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = windowed("shop.orders")
    prepared = prefill.marking_reason

    def noted(context: Any) -> str:
        return prepared({**context, "dag_run": context["dag_run"].model_copy(update={"note": "restored from a dump"})})

    monkeypatch.setattr(prefill, "marking_reason", noted)
    run(build_dags([orders])["shop.orders"], "2024-01-02", conf={"mark_applied": True})
    assert state_rows(library, orders, "status", "reason")[0] == ("applied", "restored from a dump")


def test_a_dry_run_changes_nothing(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    dag_run = run(build_dags([orders])["shop.orders"], "2024-01-02", conf={"dry_state": True})
    assert dag_run.state == "success"
    assert rows(library, "SELECT to_regclass('shop.orders'), to_regnamespace('z_bollhav')") == [(None, None)]


def test_a_dry_run_says_in_the_log_what_would_become_of_which_windows(
    library: str, run: Any, capsys: Any, caplog: Any
) -> None:
    report = windowed("mart.report", upstream=(gated("shop.nobody", UpstreamContract.EXACT),))
    conf = {"dry_state": True, "since": "2024-01-01", "until": "2024-01-03"}
    run(build_dags([report])["mart.report"], "2024-02-01", conf=conf)
    said = capsys.readouterr().out + caplog.text
    assert "mart.report [2024-01-01T00:00Z, 2024-01-03T00:00Z), 2 unit(s) cannot run as declared: STATE_001" in said


def test_reconciling_works_off_the_contract_wherever_the_runs_window_lies(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    dag_run = run(build_dags([orders])["shop.orders"], "2025-06-01", conf={"reconcile": True})
    assert dag_run.state == "success"
    assert state_rows(library, orders, "status") == [("applied",)] * 3


def test_a_window_outside_the_contract_runs_nothing_and_says_it(
    library: str, run: Any, capsys: Any, caplog: Any
) -> None:
    dag_run = run(build_dags([windowed("shop.orders")])["shop.orders"], "2025-06-01")
    assert dag_run.state == "success"
    assert states(dag_run)["prefill"] == "success"
    assert "nothing to run" in capsys.readouterr().out + caplog.text


def test_a_wrong_parameter_fails_without_a_retry(library: str, run: Any) -> None:
    conf = {"since": "2024-01-03T00:00:00Z", "until": "2024-01-01T00:00:00Z"}
    dag = build_dags([windowed("shop.orders")], default_args={"retries": 3})["shop.orders"]
    dag_run = run(dag, "2024-02-01", conf=conf)
    assert states(dag_run)["prefill"] == "failed"


def test_a_plain_date_is_midnight_in_the_models_zone(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    run(build_dags([orders])["shop.orders"], "2024-02-01", conf={"since": "2024-01-01", "until": "2024-01-02"})
    assert statuses(library, orders)["2024-01-01"] == "applied"


def test_a_misspelt_parameter_runs_nothing_else_instead(library: str, run: Any, caplog: Any, capsys: Any) -> None:
    dag = build_dags([windowed("shop.orders")])["shop.orders"]
    dag_run = run(dag, "2024-01-02", conf={"sinse": "2024-01-01T00:00:00Z", "ticket": "OPS-1"})
    assert states(dag_run)["prefill"] == "failed"
    assert "'sinse' (did you mean 'since'?)" in capsys.readouterr().out + caplog.text
    assert states(run(dag, "2024-01-02", conf={"ticket": "OPS-1"}))["unit.execute[0]"] == "success"


@pytest.mark.parametrize("key", ["SINCE", "Since", "dry_run", "dry-run", "mode", "state-mode"])
def test_a_parameter_in_other_letters_or_words_runs_nothing_else_instead(library: str, run: Any, key: str) -> None:
    orders = windowed("shop.orders")
    dag_run = run(build_dags([orders])["shop.orders"], "2024-01-02", conf={key: "2024-01-01T00:00:00Z"})
    assert states(dag_run)["prefill"] == "failed"
    assert rows(library, "SELECT to_regclass('shop.orders')") == [(None,)]


def test_models_joined_in_one_dag_run_in_order(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.orders", EXACT),))
    dag = build_dags([orders, report], group_by="all")["bollhav.daily"]
    dag_run = run(dag, "2024-01-02")
    assert dag_run.state == "success"
    assert rows(library, "SELECT n FROM mart.report") == [(1,)]


def test_one_model_of_several_can_be_written_alone(library: str, run: Any) -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.orders", EXACT),))
    dag = build_dags([orders, report], group_by="all")["bollhav.daily"]
    assert run(dag, "2024-01-02").state == "success"
    before = state_rows(library, orders, "applied_at"), state_rows(library, report, "applied_at")
    assert run(dag, "2024-02-01", conf={"only": "mart.report", **DAY}).state == "success"
    assert state_rows(library, orders, "applied_at") == before[0]
    assert state_rows(library, report, "applied_at") != before[1]
    assert run(dag, "2024-02-02", conf={"only": "mart.nothing", **DAY}).state == "failed"


def test_a_credential_in_an_error_is_shown_nowhere_in_the_tasks_log(
    library: str, run: Any, capsys: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaky = Model(
        target=Target(schema="shop", name="leaky", columns=[Column("n", "integer")]),
        batching=Batch(time=TimeChunking(chunk="@daily")),
        contract=Contract(begin=BEGIN, end=END),
        state=State(),
    )

    @leaky.execute
    def refused(unit: Unit) -> None:
        raise ValueError("the vendor refused https://etl:s3cr3tpass@api.example.com")

    told: list[str] = []
    monkeypatch.setattr(base, "mask_secret", told.append)  # what Airflow shows of the exception itself is hidden by it
    dag_run = run(build_dags([leaky])["shop.leaky"], "2024-01-02")
    assert dag_run.state == "failed"
    assert told == ["s3cr3tpass"]
    said = [line for line in (capsys.readouterr().out + caplog.text).splitlines() if "[2024-01-01T00:00Z, " in line]
    assert any("ValueError: the vendor refused https://etl:***@api.example.com" in line for line in said)
    assert not any("s3cr3tpass" in line for line in said)
