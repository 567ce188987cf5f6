"""The rules of gates: what each level means, decided on facts. Pure: no database, no clock.

One implementation for synchronous and asynchronous callers, for sensors and for the plan. Rule: Semantics, gates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from bollhav_provider.exceptions import GridError, IntervalError
from bollhav_provider.intervals import Grid, Interval, as_utc
from bollhav_provider.model import UpstreamContract
from bollhav_provider.state import reasons
from bollhav_provider.state.gate_types import OWN_PAST, GateRequest, GateResult

EXISTS, EXACT, ENCAPSULATE, THROUGH, WHOLE = (level.value for level in UpstreamContract)

APPLIED = "applied"
#: A load dated further ahead than this is not fresh: clocks that disagree by more cannot be trusted.
_FUTURE = timedelta(minutes=1)
_NEVER = datetime.max.replace(tzinfo=UTC)
#: How many islands the database reports at most; see ``sql/gates.sql``.
_ISLANDS_REPORTED = 3


@dataclass(slots=True, eq=False)
class Facts:
    """What is known of one upstream with regard to one request.

    Attributes:
        registered: whether the library has a row of that name.
        stateful: whether it has state; without, presence satisfies.
        timeless, fixed: its shape.
        begin, end: its declared contract.
        grid: the grid of its chunk; None where it has none, or one that cannot be read.
        chunk, tz: the chunk as declared, for messages.
        now: the database's clock.
        islands: disjoint and in order, those that end after the start of what is asked; the first few do.
        first: where its rows start, or its declared begin.
        outstanding: the earliest row that is not applied, among those that matter.
        blocked_whole: a row without a window, or with one that is none, is not applied.
        row: (status, applied_at) of the row that is exactly the asked window or, where the whole of a model without
            windows is asked for, of its row.
        selected: applied_at of the row that the freshness is judged by: (applied_at,), or None when no row is selected.
    """

    registered: bool = False
    stateful: bool = True
    timeless: bool = False
    fixed: bool = True
    begin: datetime | None = None
    end: datetime | None = None
    grid: Grid | None = None
    chunk: str = ""
    tz: str = "UTC"
    now: datetime = _NEVER
    islands: tuple[Interval, ...] = ()
    first: datetime | None = None
    outstanding: Interval | None = None
    blocked_whole: bool = False
    row: tuple[str, datetime | None] | None = None
    selected: tuple[datetime | None] | None = None

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Facts:
        """Read one row of ``gate_facts``; see ``sql/gates.sql`` for its columns. Instants may be ISO strings.

        A declared end, chunk or zone that cannot be read counts as not declared: it came from another program.
        """
        (at, stateful, timeless, fixed, begins, ends, chunk, tz, edges, row_since, row_until, first_since,
         row_status, row_applied_at, selected, loaded, _) = row  # fmt: skip
        if at is None:
            return _UNREGISTERED
        outstanding = blocked = None
        if row_since is not None:
            outstanding = _window(row_since, row_until)
            blocked = outstanding is None
        status = None if row_status is None else (row_status, _instant(row_applied_at))
        return cls(
            registered=True,
            stateful=stateful,
            timeless=timeless,
            fixed=fixed,
            begin=_instant(begins),
            end=None if ends is None else _declared(ends),
            grid=None if chunk is None else grid_or_none(chunk, tz or "UTC"),
            chunk=chunk or "",
            tz=tz or "UTC",
            now=as_utc(at, "now"),
            islands=() if not edges else tuple(map(Interval, edges[::2], edges[1::2])),
            first=_instant(first_since),
            outstanding=outstanding,
            blocked_whole=bool(blocked),
            row=status,
            selected=(_instant(loaded),) if selected else None,
        )

    @property
    def start(self) -> datetime | None:
        """Where the declared range starts: begin, on a fixed model's grid; without a begin, where the rows start."""
        if self.begin is None:
            return self.first
        return _ceil(self.grid, self.begin) if self.grid is not None and self.fixed else self.begin

    @property
    def declared(self) -> tuple[bool, Interval | None]:
        """Whether the declared range is known, and the range: up to the end or the latest complete tick.

        None while nothing of it has elapsed. Without a begin, or with neither chunk nor an end that has passed, it
        is not known, and the rows are the universe.
        """
        since = self.start if self.begin is not None else None
        if since is None:
            return False, None
        ended = self.end is not None and self.end <= self.now
        if self.grid is None:
            if not ended:
                return False, None
            until = self.end
        elif not ended:
            until = _floor(self.grid, self.now)
        else:
            assert self.end is not None
            until = (
                _floor_of_end(self.grid, self.end)
                if self.fixed
                else min(self.end, _floor(self.grid, self.now))
            )
        assert until is not None
        return True, Interval(since, until) if since < until else None


