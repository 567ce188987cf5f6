"""Rows that a window can be made of. Others, which only another writer can have left, count for nothing.

An inverted row, one with a single end, or one that reaches beyond the years 1 to 9999 covers nothing (the coverage
sees it so as well) and is nobody's unit. It must not keep anybody from reading the rest: ``doctor`` names it.
"""

from __future__ import annotations

from psycopg import sql

from bollhav_provider.state.refs import Conn, StateRef

#: An expression over the row ``s``: it has a window.
WINDOWED = sql.SQL("(s.since < s.until AND s.since >= '0001-01-01Z' AND s.until < '10000-01-01Z')")
#: An expression over ``s``: it has a window, or is the windowless row.
SOUND = sql.SQL("(s.since IS NULL AND s.until IS NULL OR {})").format(WINDOWED)
#: An expression over ``s``: when it was applied, as far as Python can hold it.
APPLIED_AT = sql.SQL("CASE WHEN s.applied_at >= '0001-01-01Z' AND s.applied_at < '10000-01-01Z' THEN s.applied_at END")


def unsound(conn: Conn, ref: StateRef) -> int:
    """Return how many rows of a state table are no window; looks at every row."""
    query = sql.SQL("SELECT count(*) FROM {} s WHERE {} IS NOT TRUE").format(ref.ident, SOUND)
    row = conn.execute(query).fetchone()
    return int(row[0]) if row else 0
