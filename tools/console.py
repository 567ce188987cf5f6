"""What ``./run`` prints before anything is installed: progress on one line, and errors of one sentence."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from textwrap import shorten


class Sentence(Exception):
    """Something is missing that a person can mend; its text says so in one sentence."""


class Progress:
    """A line that says what is being done, for how long, and the last thing that was heard of it.

    Args:
        title: what is being done.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._started = time.monotonic()
        # A line that is written over and over is one that nothing else writes between.
        self._live = sys.stdout.isatty() and threading.current_thread() is threading.main_thread()
        self._said = self._started

    def __enter__(self) -> Progress:
        if not self._live:
            print(f"{self._title} ...", flush=True)
        return self

    def show(self, detail: str) -> None:
        """Show a detail; where the output is no terminal, a sign of life every 30 seconds."""
        now = time.monotonic()
        if self._live:
            width = shutil.get_terminal_size().columns
            line = f"{self._title}: {now - self._started:.0f} s  {detail}"
            print(f"\r\x1b[2K{line[: width - 1]}", end="", flush=True)
        elif now - self._said >= 30:
            self._said = now
            print(f"  {now - self._started:.0f} s: {shorten(detail, 100, placeholder=' ...')}", flush=True)

    def __exit__(self, *_: object) -> None:
        if self._live:
            print(f"\r\x1b[2K{self._title}: {time.monotonic() - self._started:.0f} s", flush=True)
