"""Which window a run covers, and the units in it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

from bollhav_provider.exceptions import IntervalError
from bollhav_provider.intervals.grid import Grid
from bollhav_provider.intervals.instants import as_utc, instant_text
from bollhav_provider.intervals.interval import Interval
from bollhav_provider.intervals.unit import WHOLE, Unit

__all__ = ["ResolvedWindow", "align_begin", "contract_range", "resolve_window", "split_window"]


class ResolvedWindow(NamedTuple):
    """What one run covers.

    Attributes:
        window: the window after lookback and clamping; None when the model has no windows, or nothing is
            left.
        units: the pieces of work in it, in order; one windowless unit for a model without windows.
        origin: what decided: ``explicit``, ``data interval``, ``latest``, ``contract`` or ``windowless``.
        message: a sentence that says why there are no units; empty when there are some.
        warnings: sentences for the log.
    """

    window: Interval | None
    units: tuple[Unit, ...]
    origin: str
    message: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the run covers nothing at all; ``message`` says why."""
        return self.window is None and not self.units


def align_begin(grid: Grid, begin: datetime) -> tuple[datetime, str | None]:
    """Return the first tick at or after a contract's begin, and a warning when that is not begin itself.

    Rule: Semantics, time: a begin off the grid.
    """
    at = as_utc(begin, "begin")
    first = grid.ceil(at)
    if first == at:
        return first, None
    return (
        first,
        f"begin {instant_text(at)} is not a tick of {grid}; the first window starts at {instant_text(first)}",
    )


def contract_range(
    grid: Grid, begin: datetime, end: datetime | None, now: datetime, *, flexible: bool = False
) -> Interval | None:
    """Return the declared range: from begin's first tick to end, or to the latest complete tick of an open
    contract.

    An end in the future is cut at the latest complete tick: what has not elapsed cannot be loaded. A fixed
    range ends on a tick.

    Args:
        grid: the chunk's grid.
        begin: the contract's begin.
        end: the contract's end, None when open.
        now: the instant that "elapsed" is measured by.
        flexible: whether the model keeps parts of cells at the contract's edges.

    Returns:
        The range, or None while no cell of it is complete.
    """
    since = as_utc(begin, "begin") if flexible else align_begin(grid, begin)[0]
    latest = grid.floor(as_utc(now, "now"))
    until = latest
    if end is not None:
        last = as_utc(end, "end")
        if last < latest:
            until = last if flexible else grid.floor(last)
    return Interval(since, until) if since < until else None


def split_window(grid: Grid, window: Interval, *, flexible: bool = False) -> tuple[Unit, ...]:
    """Split a window into units: whole cells if fixed; if flexible, pieces cut at the ticks, edges kept."""
    cells = grid.pieces(window) if flexible else grid.windows(window)
    return tuple(Unit(cell) for cell in cells)


