"""The connections of one worker: a main lane for claim, reading and the one transaction, a side lane for
everything that must go on beside it.

Target and state in one database share the main lane. The side lane is opened only when something needs it:
the lease's renewal once a unit lasts, or an upstream that is read while the target is being written. Both
take turns on it, so that a running unit never holds more than two connections to a database. Two things get a
connection of their own, for the time of one unit: a function that asks for ``conn``, because what it does to
its session is no business of the unit's transaction; and an upstream that is read in batches behind a
transaction pooler, where only an open transaction keeps a cursor.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from bollhav_provider.model import Model, Source
from bollhav_provider.run.connections import Connections

logger = logging.getLogger(__name__)

Conn = psycopg.Connection[Any]


class Lanes:
    """Opens lazily, replaces what broke, closes everything at the end.

    Args:
        connections: where they come from.
        model: whose target and state they lead to.
    """

    def __init__(self, connections: Connections, model: Model) -> None:
        self._connections = connections
        self._model = model
        self.shared = connections.same_database(model)
        #: Set while rows go to the target: the main lane is busy then.
        self.writing = False
        self._target: Conn | None = None
        self._state: Conn | None = None
        self._side: Conn | None = None
        self._turn = threading.RLock()
        self._lent: Conn | None = None
        self._pooled: bool | None = None
        self._sources: dict[str, Conn] = {}

    @property
    def target(self) -> Conn:
        """The connection to the target's database."""
        if not _usable(self._target):
            _close(self._target)
            self._target = self._connections.target(self._model)
        assert self._target is not None
        return self._target

    @property
    def state(self) -> Conn:
        """The connection to the state's database: the target's when they are one."""
        if self.shared:
            return self.target
        if not _usable(self._state):
            _close(self._state)
            self._state = self._connections.state(self._model)
        assert self._state is not None
        return self._state

    def fresh_state(self) -> Conn:
        """Return another connection to the state's database, for looking at what became of a commit."""
        if self.shared:
            self.drop_main()
        else:
            _close(self._state)
            self._state = None
        return self.state

    @contextlib.contextmanager
    def renewal(self, patience: float) -> Iterator[Conn]:
        """Lend a connection to the state's database for renewing the lease.

        Args:
            patience: seconds to wait for a read that has its turn on the side lane; then a connection is
                opened for this one statement, because losing the lease would cost the whole unit.
        """
        if not self.shared:
            yield self.state
        elif self._turn.acquire(timeout=patience):
            try:
                yield self._side_lane()
            finally:
                self._turn.release()
        else:
            with self._connections.state(self._model) as conn:
                yield conn

    @contextlib.contextmanager
    def relation(self, source: Source) -> Iterator[Conn]:
        """Lend a connection for one read of ``source``."""
        if not self._connections.source_in_target(source, self._model):
            yield self._elsewhere(source)
        elif self.writing:
            with self._turn:
                yield self._side_lane()
        else:
            yield self.target

    @contextlib.contextmanager
    def batches(self, source: Source) -> Iterator[Conn]:
        """Lend a connection for one batch of ``source``; always the same one."""
        if not self._connections.source_in_target(source, self._model):
            conn = self._elsewhere(source)
            yield _pinned(conn) if _is_pooled(conn) else conn
        elif self._behind_a_pooler():
            yield _pinned(self._elsewhere(source))
        else:
            with self._turn:
                yield self._side_lane()

    def lend(self) -> Conn:
        """Lend an execute function a connection of its own to the target's database, for the rest of the unit."""
        if not _usable(self._lent):
            _close(self._lent)
            self._lent = self._connections.target(self._model)
        assert self._lent is not None
        return self._lent

    def api(self, source: Source) -> Any:
        """Return what a ``SourceApi``'s connection stands for."""
        return self._connections.api(source, self._model)

    def interrupt(self) -> None:
        """End the statement that runs on the main lane, from any thread."""
        conn = self._target
        if conn is not None and not conn.closed:
            with contextlib.suppress(psycopg.Error, OSError):
                conn.cancel_safe(timeout=5)

    def recover(self) -> None:
        """Make the main lane usable after a failure: roll back, or give it up where that is not possible."""
        self.writing = False
        conn = self._target
        if conn is None or conn.closed:
            return
        status = conn.info.transaction_status
        if status == TransactionStatus.ACTIVE:
            self.interrupt()
            _close(conn)
        elif status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            try:
                conn.rollback()
            except psycopg.Error:
                _close(conn)

    def drop_main(self) -> None:
        """Give up the main lane; the next use opens another."""
        _close(self._target)
        self._target = None

    def release_reads(self) -> None:
        """End what was opened or lent for one unit's reads."""
        _close(self._lent)
        self._lent = None
        for conn in self._sources.values():
            _close(conn)
        self._sources.clear()

    def close(self) -> None:
        """Close everything."""
        self.release_reads()
        for conn in (self._side, self._target, self._state):
            _close(conn)
        self._side = self._target = self._state = None

    def _side_lane(self) -> Conn:
        if not _usable(self._side):
            _close(self._side)
            self._side = self._connections.target(self._model)
        assert self._side is not None
        return self._side

    def _behind_a_pooler(self) -> bool:
        """Whether the target's connections lead through a transaction pooler; asked once."""
        if self._pooled is None:
            with self._turn:
                self._pooled = _is_pooled(self._side_lane())
        return self._pooled

    def _elsewhere(self, source: Source) -> Conn:
        conn = self._sources.get(source.name)
        if conn is None or not _usable(conn):
            conn = self._sources[source.name] = self._connections.source(source, self._model)
        return conn


def _is_pooled(conn: Conn) -> bool:
    """Return whether the server process is another one than the client was told of when it connected."""
    if conn.info.transaction_status != TransactionStatus.IDLE:
        return True  # it was found out before
    row = conn.execute("SELECT pg_catalog.pg_backend_pid()", prepare=False).fetchone()
    return row is not None and row[0] != conn.info.backend_pid


def _pinned(conn: Conn) -> Conn:
    """Return a connection with a transaction open, which keeps its server process; it ends with the connection."""
    if conn.info.transaction_status == TransactionStatus.IDLE:
        conn.execute("BEGIN READ ONLY")
    return conn


def _usable(conn: Conn | None) -> bool:
    return conn is not None and not conn.closed and not conn.broken


def _close(conn: Conn | None) -> None:
    if conn is not None:
        with contextlib.suppress(psycopg.Error, OSError):
            conn.close()
