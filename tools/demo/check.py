"""Compare what the demo's tables hold with what they must hold; every difference becomes a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import psycopg
from psycopg import sql

from tools.demo import expected
from tools.demo.progress import Counts

#: Sums of doubles depend on the order of the rows; nothing else may differ at all.
_RELATIVE = 1e-9


def problems(conn: psycopg.Connection[Any], counts: dict[str, Counts], days: int) -> Iterator[str]:
    """Yield everything that is not as it must be.

    Args:
        conn: a connection to the warehouse.
        counts: what the library says, by model.
        days: local days that were loaded.
    """
    for model, wanted in expected.windows(days).items():
        yield from _window_problems(model, wanted, counts.get(model, Counts()))
    for name, key, rows in expected.relations(days):
        yield from _relation_problems(conn, name, key, rows)


def _window_problems(model: str, wanted: int, counts: Counts) -> Iterator[str]:
    if counts.applied != wanted:
        yield f"{model}: {counts.applied} of {wanted} windows are applied"
    for status in ("pending", "running", "blocked", "error"):
        if number := getattr(counts, status):
            yield f"{model}: {number} windows are {status}"


def read(conn: psycopg.Connection[Any], name: str, columns: list[str] | None = None) -> pl.DataFrame:
    """Return a relation's rows.

    Args:
        conn: a connection to the warehouse.
        name: schema and name.
        columns: those to read; all of them when None.
    """
    what = sql.SQL(", ").join(map(sql.Identifier, columns)) if columns else sql.SQL("*")
    query = sql.SQL("SELECT {} FROM {}").format(what, sql.Identifier(*name.split(".")))
    cursor = conn.execute(query)
    rows = cursor.fetchall()
    names = [column.name for column in cursor.description or ()]
    return pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)


def _relation_problems(conn: psycopg.Connection[Any], name: str, key: list[str], wanted: pl.DataFrame) -> Iterator[str]:
    try:
        found = read(conn, name, wanted.columns)
    except psycopg.Error as error:
        yield f"{name}: cannot be read: {str(error).strip().splitlines()[0]}"
        return
    if found.height != wanted.height:
        yield f"{name}: {found.height} rows where the files give {wanted.height}"
    pairs = _by_key(found, key), _by_key(wanted, key)
    if len(pairs[0]) != found.height:
        yield f"{name}: {found.height - len(pairs[0])} rows have a key that another row has"
    differing = [k for k in pairs[1] if not _same(pairs[0].get(k), pairs[1][k])]
    if differing:
        first = differing[0]
        yield (
            f"{name}: {len(differing)} rows differ from the files, for instance {dict(zip(key, first, strict=True))}: "
            f"{pairs[0].get(first)} instead of {pairs[1][first]}"
        )


def _by_key(frame: pl.DataFrame, key: list[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {tuple(row[column] for column in key): row for row in frame.iter_rows(named=True)}


def _same(found: dict[str, Any] | None, wanted: dict[str, Any]) -> bool:
    if found is None:
        return False
    return all(_equal(found[column], value) for column, value in wanted.items())


def _equal(found: Any, wanted: Any) -> bool:
    if isinstance(found, float) and isinstance(wanted, float):
        return abs(found - wanted) <= _RELATIVE * max(abs(found), abs(wanted))
    return bool(found == wanted)
