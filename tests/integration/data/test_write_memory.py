"""An UPSERT out of an iterator holds a frame or two, however many rows there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "memory.py"


@pytest.mark.skipif(sys.platform != "linux", reason="limits and sizes of a process are read from /proc")
def test_rows_of_an_iterator_go_through_an_upsert_in_bounded_memory(db: str) -> None:
    # The rows together are 90 MB and as much again when encoded.
    command = [
        sys.executable,
        str(SCRIPT),
        "--dsn",
        db,
        "--rows",
        "250000",
        "--frame-rows",
        "20000",
        "--limit-mb",
        "100",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("250,000 rows in ")
