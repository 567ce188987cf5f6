"""The rules of gates once more, as naively as they can be written: sets of half hours, plain loops, no cleverness.

Times are half hours after the first of January 2024 here; windows never need anything finer.
"""

from __future__ import annotations

from dataclasses import dataclass

from gate_support import Row, Upstream

WINDOWED = ("exact", "encapsulate", "through")


@dataclass(frozen=True)
class Question:
    """A gate: times in half hours; ``within`` in minutes."""

    level: str
    since: int | None = None
    until: int | None = None
    within: int | None = None
    scope: str = "latest"
    max_lag: int = 0


@dataclass(frozen=True)
class Answer:
    """What the rules say. ``missing`` is in half hours."""

    satisfied: bool
    hard: bool = False
    missing: tuple[int, int] | None = None
    stale: bool = False


def answer(question: Question, upstream: Upstream | None, now: int, width: int) -> Answer:
    """Decide a gate.

    Args:
        question: what is asked.
        upstream: what is registered; None for nothing.
        now: the database's clock.
        width: of the upstream's chunk, in half hours; its grid has a tick at 0.
    """
    level = question.level
    if question.since is None and level in WINDOWED:
        level = "whole"
    if upstream is None:
        return Answer(False, hard=True)
    if level == "exists":
        return Answer(True)
    if upstream.timeless and level in WINDOWED:
        return Answer(False, hard=True)
    if upstream.timeless and level == "past":
        return Answer(True)
    if level == "exact" and not upstream.fixed:
        return Answer(False, hard=True)
    rows = [_Half(row) for row in upstream.rows] if upstream.stateful else []
    mine = [r for r in rows if r.windowed and (r.since, r.until) == (question.since, question.until)]
    if level == "exact" and upstream.chunk is not None:
        assert question.since is not None
        assert question.until is not None
        on_grid = question.since % width == 0 and question.until - question.since == width
        if not on_grid and not mine:
            return Answer(False, hard=True)
    if not upstream.stateful:
        return _fresh(question, Answer(True), [])
    strict = _level(question, level, upstream, rows, mine, now, width, 0)
    if not strict.satisfied and question.max_lag and upstream.chunk is not None:
        relaxed = _level(question, level, upstream, rows, mine, now, width, question.max_lag)
        strict = relaxed if relaxed.satisfied else strict
    if not strict.satisfied:
        return strict
    return _fresh(question, strict, _selected(question, level, upstream, rows, mine, width))


class _Half:
    """A row in half hours."""

    def __init__(self, row: Row) -> None:
        self.windowed = row.since is not None and row.until is not None
        self.since = int(row.since * 2) if row.since is not None else 0
        self.until = int(row.until * 2) if row.until is not None else 0
        self.applied = row.status == "applied"
        self.age = row.age


def _start(upstream: Upstream, rows: list[_Half], width: int) -> int | None:
    if upstream.begin is None:
        return min((r.since for r in rows if r.windowed), default=None)
    begin = int(upstream.begin * 2)
    if upstream.fixed and upstream.chunk is not None:
        while begin % width:
            begin += 1
    return begin


def _declared(upstream: Upstream, now: int, width: int) -> tuple[int, int] | None:
    """The declared range; None when it cannot be known."""
    if upstream.begin is None:
        return None
    start = _start(upstream, [], width)
    assert start is not None
    end = None if upstream.end is None else int(upstream.end * 2)
    if upstream.chunk is None:
        return (start, max(start, end)) if end is not None and end <= now else None
    latest = now - now % width
    if end is None or end > now:
        end = latest
    elif upstream.fixed:
        end -= end % width
    else:
        end = min(end, latest)
    return start, max(start, end)


def _covered(rows: list[_Half]) -> set[int]:
    covered: set[int] = set()
    for row in rows:
        if row.windowed and row.applied:
            covered |= set(range(row.since, row.until))
    return covered