def start_to_ask_for(request: GateRequest, facts: Facts) -> datetime | None:
    """Return where the range starts when the reported islands all end before that, so that more must be asked for.

    Happens only where rows off the grid lie between an off-grid begin and its first tick.
    """
    if request.effective_level not in (THROUGH, WHOLE, OWN_PAST) or len(facts.islands) < _ISLANDS_REPORTED:
        return None
    start = facts.start
    if start is None or (
        request.window and request.effective_level == THROUGH and request.window.since < start
    ):
        return None
    return start if all(island.until <= start for island in facts.islands) else None


def judge(request: GateRequest, facts: Facts) -> GateResult:
    """Decide one gate."""
    name, level = request.upstream, request.effective_level
    if not facts.registered:
        return _hard(request, reasons.NOT_REGISTERED, reasons.not_registered(name))
    if level == EXISTS:
        return GateResult(request, True)
    if facts.timeless and level != WHOLE:
        if level == OWN_PAST:
            return GateResult(request, True)
        return _hard(request, reasons.TIMELESS_UPSTREAM, reasons.timeless_upstream(name, request.level))
    if level == EXACT:
        assert request.window is not None
        if not facts.fixed:
            return _hard(request, reasons.FLEXIBLE_UPSTREAM, reasons.flexible_upstream(name, request.level))
        # a row of that window, whatever its status, is proof that the upstream can have it
        if facts.grid is not None and facts.row is None and not facts.grid.is_cell(request.window):
            text = reasons.other_grid(name, request.level, request.window, facts.chunk, facts.tz)
            return _hard(request, reasons.OTHER_GRID, text)
    if not facts.stateful:
        return _aged(GateResult(request, True), facts)
    result = _level(request, facts, level)
    if not result.satisfied and request.max_lag and facts.grid is not None:
        relaxed = _level(request, facts, level, lag=request.max_lag)
        if relaxed.satisfied:
            result = replace(relaxed, lag=request.max_lag)
    return _aged(result, facts) if result.satisfied else result


def _level(request: GateRequest, facts: Facts, level: str, lag: int = 0) -> GateResult:
    window = request.window
    if level == WHOLE:
        return _whole(request, facts, lag)
    assert window is not None
    if level == EXACT:
        applied = facts.row is not None and facts.row[0] == APPLIED
        return GateResult(request, True) if applied else _missing(request, window)
    if level == ENCAPSULATE:
        return _prefix(request, facts, window.since, window.until, lag, rows=False)
    start = facts.start
    if level == OWN_PAST:
        return _prefix(request, facts, window.since if start is None else start, window.since, 0)
    return _prefix(
        request, facts, window.since if start is None else min(start, window.since), window.until, lag
    )


def _prefix(
    request: GateRequest, facts: Facts, since: datetime, until: datetime, lag: int, *, rows: bool = True
) -> GateResult:
    """Decide on ``[since, until)``: covered and, with ``rows``, nothing that starts before ``until`` outstanding."""
    until = _back(facts.grid, until, lag)
    gap = _first_gap(facts.islands, since, until) if since < until else None
    row = facts.outstanding if rows else None
    if row is not None and row.since >= until:
        row = None
    if rows and facts.blocked_whole:
        return _missing(request, gap)
    return _earliest(request, gap, row)


