"""How the command line shows things: tables for people, JSON for programs, never both on one stream."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import IO, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: A table that goes into a file or another program is not folded to the width of a screen that is not there.
_WIDTH = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else 10_000
#: Characters between columns, and those that the last one needs at least to be readable.
_GAP = 2
_LAST = 24
#: What people read. Standard output holds the result, standard error what is said about it.
out = Console(highlight=False, soft_wrap=True, markup=False, width=_WIDTH)
err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)

_COLOURS = {
    "applied": "green", "run": "cyan", "after": "cyan", "running": "blue", "pending": "default", "blocked": "yellow",
    "hard": "red", "error": "red", "never": "dim", "warning": "yellow", "info": "default", "skipped": "dim",
}  # fmt: skip


@contextmanager
def result_to(stream: IO[str]) -> Iterator[None]:
    """Print results there, whatever becomes of ``sys.stdout`` meanwhile."""
    before, out.file = out._file, stream
    try:
        yield
    finally:
        out._file = before


def as_json(value: Any) -> None:
    """Print one JSON value."""
    print(json.dumps(value, default=str, ensure_ascii=False, indent=2), file=out.file)


def table(title: str, headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows in columns, of which only the last may fold; where they are wider than the screen, row by row."""
    # Text, not markup: a window or a message may hold brackets
    cells = [
        [cell if isinstance(cell, Text) else Text("" if cell is None else str(cell)) for cell in row] for row in rows
    ]
    widths = [
        max(cell_len(header), *(row[at].cell_len for row in cells)) if cells else cell_len(header)
        for at, header in enumerate(headers)
    ]
    room = out.width - sum(widths[:-1]) - _GAP * (len(headers) - 1)
    if room < min(widths[-1], _LAST):
        _row_by_row(title, headers, cells)
        return
    shown = Table(title=title or None, title_justify="left", box=None, pad_edge=False, show_edge=False)
    for at, header in enumerate(headers):
        last = at == len(headers) - 1
        shown.add_column(header, overflow="fold", header_style="bold", no_wrap=not last)
    for row in cells:
        shown.add_row(*row)
    out.print(shown)


def _row_by_row(title: str, headers: Sequence[str], cells: Sequence[Sequence[Text]]) -> None:
    if title:
        say(title)
    for row in cells:
        say(Text(row[0].plain, style="bold"))
        for header, cell in zip(headers[1:], row[1:], strict=True):
            if cell.plain:
                say(f"  {header}: ", cell)


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
