"""Commands that change something: run, reset, mark-applied."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from bollhav_provider.cli import options, render
from bollhav_provider.cli.looking import WAITING, show_broken, show_plan
from bollhav_provider.cli.project import Project, open_project
from bollhav_provider.cli.signals import stop_name
from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.state.masking import shown

if TYPE_CHECKING:
    from bollhav_provider.model import Model
    from bollhav_provider.run import Prepared, RunSpec


def run(
    names: options.RunNames = None,
    since: options.Since = None,
    until: options.Until = None,
    whole: options.Whole = False,
    mode: options.Mode = None,
    select: options.Select = None,
    reconcile: bool = typer.Option(
        False, "--reconcile", help="Everything outstanding of the whole contract."
    ),
    cascade: bool = typer.Option(
        False, "--cascade", help="Put back what was made from these windows, and run it again afterwards."
    ),
    state_disabled: bool = typer.Option(
        False, "--no-state", help="Move data without reading or writing state."
    ),
    interval_override: str | None = typer.Option(
        None, "--interval", help="Cron that slices a flexible model's window."
    ),
    dry: bool = typer.Option(False, "--dry", help="Show the plan and change nothing; DRY_STATE."),
    models: options.Models = None,
    dsn: options.Dsn = None,
    suffix: options.Suffix = None,
    json: options.Json = False,
) -> None:
    """Run models over a window: their targets alone are written, everything else is read as it is.

    Several run one after the other, each after those that it reads. Exit code 0: every unit is applied, or there was
    nothing to do. 1: a unit failed. 3: a unit waits for an upstream, or is left to another worker. A dry run's exit
    code is that of plan.
    """
    from dataclasses import replace

    project = open_project(models, dsn, suffix)
    asked = project.spec()
    asked = replace(
        asked,
        mode=mode or asked.mode,
        reconcile=reconcile or asked.reconcile,
        cascade=cascade or asked.cascade,
        state_disabled=state_disabled or asked.state_disabled,
        interval_override=interval_override or asked.interval_override,
        dry_state=dry or asked.dry_state,
    )
    if not names and not select and not asked.dry_state:
        raise ConfigurationError("run: no model is named: give full names, or --select with a tag expression.")
    chosen = project.models(names, select)
    if asked.dry_state:
        show_plan(project, chosen, asked, since, until, whole=whole or asked.reconcile, json=json)
        return
    show_broken(project)
    report = _Report(json)
    now = project.now()
    for model in chosen:
        found = project.window(model, since, until, now, whole=whole or asked.reconcile)
        if found.empty:
            report.note(model, found.message)
            continue
        for warning in found.warnings:
            report.warn(model, warning)
        _run_cascade(project, model, replace(asked, window=found.window), report)
    report.end()


def _run_cascade(project: Project, model: Model, spec: RunSpec, report: _Report) -> None:
    """Run a window of one model and then, where that is asked for, what was made from it."""
    from dataclasses import replace

    prepared = _run_window(project, model, spec, report)
    for step in prepared.cascade:
        if step.here:
            # what became of it since it was put back does not matter: it is loaded once more, and once only
            again = replace(spec, window=step.window, mode="bulldozer", reconcile=False, cascade=False)
            _run_window(project, project.graph.model(step.model), again, report)
        else:
            what = f"{step.window}" if step.window is not None else "the whole"
            report.elsewhere(model, f"{step.model}: {step.units} unit(s) of {what} are pending again, and only its "
                             "own pipeline can run them")  # fmt: skip


def _run_window(project: Project, model: Model, spec: RunSpec, report: _Report) -> Prepared:
    """Prepare and do the units of one window."""
    from bollhav_provider.exceptions import GateError, UnitBusyError
    from bollhav_provider.run import Worker, finish, pointless, prepare

    graph = project.graph.mini(model) if not spec.cascade else project.graph
    prepared = prepare(project.connections, graph, model, spec)
    for warning in prepared.warnings:
        report.warn(model, warning)
    if prepared.message not in prepared.warnings:
        report.note(model, prepared.message)
    report.left(prepared.busy)
    with Worker(project.connections, graph, model, spec) as worker:
        for unit in prepared.units:
            try:
                outcome = worker.execute(unit)
            except (GateError, UnitBusyError) as exc:
                report.waiting(model, unit, exc)
            except Exception as exc:
                report.failed(model, unit, exc)
                if pointless(exc):
                    break
            except BaseException as exc:  # a signal, or a function that leaves
                report.stopped(model, unit, exc)
                raise
            else:
                report.done(model, outcome)
    finish(project.connections, model, spec)
    return prepared


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

    def left(self, busy: int) -> None:
        """Units are left to others: the command does not know how they end."""
        self._waiting = self._waiting or busy > 0

    def elsewhere(self, model: Model, text: str) -> None:
        """Something is left to other pipelines."""
        self._waiting = True
        self.warn(model, text)

    def done(self, model: Model, outcome: Any) -> None:
        self._told["units"].append({"model": model.full_name, **outcome.to_json()})
        self._waiting = self._waiting or not outcome.present
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
        self._unit(model, unit, "blocked", shown(exc))

    def failed(self, model: Model, unit: Any, exc: Exception) -> None:
        self._failed = True
        self._unit(model, unit, "error", f"{type(exc).__name__}: {shown(exc)}")

    def stopped(self, model: Model, unit: Any, exc: BaseException) -> None:
        """The unit was given back; what was done before it stays done."""
        self._unit(model, unit, "pending", f"stopped by {stop_name(exc)}; the unit is given back")
        if self._json:
            render.as_json(self._told)

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
    if mode != "torch" and not found.units:
        _nothing_to("reset", name, found.message, {"window": None, "reset": 0}, json=json)
        return
    what = "every unit" if mode == "torch" else f"{len(found.units)} unit(s) of {found.window or 'the whole'}"
    if not yes:
        _confirm(f"Reset {what} of {name}?")
    with closing(project.connections.state(model)) as conn:
        state.bootstrap(conn, project.env)
        state.register(conn, model, project.env)
        run = state.RunKey.ad_hoc()
        state.prefill(conn, model, project.env, found.window, run=run)
        count = state.reset(conn, model, project.env, run, found.window, mode or "bulldozer")
    if json:
        render.as_json(
            {"model": name, "window": found.window.to_json() if found.window else None, "reset": count}
        )
    else:
        render.say(f"{name}: {count} unit(s) are to be done again.")


def _nothing_to(do: str, name: str, message: str, told: dict[str, Any], *, json: bool) -> None:
    """Say why a window holds no unit; a window that holds none is not all of them."""
    why = message.replace("nothing to run", f"nothing to {do}")
    if json:
        render.as_json({"model": name, **told, "message": why})
    else:
        render.say(f"{name}: {why}")


def _confirm(question: str) -> None:
    """Ask, and go on only after a yes.

    Raises:
        ConfigurationError: there is nobody to ask.
    """
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        raise ConfigurationError("there is no terminal to ask on: give --yes to go on without being asked.") from None
    if not agreed:
        raise typer.Abort


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
    from bollhav_provider.state import account

    project = open_project(models, dsn, suffix)
    model = project.model(name)
    if not model.is_tracked:
        render.say(f"{name} has no state: there is nothing to mark.", console=render.err)
        raise typer.Exit(1)
    found = project.window(model, since, until, project.now(), whole=whole)
    if not found.units:
        _nothing_to("mark", name, found.message, {"units": [], "counts": {"marked": 0}}, json=json)
        return
    if not yes:
        what = f"{len(found.units)} unit(s) of {found.window or 'the whole'}"
        _confirm(f"Mark {what} of {name} as applied without running them?")
    spec = RunSpec(
        run=run_key(who=who or account()),
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
