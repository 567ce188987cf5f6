"""The other supported versions of Airflow: each in a virtual environment of its own under ``.local``.

Only the project's own dependencies go into them, without its extras, so that they also show that those suffice; the
oldest Airflow gets the lowest version of each that ``pyproject.toml`` allows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools import LOCAL, ROOT, bootstrap

#: What is run there: the tests of what an Airflow could do differently.
TESTS = (
    "-m",
    "not once",
    "tests/airflow/test_provider.py",
    "tests/airflow/test_grid_equals_airflow.py",
    "tests/airflow/test_dag_timetable.py",
    "tests/airflow/test_factory.py",
    "tests/airflow/test_operators.py",
    "tests/airflow/test_waiting.py",
    "tests/airflow/test_clearing.py",
    "tests/airflow/test_marking.py",
    "tests/airflow/test_airflow_2.py",
    "tests/airflow/test_people_2.py",
    "tests/airflow/test_runs.py",
    "tests/airflow/test_cascade.py",
    "tests/airflow/test_cascade_own_queue.py",
    "tests/airflow/test_gate_ends.py",
    "tests/airflow/test_gate_doomed.py",
    "tests/airflow/test_patience.py",
    "tests/airflow/test_only.py",
    "tests/airflow/test_marking_own_dags.py",
    "tests/airflow/test_retries.py",
    "tests/airflow/test_sensor_windows.py",
    "tests/airflow/test_factory_schedules.py",
    "tests/airflow/test_openlineage.py",
)
_TOOLS = ("hypothesis>=6.100", "jsonschema>=4.21", "pytest>=8.2", "pytest-timeout>=2.3")


@dataclass(frozen=True)
class Release:
    """One minor version of Airflow.

    Attributes:
        version: major and minor.
        requirements: what is installed beside the project.
        options: further arguments of ``uv pip install``.
        before: the first Python, major and minor, that it does not run on.
    """

    version: str
    requirements: tuple[str, ...]
    options: tuple[str, ...] = ()
    before: tuple[int, int] = (3, 14)

    @property
    def venv(self) -> Path:
        """Its virtual environment."""
        return LOCAL / f"airflow-{self.version}"

    def missing(self) -> str | None:
        """Return the sentence that says why this Python cannot run it; None when it can."""
        mine = sys.version_info[:2]
        if mine < self.before:
            return None
        return (
            f"Airflow {self.version} is left out: it has no release for Python {mine[0]}.{mine[1]}; "
            f"set BOLLHAV_PYTHON to a Python below {self.before[0]}.{self.before[1]} to test it."
        )

    def environment(self) -> dict[str, str]:
        """Return the environment of its programs: their directory first on PATH."""
        env = bootstrap.environment()
        return env | {"VIRTUAL_ENV": str(self.venv), "PATH": f"{self.venv / 'bin'}:{env['PATH']}"}

    def ensure(self) -> None:
        """Install it unless exactly that was done before.

        Raises:
            Sentence: there is no room, no network, or the installer failed; says which.
        """
        with bootstrap.only_one():
            stamp = self.venv / "bollhav-installed.json"
            wanted = json.dumps(self._stamp(), indent=1)
            if not (stamp.exists() and stamp.read_text() == wanted):
                self._install()
                stamp.write_text(wanted)

    @contextlib.contextmanager
    def ready(self) -> Iterator[dict[str, str]]:
        """Install it and start a PostgreSQL server for its tests, as it has none; yields their environment."""
        from bollhav_provider.testing.postgres import PostgresServer

        self.ensure()
        home = Path(tempfile.mkdtemp(prefix="bollhav-compat-"))
        postgres = PostgresServer(home, durable=False, settings=("max_connections=200",))
        try:
            postgres.start()
            yield self.environment() | {"BOLLHAV_TEST_DSN": postgres.dsn()}
        finally:
            postgres.destroy()

    def _install(self) -> None:
        uv = _uv()
        shutil.rmtree(self.venv, ignore_errors=True)
        title = f"Installing Airflow {self.version} beside the installed one"
        bootstrap.call([uv, "venv", "--quiet", "--python", str(bootstrap.python_of_venv()), str(self.venv)], title)
        install = [uv, "pip", "install", "--python", str(self.venv / "bin" / "python"), "--compile-bytecode"]
        bootstrap.call([*install, *self.options, "--editable", str(ROOT), *self.requirements, *_TOOLS], title)

    def _stamp(self) -> dict[str, object]:
        """Return what identifies the installation: another Python, checkout or ``pyproject.toml`` makes it another."""
        digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
        what = [*self.options, *self.requirements, *_TOOLS]
        return {"checkout": str(ROOT), "python": sys.version, "pyproject": digest, "installed": what}


RELEASES = (
    Release(
        "2.11",
        # Its metadata are in PostgreSQL where it is deployed; the SQLAlchemy that it needs knows no psycopg 3.
        ("apache-airflow==2.11.*", "apache-airflow-providers-common-compat==1.12.0", "psycopg2-binary>=2.9.9"),
        ("--resolution", "lowest-direct"),
        before=(3, 13),
    ),
    Release("3.1", ("apache-airflow==3.1.*",)),
    # Its models cannot be built by the pydantic that came out after it. OpenLineage's provider is tried with it.
    Release(
        "3.2",
        ("apache-airflow==3.2.*", "apache-airflow-providers-openlineage"),
        ("--exclude-newer", "2026-07-01"),
    ),
)


def _uv() -> str:
    """Return the path of uv, which is installed into ``.venv`` where there is none: pip knows no dates."""
    beside = bootstrap.python_of_venv().with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        python = str(bootstrap.python_of_venv())
        bootstrap.call([python, "-m", "pip", "install", "--disable-pip-version-check", "uv"], "Installing uv")
        found = str(beside)
    return found
