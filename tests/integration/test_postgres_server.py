"""The embedded server: starts once, is shared, and hands out empty databases."""

from __future__ import annotations

import psycopg


def test_a_fresh_database_is_empty_and_utf8(db: str) -> None:
    with psycopg.connect(db) as conn:
        tables = conn.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        encoding = conn.execute("SHOW server_encoding").fetchone()
    assert tables == (0,)
    assert encoding == ("UTF8",)
