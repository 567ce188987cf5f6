"""The command line without a database: help, options, and errors in one sentence."""

from __future__ import annotations

import datetime as dt
import io
import logging
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from rich.console import Console
from typer.testing import CliRunner

from bollhav_provider import __version__
from bollhav_provider.cli import main, render
from bollhav_provider.cli.main import app
from bollhav_provider.cli.project import instant
from bollhav_provider.exceptions import ConfigurationError, IntervalError

COMMANDS = ("plan", "status", "explain", "run", "reset", "mark-applied", "doctor", "prune")
MODEL = """
from bollhav_provider import Column, Model, Target
one = Model(target=Target(schema="a", name="b", columns=[Column("x", "integer")]), temporality="timeless")
"""


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for variable in ("BOLLHAV_DSN", "BOLLHAV_MODELS"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_speaks_json(command: str) -> None:
    told = CliRunner().invoke(app, [command, "--help"])
    assert told.exit_code == 0
    assert "--json" in told.output
    assert "--dsn" in told.output


def test_without_models_the_places_are_named(empty: Path) -> None:
    told = CliRunner().invoke(app, ["status"])
    assert isinstance(told.exception, ConfigurationError)
    assert "neither models nor dags/models exists here" in str(told.exception)


def test_without_a_dsn_the_ways_to_give_one_are_named(empty: Path) -> None:
    (empty / "models").mkdir()
    (empty / "models" / "one.py").write_text(MODEL)
    told = CliRunner().invoke(app, ["status"])
    assert isinstance(told.exception, ConfigurationError)
    assert "--dsn, or set BOLLHAV_DSN" in str(told.exception)


def test_the_program_tells_errors_in_one_paragraph_without_a_traceback(empty: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "bollhav_provider.cli.main", "status"],
        capture_output=True,
        text=True,
        cwd=empty,
        check=False,
    )
    assert told.returncode == 1
    assert told.stderr.startswith("error: there are no models")
    assert "Traceback" not in told.stderr
    assert told.stdout == ""


def test_a_date_is_midnight_in_the_models_zone() -> None:
    assert instant("2013-01-01", "--since", "America/New_York") == dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC)
    assert instant("2013-01-01T00:00+01:00", "--since", "UTC") == dt.datetime(2012, 12, 31, 23, tzinfo=dt.UTC)
    assert instant(None, "--since", "UTC") is None
    with pytest.raises(IntervalError, match=r"--since: .* has no time zone; .*a plain date.* is midnight"):
        instant("2013-01-01T00:00", "--since", "UTC")


def test_a_folder_without_any_model_is_named(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty / "models").mkdir()
    told = CliRunner().invoke(app, ["status", "--dsn", "dbname=nowhere"])
    assert isinstance(told.exception, ConfigurationError)
    assert str(told.exception) == "there are no models in models: no file there makes one."


def test_help_flows_with_the_terminal_and_lists_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    told = CliRunner().invoke(app, ["--help"]).output
    for command in COMMANDS:
        assert f" {command} " in told
    assert "missing privileges, old inputs" in told
    told = CliRunner().invoke(app, ["run", "--help"]).output
    assert "Exit code 0: every unit is applied, or there was nothing to do. 1: a unit failed." in told
    assert "all of them when none is given" not in told
    assert "discover|bulldozer|torch" in told


def test_the_version_is_told_without_models_or_database(empty: Path) -> None:
    told = CliRunner().invoke(app, ["--version"])
    assert (told.exit_code, told.output) == (0, f"bollhav {__version__}\n")


def test_a_connection_that_was_lost_is_not_called_unreachable() -> None:
    lost = psycopg.OperationalError("server closed the connection unexpectedly")
    assert main._told(lost) == "server closed the connection unexpectedly"
    never = psycopg.OperationalError("failed to resolve host 'db': Name or service not known")
    assert main._told(never).startswith("the database cannot be reached: failed to resolve host 'db'")


@pytest.mark.parametrize("command", ["plan", "run", "reset"])
def test_a_mode_that_is_none_is_refused_before_anything_is_read(empty: Path, command: str) -> None:
    told = CliRunner().invoke(app, [command, "shop.orders", "--mode", "buldozer"])
    assert told.exit_code == 2
    assert "'buldozer' is none of discover, bulldozer, torch" in " ".join(told.output.replace("│", " ").split())


def test_a_database_that_is_not_there_is_told_in_one_paragraph(empty: Path) -> None:
    (empty / "models").mkdir()
    (empty / "models" / "one.py").write_text(MODEL)
    told = subprocess.run(
        [sys.executable, "-m", "bollhav_provider.cli.main", "status", "--dsn", "host=127.0.0.1 port=1 password=s3cret"],
        capture_output=True,
        text=True,
        cwd=empty,
        check=False,
    )
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith("error: the database cannot be reached: connection failed")
    assert told.stderr.splitlines()[-1] == "Remedy: correct --dsn or BOLLHAV_DSN."
    assert "s3cret" not in told.stderr


@pytest.mark.parametrize("option", ["--dsn", "BOLLHAV_DSN"])
def test_a_dsn_that_is_none_is_told_in_one_line_without_quoting_it(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOLLHAV_DSN", "s3cret")
    arguments = ["--dsn", "s3cret"] if option == "--dsn" else []
    told = CliRunner().invoke(app, ["status", *arguments])
    assert told.exit_code == 2
    assert f"error: {option} is no connection string" in told.output
    assert "s3cret" not in told.output
    assert len(told.output.splitlines()) == 1


@pytest.mark.parametrize(("width", "line"), [(80, "  applied: 4"), (200, "shop.orders  4        [2024-01-01T00:00Z")])
def test_a_table_is_readable_at_any_width(
    width: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    window = "[2024-01-01T00:00Z, 2024-01-05T00:00Z), 1 gap(s), the first [2024-01-02T00:00Z, 2024-01-04T00:00Z)"
    monkeypatch.setattr(render, "out", Console(width=width, markup=False, highlight=False, soft_wrap=True))
    render.table("", ("model", "applied", "first to last", "note"), [("shop.orders", 4, window, "never ran")])
    told = capsys.readouterr().out
    assert any(shown.startswith(line) for shown in told.splitlines())
    assert window in told


def test_log_handlers_that_are_not_the_terminals_keep_their_level() -> None:
    other = logging.StreamHandler(io.StringIO())
    other.setLevel(logging.DEBUG)
    logging.getLogger().addHandler(other)
    try:
        main._start(verbose=False)
        assert other.level == logging.DEBUG
    finally:
        logging.getLogger().removeHandler(other)
