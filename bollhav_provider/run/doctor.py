"""Looks for what is wrong with a deployment's library and targets, and mends what can be mended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Literal

import psycopg

from bollhav_provider import data, state
from bollhav_provider.exceptions import BollhavError, GrainChangedError
from bollhav_provider.intervals import Interval, contract_range
from bollhav_provider.model import Environment, Model
from bollhav_provider.run.connections import Connections
from bollhav_provider.run.inputs import gated_tables
from bollhav_provider.state.restatement import outdated
from bollhav_provider.state.schema import grants
from bollhav_provider.state.sound import unsound
from bollhav_provider.state.summary import Summary, has_state, summary

if TYPE_CHECKING:
    from bollhav_provider.graph import Graph

Level = Literal["error", "warning", "info"]

#: Clocks that differ by more make logs and freshness hard to read together.
_SKEW = timedelta(seconds=30)
_OLDEST_SERVER = 140_000
#: Characters of an error's message; explain shows all of it.
_LONG = 400
#: Models that are named where there are many.
_NAMED = 10
#: Seconds from which on a definition file is slow to read.
_SLOW = 1.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the doctor says.

    Attributes:
        level: ``error`` (wrong answers, or nothing will run), ``warning`` (somebody should look), ``info``.
        code: what kind of thing, for scripts.
        model: full name; empty for the deployment as a whole.
        message: what is found, and what to do about it.
        fixed: whether it was mended.
    """

    level: Level
    code: str
    model: str
    message: str
    fixed: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "level": self.level,
            "code": self.code,
            "model": self.model or None,
            "message": self.message,
            "fixed": self.fixed,
        }


def examine(
    connections: Connections, graph: Graph, models: Iterable[Model], env: Environment, *, fix: bool = False
) -> list[Finding]:
    """Examine the library and every model's state and target.

    Args:
        connections: to them.
        graph: resolves upstreams.
        models: which to examine.
        env: names the schemas.
        fix: rebuild wrong coverage, fill holes, free the units of dead workers.
    """
    found: list[Finding] = []
    try:
        with closing(connections.state()) as conn:
            found += _server(conn)
            if fix:
                state.bootstrap(conn, env)
            ready = _library(conn, env, found)
    except psycopg.OperationalError as exc:
        return [
            Finding(
                "error",
                "connection",
                "",
                f"the library's database cannot be reached: {' '.join(str(exc).split())}",
            )
        ]
    for model in models:
        try:
            found += _model(connections, graph, model, env, ready=ready, fix=fix)
        except (BollhavError, psycopg.Error, OSError) as exc:
            found.append(Finding("error", "failed", model.full_name, " ".join(str(exc).split())))
    return found


def scope(connections: Connections, graph: Graph, models: Sequence[Model], env: Environment, place: str) -> Finding:
    """Say which models were examined, and which the library holds besides.

    Args:
        connections: to the library.
        graph: of all models that could be.
        models: those that were.
        env: names the schemas.
        place: where their definitions are.
    """
    all_of_them = len(models) == len(graph.models)
    number = f"all {len(models)}" if all_of_them else f"{len(models)} of {len(graph.models)}"
    told = f"examined {number} model(s) of {place}"
    try:
        with closing(connections.state()) as conn:
            registered = {entry.full_name for entry in state.entries(conn, env)}
    except (psycopg.Error, BollhavError):
        registered = set()
    here = {env.table(model.identity).full_name for model in graph.models}
    if others := sorted(registered - here):
        named = f"{', '.join(others[:_NAMED])}{' ...' if len(others) > _NAMED else ''}"
        told += (
            f"; {len(others)} more in {env.state_schema} have their definitions elsewhere and were not examined: "
            f"{named}. Give the folder of those with --models"
        )
    return Finding("info", "scope", "", f"{told}.")


