"""The one transaction of a unit, and what to think when the connection breaks in the middle of its COMMIT."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from bollhav_provider.exceptions import CommitUnknownError, DataError

logger = logging.getLogger(__name__)

Conn = psycopg.Connection[Any]


@contextlib.contextmanager
def unit_transaction(conn: Conn, label: str, look: Callable[[], bool]) -> Iterator[None]:
    """Run a block in one transaction and commit it, knowing afterwards whether it is committed.

    Args:
        conn: in autocommit, with no transaction open.
        label: model and unit, named by errors.
        look: called when the connection broke during COMMIT; returns whether the transaction was committed,
            waits while it may still be, and raises ``psycopg.Error`` when it cannot tell yet.

    Raises:
        CommitUnknownError: the connection broke during COMMIT and ``look`` never could tell.
        DataError: the server rolled back instead of committing, because an error inside the block was
            swallowed.
        psycopg.Error: the commit failed.
    """
    conn.execute("BEGIN")
    try:
        yield
    except BaseException:
        if not conn.closed:
            with contextlib.suppress(psycopg.Error):
                conn.rollback()
        raise
    try:
        done = conn.execute("COMMIT")
    except psycopg.Error as exc:
        if not (conn.closed or conn.broken):
            raise
        if not resolve(look, label, exc):
            raise
        logger.warning("%s: the connection broke during COMMIT; the unit is committed.", label)
        return
    if done.statusmessage != "COMMIT":
        raise DataError(
            f"{label}: the server rolled the transaction back at COMMIT: an error inside it was caught and "
            f"not raised again. "
            "Let errors of statements on conn through."
        )


def resolve(
    look: Callable[[], bool],
    label: str,
    cause: BaseException,
    *,
    patience: float = 60.0,
    pause: Callable[[float], None] = time.sleep,
) -> bool:
    """Find out whether a commit whose acknowledgement was lost took place, by looking and never by guessing.

    Args:
        look: as in :func:`unit_transaction`.
        label: model and unit.
        cause: what broke the connection.
        patience: seconds to keep trying, while the server restarts for instance.
        pause: how to wait.

    Raises:
        CommitUnknownError: nothing could be read in that time.
    """
    deadline = time.monotonic() + patience
    wait = 0.1
    while True:
        try:
            return look()
        except (psycopg.Error, OSError) as exc:
            if time.monotonic() + wait > deadline:
                raise CommitUnknownError(
                    f"{label}: the connection broke during COMMIT ({_words(cause)}) and the outcome "
                    f"could not be read back "
                    f"for {patience:.0f} s ({_words(exc)}): the unit's state says it once the database "
                    f"answers. Run again "
                    "then; what is applied is not done twice."
                ) from cause
            pause(wait)
            wait = min(wait * 2, 5.0)


def _words(exc: BaseException) -> str:
    return " ".join(str(exc).split()) or type(exc).__name__