def resolve_window(
    grid: Grid | None,
    *,
    now: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
    data_interval: Interval | None = None,
    begin: datetime | None = None,
    end: datetime | None = None,
    lookback: int = 0,
    flexible: bool = False,
    run_grid: Grid | None = None,
    absent: Literal["latest", "contract"] = "latest",
    temporal: bool = False,
) -> ResolvedWindow:
    """Resolve what a run covers: explicit since and until, else the data interval, else what ``absent`` says.

    Args:
        grid: the chunk's grid; None for a model without windows, whose one unit is windowless.
        now: the instant that "latest complete" is measured by.
        since: explicit start. Alone it reaches to the contract's end or the latest complete tick.
        until: explicit end. Alone it starts at the contract's begin.
        data_interval: the scheduled run's interval.
        begin: the contract's begin; nothing before it is run.
        end: the contract's end; nothing from it on is run.
        lookback: ticks of the chunk that a scheduled or latest window also goes back. An explicit window is
            taken as it is written.
        flexible: whether parts of cells at the window's edges are units too.
        run_grid: what one scheduled run covers when that is coarser than a chunk; "latest" means its latest
            complete cell.
        absent: with neither dates nor a data interval: the latest complete cell, or the contract's declared
            range.
        temporal: without a grid: whether the model's one unit is about time all the same. The window is then what its
            range has to reach, and None for "up to now".

    Raises:
        IntervalError: an instant is naive, the explicit window is empty or inverted, or its missing side
            cannot be derived.

    Rule: Semantics, time and execution; Airflow's side, window.
    """
    now = as_utc(now, "now")
    declared_since = None if begin is None else as_utc(begin, "begin")
    declared_until = None if end is None else as_utc(end, "end")
    window: Interval | None
    if since is None and until is not None and declared_since is not None and (grid is not None or temporal):
        last = as_utc(until, "until")
        if last <= declared_since:
            return ResolvedWindow(
                None,
                (),
                "explicit",
                f"until {instant_text(last)} is not after the contract's begin {instant_text(declared_since)}; "
                "nothing to run",
            )
    if grid is None:
        if not temporal or not (since or until or data_interval):
            return ResolvedWindow(None, (WHOLE,), "windowless")
        if since or until:
            origin, window = "explicit", _explicit(None, since, until, declared_since, declared_until, now)
        else:
            origin, window = "data interval", data_interval
        if window is None:
            return ResolvedWindow(None, (), origin, "nothing of it has elapsed; nothing to run")
        reached = _clamp(window, declared_since, declared_until)
        if reached is None:
            return ResolvedWindow(None, (), origin, _outside(window, declared_since, declared_until))
        return ResolvedWindow(reached, (WHOLE,), origin)
    if since is not None or until is not None:
        origin = "explicit"
        window = _explicit(grid, since, until, declared_since, declared_until, now)
    elif data_interval is not None:
        origin, window = "data interval", grid.lookback(data_interval, lookback)
    elif absent == "contract":
        origin = "contract"
        if declared_since is None:
            raise IntervalError(
                "no dates were given and the contract has no begin: "
                "give since and until, or declare Contract(begin=)"
            )
        window = contract_range(grid, declared_since, declared_until, now, flexible=flexible)
    else:
        origin, window = "latest", grid.lookback((run_grid or grid).latest_complete(now), lookback)
    if window is None:
        start = declared_since if since is None else as_utc(since, "since")
        return ResolvedWindow(None, (), origin, _nothing_elapsed(grid, start, now))
    warnings: list[str] = []
    if declared_since is not None:
        warning = align_begin(grid, declared_since)[1]
        if warning and not flexible and window.since < grid.ceil(declared_since):
            warnings.append(warning)
    clamped = _clamp(window, declared_since, declared_until)
    if clamped is None:
        return ResolvedWindow(
            None, (), origin, _outside(window, declared_since, declared_until), tuple(warnings)
        )
    units = split_window(grid, clamped, flexible=flexible)
    message = (
        ""
        if units
        else (
            f"the window {clamped} holds no whole window of {grid} "
            f"(the one it starts in is {grid.cell(clamped.since)}); nothing to run"
        )
    )
    return ResolvedWindow(clamped, units, origin, message, tuple(warnings))


def _explicit(
    grid: Grid | None,
    since: datetime | None,
    until: datetime | None,
    begin: datetime | None,
    end: datetime | None,
    now: datetime,
) -> Interval | None:
    """Complete an explicit window; None when the side that was not given leaves nothing that has elapsed."""
    if until is None:
        latest = now if grid is None else grid.floor(now)
        since = as_utc(since, "since")
        until = latest if end is None else min(end, latest)
        return Interval(since, until) if since < until else None
    if since is None:
        if begin is None:
            raise IntervalError(
                "until was given without since, and the contract has no begin to start from; "
                "give since as well"
            )
        since = begin
    return Interval(since, until)


def _clamp(window: Interval, begin: datetime | None, end: datetime | None) -> Interval | None:
    since = window.since if begin is None else max(window.since, begin)
    until = window.until if end is None else min(window.until, end)
    return Interval(since, until) if since < until else None


def _outside(window: Interval, begin: datetime | None, end: datetime | None) -> str:
    low = "the beginning" if begin is None else instant_text(begin)
    high = "the open end" if end is None else instant_text(end)
    return f"the window {window} lies outside the contract, which runs from {low} to {high}; nothing to run"


def _nothing_elapsed(grid: Grid, start: datetime | None, now: datetime) -> str:
    after = "" if start is None else f" since {instant_text(start)}"
    return f"no window of {grid} has been completed{after}; it is {instant_text(now)}; nothing to run"