def slow_files(took: Mapping[Path, float]) -> list[Finding]:
    """Name the definition files that take long to read: Airflow reads them again at every parse and for every task.

    Args:
        took: seconds by file.
    """
    slow = sorted(((seconds, file) for file, seconds in took.items() if seconds >= _SLOW), reverse=True)
    if not slow:
        return []
    named = ", ".join(f"{file} ({seconds:.1f} s)" for seconds, file in slow[:_NAMED])
    return [
        Finding(
            "warning",
            "slow_files",
            "",
            f"{len(slow)} definition file(s) take {_SLOW:.0f} s or more to read, which Airflow does at every parse and "
            f"for every task: {named}. Move heavy imports, and what asks other systems, into the functions that need "
            "them.",
        )
    ]


def _server(conn: psycopg.Connection[Any]) -> Iterator[Finding]:
    version = conn.info.server_version
    if version < _OLDEST_SERVER:
        yield Finding(
            "error", "server", "", f"PostgreSQL {version // 10_000} is too old: 14 or later is needed."
        )
    skew = abs(datetime.now(UTC) - state.db_now(conn))
    if skew > _SKEW:
        yield Finding(
            "warning",
            "clock",
            "",
            f"this machine's clock and the database's differ by {skew.total_seconds():.0f} s; leases and "
            f"freshness go by the "
            "database's: let both follow a time server.",
        )


def _library(conn: psycopg.Connection[Any], env: Environment, found: list[Finding]) -> bool:
    """Whether the library can be used as it is."""
    try:
        state.check_gates(conn, env, [state.GateRequest("bollhav.nothing", "exists")])
        names = state.entries(conn, env)
    except psycopg.errors.InsufficientPrivilege as exc:
        found.append(Finding("error", "library", "", _refused(conn, env, exc)))
        return False
    except (psycopg.Error, BollhavError):
        found.append(
            Finding(
                "info",
                "library",
                "",
                f"{env.state_schema} does not exist, or was made by an older version: the first run of a "
                f"model makes it.",
            )
        )
        return False
    found.append(Finding("info", "library", "", f"{env.state_schema}: {len(names)} registered model(s)."))
    return True


def _refused(conn: psycopg.Connection[Any], env: Environment, exc: psycopg.Error) -> str:
    wanted = grants(env.state_schema, conn.info.user)
    return (
        f"the role {conn.info.user!r} may not use {env.state_schema}: {exc.diag.message_primary}. An owner has to run: "
        f"{wanted}"
    )


def _model(
    connections: Connections, graph: Graph, model: Model, env: Environment, *, ready: bool, fix: bool
) -> Iterator[Finding]:
    if not model.is_view and graph.is_enabled(model):
        with closing(connections.target(model)) as conn:
            yield from _target(conn, model, env)
    if not model.is_tracked or not ready:
        return
    with closing(connections.state(model)) as conn:
        ref = state.StateRef.of(model, env)
        if not has_state(conn, ref):
            yield Finding("info", "never_run", model.full_name, "it has no state yet: it was never run here.")
            return
        if wrong := unsound(conn, ref):
            yield Finding(
                "warning",
                "unsound",
                model.full_name,
                f"{wrong} row(s) of {ref.schema}.{ref.table} are no window: inverted, with a single end, or "
                "beyond the years 1 to 9999. Another writer left them; they count for nothing, and may be deleted.",
            )
        yield from _coverage(conn, model, ref, fix=fix)
        stands = summary(conn, model, env)
        yield from _workers(conn, graph, model, env, stands, fix=fix)
        yield from _holes(conn, model, env, fix=fix)
        yield from _missing(conn, model, env, stands)
        older = outdated(conn, env, [ref.full_name])
        if older:
            yield Finding(
                "warning",
                "outdated",
                model.full_name,
                f"{len(older)} unit(s) are older than their inputs, the first {older[0].unit.label}: "
                "bollhav plan --cascade shows all of them.",
            )


def _target(conn: psycopg.Connection[Any], model: Model, env: Environment) -> Iterator[Finding]:
    checked = data.preflight(conn, model, env)
    if checked.unusable:
        yield Finding("error", "target", model.full_name, f"{checked.unusable}.")
    if checked.grants:
        yield Finding(
            "error",
            "privileges",
            model.full_name,
            f"the role {checked.user!r} may not write the target. An owner has to run: "
            f"{' '.join(checked.grants)}",
        )
    for note in checked.notes:
        yield Finding("info", "target", model.full_name, note)