def _whole(request: GateRequest, facts: Facts, lag: int) -> GateResult:
    if facts.timeless:
        applied = facts.row is not None and facts.row[0] == APPLIED
        return GateResult(request, True) if applied else _missing(request, None)
    known, declared = facts.declared
    row = facts.outstanding
    if lag and known and declared is not None:
        until = _back(facts.grid, declared.until, lag)
        declared = Interval(declared.since, until) if declared.since < until else None
        row = row if row is not None and row.since < until else None
    gap: Interval | None = None
    if facts.row is not None:
        # one row that stands for the whole range, however far that reaches
        if facts.row[0] != APPLIED:
            return _missing(request, None)
    elif known and declared is not None:
        gap = _first_gap(facts.islands, declared.since, declared.until)
    if gap is None and row is None:
        nothing = facts.row is None and not facts.islands
        return _missing(request, None) if nothing or facts.blocked_whole else GateResult(request, True)
    return _earliest(request, gap, row)


def _earliest(request: GateRequest, gap: Interval | None, row: Interval | None) -> GateResult:
    if gap is None and row is None:
        return GateResult(request, True)
    # a hole names what is missing of what is asked; an outstanding row names itself
    if gap is not None and (row is None or gap.since <= row.since):
        return _missing(request, gap)
    return _missing(request, row)


def _missing(request: GateRequest, window: Interval | None) -> GateResult:
    if request.level == OWN_PAST and window is not None:
        text, code = reasons.own_past(request.upstream, window), reasons.OWN_PAST_MISSING
    else:
        text, code = reasons.missing(request.upstream, request.level, window), reasons.NOT_READY
    return GateResult(request, False, code=code, reason=text, missing=window)


def _hard(request: GateRequest, code: str, text: str) -> GateResult:
    return GateResult(request, False, hard=True, code=code, reason=text)


def _aged(result: GateResult, facts: Facts) -> GateResult:
    """Decide on the freshness of a level that is reached."""
    request = result.request
    if request.within is None:
        return result
    selected = (facts.row[1],) if facts.row is not None else facts.selected
    applied_at = selected[0] if selected else None
    age = facts.now - applied_at if applied_at is not None else None
    result = replace(result, applied_at=applied_at, age=age)
    if age is not None and -_FUTURE <= age <= request.within:
        return result
    text = reasons.stale(request.upstream, request.level, age, request.within)
    return replace(result, satisfied=False, stale=True, code=reasons.NOT_READY, reason=text)


def _back(grid: Grid | None, until: datetime, lag: int) -> datetime:
    """Return ``until`` without the last ``lag`` windows of the grid that reach before it."""
    if grid is None:
        return until
    for _ in range(lag):
        until = grid.prev(until)
    return until


@lru_cache(maxsize=4096)
def _ceil(grid: Grid, at: datetime) -> datetime:
    """Return the first tick at or after a declared begin; the begin itself where the calendar ends before one."""
    try:
        return grid.ceil(at)
    except GridError:
        return at


def _floor(grid: Grid, at: datetime) -> datetime:
    """Return the last tick at or before an instant; the instant itself where the calendar starts after one."""
    try:
        return grid.floor(at)
    except GridError:
        return at


_floor_of_end = lru_cache(maxsize=4096)(_floor)


@lru_cache(maxsize=4096)
def grid_or_none(chunk: str, tz: str) -> Grid | None:
    """Return the grid of a chunk, or None for what this package cannot read as one."""
    try:
        return Grid(chunk, tz)
    except GridError:
        return None


def _first_gap(islands: Sequence[Interval], since: datetime, until: datetime) -> Interval | None:
    for island in islands:
        if island.since >= until:
            break
        if island.since > since:
            return Interval(since, island.since)
        since = max(since, island.until)
        if since >= until:
            return None
    return Interval(since, until)


def _instant(value: datetime | str | None) -> datetime | None:
    return None if value is None else as_utc(value, "instant")


def _declared(value: str) -> datetime | None:
    """Read a declared instant as the library holds it; one without an offset is in UTC."""
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return as_utc(at if at.tzinfo else at.replace(tzinfo=UTC), "end")


def _window(since: datetime | str, until: datetime | str | None) -> Interval | None:
    try:
        return Interval(since, until)  # type: ignore[arg-type]
    except IntervalError:
        return None


_UNREGISTERED = Facts()
