"""Make ``.venv`` and install the project into it, once; every later call finds it done."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tools import LOCAL, ROOT, VENV
from tools.console import Progress, Sentence
from tools.processes import Guarded

#: The finished installation takes about 0.9 GB with its bytecode, and pip unpacks beside it.
_DISK_NEEDED = 2_000_000_000
_STAMP = VENV / "bollhav-installed.json"
_LOG = LOCAL / "install.log"

_NO_DISK = re.compile(r"No space left on device|Disk quota exceeded|os error 28\b", re.I)
_NO_NETWORK = re.compile(
    r"Temporary failure in name resolution|Name or service not known|nodename nor servname|NewConnectionError|"
    r"Network is unreachable|Connection refused|Connection timed out|ConnectTimeoutError|ReadTimeoutError|dns error|"
    r"error sending request|tcp connect error|ProxyError|Failed to fetch",
    re.I,
)


def python_of_venv() -> Path:
    """Return the path of the virtual environment's Python."""
    return VENV / "bin" / "python"


def environment() -> dict[str, str]:
    """Return this process's environment as the installed programs need it: their directory first on PATH."""
    env = {k: v for k, v in os.environ.items() if k not in {"PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH"}}
    env["VIRTUAL_ENV"] = str(VENV)
    env.setdefault("PIP_RETRIES", "2")  # an unreachable index is said in a minute, not in five
    env["PATH"] = os.pathsep.join([str(VENV / "bin"), env.get("PATH", os.defpath)])
    return env


def ensure(extras: set[str]) -> None:
    """Install the project with these extras unless exactly that was done before.

    Raises:
        Sentence: there is no room, no network, no ``venv`` module, or the installer failed; says which.
    """
    LOCAL.mkdir(exist_ok=True)
    with only_one():
        installed = _read_stamp()
        wanted = sorted(extras | set(installed.get("extras", ())))
        if installed == _stamp(wanted) and _works():
            return
        free = shutil.disk_usage(ROOT).free
        if free < _DISK_NEEDED and not installed:
            raise Sentence(
                f"{ROOT} has {free / 1e9:.1f} GB of disk left and the installation needs {_DISK_NEEDED / 1e9:.0f} GB: "
                "make room, or move the checkout to a larger disk."
            )
        started = time.monotonic()
        uv = shutil.which("uv")
        if not _works():
            _make_venv(uv)
        _install(uv, wanted)
        _STAMP.write_text(json.dumps(_stamp(wanted), indent=1))
        print(f"Installed into .venv in {time.monotonic() - started:.0f} s.", flush=True)


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Hold the lock of installing; a second process waits for the first, and says so."""
    with (LOCAL / "install.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for another installation into .venv to end ...", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _stamp(extras: list[str]) -> dict[str, object]:
    """Return what identifies an installation: a changed pyproject.toml or a moved checkout makes it another one."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    return {"checkout": str(ROOT), "pyproject": digest, "extras": extras}


def _read_stamp() -> dict[str, list[str]]:
    try:
        return dict(json.loads(_STAMP.read_text()))
    except (OSError, ValueError):
        return {}


def _works() -> bool:
    """Return whether .venv is a usable environment that was made at this place."""
    configuration = VENV / "pyvenv.cfg"
    if not configuration.exists():
        return False
    check = "import sys; print(sys.prefix, (3, 11) <= sys.version_info[:2] <= (3, 13))"
    try:
        result = subprocess.run([python_of_venv(), "-c", check], capture_output=True, text=True, check=False)
    except OSError:
        return False
    activate = VENV / "bin" / "activate"
    here = activate.exists() and str(VENV) in activate.read_text(errors="replace")
    return result.stdout.strip() == f"{VENV} True" and here


def _make_venv(uv: str | None) -> None:
    if VENV.exists():
        print("The virtual environment in .venv is broken or was made elsewhere: making it anew.", flush=True)
        shutil.rmtree(VENV, ignore_errors=True)
    version = ".".join(map(str, sys.version_info[:3]))
    if uv:
        call([uv, "venv", "--quiet", "--python", sys.executable, str(VENV)], f"Making .venv (Python {version}, uv)")
        return
    try:
        import ensurepip  # noqa: F401  # Debian splits it off: without it `-m venv` fails in the middle
        import venv  # noqa: F401
    except ImportError:
        raise Sentence(
            f"This Python {version} ({sys.executable}) lacks the venv module: install it "
            f"(Debian and Ubuntu: apt install python{sys.version_info[0]}.{sys.version_info[1]}-venv), or install uv."
        ) from None
    call([sys.executable, "-m", "venv", str(VENV)], f"Making .venv (Python {version})")


def _install(uv: str | None, extras: list[str]) -> None:
    what = f"{ROOT}[{','.join(extras)}]"
    python = str(python_of_venv())
    if uv:
        command = [uv, "pip", "install", "--python", python, "--compile-bytecode", "--editable", what]
    else:
        quiet = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
        command = [python, "-m", "pip", "install", *quiet, "--editable", what]
    call(command, f"Installing Airflow, PostgreSQL and the project ({'uv' if uv else 'pip'})")


def call(command: list[str], title: str) -> None:
    """Run an installer, its output into a log file and its last line on the screen."""
    _LOG.write_bytes(b"")
    with Guarded(command, environment=environment(), log=_LOG, grace=5) as process, Progress(title) as progress:
        while process.poll() is None:
            progress.show(_last_line(_LOG))
            time.sleep(0.2)
        code = process.wait()
    if code:
        raise Sentence(_diagnosis(_LOG.read_text(errors="replace"), title))


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines()
    return lines[-1].strip() if lines else ""


def _diagnosis(output: str, title: str) -> str:
    """Return the one sentence that tells a person what to do about a failed installation."""
    if _NO_DISK.search(output):
        return f"{title} failed because the disk is full: make room (about {_DISK_NEEDED / 1e9:.0f} GB) and try again."
    if _NO_NETWORK.search(output):
        return f"{title} failed because the package index cannot be reached: check the network or proxy and try again."
    last = next((line.strip() for line in reversed(output.splitlines()) if "error" in line.lower()), "no message")
    return f"{title} failed: {last} (the whole output is in {_LOG.relative_to(ROOT)})."