def _coverage(
    conn: psycopg.Connection[Any], model: Model, ref: state.StateRef, *, fix: bool
) -> Iterator[Finding]:
    differences = state.coverage.verify(conn, ref)
    if differences.right:
        return
    mended = fix and state.coverage.rebuild(conn, ref)
    wrong = []
    if differences.false_coverage:
        wrong.append(f"covered, and not applied: {differences.false_coverage.islands[0]}")
    if differences.false_gaps:
        wrong.append(f"applied, and not covered: {differences.false_gaps.islands[0]}")
    yield Finding(
        "error",
        "coverage",
        model.full_name,
        f"the coverage that gates read differs from the rows ({'; '.join(wrong)}); the rows were written "
        f"where triggers do "
        "not see it: bollhav doctor --fix rebuilds it.",
        fixed=bool(mended),
    )


def _workers(
    conn: psycopg.Connection[Any], graph: Graph, model: Model, env: Environment, stands: Summary, *, fix: bool
) -> Iterator[Finding]:
    if not stands.expired:
        return
    if fix:
        bound = gated_tables(model, graph.upstreams(model))
        state.reconcile(conn, model, env, state.RunKey.ad_hoc(), bound)
    yield Finding(
        "warning",
        "expired_lease",
        model.full_name,
        f"{stands.expired} unit(s) say running and their workers are gone: the next run takes them over; "
        "bollhav doctor --fix frees them now.",
        fixed=fix,
    )


def _holes(conn: psycopg.Connection[Any], model: Model, env: Environment, *, fix: bool) -> Iterator[Finding]:
    """Windows that have elapsed and have no row at all."""
    grid, begin = model.grid, model.contract.begin
    if grid is None or begin is None or model.is_flexible:
        return
    declared = contract_range(grid, begin, model.contract.end, state.db_now(conn))
    if declared is None:
        return
    try:
        rows = state.units(conn, model, env, declared, outstanding=False)
    except GrainChangedError as exc:
        yield Finding("error", "grain", model.full_name, str(exc))
        return
    missing = grid.count(declared) - len(rows)
    if missing <= 0:
        return
    first = _first_hole(grid.windows(declared), {row.unit.window for row in rows})
    last_known = max((row.unit.window.until for row in rows if row.unit.window is not None), default=None)
    edge = last_known is None or (first is not None and first.since >= last_known)
    if fix:
        state.reconcile(conn, model, env, state.RunKey.ad_hoc())
    yield Finding(
        "info" if edge else "warning",
        "new_edge" if edge else "hole",
        model.full_name,
        f"{missing} window(s) of the contract have no row, the first {first}: "
        + (
            "the next run adds them."
            if edge
            else "bollhav doctor --fix adds them; gates count them as missing."
        ),
        fixed=fix,
    )


def _missing(
    conn: psycopg.Connection[Any], model: Model, env: Environment, stands: Summary
) -> Iterator[Finding]:
    """Windows between applied ones that are not applied, and windows that failed."""
    gap = stands.first_gap
    if gap is not None:
        first = gap if model.grid is None or model.is_flexible else next(model.grid.windows(gap), gap)
        yield Finding(
            "warning",
            "gap",
            model.full_name,
            f"what is applied has {stands.gaps} gap(s), the first missing window is {first}: bollhav explain "
            f"{model.full_name} --since {_day(first.since)} --until {_day(first.until)} shows why.",
        )
    failed = stands.counts.get("error", 0)
    if failed:
        last = state.errors(conn, env, state.StateRef.of(model, env).full_name, limit=1)
        why = f", the last {last[0].unit.label}: {last[0].error_type}: {last[0].message}" if last else ""
        why = shorten(why, _LONG, placeholder=" ...")
        yield Finding("warning", "failed_units", model.full_name, f"{failed} unit(s) are in error{why}")


def _day(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _first_hole(windows: Iterable[Interval], known: set[Interval | None]) -> Interval | None:
    return next((window for window in windows if window not in known), None)
