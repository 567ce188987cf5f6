"""Other versions of Airflow are installed once, each beside the installed one, or left out in one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import bootstrap, compat
from tools.compat import RELEASES, Release


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A checkout whose installer only takes notes."""
    done: list[list[str]] = []
    (tmp_path / "pyproject.toml").write_text("[project]")
    for module in (bootstrap, compat):
        monkeypatch.setattr(module, "ROOT", tmp_path)
        monkeypatch.setattr(module, "LOCAL", tmp_path)

    def call(command: list[str], title: str) -> None:
        done.append(command)
        if command[1] == "venv":
            Path(command[-1]).mkdir()

    monkeypatch.setattr(bootstrap, "call", call)
    monkeypatch.setattr(compat, "_uv", lambda: "uv")
    return done


def test_a_release_is_installed_once_and_again_when_the_project_has_changed(
    calls: list[list[str]], tmp_path: Path
) -> None:
    release = Release("9.9", ("apache-airflow==9.9.*",), ("--exclude-newer", "2030-01-01"))
    release.ensure()
    release.ensure()
    assert [command[1] for command in calls] == ["venv", "pip"]
    assert {"--exclude-newer", "2030-01-01", "apache-airflow==9.9.*", str(tmp_path)} <= set(calls[1])
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'changed'")
    release.ensure()
    assert [command[1] for command in calls] == ["venv", "pip"] * 2


def test_an_installation_that_failed_is_made_anew(calls: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    release = Release("9.9", ())
    noting = bootstrap.call

    def fail(command: list[str], title: str) -> None:
        noting(command, title)
        if command[1] == "pip":
            raise bootstrap.Sentence("no network")

    monkeypatch.setattr(bootstrap, "call", fail)
    with pytest.raises(bootstrap.Sentence):
        release.ensure()
    monkeypatch.setattr(bootstrap, "call", noting)
    release.ensure()
    assert [command[1] for command in calls] == ["venv", "pip"] * 2


def test_a_release_that_this_python_does_not_run_is_left_out_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    said = {release.version: release.missing() for release in RELEASES}
    assert said == {
        "2.11": "Airflow 2.11 is left out: it has no release for Python 3.13; "
        "set BOLLHAV_PYTHON to a Python below 3.13 to test it.",
        "3.1": None,
        "3.2": None,
    }


def test_the_programs_of_a_release_come_first_on_its_path() -> None:
    release = Release("9.9", ())
    environment = release.environment()
    assert environment["PATH"].startswith(f"{release.venv}/bin:")
    assert environment["VIRTUAL_ENV"] == str(release.venv)


def test_uv_is_installed_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "VENV", tmp_path)
    monkeypatch.setattr(bootstrap, "call", lambda command, title: done.append(command))
    monkeypatch.setattr(compat.shutil, "which", lambda name: None)
    assert compat._uv() == str(tmp_path / "bin" / "uv")
    assert done[0][1:4] == ["-m", "pip", "install"]
    assert done[0][-1] == "uv"
