"""What an execute function may return, as a stream of frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from bollhav_provider.data.catalog import Relation
from bollhav_provider.data.rows import frame_of
from bollhav_provider.exceptions import DataError
from bollhav_provider.model import Model

if TYPE_CHECKING:
    import polars as pl

#: Single dicts out of an iterator are gathered to frames of this many rows.
_GATHERED = 10_000
_TAKEN = (
    "a polars DataFrame or LazyFrame, an Arrow table or record batch reader, a list of dicts, an iterator of any "
    "of these, or None for no rows"
)


def frames_of(model: Model, relation: Relation, payload: Any) -> Iterator[pl.DataFrame]:
    """Return the rows of a payload, frame by frame, holding no more than one frame of an iterator at a time.

    Args:
        model: for messages.
        relation: the target, which decides how dicts are read.
        payload: a DataFrame, a LazyFrame, an Arrow table, record batch or reader (or anything with Arrow's C stream
            interface), a list of dicts, an iterator of any of these or of dicts, or None.

    Raises:
        DataError: it is something else.
    """
    import polars as pl

    if payload is None:
        return
    if isinstance(payload, pl.DataFrame):
        yield payload
    elif isinstance(payload, pl.LazyFrame):
        yield from _lazy(payload)
    elif hasattr(payload, "__arrow_c_stream__"):
        yield from _arrow(payload)
    elif hasattr(payload, "__arrow_c_array__"):
        yield pl.DataFrame(payload)
    elif isinstance(payload, Sequence) and not isinstance(payload, str | bytes | bytearray):
        if payload and not isinstance(payload[0], Mapping):
            yield from _iterated(model, relation, payload)
        elif payload:
            yield frame_of(model, relation, payload)
    elif isinstance(payload, Iterable) and not isinstance(payload, str | bytes | bytearray | Mapping):
        yield from _iterated(model, relation, payload)
    else:
        raise DataError(f"{model.full_name}: the execute function gave {_name(payload)}. Remedy: return {_TAKEN}.")


def _lazy(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    if hasattr(frame, "collect_batches"):
        yield from frame.collect_batches(maintain_order=True)
    else:
        yield frame.collect()


def _arrow(payload: Any) -> Iterator[pl.DataFrame]:
    import polars as pl

    try:
        import pyarrow as pa
    except ImportError:
        yield pl.DataFrame(payload)
        return
    reader = pa.RecordBatchReader.from_stream(payload)
    empty = True
    for batch in reader:
        empty = False
        yield pl.DataFrame(pl.from_arrow(batch))
    if empty:
        yield pl.DataFrame(pl.from_arrow(reader.schema.empty_table()))


def _iterated(model: Model, relation: Relation, items: Iterable[Any]) -> Iterator[pl.DataFrame]:
    iterator = iter(items)
    for item in iterator:
        if isinstance(item, Mapping):
            gathered = [item, *islice(iterator, _GATHERED - 1)]
            yield frame_of(model, relation, gathered)
        elif isinstance(item, str | bytes | int | float):
            raise DataError(f"{model.full_name}: the iterator gave {_name(item)}. Remedy: yield {_TAKEN}.")
        else:
            yield from frames_of(model, relation, item)


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
