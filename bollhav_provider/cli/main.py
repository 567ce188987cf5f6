"""``bollhav``: plan, status, explain, run, reset, mark-applied, doctor, prune."""

from __future__ import annotations

import logging
import os
import sys

import psycopg
import typer

from bollhav_provider.cli import caring, doing, looking, render
from bollhav_provider.cli.signals import unwinding
from bollhav_provider.exceptions import BollhavError
from bollhav_provider.state.masking import shown

app = typer.Typer(
    name="bollhav",
    help="Incremental PostgreSQL tables with real state. Windows are half-open: [since, until).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(looking.plan)
app.command()(looking.status)
app.command()(looking.explain)
app.command()(doing.run)
app.command()(doing.reset)
app.command("mark-applied")(doing.mark_applied)
app.command()(caring.doctor)
app.command()(caring.prune)


@app.callback()
def _start(
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Say on standard error what is logged."),
) -> None:
    level = logging.INFO if verbose else logging.ERROR
    logging.basicConfig(level=level, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stdout, sys.stderr):
            handler.setLevel(level)  # a library may have set a level of its own


def main() -> None:
    """Run the command line; errors that have a remedy are told in one paragraph, without a traceback."""
    with unwinding() as stopped:
        try:
            app()
        except (BollhavError, psycopg.Error) as exc:
            if os.environ.get("BOLLHAV_TRACEBACK"):
                raise
            render.say(render.word("error"), f": {_told(exc)}", console=render.err)
            raise SystemExit(1) from None
        finally:
            if stopped:
                raise SystemExit(128 + stopped[-1])  # what shells expect after a signal


def _told(exc: Exception) -> str:
    text = shown(exc).strip()
    if isinstance(exc, psycopg.errors.InsufficientPrivilege):
        return f"{exc.diag.message_primary}. Remedy: bollhav doctor lists the GRANT statements that are missing."
    if isinstance(exc, psycopg.Error) and not isinstance(exc, psycopg.OperationalError):
        return f"{type(exc).__name__}: {text}\nBOLLHAV_TRACEBACK=1 shows where."
    return text


if __name__ == "__main__":
    main()
