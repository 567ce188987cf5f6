"""COPY frames into a table: Arrow to binary where possible, CSV otherwise, one slice encoded ahead of the wire.

A row loop is bounded by Python objects at some 30 microseconds a row; columns are encoded by the libraries below
Python, so the server is what limits (benchmarks/write.py).
"""

from __future__ import annotations

import importlib.util
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Literal, Protocol

import psycopg
from psycopg import sql

from bollhav_provider.data.plan import Plan, PlannedCheck
from bollhav_provider.exceptions import RowCountError, RowsOutsideWindowError, RowsRefusedError
from bollhav_provider.model import Model

if TYPE_CHECKING:
    import polars as pl

#: Rows that are encoded at once: enough to keep the encoders busy, some tens of megabytes at most.
SLICE_ROWS = 65_536
#: Fewer rows go as CSV in a process that has not loaded pyarrow: loading it takes 0.1 s of CPU, more than binary saves
#: client and server on several times as many rows, and most units of most models are smaller.
FEW_ROWS = 20_000
#: Samples in an error's text.
_SAMPLES = 5


@lru_cache(maxsize=1)
def binary_available() -> bool:
    """Whether the libraries for binary COPY are installed: ``pip install 'airflow-provider-bollhav[fast]'``."""
    return all(importlib.util.find_spec(name) for name in ("pgpq", "pyarrow"))


class _Encoder(Protocol):
    options: str

    def encode(self, frame: pl.DataFrame) -> bytes | memoryview: ...

    def finish(self) -> bytes: ...


class _Csv:
    """The server's own text parser reads every type there is."""

    options = "FORMAT CSV, NULL '', ENCODING 'UTF8'"

    def __init__(self, plan: Plan) -> None:
        self._select = [value.text.alias(column.name) for column, value in zip(plan.columns, plan.values, strict=True)]
        # Servers up to 17 take a line that is just \. for the end of the data, and a lone text column can make one.
        self._quotes: Literal["necessary", "non_numeric"] = "necessary" if len(self._select) > 1 else "non_numeric"

    def encode(self, frame: pl.DataFrame) -> memoryview:
        buffer = io.BytesIO()
        frame.select(self._select).write_csv(buffer, include_header=False, quote_style=self._quotes)
        return buffer.getbuffer()

    def finish(self) -> bytes:
        return b""


class _Binary:
    """Half the server's work of text: no parsing."""

    options = "FORMAT BINARY"

    def __init__(self, plan: Plan) -> None:
        self._select = []
        for index, value in enumerate(plan.values):
            assert value.binary is not None
            # Names of columns may be anything; the encoder's are our own.
            self._select.append(value.binary.alias(f"c{index}"))
        self._jsonb = {f"c{index}" for index, value in enumerate(plan.values) if value.jsonb}
        self._encoder: Any = None

    def encode(self, frame: pl.DataFrame) -> bytes:
        import pgpq

        table = frame.select(self._select).to_arrow().combine_chunks()
        head = b""
        if self._encoder is None:
            encoders = {field.name: self._builder(field) for field in table.schema}
            self._encoder = pgpq.ArrowToPostgresBinaryEncoder.new_with_encoders(table.schema, encoders)
            head = self._encoder.write_header()
        return head + b"".join(self._encoder.write_batch(batch) for batch in table.to_batches())

    def _builder(self, field: Any) -> Any:
        import pgpq
        from pgpq import encoders, schema

        if field.name in self._jsonb:
            return encoders.LargeStringEncoderBuilder.new_with_output(field, schema.Jsonb())
        return pgpq.ArrowToPostgresBinaryEncoder.infer_encoder(field)

    def finish(self) -> bytes:
        return b"" if self._encoder is None else bytes(self._encoder.finish())


def copy_frames(
    conn: psycopg.Connection[Any],
    model: Model,
    into: sql.Composable,
    frames: Iterable[pl.DataFrame],
    planner: Callable[[pl.Schema], Plan],
) -> tuple[int, tuple[str, ...]]:
    """COPY frames into a table, inside the caller's transaction.

    Args:
        conn: the target's connection.
        model: for messages.
        into: the table, quoted.
        frames: pulled one by one, in this thread: what makes them may use connections and contexts of its own.
        planner: gives the plan for a schema; called again when a frame's schema differs from the one before.

    Returns:
        How many rows were copied, and the columns that were given (of all frames).

    Raises:
        RowsRefusedError: a value cannot be written exactly.
        RowCountError: PostgreSQL took another number of rows.
    """
    total = 0
    columns: dict[str, None] = {}
    for schema, group in groupby(frames, key=lambda frame: frame.schema):
        plan = planner(schema)
        columns.update(dict.fromkeys(plan.names))
        total += _copy_group(conn, model, into, group, plan, total)
    return total, tuple(columns)