def _back(until: int, width: int, lag: int) -> int:
    for _ in range(lag):
        until -= 1
        until -= until % width
    return until


def _level(
    question: Question,
    level: str,
    upstream: Upstream,
    rows: list[_Half],
    mine: list[_Half],
    now: int,
    width: int,
    lag: int,
) -> Answer:
    covered = _covered(rows)
    outstanding = [(r.since, r.until) for r in rows if r.windowed and not r.applied]
    start = _start(upstream, rows, width)
    if level == "whole":
        single = [r for r in rows if not r.windowed]
        if upstream.timeless:
            return Answer(any(r.applied for r in single))
        declared = _declared(upstream, now, width)
        if upstream.chunk is None and single:
            if not single[0].applied:
                return Answer(False)
            return _earliest(None, outstanding)
        wanted: set[int] = set()
        if declared is not None:
            until = _back(declared[1], width, lag) if lag and declared[0] < declared[1] else declared[1]
            wanted = set(range(declared[0], until))
            if lag and declared[0] < declared[1]:
                outstanding = [o for o in outstanding if o[0] < until]
        some = any(r.windowed and r.applied and (start is None or r.until > start) for r in rows)
        first = _earliest(_first_run(wanted - covered), outstanding)
        return first if some or not first.satisfied else Answer(False)
    assert question.since is not None
    assert question.until is not None
    since, until = question.since, question.until
    if level == "exact":
        return Answer(True) if any(r.applied for r in mine) else Answer(False, missing=(since, until))
    if level == "encapsulate":
        until = _back(until, width, lag)
        return _earliest(_first_run(set(range(since, until)) - covered), [])
    if level == "past":
        wanted = set(range(since if start is None else start, since))
        return _earliest(_first_run(wanted - covered), [o for o in outstanding if o[0] < since])
    until = _back(until, width, lag)
    wanted = set(range(since, until)) | set(range(until if start is None else start, until))
    return _earliest(_first_run(wanted - covered), [o for o in outstanding if o[0] < until])


def _first_run(missing: set[int]) -> tuple[int, int] | None:
    if not missing:
        return None
    first = last = min(missing)
    while last in missing:
        last += 1
    return first, last


def _earliest(gap: tuple[int, int] | None, outstanding: list[tuple[int, int]]) -> Answer:
    row = min(outstanding, default=None, key=lambda o: o[0])
    if gap is None and row is None:
        return Answer(True)
    if gap is not None and (row is None or gap[0] <= row[0]):
        return Answer(False, missing=gap)
    return Answer(False, missing=row)


def _selected(
    question: Question, level: str, upstream: Upstream, rows: list[_Half], mine: list[_Half], width: int
) -> list[_Half]:
    if level == "exact":
        return mine
    applied = [r for r in rows if r.applied and r.windowed]
    single = [r for r in rows if not r.windowed]
    if upstream.timeless or (level == "whole" and upstream.chunk is None and single):
        return single
    begin = int(upstream.begin * 2) if upstream.begin is not None else _start(upstream, rows, width)
    if level == "whole":
        return [r for r in applied if begin is None or r.until > begin]
    assert question.since is not None
    assert question.until is not None
    if level == "encapsulate":
        return [r for r in applied if r.since < question.until and r.until > question.since]
    low = question.since if begin is None else min(begin, question.since)
    return [r for r in applied if r.since < question.until and r.until > low]


def _fresh(question: Question, reached: Answer, selected: list[_Half]) -> Answer:
    if question.within is None:
        return reached
    never = float("inf")
    ages = [never if r.age is None else r.age for r in selected]
    if not ages:
        return Answer(False, stale=True)
    if question.scope == "latest":
        age = min(ages)
    elif question.scope == "all":
        age = max(ages)
    else:
        last = max(r.until for r in selected)
        age = min(a for r, a in zip(selected, ages, strict=True) if r.until == last)
    return reached if -1 <= age <= question.within else Answer(False, stale=True)
