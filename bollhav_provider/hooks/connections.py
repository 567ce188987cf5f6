"""The connections of a run, made from Airflow connections."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from bollhav_provider.run.connections import DsnConnections

if TYPE_CHECKING:
    from bollhav_provider.model import Model, Source

#: How long a cancel request may take when a task is being killed.
_CANCEL_SECONDS = 5.0


class ConnectionStrings(Mapping[str, str]):
    """Airflow connection ids to connection strings, looked up when asked for and once."""

    def __init__(self, lookup: Callable[[str], str]) -> None:
        self._lookup = lookup
        self._known: dict[str, str] = {}

    def __getitem__(self, conn_id: str) -> str:
        if conn_id not in self._known:
            self._known[conn_id] = self._lookup(conn_id)
        return self._known[conn_id]

    def __contains__(self, conn_id: object) -> bool:
        return isinstance(conn_id, str)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


@dataclass(frozen=True)
class AirflowConnections(DsnConnections):
    """Connections whose ids are Airflow's. Remembers what it opened, so that a kill can stop the server's work."""

    find: Callable[[str], Any] | None = None
    _opened: list[psycopg.Connection[Any]] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.Lock)

    def state(self, model: Model | None = None) -> psycopg.Connection[Any]:
        return self._remember(super().state(model))

    def target(self, model: Model) -> psycopg.Connection[Any]:
        return self._remember(super().target(model))

    def source(self, source: Source, model: Model) -> psycopg.Connection[Any]:
        return self._remember(super().source(source, model))

    def api(self, source: Source, model: Model) -> Any:
        conn_id = getattr(source.type, "conn_id", None)
        return self.find(conn_id) if conn_id and self.find else None

    def cancel(self) -> None:
        """Ask the server to stop what our sessions are doing. Never raises: it runs while the task is being killed."""
        with self._lock:
            opened = [conn for conn in self._opened if not conn.closed]
        for conn in opened:
            try:
                conn.cancel_safe(timeout=_CANCEL_SECONDS)
            except Exception:  # the server may be gone; the lease ends the claim then
                continue

    def _remember(self, conn: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
        with self._lock:
            self._opened[:] = [c for c in self._opened if not c.closed]
            self._opened.append(conn)
        return conn
