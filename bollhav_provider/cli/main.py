"""``bollhav``: plan, status, explain, run, reset, mark-applied, doctor, prune."""

from __future__ import annotations

import logging
import os
import sys

import psycopg
import typer

from bollhav_provider.cli import caring, doing, looking, render
from bollhav_provider.exceptions import BollhavError

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
    logging.basicConfig(
        level=logging.INFO if verbose else logging.ERROR,
        stream=sys.stderr,
        format="%(levelname)s %(name)s: %(message)s",
    )


def main() -> None:
    """Run the command line; errors that have a remedy are told in one paragraph, without a traceback."""
    try:
        app()
    except (BollhavError, psycopg.OperationalError) as exc:
        if os.environ.get("BOLLHAV_TRACEBACK"):
            raise
        render.say(render.word("error"), f": {str(exc).strip()}", console=render.err)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
