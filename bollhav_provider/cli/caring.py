"""Commands that keep a deployment well: doctor and prune."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import typer

from bollhav_provider.cli import options, render
from bollhav_provider.cli.project import open_project


def doctor(
    names: options.ModelNames = None,
    fix: bool = typer.Option(False, "--fix", help="Mend what can be mended without touching data."),
    models: options.Models = None,
    dsn: options.Dsn = None,
    suffix: options.Suffix = None,
    json: options.Json = False,
) -> None:
    """Examine library, state and targets: wrong coverage, holes, dead workers, missing privileges, old
    inputs, files that are slow to read.

    Only the models of one folder are looked at, the one that --models names or else is found: what the library holds of
    other folders is counted and named. Exit code 1 when an error is found that was not mended.
    """
    from bollhav_provider.run.doctor import Finding, examine, scope, slow_files

    project = open_project(models, dsn, suffix)
    found = [Finding("error", "definition", "", problem) for problem in project.broken]
    found += slow_files(project.took)
    chosen = project.models(names, None)
    found += examine(project.connections, project.graph, chosen, project.env, fix=fix)
    found.append(scope(project.connections, project.graph, chosen, project.env, str(project.place)))
    if json:
        render.as_json([finding.to_json() for finding in found])
    else:
        for finding in found:
            where = f"{finding.model}: " if finding.model else ""
            mended = render.word(" (mended)", "green") if finding.fixed else ""
            render.say(render.word(finding.level), f" {where}{finding.message}", mended)
        if all(finding.level == "info" or finding.fixed for finding in found):
            render.say("nothing wrong")
    if any(finding.level == "error" and not finding.fixed for finding in found):
        raise typer.Exit(1)


def prune(
    models: options.Models = None,
    dsn: options.Dsn = None,
    suffix: options.Suffix = None,
    json: options.Json = False,
) -> None:
    """Delete errors and history past their retention, and fold old rows of flexible models. What is covered stays."""
    from bollhav_provider import state

    project = open_project(models, dsn, suffix)
    settings = project.settings
    retention = state.Retention(
        errors=timedelta(days=settings.error_retention_days) if settings.error_retention_days else None,
        history=timedelta(days=settings.history_retention_days) if settings.history_retention_days else None,
    )
    with closing(project.connections.state()) as conn:
        state.bootstrap(conn, project.env)
        gone = dict(state.purge(conn, project.env, retention))
        gone["coverage_of_dropped_tables"] = state.coverage.forget_dropped(conn, project.env)
    folded = 0
    for model in project.graph.models:
        if model.is_tracked and model.is_flexible:
            with closing(project.connections.state(model)) as conn:
                state.register(conn, model, project.env)
                folded += state.prune(conn, model, project.env, timedelta(days=settings.fold_after_days))
    gone["rows_of_flexible_models"] = folded
    if json:
        render.as_json(gone)
    else:
        render.table("", ("pruned", "rows"), [(what.replace("_", " "), rows) for what, rows in gone.items()])
