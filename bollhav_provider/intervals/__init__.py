"""Time: instants, windows, their algebra, and the tick grid of a cron in a zone.

Pure: no clock, no database, no Airflow. Every instant is aware and in UTC, every window half-open and never
empty.
Rule: Semantics, time.
"""

from __future__ import annotations

from bollhav_provider.intervals.cron import ALIASES
from bollhav_provider.intervals.grid import Grid
from bollhav_provider.intervals.instants import as_utc, as_utc_or_day, instant_text
from bollhav_provider.intervals.interval import Interval
from bollhav_provider.intervals.sets import IntervalSet
from bollhav_provider.intervals.unit import WHOLE, Unit
from bollhav_provider.intervals.window import (
    ResolvedWindow,
    align_begin,
    contract_range,
    resolve_window,
    split_window,
)

__all__ = [
    "ALIASES",
    "WHOLE",
    "Grid",
    "Interval",
    "IntervalSet",
    "ResolvedWindow",
    "Unit",
    "align_begin",
    "as_utc",
    "as_utc_or_day",
    "contract_range",
    "instant_text",
    "resolve_window",
    "split_window",
]
