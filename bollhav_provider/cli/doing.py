"""Commands that change something: run, reset, mark-applied."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from bollhav_provider.cli import options, render
from bollhav_provider.cli.looking import WAITING
from bollhav_provider.cli.project import Project, open_project

if TYPE_CHECKING:
    from bollhav_provider.intervals import Interval
    from bollhav_provider.model import Model
    from bollhav_provider.run import RunSpec


def run(
    name: options.ModelName,
    since: options.Since = None,
    until: options.Until = None,
    whole: options.Whole = False,
    mode: options.Mode = None,
    reconcile: bool = typer.Option(
        False, "--reconcile", help="Everything outstanding of the whole contract."
    ),
    cascade: bool = typer.Option(False, "--cascade", help="Then run again what was made from these windows."),
    state_disabled: bool = typer.Option(
        False, "--no-state", help="Move data without reading or writing state."
    ),
    interval_override: str | None = typer.Option(
        None, "--interval", help="Cron that slices a flexible model's window."
    ),
    dry: bool = typer.Option(False, "--dry", help="Show the plan and change nothing."),
    models: options.Models = None,
    dsn: options.Dsn = None,
    suffix: options.Suffix = None,
    json: options.Json = False,
) -> None:
    """Run one model over a window: its target alone is written, its parents are read as they are.

    Exit code 0: every unit is applied, or there was nothing to do. 1: a unit failed. 3: a unit waits for an
        upstream.
    """
    from bollhav_provider.run import RunSpec, run_key

    project = open_project(models, dsn, suffix)
    model = project.model(name)
    found = project.window(model, since, until, project.now(), whole=whole or reconcile)
    settings = project.settings
    spec = RunSpec(
        run=run_key(who=getpass.getuser()),
        env=project.env,
        window=found.window,
        mode=mode or settings.state_mode,
        reconcile=reconcile or settings.reconcile,
        only=True,
        cascade=cascade or settings.cascade,
        state_disabled=state_disabled or settings.state_disabled,
        interval_override=interval_override or settings.interval_override or None,
        dry_state=dry or settings.dry_state,
        lease=settings.lease,
        advisory_locks=settings.advisory_locks,
    )
    report = _Report(json)
    if found.empty:
        report.note(model, found.message)
    else:
        for warning in found.warnings:
            report.warn(model, warning)
        done = _run_window(project, model, spec, report)
        if spec.cascade and done and not spec.dry_state:
            _run_cascade(project, model, spec, done, report)
    report.end()


def _run_window(project: Project, model: Model, spec: RunSpec, report: _Report) -> list[Interval | None]:
    """Prepare and do the units of one window; return the windows that were applied."""
    from bollhav_provider.exceptions import GateError
    from bollhav_provider.run import Worker, finish, prepare

    graph = project.graph.mini(model)
    prepared = prepare(project.connections, graph, model, spec)
    for warning in prepared.warnings:
        report.warn(model, warning)
    report.note(model, prepared.message)
    if prepared.plan is not None:
        report.plan(prepared.plan)
    applied: list[Interval | None] = []
    with Worker(project.connections, graph, model, spec) as worker:
        for unit in prepared.units:
            try:
                outcome = worker.execute(unit)
            except GateError as exc:
                report.waiting(model, unit, exc)
            except Exception as exc:
                report.failed(model, unit, exc)
            else:
                report.done(model, outcome)
                if outcome.applied:
                    applied.append(unit.window)
    finish(project.connections, model, spec)
    return applied


def _run_cascade(
    project: Project, model: Model, spec: RunSpec, done: list[Interval | None], report: _Report
) -> None:
    from dataclasses import replace

    from bollhav_provider.run.cascade import restatement

    name = spec.env.table(model.identity).full_name
    windows = [window for window in done if window is not None]
    found = restatement(project.connections, project.graph, spec, {name: windows or None})
    for other, ranges in found.steps:
        for window in ranges:
            again = replace(spec, window=window, mode="bulldozer", reconcile=False, cascade=False)
            _run_window(project, other, again, report)
    for one in found.elsewhere:
        report.warn(
            model, f"{one.full_name} {one.unit.label} is older now, and only its own pipeline can run it"
        )


class _Report:
    """Says what happens as it happens, or all of it as JSON at the end."""

    def __init__(self, json: bool) -> None:
        self._json = json
        self._told: dict[str, Any] = {"units": [], "notes": [], "warnings": []}
        self._failed = self._waiting = False

    def note(self, model: Model, text: str) -> None:
        self._told["notes"].append(f"{model.full_name}: {text}")
        self._say(f"{model.full_name}: {text}")

    def warn(self, model: Model, text: str) -> None:
        self._told["warnings"].append(f"{model.full_name}: {text}")
        self._say(render.word("warning"), f" {model.full_name}: {text}")

    def plan(self, plan: Any) -> None:
        self._told["plan"] = plan
        for model in plan["models"]:
            for entry in model["ranges"]:
                why = entry["reason"] or ", ".join(entry["after"])
                window = render.span(entry["since"], entry["until"])
                self._say("  ", render.word(entry["action"]), f" {entry['units']} unit(s) {window} {why}")

    def done(self, model: Model, outcome: Any) -> None:
        self._told["units"].append({"model": model.full_name, **outcome.to_json()})
        stats = outcome.stats
        detail = (
            f"{stats.rows_written} row(s) in {stats.duration.total_seconds():.2f} s"
            if outcome.applied
            else outcome.reason
        )
        self._say(f"{model.full_name} {outcome.unit.label}: ", render.word(outcome.status), f", {detail}")
        for warning in outcome.warnings:
            self.warn(model, f"{outcome.unit.label}: {warning}")

    def waiting(self, model: Model, unit: Any, exc: Exception) -> None:
        self._waiting = True
        self._unit(model, unit, "blocked", str(exc))

    def failed(self, model: Model, unit: Any, exc: Exception) -> None:
        self._failed = True
        self._unit(model, unit, "error", f"{type(exc).__name__}: {exc}")

    def end(self) -> None:
        """Print what was gathered, and leave with the exit code."""
        if self._json:
            render.as_json(self._told)
        if self._failed:
            raise typer.Exit(1)
        if self._waiting:
            raise typer.Exit(WAITING)

    def _unit(self, model: Model, unit: Any, status: str, reason: str) -> None:
        self._told["units"].append(
            {"model": model.full_name, "unit": unit.to_json(), "status": status, "reason": reason}
        )
        self._say(f"{model.full_name} {unit.label}: ", render.word(status), f", {reason}")

    def _say(self, *parts: str | Text) -> None:
        if not self._json:
            render.say(*parts)


def reset(
    name: options.ModelName,
    since: options.Since = None,
    until: options.Until = None,
    whole: options.Whole = False,
    mode: options.Mode = None,
    yes: options.Yes = False,
    models: options.Models = None,
    dsn: options.Dsn = None,
    suffix: options.Suffix = None,
    json: options.Json = False,
) -> None:
    """Put the units of a window back to pending, so that the next run loads them again; the data stay as they
    are.

    ``--mode torch`` deletes every state row of the model and refills its contract.
    """
    from contextlib import closing

    from bollhav_provider import state

    project = open_project(models, dsn, suffix)
    model = project.model(name)
    if not model.is_tracked:
        render.say(f"{name} has no state: there is nothing to reset.", console=render.err)
        raise typer.Exit(1)
    found = project.window(model, since, until, project.now(), whole=whole)
    what = "every unit" if mode == "torch" else f"{len(found.units)} unit(s) of {found.window or 'the whole'}"
    if not yes:
        typer.confirm(f"Reset {what} of {name}?", abort=True, err=True)
    with closing(project.connections.state(model)) as conn:
        state.bootstrap(conn, project.env)
        state.register(conn, model, project.env)
        run = state.RunKey.ad_hoc(getpass.getuser())
        state.prefill(conn, model, project.env, found.window, run=run)
        count = state.reset(conn, model, project.env, run, found.window, mode or "bulldozer")
    if json:
        render.as_json(
            {"model": name, "window": found.window.to_json() if found.window else None, "reset": count}
        )
    else:
        render.say(f"{name}: {count} unit(s) are to be done again.")


def mark_applied(
    name: options.ModelName,
    since: options.Since = None,
    until: options.Until = None,
    whole: options.Whole = False,
    reason: options.Reason = None,
    who: options.Who = None,
    yes: options.Yes = False,
    models: options.Models = None,
    dsn: options.Dsn = None,
    suffix: options.Suffix = None,
    json: options.Json = False,
) -> None:
    """Record that a window's units were loaded some other way: state without data. Nothing checks that."""
    from bollhav_provider.run import RunSpec, prepare, run_key

    project = open_project(models, dsn, suffix)
    model = project.model(name)
    if not model.is_tracked:
        render.say(f"{name} has no state: there is nothing to mark.", console=render.err)
        raise typer.Exit(1)
    found = project.window(model, since, until, project.now(), whole=whole)
    if not yes:
        what = f"{len(found.units)} unit(s) of {found.window or 'the whole'}"
        typer.confirm(f"Mark {what} of {name} as applied without running them?", abort=True, err=True)
    spec = RunSpec(
        run=run_key(who=who or getpass.getuser()),
        env=project.env,
        window=found.window,
        mark_applied=True,
        reason=reason,
    )
    prepared = prepare(project.connections, project.graph, model, spec)
    if json:
        render.as_json({"model": name, **prepared.to_json()})
    else:
        render.say(f"{name}: {prepared.message}")
