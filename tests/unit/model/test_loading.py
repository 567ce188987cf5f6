"""Byte code of users' files: used while it fits the text, made anew when it does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest

from bollhav_provider.model.loading import FromSource


@pytest.fixture(autouse=True)
def byte_code_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def value_of(file: Path) -> Any:
    namespace: dict[str, Any] = {}
    exec(FromSource("models", str(file)).get_code("models"), namespace)
    return namespace["value"]


def refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("the text was compiled")


def test_a_text_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "models.py"
    file.write_text("value = 1\n")
    assert value_of(file) == 1
    monkeypatch.setattr(FromSource, "source_to_code", refuse)
    assert value_of(file) == 1


def test_an_edit_is_seen_that_changes_neither_the_size_nor_the_second(tmp_path: Path) -> None:
    file = tmp_path / "models.py"
    file.write_text("value = 1\n")
    times = file.stat()
    assert value_of(file) == 1
    file.write_text("value = 2\n")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert value_of(file) == 2


def test_a_copied_folder_says_its_own_path(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    file = tmp_path / "one" / "models.py"
    file.write_text("value = (lambda: 0).__code__.co_filename\n")
    assert value_of(file) == str(file)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert value_of(tmp_path / "two" / "models.py") == str(tmp_path / "two" / "models.py")


@pytest.mark.parametrize("cut", [0, 7, 16, 20])
def test_damaged_byte_code_is_made_anew(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "models.py"
    file.write_text("value = 1\n")
    assert value_of(file) == 1
    kept = Path(cache_from_source(str(file)))
    kept.write_bytes(kept.read_bytes()[:cut])
    assert value_of(file) == 1
    assert len(kept.read_bytes()) > 20


def test_none_is_kept_where_it_is_not_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "models.py"
    file.write_text("value = 1\n")
    assert value_of(file) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["models.py"]


def test_a_folder_that_cannot_be_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "models.py"
    file.write_text("value = 1\n")
    (tmp_path / "__pycache__").write_text("in the way")
    assert value_of(file) == 1


def test_pythons_own_imports_accept_it_and_see_edits(tmp_path: Path) -> None:
    file = tmp_path / "models.py"
    file.write_text("value = 1\n")
    assert value_of(file) == 1
    file.write_text("value = 2\n")
    told = subprocess.run(
        [sys.executable, "-c", "import models; print(models.value)"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout == "2\n"
