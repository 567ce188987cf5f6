"""Standard output is for a command's result alone: what files, functions and libraries say goes to standard error."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand

from bollhav_provider.cli import render

#: What is logged below this level is not shown.
_level = logging.ERROR


class Command(TyperCommand):
    """A command whose result alone is on standard output, also where a model's function prints."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with apart():
            return super().invoke(ctx)


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Keep standard output for :mod:`render`, and tell warnings in one line."""
    with render.result_to(sys.stdout), contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.showwarning = _warned
        yield


def log_to_terminal(*, verbose: bool) -> None:
    """Show what is logged on standard error: errors, or everything from ``INFO`` on."""
    global _level
    _level = logging.INFO if verbose else logging.ERROR
    logging.basicConfig(level=_level, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    settle_logging()


def settle_logging() -> None:
    """Hold every handler that writes to the terminal to the level that was asked for.

    Called again once definition files were imported: what they import, Airflow above all, may have set up logging of
    its own. Handlers that write anywhere else are somebody's business and stay as they are.
    """
    terminal = {id(stream) for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__) if stream is not None}
    known = (logging.getLogger(name) for name in list(logging.root.manager.loggerDict))
    for logger in (logging.getLogger(), *known):
        for handler in logger.handlers:
            if id(getattr(handler, "stream", None)) in terminal:
                handler.setLevel(_level)


def _warned(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    told = str(message) if category.__module__.startswith("bollhav_provider") else f"{category.__name__}: {message}"
    render.say(render.word("warning"), f" {told}", console=render.err)
