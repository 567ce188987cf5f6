"""The rows that the benchmarks write: twelve columns of mixed types, a twentieth of the values null."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from decimal import Decimal
from typing import Any

import polars as pl

from bollhav_provider.model import Column

COLUMNS = (
    Column("id", "bigint"),
    Column("i32", "integer"),
    Column("f64", "double precision"),
    Column("txt", "text"),
    Column("day", "date"),
    Column("at", "timestamptz"),
    Column("amount", "numeric(20,6)"),
    Column("flag", "boolean"),
    Column("numbers", "bigint[]"),
    Column("doc", "jsonb"),
    Column("raw", "bytea"),
    Column("uid", "uuid"),
)
#: Distinct values a column has; they are repeated, since only their number and kind matter.
_POOL = 20_000


def made(rows: int, first: int = 0) -> pl.DataFrame:
    """Return a frame of as many rows, the same at every call."""
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghij ,\"'\\é😀", k=chance.randint(0, 40))) for _ in range(_POOL)]
    epoch = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)

    def some(make: Any) -> list[Any]:
        return [None if chance.random() < 0.05 else make() for _ in range(_POOL)]

    pool = pl.DataFrame(
        {
            "i32": pl.Series(some(lambda: chance.randint(-(2**31), 2**31 - 1)), dtype=pl.Int32),
            "f64": pl.Series(some(lambda: chance.choice([chance.gauss(0, 1e6), float("inf"), float("nan")]))),
            "txt": pl.Series(some(lambda: chance.choice(words))),
            "day": pl.Series(some(lambda: dt.date(2020, 1, 1) + dt.timedelta(days=chance.randint(0, 2000)))),
            "at": pl.Series(some(lambda: epoch + dt.timedelta(microseconds=chance.randint(0, 10**14)))),
            "amount": pl.Series(
                some(lambda: Decimal(chance.randint(-(10**12), 10**12)).scaleb(-6)), dtype=pl.Decimal(20, 6)
            ),
            "flag": pl.Series(some(lambda: chance.random() < 0.5)),
            "numbers": pl.Series(
                some(lambda: [chance.randint(0, 10**12) for _ in range(chance.randint(0, 4))]), dtype=pl.List(pl.Int64)
            ),
            "doc": pl.Series(some(lambda: {"a": chance.randint(0, 99), "b": chance.choice(words), "c": [1.5, None]})),
            "raw": pl.Series(some(lambda: chance.randbytes(16))),
            "uid": pl.Series(some(lambda: str(uuid.UUID(int=chance.getrandbits(128))))),
        }
    )
    picks = pl.int_range(first, first + rows, eager=True).alias("id")
    return pl.DataFrame({"id": picks}).hstack(pool[(picks * 7919 % _POOL).to_list()])


def changed(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the same rows, a tenth of them with another text."""
    return frame.with_columns(
        pl.when(pl.col("id") % 10 == 0).then(pl.lit("changed")).otherwise(pl.col("txt")).alias("txt")
    )
