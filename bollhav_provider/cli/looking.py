"""Commands that only look: plan, status, explain."""

from __future__ import annotations

from contextlib import closing
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import psycopg
import typer

from bollhav_provider.cli import options, render
from bollhav_provider.cli.project import Project, open_project

if TYPE_CHECKING:
    from bollhav_provider.model import Model
    from bollhav_provider.run import RunSpec
    from bollhav_provider.state.summary import Summary

#: Characters of a note in a table; explain shows all of it.
_NOTE = 200
#: Something is left waiting; not a failure of the command.
WAITING = 3


def plan(
    names: options.ModelNames = None,
    since: options.Since = None,
    until: options.Until = None,
    whole: options.Whole = False,
    mode: options.Mode = None,
    cascade: bool = typer.Option(
        False, "--cascade", help="Also list what is, or would be, older than its inputs."
    ),
    select: options.Select = None,
    models: options.Models = None,
    dsn: options.Dsn = None,
    suffix: options.Suffix = None,
    json: options.Json = False,
) -> None:
    """Show what a run would do: run now, run after others, blocked, applied already. Nothing is changed.

    Exit code 0: everything would run or is applied. 3: something would be left waiting. 1: something can
        never run.
    """
    from dataclasses import replace

    project = open_project(models, dsn, suffix)
    spec = project.spec()
    spec = replace(spec, mode=mode or spec.mode, cascade=cascade or spec.cascade, dry_state=True)
    show_plan(project, project.models(names, select), spec, since, until, whole=whole, json=json)


def show_plan(
    project: Project,
    chosen: list[Model],
    spec: RunSpec,
    since: str | None,
    until: str | None,
    *,
    whole: bool,
    json: bool,
) -> None:
    """Work out what a run of several models would do, all of them together, show it, and leave with the exit code."""
    from bollhav_provider.run.plan import plan as work_out

    now = project.now()
    settled = {model.full_name: project.window(model, since, until, now, whole=whole) for model in chosen}
    windows = {name: found.window for name, found in settled.items()}
    runnable = [model for model in chosen if not settled[model.full_name].empty]
    found = work_out(project.connections, project.graph, runnable, spec, windows)
    notes = {name: window.message for name, window in settled.items() if window.message}
    if json:
        told = [f"{name}: {note}" for name, note in notes.items()]
        render.as_json({**found.to_json(), "notes": told, "broken": list(project.broken)})
    else:
        _show_plan(found, notes, project)
    if found.hard:
        raise typer.Exit(1)
    if found.blocked:
        raise typer.Exit(WAITING)


def _show_plan(found: Any, notes: dict[str, str], project: Project) -> None:
    rows = []
    for planned in found.models:
        for entry in planned.ranges():
            why = entry["reason"] or (f"after {', '.join(entry['after'])}" if entry["after"] else "")
            rows.append(
                (
                    planned.model.full_name,
                    render.word(entry["action"]),
                    entry["units"],
                    render.span(entry["since"], entry["until"]),
                    why,
                )
            )
    if rows:
        render.table("", ("model", "action", "units", "window", "why"), rows)
    for name, note in notes.items():
        render.say(f"{name}: {note}")
    if found.outdated:
        render.table(
            "\nolder than their inputs, in the order in which they would run again",
            ("model", "window", "because of"),
            [(one.full_name, one.unit.label, ", ".join(one.because)) for one in found.outdated],
        )
    render.say(found.sentence)
    show_broken(project)


def status(
    names: options.ModelNames = None,
    select: options.Select = None,
    models: options.Models = None,
    dsn: options.Dsn = None,
    suffix: options.Suffix = None,
    json: options.Json = False,
) -> None:
    """Show how models stand: units by status, what is covered, what is stale or stuck."""
    from bollhav_provider import state
    from bollhav_provider.state.restatement import outdated
    from bollhav_provider.state.summary import summary

    project = open_project(models, dsn, suffix)
    chosen = [model for model in project.models(names, select) if model.is_tracked]
    shown = []
    older: dict[str, int] = {}
    with closing(project.connections.state()) as conn:
        try:
            for one in outdated(conn, project.env):
                older[one.full_name] = older.get(one.full_name, 0) + 1
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            pass  # no library yet: nothing was ever run
    for model in chosen:
        with closing(project.connections.state(model)) as conn:
            stands = summary(conn, model, project.env)
            name = state.StateRef.of(model, project.env).full_name
            last = state.errors(conn, project.env, name, limit=1) if stands.counts["error"] else []
        shown.append((model, stands, older.get(name, 0), last[0] if last else None))
    if json:
        render.as_json(
            [
                {
                    "model": model.full_name,
                    **stands.to_json(),
                    "outdated": old,
                    "last_error": f"{error.error_type}: {error.message}" if error else None,
                }
                for model, stands, old, error in shown
            ]
        )
        return
    rows = []
    for model, stands, old, error in shown:
        counts = stands.counts
        note = stands.reason or (f"{error.error_type}: {error.message}" if error else "")
        if not stands.exists:
            note = "never ran"
        if stands.expired:
            note = f"{stands.expired} running without a worker. {note}"
        note = shorten(note, _NOTE, placeholder=" ...")
        numbers = [counts[s] for s in ("applied", "pending", "running", "blocked", "error")]
        rows.append((model.full_name, *numbers, old, _applied(stands), render.when(stands.loaded_at), note))
    headers = (
        "model",
        "applied",
        "pending",
        "running",
        "blocked",
        "error",
        "outdated",
        "first to last",
        "loaded",
        "note",
    )
    render.table("", headers, rows)
    show_broken(project)


def _applied(stands: Summary) -> str:
    """From the first applied window to the last, and whether anything is missing in between."""
    if stands.applied_range is None:
        return ""
    if not stands.gaps:
        return f"{stands.applied_range}"
    return f"{stands.applied_range}, {stands.gaps} gap(s), the first {stands.first_gap}"


def explain(
    name: options.ModelName,
    since: options.Since = None,
    until: options.Until = None,
    models: options.Models = None,
    dsn: options.Dsn = None,
    suffix: options.Suffix = None,
    json: options.Json = False,
) -> None:
    """Explain one model: what it reads and waits for, and why the units of a window are where they are."""
    project = open_project(models, dsn, suffix)
    model = project.model(name)
    found = project.window(model, since, until, project.now())
    from bollhav_provider.cli.explaining import explanation, show

    told = explanation(project, model, found)
    if json:
        render.as_json(told)
    else:
        show(told)


def show_broken(project: Project) -> None:
    """Say on standard error which definitions were set aside: a command that goes on does so without them."""
    for problem in project.broken:
        render.say(render.word("cannot be used", "red"), f": {problem}", console=render.err)
