"""A proxy between client and server that counts round trips and cuts connections where a test says so."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

#: Decides on a piece of what the client sends: ``None`` passes it on; ``before`` cuts the connection instead
#: of passing it on; ``after`` passes it on, lets the server work, and cuts the connection before the answer
#: comes through.
Rule = Callable[[bytes], str | None]


class WireProxy:
    """Listens on a port of 127.0.0.1 and passes everything on to the server of a DSN; a context manager.

    Attributes:
        dsn: leads to the same database through the proxy.
        trips: how often a client sent something and waited for an answer.
        connections: how many were opened.
        rule: what to cut; reset to None after the first cut.
        cuts: how often something was cut.
        refuses: set to close every new connection at once, as if the server were gone.
    """

    def __init__(self, dsn: str) -> None:
        parts = conninfo_to_dict(dsn)
        self._server = f"{parts['host']}/.s.PGSQL.{parts.get('port', 5432)}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=self._listener.getsockname()[1])
        self.rule: Rule | None = None
        self.trips = 0
        self.connections = 0
        self.cuts = 0
        self.refuses = False
        self._open: list[socket.socket] = []

    def __enter__(self) -> WireProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            self.connections += 1
            self._open += [client, server]
            threading.Thread(target=self._pass, args=(client, server), daemon=True).start()

    def _pass(self, client: socket.socket, server: socket.socket) -> None:
        asking = False
        with client, server, contextlib.suppress(OSError, ValueError):  # a socket that is closed has no number
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(65_536)
                    if not data:
                        return
                    if ready is server:
                        asking = False
                        client.sendall(data)
                        continue
                    if not asking:
                        asking = True
                        self.trips += 1
                    if self._cut(data, server):
                        return
                    server.sendall(data)

    def _cut(self, data: bytes, server: socket.socket) -> bool:
        where = self.rule(data) if self.rule is not None else None
        if where is None:
            return False
        self.rule = None
        self.cuts += 1
        if where == "after":
            server.sendall(data)
            server.recv(65_536)  # the server has done it; nobody hears of it
        return True


def when(text: bytes, where: str) -> Rule:
    """Cut when the client sends something that holds ``text``."""
    return lambda data: where if text in data else None


def at_copy_data(where: str) -> Rule:
    """Cut in the middle of a COPY: when the client sends its first rows."""
    seen: dict[str, Any] = {}

    def rule(data: bytes) -> str | None:
        if b"FROM STDIN" in data:
            seen["copying"] = True
            return None
        return where if seen.get("copying") and data[:1] == b"d" else None

    return rule
