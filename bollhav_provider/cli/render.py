"""How the command line shows things: tables for people, JSON for programs, never both on one stream."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

#: A table that goes into a file or another program is not folded to the width of a screen that is not there.
_WIDTH = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else 10_000
#: What people read. Standard output holds the result, standard error what is said about it.
out = Console(highlight=False, soft_wrap=True, markup=False, width=_WIDTH)
err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)

_COLOURS = {
    "applied": "green", "run": "cyan", "after": "cyan", "running": "blue", "pending": "default", "blocked": "yellow",
    "hard": "red", "error": "red", "never": "dim", "warning": "yellow", "info": "default", "skipped": "dim",
}  # fmt: skip


def as_json(value: Any) -> None:
    """Print one JSON value."""
    print(json.dumps(value, default=str, ensure_ascii=False, indent=2))


def table(title: str, headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows in columns."""
    shown = Table(title=title or None, title_justify="left", box=None, pad_edge=False, show_edge=False)
    for header in headers:
        shown.add_column(header, overflow="fold", header_style="bold")
    for row in rows:
        # Text, not markup: a window or a message may hold brackets
        shown.add_row(
            *(cell if isinstance(cell, Text) else Text("" if cell is None else str(cell)) for cell in row)
        )
    out.print(shown)


def say(*parts: str | Text, console: Console | None = None) -> None:
    """Print parts on one line; plain strings are printed as they are, brackets included."""
    (console or out).print(Text.assemble(*parts))


def word(status: str, colour: str | None = None) -> Text:
    """A status in its colour."""
    return Text(status, style=colour or _COLOURS.get(status, "default"))


def when(at: datetime | None) -> str:
    """An instant, to the second, in UTC."""
    return at.strftime("%Y-%m-%d %H:%M:%SZ") if at is not None else ""


def span(since: str | None, until: str | None) -> str:
    """A half-open window as it is written everywhere."""
    from bollhav_provider.intervals import Interval, as_utc

    if since is None or until is None:
        return "whole"
    return str(Interval(as_utc(since, "since"), as_utc(until, "until")))
