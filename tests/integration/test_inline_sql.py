"""Inline data in the form of SQL, read by a real server."""

from __future__ import annotations

from decimal import Decimal

import psycopg

from bollhav_provider import SourceHardcoded


def test_sql_is_run_on_the_connection(db: str) -> None:
    source = SourceHardcoded(sql="SELECT * FROM (VALUES (1, true, 1.10), (2, NULL, 20.05)) AS t(id, active, price)")
    with psycopg.connect(db) as conn:
        frame = source.to_dataframe(conn)
    assert frame.columns == ["id", "active", "price"]
    assert frame.rows() == [(1, True, Decimal("1.10")), (2, None, Decimal("20.05"))]


def test_sql_without_rows_still_has_its_columns(db: str) -> None:
    with psycopg.connect(db) as conn:
        frame = SourceHardcoded(sql="SELECT 1 AS id WHERE false").to_dataframe(conn)
    assert (frame.columns, frame.height) == (["id"], 0)
