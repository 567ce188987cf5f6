"""What the tests of writing share: a model over a table, a connection, and one call that writes in a transaction."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from bollhav_provider import data
from bollhav_provider.data import copy as copying
from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.model import Batch, Column, Environment, Model, Target, TimeChunking

ENV = Environment()
WHOLE = Unit(None)
SINCE = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
UNTIL = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
WINDOW = Unit(Interval(SINCE, UNTIL))
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)


def connect(dsn: str) -> psycopg.Connection[Any]:
    """A connection as runs have it: autocommit, UTC."""
    conn = psycopg.connect(dsn, autocommit=True)
    conn.execute("SET TimeZone TO 'UTC'")
    return conn


def model_of(*columns: Column, name: str = "t", schema: str = "shop", **fields: Any) -> Model:
    """A model of one table; with a partition column it has hourly windows, without one it is timeless.

    Fields of the target (write_mode, on_schema_change, indexes, ...) may be given among the model's.
    """
    target = {key: fields.pop(key) for key in list(fields) if key in Target.model_fields}
    if any(column.partition_on for column in columns):
        fields.setdefault("batching", Batch(time=TimeChunking(chunk="@daily")))
        fields.setdefault("contract", {"begin": SINCE})
    else:
        fields.setdefault("temporality", "timeless")
    return Model(target=Target(schema=schema, name=name, columns=columns, **target), **fields)


def write(conn: psycopg.Connection[Any], model: Model, payload: Any, unit: Unit | None = None) -> data.WriteStats:
    """Write a payload in a transaction of its own."""
    unit = unit or (WINDOW if model.partition_column else WHOLE)
    with conn.transaction():
        return data.write(conn, model, ENV, unit, payload)


def rows(conn: psycopg.Connection[Any], model: Model, columns: str = "*", order: str = "1") -> list[tuple[Any, ...]]:
    """What the target holds."""
    statement = f"SELECT {columns} FROM {{}} ORDER BY {order}"  # noqa: S608
    return conn.execute(sql.SQL(statement).format(sql.Identifier(model.target.schema, model.target.name))).fetchall()


@contextmanager
def copying_as(kind: str) -> Iterator[None]:
    """Force ``csv``, or ``binary`` wherever it is possible, for few rows too."""
    before = copying.binary_available, copying.FEW_ROWS
    if kind == "csv":
        copying.binary_available = lambda: False  # type: ignore[assignment]
    copying.FEW_ROWS = 0
    try:
        yield
    finally:
        copying.binary_available, copying.FEW_ROWS = before


def waits(conn: psycopg.Connection[Any], trace: Path, work: Callable[[], object]) -> int:
    """How often the client waits for the server while something is done inside a transaction."""
    if sys.platform != "linux":
        pytest.skip("libpq traces on Linux only")
    with conn.transaction():
        conn.execute("SELECT 1")
        with trace.open("wb") as file:
            conn.pgconn.trace(file.fileno())
            work()
            conn.pgconn.untrace()
    messages = [
        line.split("\t")[1:4:2] for line in trace.read_text(errors="replace").splitlines() if line.count("\t") > 2
    ]
    # What ends a batch of messages and is answered: a statement by itself, the end of a pipeline, the end of COPY's
    # rows.
    return sum(sender == "F" and message in ("Query", "Sync", "CopyDone") for sender, message in messages)
