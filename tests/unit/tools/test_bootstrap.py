"""What is missing on a machine is said in one sentence, and an installation is made once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import ROOT, bootstrap
from tools.console import Sentence


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk is full"),
        ("error: failed to copy file\n  Caused by: Disk quota exceeded (os error 122)", "disk is full"),
        (
            "WARNING: Retrying ... NewConnectionError: [Errno -3] Temporary failure in name resolution\n"
            "ERROR: Could not find a version that satisfies the requirement hatchling>=1.25 (from versions: none)",
            "package index cannot be reached",
        ),
        ("error: Request failed\n  Caused by: error sending request\n  Caused by: dns error", "cannot be reached"),
        ("noise\nERROR: No matching distribution found for polars>=99", "distribution found for polars>=99"),
    ],
)  # fmt: skip
def test_a_failed_installation_is_told_in_one_sentence(output: str, said: str) -> None:
    sentence = bootstrap._diagnosis(output, "Installing (pip)")
    assert said in sentence
    assert "\n" not in sentence
    assert sentence.startswith("Installing (pip) failed")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A checkout whose installer only takes notes."""
    done: list[str] = []
    venv = tmp_path / ".venv"
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, value in {"ROOT": tmp_path, "LOCAL": tmp_path / ".local", "VENV": venv}.items():
        monkeypatch.setattr(bootstrap, name, value)
    monkeypatch.setattr(bootstrap, "_STAMP", venv / "stamp.json")
    monkeypatch.setattr(bootstrap, "_LOG", tmp_path / ".local" / "install.log")

    def call(command: list[str], title: str) -> None:
        done.append(title.split()[0])
        if title.startswith("Making"):
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)

    monkeypatch.setattr(bootstrap, "call", call)
    return done


def test_a_second_call_reuses_what_the_first_installed(checkout: list[str]) -> None:
    bootstrap.ensure({"demo"})
    bootstrap.ensure({"demo"})
    assert checkout == ["Making", "Installing"]


def test_an_extra_is_added_to_those_that_are_there(checkout: list[str]) -> None:
    bootstrap.ensure({"demo"})
    bootstrap.ensure({"test"})
    bootstrap.ensure({"demo"})
    assert checkout == ["Making", "Installing", "Installing"]
    assert json.loads(bootstrap._STAMP.read_text())["extras"] == ["demo", "test"]


def test_changed_requirements_are_installed(checkout: list[str]) -> None:
    bootstrap.ensure({"demo"})
    with (bootstrap.ROOT / "pyproject.toml").open("a") as file:
        file.write("# changed\n")
    bootstrap.ensure({"demo"})
    assert checkout == ["Making", "Installing", "Installing"]


def test_an_environment_made_elsewhere_is_made_anew(checkout: list[str]) -> None:
    bootstrap.ensure({"demo"})
    activate = bootstrap.VENV / "bin" / "activate"
    activate.write_text(activate.read_text().replace(str(bootstrap.VENV), "/somewhere/else/.venv"))
    bootstrap.ensure({"demo"})
    assert checkout == ["Making", "Installing"] * 2


def test_too_little_disk_is_said_before_anything_is_made(checkout: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=5_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(Sentence, match=r"0\.0 GB of disk left .* needs 2 GB"):
        bootstrap.ensure({"demo"})
    assert checkout == []


def test_a_python_that_is_too_old_is_named(tmp_path: Path) -> None:
    for name in ("python3", "python3.13", "python3.12", "python3.11", "python"):
        fake = tmp_path / name
        fake.write_text('#!/bin/sh\nif [ "$1" = --version ]; then echo Python 3.9.2; else exit 1; fi\n')
        fake.chmod(0o755)
    for name in ("dirname", "sh"):
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    result = subprocess.run(
        [ROOT / "run", "demo"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 3
    assert result.stdout == ""
    assert result.stderr == (
        "run: Python 3.11, 3.12 or 3.13 is needed and Python 3.9.2 was found: "
        "install one, or set BOLLHAV_PYTHON to its path.\n"
    )
