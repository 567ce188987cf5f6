"""``./run demo``: start, fill, check, show; then stay up until Ctrl-C, or end with ``--check``."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from rich.console import Console
from rich.live import Live

from tools.demo import check as checks
from tools.demo import expected, progress
from tools.demo.deployment import Deployment, deployment
from tools.processes import Stopped

#: Runs of one backfill that go on at once; there are 4 worker processes.
_AT_ONCE = 7
#: Columns of a line where the output is no terminal.
_WIDTH = 110
#: Seconds without any change after which the demo does not believe that anything will come.
_STUCK = 180.0


#: The models that are run over days; the others have a single unit.
TEMPORAL = ("raw.weather", "raw.flights", "mart.flight_weather", "mart.carrier_day", "mart.carrier_to_date")
#: Who waits for whom is the gates' business, but a gate on a model that was never heard of is an error, not a wait. So
#: each wave starts as soon as the one before it is known to the library, long before it is done.
WAVES = (
    ("ref.airlines", "ref.airports", "ref.regions", "raw.weather", "raw.flights"),
    ("mart.flight_weather", "mart.carrier_day"),
    ("mart.carrier_to_date", "mart.leaderboard", "mart.busiest_routes"),
)


def first_and_last(days: int) -> tuple[str, str]:
    """Return the logical dates of the first and the last day, as instants in UTC."""
    first = datetime(2013, 1, 1, tzinfo=ZoneInfo("America/New_York"))
    last = first + timedelta(days=days - 1)
    return first.astimezone(UTC).isoformat(), last.astimezone(UTC).isoformat()


def run_demo(*, days: int, check: bool, keep: bool, port: int | None) -> int:
    """Run the demo and return its exit code: 0 when every window is applied and every number is right.

    Args:
        days: local days to load.
        check: end when all is done; otherwise, on a terminal, stay up until a signal comes.
        keep: keep the databases.
        port: of the UI; None for 8080 or a free one.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH)
    started = time.monotonic()
    with deployment(
        days=days,
        server=os.environ.get("BOLLHAV_DSN") or None,
        keep=keep,
        port=port,
        say=lambda text: console.print(f"{text} ..."),
    ) as running:
        console.print(f"Airflow is up after {time.monotonic() - started:.0f} s: {_address(running)}")
        fill(running, days, console)
        good = _summary(running, days, console)
        console.print(f"The whole took {time.monotonic() - started:.0f} s.")
        if not check and sys.stdout.isatty():
            console.print(f"\nLook around at {_address(running)}. Ctrl-C stops everything.")
            _stay(running)
            console.print("Stopping everything ...")
    return 0 if good else 1


def _stay(running: Deployment) -> None:
    """Stay up until a signal comes, which is how a demo that somebody looks at ends."""
    with contextlib.suppress(Stopped):
        while True:
            running.check_alive()
            time.sleep(1)


def _address(running: Deployment) -> str:
    return f"[bold]{running.url}[/] (user [bold]admin[/], password [bold]{running.password}[/])"


def start(running: Deployment, models: Iterable[str], first: str, last: str) -> None:
    """Unpause models and start their runs: a backfill over days, or one run of a model without windows.

    Args:
        running: the deployment.
        models: full names.
        first: logical date of the first day.
        last: logical date of the last day.
    """
    for model in models:
        running.airflow.pause(model, False)
        if model in TEMPORAL:
            running.airflow.backfill(model, first, last, reprocess="completed", at_once=_AT_ONCE)
        else:
            running.airflow.trigger(model)


def fill(running: Deployment, days: int, console: Console) -> None:
    """Start all runs, and show how the windows fill until every run has ended or nothing moves any more."""
    wanted = expected.windows(days)
    dates = first_and_last(days)
    waves = list(WAVES)
    moved, last_said, before = time.monotonic(), 0.0, None
    with running.connect() as conn, Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            running.check_alive()
            counts = progress.read_counts(conn)
            started = [model for wave in WAVES[: len(WAVES) - len(waves)] for model in wave]
            if waves and all(model in counts for model in started):
                start(running, waves.pop(0), *dates)
            now = time.monotonic()
            if counts != before:
                before, moved = counts, now
            if console.is_terminal:
                live.update(progress.table_of_counts(counts, None, days), refresh=True)
            elif now - last_said >= 10:
                last_said = now
                done = sum(min(counts[m].applied, n) for m, n in wanted.items() if m in counts)
                console.print(f"  {done} of {sum(wanted.values())} windows applied")
            if now - moved > _STUCK or (not waves and _all_ended(running)):
                return
            time.sleep(1)


def _all_ended(running: Deployment) -> bool:
    """Return whether each model has runs and all of them have ended; a backfill makes all of its runs at once."""
    runs = running.airflow.runs()
    ended = {run["dag_id"] for run in runs} >= set(progress.MODELS)
    return ended and not any(run["state"] in ("queued", "running") for run in runs)


def _summary(running: Deployment, days: int, console: Console) -> bool:
    with running.connect() as conn:
        counts, rows = progress.read_counts(conn), progress.read_rows(conn)
        console.print(progress.table_of_counts(counts, rows, days))
        problems = list(checks.problems(conn, counts, days))
        if "mart.leaderboard" in rows:
            console.print(progress.table_of_query(conn, "mart.leaderboard: delays at departure, minutes",
                          "SELECT * FROM mart.leaderboard ORDER BY rank, carrier LIMIT 5"))  # fmt: skip
        if "mart.busiest_routes" in rows:
            console.print(progress.table_of_query(conn, "mart.busiest_routes: miles per hour of wind",
                          "SELECT * FROM mart.busiest_routes ORDER BY flights DESC, origin, dest LIMIT 5"))  # fmt: skip
        if not problems:
            console.print("[green]Every window is applied and every row equals what the CSV files give.[/]")
            return True
        for problem in problems:
            console.print(f"[red]wrong:[/] {problem}")
        for reason in progress.blocked_reasons(conn) if counts else ():
            console.print(f"[yellow]blocked:[/] {reason}")
    progress.show_failures(console, running.airflow)
    console.print(f"The logs are in {running.logs}.")
    return False
