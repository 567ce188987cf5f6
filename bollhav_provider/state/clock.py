"""The database's clock: the only one that leases, freshness and "what has elapsed" are measured by."""

from __future__ import annotations

from datetime import UTC, datetime

from bollhav_provider.state.refs import Conn


def db_now(conn: Conn) -> datetime:
    """Return the server's clock, in UTC."""
    row = conn.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    return utc(row[0])


def utc(value: datetime) -> datetime:
    """Return an instant that came from the server, whatever the session's time zone, in UTC."""
    return value.astimezone(UTC)
