"""Lists of units as JSON: what a prefill hands to the tasks behind it, and what a DAG file names.

A task group is mapped over a list that every one of its tasks reads whole. Neighbours of a grid are therefore written
as the range that they tile: ten years of hours are a few bytes a task and not megabytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bollhav_provider.exceptions import StateError

if TYPE_CHECKING:
    from datetime import datetime

    from bollhav_provider.intervals import Grid, Unit

#: Fewer neighbours are written one by one, as people read and write them.
_FEW = 3


def units_to_json(units: Sequence[Unit], grid: Grid | None) -> list[dict[str, Any]]:
    """Write units: ``{"since", "until"}`` each, or for neighbours the range of a grid that is exactly they.

    Args:
        units: in order.
        grid: whose windows they may be; None where they are none.
    """
    return [item for neighbours in _neighbours(units) for item in _written(neighbours, grid)]


def units_of(value: Any) -> list[Unit]:
    """Read units: one, several, ranges of a grid, or what a mapped task was given.

    Raises:
        StateError: a range does not consist of as many windows as it says.
    """
    if value is None or isinstance(value, Mapping):
        return _read(value)
    return [unit for item in value for unit in _read(item)]


def unit_label(value: Any) -> str:
    """Return what people see of a batch of units: its window, from the first start to the last end; "" for no units."""
    try:
        found = units_of(value)
    except (TypeError, ValueError, AttributeError, LookupError, StateError):  # not rendered yet; or the task says why
        return ""
    windows = [unit.window for unit in found if unit.window is not None]
    if not windows:
        return found[0].label if found else ""
    if len(windows) == 1:
        return str(windows[0])
    since, until = windows[0].since, windows[-1].until
    return f"{_instant(since)} to {_instant(until)} ({len(windows)})"


def _neighbours(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Divide units into runs of which each begins where the one before it ends."""
    run: list[Unit] = []
    for unit in units:
        if run and (unit.since is None or unit.since != run[-1].until):
            yield run
            run = []
        run.append(unit)
    if run:
        yield run


def _written(neighbours: list[Unit], grid: Grid | None) -> list[dict[str, Any]]:
    from bollhav_provider.intervals import Interval

    since, until = neighbours[0].since, neighbours[-1].until
    if grid is not None and since is not None and until is not None and len(neighbours) >= _FEW:
        whole = Interval(since, until)
        if list(grid.windows(whole)) == [unit.window for unit in neighbours]:
            # "end" and not "until": who knows units alone must not take the range for a unit
            ends = {"since": whole.since.isoformat(), "end": whole.until.isoformat()}
            return [{**ends, "units": len(neighbours), "chunk": grid.cron, "tz": grid.tz}]
    return [unit.to_json() for unit in neighbours]


def _read(item: Mapping[str, Any] | None) -> list[Unit]:
    from bollhav_provider.intervals import Grid, Interval, Unit

    if item is None or "units" not in item:
        return [Unit.from_json(item)]
    whole = Interval.from_json({"since": item["since"], "until": item["end"]})
    windows = list(Grid(item["chunk"], item["tz"]).windows(whole))
    if len(windows) != item["units"]:
        raise StateError(
            f"{whole} is written as {item['units']} windows of {item['chunk']!r} in {item['tz']} and is {len(windows)} "
            "here: the time zone data of this worker and of the one that wrote it differ; install the same everywhere."
        )
    return [Unit(window) for window in windows]


def _instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%MZ" if not at.second else "%Y-%m-%dT%H:%M:%SZ")
