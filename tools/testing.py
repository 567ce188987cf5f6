"""``./run test``: the linters and the tests, some parts beside each other, and a summary."""

from __future__ import annotations

import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools import LOCAL, ROOT, VENV, bootstrap, compat
from tools.console import Sentence
from tools.lanes import Lane, Lanes

#: Every part in its order, and what runs it inside .venv.
PARTS: dict[str, tuple[str, ...]] = {
    "ruff": ("ruff", "check", "."),
    "mypy": ("mypy",),
    "imports": ("lint-imports",),
    "unit": ("pytest", "tests/unit"),
    "integration": ("pytest", "tests/integration"),
    "servers": ("pytest", "tests/integration/state"),
    "airflow": ("pytest", "tests/airflow"),
    "compat": ("pytest", *compat.TESTS),
    "e2e": ("pytest", "tests/e2e"),
}
#: The order they start in: what says something soon, then the longest first, so that no lane is left with one of them.
_RANK = {
    part: rank
    for rank, part in enumerate(
        ("ruff", "mypy", "imports", "airflow", "e2e", "integration", "compat", "servers", "unit")
    )
}
#: How many parts run at a time: those that start an Airflow mostly wait for it.
BESIDE = 2
#: PostgreSQL servers of the system; the state has to be right on them too.
_SERVERS = Path("/usr/lib/postgresql")
#: What pytest answers when nothing matched -k.
_NOTHING_SELECTED = 5


@dataclass
class Outcome:
    """How one part ended."""

    part: str
    good: bool
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    tests: bool = False

    def __str__(self) -> str:
        counts = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped" if self.tests else ""
        return f"  {self.part:<12} {'ok' if self.good else 'FAILED':<7} {self.seconds:6.1f} s  {counts}".rstrip()


@contextmanager
def _variables(**found: str) -> Iterator[Mapping[str, str]]:
    """Prepare nothing, but say which variables are added to the environment."""
    yield found


@dataclass(frozen=True)
class Job:
    """A part, or one of the several runs that a part consists of.

    Attributes:
        part: name out of :data:`PARTS`.
        name: what it is called in the output.
        venv: the virtual environment it runs in.
        prepare: is called before it, yields variables that are added to its environment, and tidies up after it.
    """

    part: str
    name: str
    venv: Path = VENV
    prepare: Callable[[], AbstractContextManager[Mapping[str, str]]] = _variables


def run_tests(
    parts: Sequence[str], *, keyword: str | None = None, stop_early: bool = False, beside: int = BESIDE
) -> int:
    """Run the parts, all of them when none is named; a failed one does not keep the others from running.

    Args:
        parts: names out of :data:`PARTS`.
        keyword: pytest's -k.
        stop_early: end at the first failure.
        beside: how many run at a time.

    Returns:
        0 when everything is in order, 1 when not.

    Raises:
        Sentence: a part that does not exist.
    """
    if unknown := sorted(set(parts) - set(PARTS)):
        raise Sentence(f"There is no part {', '.join(unknown)} of the tests: choose from {', '.join(PARTS)}.")
    jobs = [job for part in PARTS if not parts or part in parts for job in _jobs(part)]
    started = time.monotonic()
    outcomes = Lanes(beside, stop_early).run(
        {job.name: partial(_run, job, keyword, stop_early) for job in sorted(jobs, key=lambda job: _RANK[job.part])}
    )
    print("\nSummary")
    found = [outcomes[job.name] for job in jobs if job.name in outcomes]
    for outcome in found:
        print(outcome)
    print(f"  {'total':<20} {time.monotonic() - started:6.1f} s")
    if any(o.tests for o in found):
        passed, failed, skipped = (sum(getattr(o, name) for o in found) for name in ("passed", "failed", "skipped"))
        print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 0 if all(o.good for o in found) else 1


def _jobs(part: str) -> list[Job]:
    """Return what a part consists of."""
    if part == "servers":
        return _servers()
    if part == "compat":
        return _releases()
    return [Job(part, part)]


def _servers() -> list[Job]:
    """Return the state's tests on every PostgreSQL that the system has, beside the one out of the wheel."""
    from bollhav_provider.testing.postgres import BINDIR_VARIABLE

    found = sorted(directory for directory in _SERVERS.glob("*/bin") if (directory / "initdb").exists())
    if not found:
        print(f"servers: none in {_SERVERS}; the state's tests run on the wheel's alone.", flush=True)
    return [
        Job("servers", f"server {home.parent.name}", prepare=partial(_variables, **{BINDIR_VARIABLE: str(home)}))
        for home in found
    ]


def _releases() -> list[Job]:
    """Return the tests of each other Airflow that is supported and that this Python can run."""
    for release in compat.RELEASES:
        if sentence := release.missing():
            print(sentence, flush=True)
    return [
        Job("compat", f"airflow {release.version}", release.venv, release.ready)
        for release in compat.RELEASES
        if not release.missing()
    ]


def _run(job: Job, keyword: str | None, stop_early: bool, lane: Lane) -> Outcome:
    program, *arguments = PARTS[job.part]
    command: list[str | Path] = [job.venv / "bin" / program, *arguments]
    report = LOCAL / f"tests-{job.name.replace(' ', '-')}.xml"
    report.unlink(missing_ok=True)
    tests = program == "pytest"
    if tests:
        command += [
            f"--junitxml={report}",
            "--durations=5",
            *(["-k", keyword] if keyword else []),
            *(["-x"] * stop_early),
        ]
    lane.say(f"== {job.name}: {program} {' '.join(arguments)}")
    started = time.monotonic()
    try:
        with job.prepare() as variables:
            code = lane.call(command, bootstrap.environment() | dict(variables))
    except Sentence as sentence:  # the other parts still say what they have to say
        lane.say(f"run: {sentence}")
        return Outcome(job.name, False, time.monotonic() - started, tests=tests)
    outcome = Outcome(job.name, code == 0, time.monotonic() - started, tests=tests)
    if not tests:
        return outcome
    outcome.good |= bool(keyword) and code == _NOTHING_SELECTED
    return _count(report, outcome)


def _count(report: Path, outcome: Outcome) -> Outcome:
    """Take the counts from pytest's report; without one something went wrong before the first test."""
    if not report.exists():
        print(f"{report.relative_to(ROOT)} was not written.", file=sys.stderr)
        return outcome
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        total, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
        outcome.failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        outcome.skipped += skipped
        outcome.passed += total - skipped - int(suite.get("failures", 0)) - int(suite.get("errors", 0))
    return outcome