def _copy_group(
    conn: psycopg.Connection[Any],
    model: Model,
    into: sql.Composable,
    frames: Iterator[pl.DataFrame],
    plan: Plan,
    offset: int,
) -> int:
    filled = (frame for frame in frames if frame.height)
    held = list(islice(filled, 1))
    if not held:
        return 0
    few = held[0].height < FEW_ROWS
    if few:
        held += islice(filled, 1)
    # Where more than one frame comes, nobody knows how many rows there will be.
    few = few and len(held) == 1 and "pyarrow" not in sys.modules
    encoder: _Encoder = _Binary(plan) if plan.binary and not few and binary_available() else _Csv(plan)
    statement = sql.SQL("COPY {} ({}) FROM STDIN ({})").format(
        into, sql.SQL(", ").join(map(sql.Identifier, plan.names)), sql.SQL(encoder.options)
    )
    sent = 0

    def work(frame: pl.DataFrame, whole: pl.DataFrame, start: int) -> bytes | memoryview:
        verify(model, plan, frame, whole, start)
        return encoder.encode(frame)

    with conn.cursor() as cursor, ThreadPoolExecutor(1, "bollhav-encode") as ahead:
        with cursor.copy(statement) as copy:
            pending: Future[bytes | memoryview] | None = None
            try:
                for frame in _each(held, filled):
                    for start in range(0, frame.height, SLICE_ROWS):
                        piece = frame.slice(start, SLICE_ROWS)
                        following = ahead.submit(work, piece, frame, offset + sent - start)
                        sent += piece.height
                        if pending is not None:
                            copy.write(pending.result())
                        pending = following
                if pending is not None:
                    copy.write(pending.result())
                copy.write(encoder.finish())
            except BaseException:
                if pending is not None:
                    pending.cancel()
                raise
        taken = cursor.rowcount
    if taken != sent:
        raise RowCountError(model.full_name, sent, taken)
    return sent


def verify(model: Model, plan: Plan, piece: pl.DataFrame, whole: pl.DataFrame, offset: int) -> None:
    """Evaluate a plan's checks.

    Args:
        model: for messages.
        plan: whose checks to evaluate.
        piece: the rows that are about to be sent.
        whole: the frame that they are part of, over which a broken check is counted.
        offset: the number of the frame's first row.

    Raises:
        RowsRefusedError: a check is broken (``RowsOutsideWindowError`` for the window's).
    """
    if not plan.checks:
        return
    found = piece.select([planned.check.broken.any().alias(str(i)) for i, planned in enumerate(plan.checks)]).row(0)
    for planned, broken in zip(plan.checks, found, strict=True):
        if broken:
            raise _refusal(model, planned, whole, offset)


def _refusal(model: Model, planned: PlannedCheck, whole: pl.DataFrame, offset: int) -> RowsRefusedError:
    import polars as pl

    name = planned.column.name
    keys = [column.name for column in model.key_columns if column.name in whole.columns and column.name != name]
    numbered = whole.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("\0row"),
        pl.col(name),
        *map(pl.col, keys),
        planned.check.broken.alias("\0bad"),
    )
    marked = numbered.filter(pl.col("\0bad"))
    shown = {column: _values(marked[column].head(_SAMPLES)) for column in ("\0row", name, *keys)}
    samples = []
    for index, number in enumerate(shown["\0row"]):
        key = ", ".join(f"{column}={_show(shown[column][index])}" for column in keys)
        samples.append(f"row {number + offset}{f' ({key})' if key else ''} holds {_show(shown[name][index])}")
    kind = RowsOutsideWindowError if planned.window else RowsRefusedError
    return kind(
        model.full_name,
        name,
        f"({planned.column.type}) {planned.check.what}",
        remedy=planned.check.remedy,
        count=marked.height,
        samples=tuple(samples),
    )


def _values(series: pl.Series) -> list[Any]:
    """Python values; counts since 1970 for dates that Python has none for."""
    import polars as pl

    dtype = series.dtype
    unit = "days" if dtype == pl.Date else str(dtype.time_unit) if isinstance(dtype, pl.Datetime) else ""
    scale = {"days": 1, "ms": 86_400_000, "us": 86_400_000_000}.get(unit)  # nanoseconds never leave Python's years
    if scale is not None:
        physical = series.to_physical()
        # Years 1 to 9999, a day less at each end for zones.
        if not physical.is_between(-719_161 * scale, 2_932_895 * scale).all():
            return [None if count is None else f"{count} {unit} after 1970" for count in physical.to_list()]
    return series.to_list()


def _show(value: object) -> str:
    text = repr(value) if isinstance(value, str | bytes) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _each(held: list[pl.DataFrame], rest: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield frames that were pulled ahead, letting go of each, and those that are still to come."""
    while held:
        yield held.pop(0)
    yield from rest
