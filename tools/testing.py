"""``./run test``: the linters, then the tests from the quickest to a whole deployment, and a summary."""

from __future__ import annotations

import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools import LOCAL, ROOT, VENV, bootstrap, compat
from tools.console import Sentence
from tools.processes import Guarded

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


def run_tests(parts: Sequence[str], *, keyword: str | None = None, stop_early: bool = False) -> int:
    """Run the parts, all of them when none is named; a failed one does not keep the others from running.

    Args:
        parts: names out of :data:`PARTS`; they run in its order.
        keyword: pytest's -k.
        stop_early: end at the first failure.

    Returns:
        0 when everything is in order, 1 when not.

    Raises:
        Sentence: a part that does not exist.
    """
    if unknown := sorted(set(parts) - set(PARTS)):
        raise Sentence(f"There is no part {', '.join(unknown)} of the tests: choose from {', '.join(PARTS)}.")
    outcomes: list[Outcome] = []
    for part in [name for name in PARTS if not parts or name in parts]:
        if part == "compat":
            outcomes += _compat(keyword, stop_early)
        elif part == "servers":
            outcomes += _servers(keyword, stop_early)
        else:
            outcomes.append(_run(part, keyword, stop_early))
        if stop_early and not all(outcome.good for outcome in outcomes):
            break
    print("\nSummary")
    for outcome in outcomes:
        print(outcome)
    print(f"  {'total':<20} {sum(o.seconds for o in outcomes):6.1f} s")
    if any(o.tests for o in outcomes):
        passed, failed, skipped = (sum(getattr(o, name) for o in outcomes) for name in ("passed", "failed", "skipped"))
        print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 0 if all(o.good for o in outcomes) else 1


def _servers(keyword: str | None, stop_early: bool) -> list[Outcome]:
    """Run the state's tests on every PostgreSQL that the system has, beside the one out of the wheel."""
    from bollhav_provider.testing.postgres import BINDIR_VARIABLE

    found = sorted(directory for directory in _SERVERS.glob("*/bin") if (directory / "initdb").exists())
    if not found:
        print(f"\n== servers: none in {_SERVERS}; the state's tests ran on the wheel's alone.", flush=True)
    outcomes: list[Outcome] = []
    for directory in found:
        environment = bootstrap.environment() | {BINDIR_VARIABLE: str(directory)}
        name = f"server {directory.parent.name}"
        outcomes.append(_run("servers", keyword, stop_early, name=name, environment=environment))
        if stop_early and not outcomes[-1].good:
            break
    return outcomes


def _compat(keyword: str | None, stop_early: bool) -> list[Outcome]:
    """Run the part on each other Airflow that is supported, one after the other, against one PostgreSQL server."""
    outcomes: list[Outcome] = []
    with compat.server() as dsn:
        for release in compat.RELEASES:
            if sentence := release.missing():
                print(f"\n== {sentence}", flush=True)
                continue
            part = f"airflow {release.version}"
            try:
                release.ensure()
            except Sentence as sentence:  # the other releases and parts still say what they have to say
                print(f"run: {sentence}", file=sys.stderr)
                outcomes.append(Outcome(part, False, 0.0))
                continue
            environment = release.environment() | {"BOLLHAV_TEST_DSN": dsn}
            outcomes.append(_run("compat", keyword, stop_early, venv=release.venv, name=part, environment=environment))
            if stop_early and not outcomes[-1].good:
                break
    return outcomes


def _run(
    part: str,
    keyword: str | None,
    stop_early: bool,
    *,
    venv: Path = VENV,
    name: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    program, *arguments = PARTS[part]
    part = name or part
    command: list[str | Path] = [venv / "bin" / program, *arguments]
    report = LOCAL / f"tests-{part.replace(' ', '-')}.xml"
    report.unlink(missing_ok=True)
    tests = program == "pytest"
    if tests:
        command += [
            f"--junitxml={report}",
            "--durations=5",
            *(["-k", keyword] if keyword else []),
            *(["-x"] * stop_early),
        ]
    print(f"\n== {part}: {program} {' '.join(arguments)}", flush=True)
    started = time.monotonic()
    # An interrupt, not SIGTERM: pytest then tears its fixtures down, and with them the servers that they started.
    with Guarded(command, environment=environment or bootstrap.environment(), stop_signal="INT", grace=60) as process:
        code = process.wait()
    seconds = time.monotonic() - started
    if not tests:
        return Outcome(part, code == 0, seconds)
    return _count(
        report, Outcome(part, code == 0 or (bool(keyword) and code == _NOTHING_SELECTED), seconds, tests=True)
    )


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
