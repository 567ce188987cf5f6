"""Jobs beside each other: whose a line is, what a failure and the end of the process do to the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools import ROOT
from tools.lanes import Lane, Lanes


@dataclass
class Ended:
    good: bool
    code: int = 0


def _python(program: str) -> Callable[[Lane], Ended]:
    def job(lane: Lane) -> Ended:
        code = lane.call([sys.executable, "-c", textwrap.dedent(program)], os.environ)
        return Ended(code == 0, code)

    return job


#: Waits for the file of the other, so it ends only when both run at once.
MEET = """
import pathlib, time
pathlib.Path({mine!r}).touch()
print("here")
for _ in range(300):
    if pathlib.Path({other!r}).exists():
        break
    time.sleep(0.1)
else:
    raise SystemExit(1)
"""


def test_two_run_at_a_time_and_each_line_says_whose_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    jobs = {"one": _python(MEET.format(mine=one, other=two)), "two": _python(MEET.format(mine=two, other=one))}
    assert all(ended.good for ended in Lanes(2).run(jobs).values())
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split() for line in lines) == [["one", "|", "here"], ["two", "|", "here"]]


def test_one_at_a_time_when_told_so(tmp_path: Path) -> None:
    there = str(tmp_path / "there")
    program = f"import pathlib, time; p = pathlib.Path({there!r}); p.mkdir(); time.sleep(0.3); p.rmdir()"
    assert all(ended.good for ended in Lanes(1).run({n: _python(program) for n in "abc"}).values())


def test_a_failed_one_lets_the_others_run() -> None:
    ended = Lanes(1).run({"bad": _python("raise SystemExit(4)"), "good": _python("pass")})
    assert {name: one.code for name, one in ended.items()} == {"bad": 4, "good": 0}


def test_stopping_early_stops_those_that_run_and_starts_no_other(tmp_path: Path) -> None:
    started, never = tmp_path / "started", tmp_path / "never"
    began = time.monotonic()
    ended = Lanes(2, stop_early=True).run(
        {
            "long": _python(f"import pathlib, time; pathlib.Path({str(started)!r}).touch(); time.sleep(300)"),
            "bad": _python(MEET.format(mine=str(tmp_path / "bad"), other=str(started)) + "raise SystemExit(4)"),
            "never": _python(f"import pathlib; pathlib.Path({str(never)!r}).touch()"),
        }
    )
    assert time.monotonic() - began < 100
    assert not ended["long"].good
    assert ended["bad"].code == 4
    assert not never.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_signal_ends_all_of_them(tmp_path: Path) -> None:
    program = f"import os, pathlib, time; pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch(); time.sleep(300)"
    parent = f"""
    import os, sys
    from tools.lanes import Lanes
    from tools.processes import Stopped, orderly_end

    def job(lane):
        lane.call([sys.executable, "-c", {program!r}], os.environ)

    try:
        with orderly_end():
            Lanes(2).run({{"a": job, "b": job, "c": job}})
    except Stopped as stopped:
        sys.exit(stopped.exit_code)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(parent)], cwd=ROOT) as running:
        end = time.monotonic() + 60
        while len(pids := [int(path.name) for path in tmp_path.iterdir()]) < 2:
            assert time.monotonic() < end
            time.sleep(0.05)
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 128 + signal.SIGTERM
    assert len(list(tmp_path.iterdir())) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
