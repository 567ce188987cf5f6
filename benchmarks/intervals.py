"""What the tick grid costs: a million ticks of several crons, and single look-ups.

    python benchmarks/intervals.py [--ticks 1000000] [--json FILE]

Ratios are against 200,000 additions to a datetime in a plain loop on the same machine, scaled to the same number
of ticks, so that a figure travels between machines. Where Airflow is installed, its own timetable steps the same
grid, for far fewer ticks. Target: a million hourly ticks in under 5 seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from bollhav_provider.intervals import Grid, Interval, IntervalSet

MAX_SECONDS = 5.0
SINCE = datetime(1950, 1, 1, tzinfo=UTC)
GRIDS = (
    ("@hourly", "UTC"),
    ("@hourly", "America/New_York"),
    ("*/5 * * * *", "Europe/Stockholm"),
    ("*/7 * * * *", "Australia/Lord_Howe"),
    ("0 */2 * * *", "Pacific/Chatham"),
    ("@daily", "America/New_York"),
)
LOOKUPS = 2000


def main() -> int:
    """Measure and print; exit code 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ticks", type=int, default=1_000_000, help="ticks a grid")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    plain = _plain_loop()
    figures: dict[str, Any] = {"plain": plain, "ticks": {}, "lookups": {}}
    print(f"{'ticks':<34}{'number':>10}{'s per million':>15}{'/ plain loop':>14}{'Airflow / ours':>16}")
    missed = False
    for cron, tz in GRIDS:
        ours, count = _ticks(cron, tz, options.ticks)
        theirs = _airflow(cron, tz)
        bad = cron == "@hourly" and ours >= MAX_SECONDS
        missed |= bad
        ratio = f"{theirs / ours:,.0f}x" if theirs is not None else "-"
        print(
            f"{cron + ' in ' + tz:<34}{count:>10,}{ours:>15.2f}{ours / plain:>13.1f}x{ratio:>16}"
            f"{'  MISSED' if bad else ''}"
        )
        figures["ticks"][f"{cron} {tz}"] = {"seconds_per_million": ours, "airflow_seconds_per_million": theirs}
    print(f"\n{'look-ups':<60}{'µs each':>10}")
    for what, seconds in _lookups().items():
        print(f"{what:<60}{seconds * 1e6:>10.1f}")
        figures["lookups"][what] = seconds
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 1 if missed else 0


def timed(work: Callable[[], object]) -> float:
    """Return the CPU seconds that something takes, the best of three."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def _plain_loop() -> float:
    def loop() -> None:
        at, hour = SINCE, timedelta(hours=1)
        for _ in range(200_000):
            at += hour

    return timed(loop) * 5


def _ticks(cron: str, tz: str, limit: int) -> tuple[float, int]:
    grid, end, count = Grid(cron, tz), datetime(9000, 1, 1, tzinfo=UTC), 0

    def generate() -> None:
        nonlocal count
        count = sum(1 for _ in islice(grid.ticks(SINCE, end), limit))

    spent = timed(generate)
    return spent / count * 1e6, count


def _airflow(cron: str, tz: str) -> float | None:
    """Return the seconds per million ticks of Airflow's timetable, or None where Airflow is not installed."""
    try:
        import pendulum
        from airflow.timetables.interval import CronDataIntervalTimetable
    except ImportError:
        return None
    timetable, steps = CronDataIntervalTimetable(cron, timezone=tz), 300
    start = pendulum.instance(Grid(cron, tz).ceil(datetime(2024, 1, 1, tzinfo=UTC)))

    def step() -> None:
        at = start
        for _ in range(steps):
            at = timetable._get_next(at)

    return timed(step) / steps * 1e6


def _lookups() -> dict[str, float]:
    hourly, monthly = Grid("@hourly", "America/New_York"), Grid("@monthly", "America/New_York")
    now = datetime(2024, 6, 15, 12, 34, 56, tzinfo=UTC)
    change = datetime(2024, 11, 3, 6, 30, tzinfo=UTC)
    year = Interval(datetime(2024, 1, 1, 5, tzinfo=UTC), datetime(2025, 1, 1, 5, tzinfo=UTC))
    cells = list(hourly.windows(year))

    def each(work: Callable[[], object]) -> float:
        return timed(lambda: [work() for _ in range(LOOKUPS)]) / LOOKUPS

    return {
        "floor of an instant, @hourly": each(lambda: hourly.floor(now)),
        "floor of an instant in a clock change, @hourly": each(lambda: hourly.floor(change)),
        "latest complete window, @monthly": each(lambda: monthly.latest_complete(now)),
        "lookback by 24 ticks, @hourly": each(lambda: hourly.lookback(cells[4000], 24)),
        "one of a year's hours as a window": timed(lambda: list(hourly.windows(year))) / len(cells),
        "one of a year's hours, joined into islands": timed(lambda: IntervalSet(cells)) / len(cells),
    }


if __name__ == "__main__":
    sys.exit(main())
