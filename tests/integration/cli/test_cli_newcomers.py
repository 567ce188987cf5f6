"""What people type first: names and windows that are none, and files that print and log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from test_cli_commands import MODELS, WEEK, Bollhav, as_json, bollhav_cli, query
from typer.testing import CliRunner

from bollhav_provider.cli.main import app

__all__ = ["bollhav_cli"]  # the fixture

OUTSIDE = [
    ("--since", "2030-01-01", "--until", "2030-01-02"),
    ("--since", "2023-01-01", "--until", "2023-01-02"),
    ("--since", "2024-01-02T05:00Z", "--until", "2024-01-02T06:00Z"),
    (),  # the latest window lies behind the contract's end
]


def statuses(dsn: str, model: str) -> list[Any]:
    table = query(dsn, f"SELECT state_table FROM z_bollhav.library WHERE full_name = '{model}'")[0][0]  # noqa: S608
    return query(dsn, f'SELECT status, marked_by FROM z_bollhav."{table}" ORDER BY since')  # noqa: S608


@pytest.mark.parametrize("window", OUTSIDE, ids=["after", "before", "part", "latest"])
@pytest.mark.parametrize("command", ["reset", "mark-applied"])
def test_a_window_that_holds_no_unit_is_not_all_of_them(
    bollhav_cli: Bollhav, db: str, command: str, window: tuple[str, ...]
) -> None:
    bollhav_cli("run", "shop.orders", *WEEK)
    before = statuses(db, "shop.orders")
    assert before.count(("applied", None)) == 4
    told = bollhav_cli(command, "shop.orders", *window).output  # there is nothing to ask about
    assert f"nothing to {command.split('-')[0]}" in told
    assert "of the whole" not in told
    found = as_json(bollhav_cli(command, "shop.orders", *window, "--yes", "--json"))
    assert found["model"] == "shop.orders"
    assert "nothing to" in found["message"]
    assert statuses(db, "shop.orders") == before


def test_a_model_that_is_not_there_is_told_with_those_that_are(bollhav_cli: Bollhav) -> None:
    for command in ("plan", "status", "explain", "run", "reset", "mark-applied", "doctor"):
        told = str(bollhav_cli(command, "shop.ordres", code=1).exception)
        assert told == "shop.ordres: there is no such model in models; did you mean 'shop.orders'?"
    told = str(bollhav_cli("status", "nothing", code=1).exception)
    assert told == "nothing: there is no such model in models; there are mart.flex, mart.sums, shop.orders"


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "--all"),
        ("run", "shop.orders", "--all"),
        ("run", "shop.orders", "--reconcile"),
        ("reset", "shop.orders", "--all", "--yes"),
        ("mark-applied", "shop.orders", "--all", "--yes"),
    ],
    ids=" ".join,
)
def test_dates_beside_the_whole_range_are_refused(bollhav_cli: Bollhav, db: str, arguments: tuple[str, ...]) -> None:
    told = bollhav_cli(*arguments, "--since", "2024-01-02", code=2)
    assert "leave --since and --until out" in " ".join(told.output.replace("│", " ").split())
    assert query(db, "SELECT to_regnamespace('z_bollhav')::text") == [(None,)]


def test_tags_that_no_model_has_are_no_success(bollhav_cli: Bollhav) -> None:
    for command in ("plan", "status", "run"):
        told = str(bollhav_cli(command, "--select", "nonsense", code=1).exception)
        assert told == "--select 'nonsense': no model in models is meant; the tags are mart, raw."


def test_definitions_that_cannot_be_read_are_told_by_every_command_that_goes_on_without_them(
    bollhav_cli: Bollhav, tmp_path: Path
) -> None:
    (tmp_path / "models" / "broken.py").write_text("import no_such_module_anywhere\n")
    for arguments in (("plan", *WEEK), ("status",), ("run", "shop.orders", *WEEK)):
        told = bollhav_cli(*arguments)
        assert "models/broken.py:1: ModuleNotFoundError: No module named 'no_such_module_anywhere'" in told.stderr
        assert "no_such_module" not in told.stdout
    found = as_json(bollhav_cli("doctor", "--json", code=1))
    assert [one["code"] for one in found if one["level"] == "error"] == ["definition"]
    missing = str(bollhav_cli("run", "mine.lines", code=1).exception)
    assert missing.startswith("mine.lines: it is not among the models in models that can be read; what cannot be:\n")
    near = str(bollhav_cli("run", "shop.ordres", code=1).exception)
    assert "that can be read; did you mean 'shop.orders'? What cannot be:\n" in near
    assert "models/broken.py:1: ModuleNotFoundError" in missing


def test_a_plan_says_why_a_model_has_nothing_to_do(bollhav_cli: Bollhav) -> None:
    told = as_json(bollhav_cli("plan", "shop.orders", "--json"))
    (note,) = told["notes"]
    assert note.startswith("shop.orders: the window ")
    assert "lies outside the contract" in note
    assert "action" not in bollhav_cli("plan", "shop.orders").output


def test_explain_names_windows_in_utc_and_in_the_models_zone(bollhav_cli: Bollhav, tmp_path: Path) -> None:
    (file,) = (tmp_path / "models").glob("*.py")
    chunk = 'TimeChunking(chunk="@daily"'
    text = file.read_text().replace(f"{chunk})", f'{chunk}, tz="America/New_York")')
    file.write_text(text.replace("2024-01-01T00:00Z", "2024-01-01T00:00-05:00"))
    bollhav_cli("run", "shop.orders", "--since", "2024-01-01", "--until", "2024-01-02")
    told = bollhav_cli("explain", "mart.sums", "--since", "2024-01-01", "--until", "2024-01-03").output
    assert "\n[2024-01-01T05:00Z, 2024-01-02T05:00Z) (2024-01-01 in America/New_York): no row yet" in told
    assert "contract: from 2024-01-01T05:00Z to " in told
    assert "missing [2024-01-02T05:00Z, 2024-01-03T05:00Z) (2024-01-02 in America/New_York)" in told
    found = as_json(bollhav_cli("explain", "mart.sums", "--since", "2024-01-01", "--until", "2024-01-02", "--json"))
    assert [unit["local"] for unit in found["units"]] == ["2024-01-01 in America/New_York"]


def test_doctor_says_which_models_it_looked_at(bollhav_cli: Bollhav, tmp_path: Path) -> None:
    def scope(*arguments: str) -> str:
        found = as_json(bollhav_cli("doctor", *arguments, "--json"))
        return next(one["message"] for one in found if one["code"] == "scope")

    assert scope() == "examined all 3 model(s) of models."
    assert scope("shop.orders") == "examined 1 of 3 model(s) of models."
    bollhav_cli("run", "shop.orders", *WEEK)
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    (elsewhere / "one.py").write_text(
        "from bollhav_provider import Column, Model, Target\n"
        "one = Model(target=Target(schema='a', name='b', columns=[Column('x', 'integer')]), temporality='timeless')\n"
    )
    assert scope("--models", str(elsewhere)) == (
        f"examined all 1 model(s) of {elsewhere}; 1 more in z_bollhav have their definitions elsewhere and were not "
        "examined: shop.orders. Give the folder of those with --models."
    )
    assert "examined all 3 model(s) of models." in bollhav_cli("doctor").output


def test_doctor_names_a_target_that_cannot_be_written(bollhav_cli: Bollhav, db: str) -> None:
    with psycopg.connect(db, autocommit=True) as conn:
        conn.execute("CREATE SCHEMA shop; CREATE VIEW shop.orders AS SELECT now() AS at, 1 AS n")
    found = as_json(bollhav_cli("doctor", "shop.orders", "--json", code=1))
    (one,) = [finding for finding in found if finding["level"] == "error"]
    assert (one["code"], one["model"]) == ("target", "shop.orders")
    assert one["message"].startswith("the target shop.orders is a view, not a table: drop it")


def test_doctor_names_files_that_are_slow_to_read(bollhav_cli: Bollhav, tmp_path: Path) -> None:
    (file,) = (tmp_path / "models").glob("*.py")
    file.write_text(f"import time\ntime.sleep(1.2)\n{file.read_text()}")
    found = [one for one in as_json(bollhav_cli("doctor", "--json")) if one["code"] == "slow_files"]
    assert len(found) == 1
    assert f"models/{file.name} (1." in found[0]["message"]
    assert as_json(bollhav_cli("doctor", "--json"))[0]["code"] != "slow_files"  # what is loaded is not read again


NOISY = """
import logging, sys, warnings
from logging.config import dictConfig
print("printed by the file")
dictConfig({
    "version": 1, "disable_existing_loggers": False,
    "formatters": {"own": {"format": "[info] %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "own", "stream": "ext://sys.stdout"}},
    "root": {"handlers": ["console"], "level": "INFO"},
})
logging.getLogger("noisy").info("logged by the file")
"""
LOUD = """
@orders.execute
def rows(unit: Unit) -> pl.DataFrame:
    print("printed by the function")
    logging.getLogger("noisy").info("logged by the function")
    logging.getLogger("late").addHandler(late := logging.StreamHandler(sys.stdout))
    logging.getLogger("late").warning("logged late")
    warnings.warn("warned by the function")
"""


@pytest.mark.parametrize("json_too", [True, False])
def test_standard_output_is_the_result_alone_whatever_files_and_functions_say(
    db: str, tmp_path: Path, json_too: bool
) -> None:
    (tmp_path / "models").mkdir()
    text = NOISY + MODELS.replace("\n@orders.execute\ndef rows(unit: Unit) -> pl.DataFrame:", LOUD)
    (tmp_path / "models" / "noisy.py").write_text(text)

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "bollhav_provider.cli.main", *arguments],
            capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "BOLLHAV_DSN": db}, check=False,
        )  # fmt: skip

    as_asked = ("--json",) if json_too else ()
    for arguments in (("status",), ("run", "shop.orders", "--since", "2024-01-01", "--until", "2024-01-02")):
        told = call(*arguments, *as_asked)
        assert told.returncode == 0, told.stderr
        if json_too:
            json.loads(told.stdout)
        for said in ("printed", "logged", "warned", "[info]", "reset 0"):
            assert said not in told.stdout
        assert "[info] shop.orders" not in told.stderr
        assert "reset 0 unit" not in told.stderr
    assert "printed by the function" in told.stderr
    assert "logged late" in told.stderr
    assert "warning UserWarning: warned by the function" in told.stderr
    assert "logged by the function" not in told.stderr
    verbose = call("--verbose", "status", *as_asked)
    assert "logged by the file" in verbose.stderr
    assert "logged by the file" not in verbose.stdout


def test_airflows_own_logging_does_not_reach_the_output(db: str, tmp_path: Path) -> None:
    pytest.importorskip("airflow")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "shop.py").write_text("import airflow.settings\nairflow.settings.initialize()\n" + MODELS)
    told = subprocess.run(
        [sys.executable, "-m", "bollhav_provider.cli.main", "run", "shop.orders", *WEEK, "--json"],
        capture_output=True, text=True, cwd=tmp_path, check=False,
        env={**os.environ, "BOLLHAV_DSN": db, "AIRFLOW_HOME": str(tmp_path / "airflow")},
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert len(json.loads(told.stdout)["units"]) == 4
    assert "[info" not in told.stderr


def test_a_result_is_printed_where_the_caller_looks(bollhav_cli: Bollhav) -> None:
    before = sys.stdout
    told = CliRunner().invoke(app, ["status", "--json"])
    assert len(json.loads(told.stdout)) == 3
    assert sys.stdout is before


def test_that_a_run_marks_instead_of_loading_is_said_once(
    bollhav_cli: Bollhav, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOLLHAV_MARK_APPLIED", "1")
    told = as_json(bollhav_cli("run", "shop.orders", *WEEK, "--json"))
    said = [text for text in (*told["warnings"], *told["notes"]) if "marked" in text]
    assert len(said) == 1
