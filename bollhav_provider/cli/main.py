"""``bollhav``: plan, status, explain, run, reset, mark-applied, doctor, prune."""

from __future__ import annotations

import os

import psycopg
import typer

from bollhav_provider import __version__
from bollhav_provider.cli import caring, doing, looking, render
from bollhav_provider.cli.signals import unwinding
from bollhav_provider.cli.streams import Command, log_to_terminal
from bollhav_provider.exceptions import BollhavError
from bollhav_provider.state.masking import shown

app = typer.Typer(
    name="bollhav",
    help="Incremental PostgreSQL tables with real state. Windows are half-open: [since, until).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for _command in (
    looking.plan, looking.status, looking.explain, doing.run, doing.reset, doing.mark_applied, caring.doctor,
    caring.prune,
):  # fmt: skip
    # the lines of a docstring end where ours do; those of a terminal are its own
    _help = "\n\n".join(" ".join(part.split()) for part in (_command.__doc__ or "").split("\n\n"))
    app.command(_command.__name__.replace("_", "-"), cls=Command, help=_help)(_command)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"bollhav {__version__}")
        raise typer.Exit


@app.callback()
def _start(
    verbose: bool = typer.Option(
        False, "--verbose", "-v", help="Say on standard error what is logged: bollhav --verbose COMMAND."
    ),
    _: bool = typer.Option(False, "--version", help="Show the version and exit.", callback=_version, is_eager=True),
) -> None:
    log_to_terminal(verbose=verbose)


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


#: How what the driver says starts when there never was a connection. One that was lost is another matter.
_UNREACHABLE = ("connection failed", "connection timeout", "failed to resolve host")


def _told(exc: Exception) -> str:
    text = shown(exc).strip()
    if isinstance(exc, psycopg.errors.InsufficientPrivilege):
        return f"{exc.diag.message_primary}. Remedy: bollhav doctor lists the GRANT statements that are missing."
    if isinstance(exc, psycopg.OperationalError) and text.startswith(_UNREACHABLE):
        return f"the database cannot be reached: {' '.join(text.split())}\nRemedy: correct --dsn or BOLLHAV_DSN."
    if isinstance(exc, psycopg.Error) and not isinstance(exc, psycopg.OperationalError):
        return f"{type(exc).__name__}: {text}\nBOLLHAV_TRACEBACK=1 shows where."
    return text


if __name__ == "__main__":
    main()
