"""What runs under the guard ends with whoever asked for it, whatever it started and however that one ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import ROOT
from tools.guard import session_members
from tools.processes import Guarded, free_port

#: Starts a child in its group, one in its session and one in a session of its own, as pytest, Airflow and pg_ctl do.
_FAMILY = """
    import os, subprocess, sys, time
    sleep = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(300)"]
    same = subprocess.Popen(sleep)
    group = subprocess.Popen(sleep, process_group=0)
    start = f"import subprocess; print(subprocess.Popen({sleep!r}, start_new_session=True, stdout=-3).pid)"
    daemon = subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE, text=True)
    orphan = daemon.communicate()[0].strip()
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(f"{os.getpid()} {same.pid} {group.pid} {orphan}")
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    time.sleep(300)
"""


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except FileNotFoundError:
        return False


def _eventually(condition: Callable[[], bool], seconds: float = 15.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def _family(told: Path) -> list[int]:
    assert _eventually(told.exists)
    return [int(pid) for pid in told.read_text().split()]


@pytest.fixture
def script(tmp_path: Path) -> list[str]:
    path = tmp_path / "family.py"
    path.write_text(textwrap.dedent(_FAMILY))
    return [sys.executable, str(path), str(tmp_path / "pids")]


def test_passes_the_exit_code_on() -> None:
    with Guarded([sys.executable, "-c", "raise SystemExit(7)"]) as process:
        assert process.wait(20) == 7


def test_reports_death_by_a_signal_as_a_shell_does() -> None:
    with Guarded([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]) as process:
        assert process.wait(20) == 128 + signal.SIGKILL


def test_takes_output_into_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Guarded([sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr)"], log=log) as process:
        process.wait(20)
    assert sorted(log.read_text().split()) == ["err", "out"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_stop_leaves_no_descendant_wherever_it_went(script: list[str]) -> None:
    with Guarded(script, grace=0.5) as process:
        family = _family(Path(script[-1]))
        assert len(family) == 4
        assert all(map(_alive, family))
    assert not [pid for pid in family if _alive(pid)]
    assert not session_members(process.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_a_finished_command_left_behind_ends_too(tmp_path: Path, script: list[str]) -> None:
    short = Path(script[1])
    short.write_text(short.read_text().rsplit("time.sleep(300)", 1)[0])
    with Guarded(script) as process:
        family = _family(Path(script[-1]))
        assert process.wait(20) == 0
    assert _eventually(lambda: not any(map(_alive, family)))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_everything_ends_when_the_parent_dies(how: signal.Signals, script: list[str]) -> None:
    parent = textwrap.dedent(f"""
        import time
        from tools.processes import Guarded
        process = Guarded({script!r}, grace=0.5)
        time.sleep(300)
    """)
    starter = subprocess.Popen([sys.executable, "-c", parent], cwd=ROOT)
    family = _family(Path(script[-1]))
    os.kill(starter.pid, how)
    starter.wait(20)
    assert _eventually(lambda: not any(map(_alive, family)))


def test_asks_with_the_signal_it_was_told(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = (
        "import pathlib, time\n"
        f"path = pathlib.Path({str(told)!r})\n"
        "path.touch()\n"
        "try:\n    time.sleep(300)\n"
        "except KeyboardInterrupt:\n    path.write_text('interrupted')\n"
    )
    with Guarded([sys.executable, "-c", program], stop_signal="INT"):
        assert _eventually(told.exists)
        time.sleep(0.2)
    assert told.read_text() == "interrupted"


def test_a_command_that_misses_the_signal_once_is_asked_again(tmp_path: Path) -> None:
    missed = tmp_path / "missed"
    program = (
        "import pathlib, time\n"
        "print('here', flush=True)\n"
        f"try:\n    time.sleep(300)\nexcept KeyboardInterrupt:\n    pathlib.Path({str(missed)!r}).touch()\n"
        "time.sleep(300)\n"
    )
    options = ["--signal", "INT", "--grace", "60", "--again", "0.5"]
    command = [sys.executable, "-m", "tools.guard", *options, "--", sys.executable, "-c", program]
    began = time.monotonic()
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as guard:
        assert guard.stdout is not None
        assert guard.stdin is not None
        assert guard.stdout.readline() == b"here\n"
        guard.stdin.close()
        assert guard.wait(50) == 128 + signal.SIGINT
    assert missed.exists()
    assert time.monotonic() - began < 50


def test_a_free_port_is_not_one_that_is_taken() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert free_port(taken.getsockname()[1]) != taken.getsockname()[1]


def test_a_port_is_given_to_one_process_until_that_ends() -> None:
    """Long before anything listens there."""
    port = free_port()
    program = f"from tools.processes import free_port; print(free_port({port}), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        assert port != theirs != free_port(theirs)
        other.communicate("\n")
    assert free_port(theirs) == theirs
