"""What ``bollhav explain`` says of one model and one window."""

from __future__ import annotations

from contextlib import closing
from datetime import time
from typing import TYPE_CHECKING, Any

import psycopg

from bollhav_provider import state
from bollhav_provider.cli import render
from bollhav_provider.exceptions import StateError
from bollhav_provider.intervals import Interval, as_utc, instant_text
from bollhav_provider.run.inputs import gated_tables

if TYPE_CHECKING:
    from bollhav_provider.cli.project import Project
    from bollhav_provider.intervals import ResolvedWindow
    from bollhav_provider.model import Model

#: Units whose gates are shown one by one.
_SHOWN = 25
_NO_LIBRARY = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.UndefinedFunction,
)


def explanation(project: Project, model: Model, found: ResolvedWindow) -> dict[str, Any]:
    """Gather everything that decides what becomes of a window's units."""
    env = project.env
    ref = state.StateRef.of(model, env)
    told: dict[str, Any] = {
        "model": model.full_name,
        "description": model.description,
        "target": env.table(model.identity).full_name,
        "kind": _kind(model),
        "grid": str(model.grid) if model.grid is not None else None,
        "contract": {
            "begin": model.contract.begin.isoformat() if model.contract.begin else None,
            "end": model.contract.end.isoformat() if model.contract.end else None,
        },
        "state_table": f"{ref.schema}.{ref.table}" if model.is_tracked else None,
        "window": found.window.to_json() if found.window else None,
        "note": found.message or None,
        "inputs": _inputs(project, model),
        "downstreams": [other.full_name for other in project.graph.downstreams(model)],
        "tz": model.tz,
        "units": [],
    }
    if model.is_tracked:
        with closing(project.connections.state(model)) as conn:
            told["units"] = _units(conn, project, model, found)
            told["errors"] = _errors(conn, project, ref)
    return told


def _kind(model: Model) -> str:
    if model.is_view:
        return "view"
    if model.is_windowless:
        return f"{model.temporality}, one unit"
    return "flexible windows" if model.is_flexible else "fixed windows"


def _inputs(project: Project, model: Model) -> list[dict[str, Any]]:
    found = []
    for alias, inputs in project.graph.upstreams(model).items():
        for item in inputs:
            source = item.source
            found.append(
                {
                    "alias": alias,
                    "name": item.table.full_name if item.table is not None else source.name,
                    "kind": source.kind,
                    "contract": str(source.contract) if source.contract is not None else None,
                    "freshness": str(source.freshness.within) if source.freshness else None,
                    "defined_here": item.model is not None,
                }
            )
    return found


def _units(
    conn: psycopg.Connection[Any], project: Project, model: Model, found: ResolvedWindow
) -> list[dict[str, Any]]:
    try:
        rows = {
            row.unit: row for row in state.units(conn, model, project.env, found.window, outstanding=False)
        }
    except _NO_LIBRARY:
        rows = {}
    env = project.env
    bound = gated_tables(model, project.graph.upstreams(model))
    told = []
    for unit in found.units[:_SHOWN]:
        row = rows.get(unit)
        gates: list[dict[str, Any]] = []
        try:
            report = state.check_unit(conn, project.env, state.gate_requests(model, project.env, unit, bound))
            gates = [result.to_json() for result in report.results]
        except _NO_LIBRARY:
            gates = [{"satisfied": False, "reason": f"nothing has run yet in this library ({env.state_schema})"}]
        except StateError as exc:
            gates = [
                {"satisfied": False, "reason": f"the library cannot be asked: {' '.join(str(exc).split())}"}
            ]
        told.append(
            {
                "unit": unit.label,
                "local": _local(unit.window, model.tz),
                "status": row.status if row is not None else "no row yet",
                "attempt": row.attempt if row is not None else 0,
                "applied_at": row.applied_at.isoformat() if row is not None and row.applied_at else None,
                "owner": row.owner if row is not None else None,
                "blocked_reason": row.blocked_reason if row is not None else None,
                "gates": gates,
            }
        )
    return told


def _errors(conn: psycopg.Connection[Any], project: Project, ref: state.StateRef) -> list[dict[str, Any]]:
    try:
        found = state.errors(conn, project.env, ref.full_name, limit=3)
    except _NO_LIBRARY:
        return []
    return [
        {"unit": e.unit.label, "at": e.created_at.isoformat(), "error": f"{e.error_type}: {e.message}"}
        for e in found
    ]


def _local(window: Interval | None, tz: str) -> str:
    """Return a window in the model's zone: a day as its date, anything else with both ends; empty where that is UTC."""
    from zoneinfo import ZoneInfo

    if window is None or tz == "UTC":
        return ""
    try:
        since, until = (at.astimezone(ZoneInfo(tz)) for at in (window.since, window.until))
    except OverflowError:  # of the years 1 or 9999
        return ""
    if since.time() == until.time() == time.min and (until.date() - since.date()).days == 1:
        return f"{since.date()} in {tz}"
    return f"{since:%Y-%m-%d %H:%M%z} to {until:%Y-%m-%d %H:%M%z} in {tz}"


def show(told: dict[str, Any]) -> None:
    """Print an explanation for people."""
    render.say(render.word(told["model"], "bold"), f"  {told['description'] or ''}")
    for label in ("target", "kind", "grid", "state_table"):
        if told[label]:
            render.say(f"  {label.replace('_', ' ')}: {told[label]}")
    begin, end = (instant_text(as_utc(at, "contract")) if at else None for at in told["contract"].values())
    if begin or end:
        render.say(f"  contract: from {begin or 'the run window'} to {end or 'open'}")
    for item in told["inputs"]:
        waits = f"waits: {item['contract']}" if item["contract"] else "read, not waited for"
        fresh = f", no older than {item['freshness']}" if item["freshness"] else ""
        where = "" if item["defined_here"] or item["kind"] != "model" else "; not a model of this deployment"
        render.say(f"  reads {item['name']} as {item['alias']!r} ({item['kind']}; {waits}{fresh}{where})")
    if told["downstreams"]:
        render.say(f"  read by {', '.join(told['downstreams'])}")
    if told["note"]:
        render.say(f"  {told['note']}")
    for unit in told["units"]:
        tries = f", attempt {unit['attempt']}" if unit["attempt"] else ""
        where = f" ({unit['local']})" if unit["local"] else ""
        render.say(f"\n{unit['unit']}{where}: ", render.word(unit["status"]), tries)
        for gate in unit["gates"]:
            if gate["satisfied"]:
                render.say("  open", f": {gate['upstream']} ({gate['level']})")
            else:
                missing = Interval.from_json(gate["missing"]) if gate.get("missing") else None
                local = _local(missing, told["tz"])
                render.say("  ", render.word("shut", "yellow"), f": {gate['reason']}{f' ({local})' if local else ''}")
    for error in told.get("errors", ()):
        render.say("\n", render.word("error"), f" {error['at']} {error['unit']}: {error['error']}")
