"""Columns of a CSV file that hold dates or timestamps: which, and their values."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

#: Values of a column that are looked at before the whole of it is.
_SAMPLE = 100


def temporal_columns(
    names: Iterable[str], column: Callable[[str, int | None], pl.Series]
) -> dict[str, pl.Series]:
    """Return those columns of text whose every value is a date or a timestamp, parsed.

    polars finds dates by itself, but where it infers types over all rows it tries every format on every value of every
    column, which takes twenty times as long as all the rest. Here a few values say which columns are worth it.

    Args:
        names: columns of text.
        column: the values of a column; the first few that are not null when a number is given.
    """
    found = {}
    for name in names:
        sample = column(name, _SAMPLE)
        kind = _kind(sample)
        if kind is None:
            continue
        parsed = _parse(column(name, None), kind)
        if parsed is not None:
            found[name] = parsed.alias(name)
    return found


def _kind(sample: pl.Series) -> Any:
    """Return the type that polars sees in a few values, None when it is no date or timestamp."""
    import polars as pl

    if sample.is_empty() or (sample == "").any():
        return None
    kind = pl.read_csv(_as_csv(sample), has_header=False, try_parse_dates=True, infer_schema_length=None).dtypes[0]
    return kind if kind.is_temporal() else None


def _parse(values: pl.Series, kind: Any) -> pl.Series | None:
    """Return all values as ``kind``, None when one of them is not."""
    import polars as pl

    if (values == "").any():
        return None
    present = values.drop_nulls()
    try:
        parsed = pl.read_csv(_as_csv(present), has_header=False, schema={"value": kind}).to_series()
    except pl.exceptions.PolarsError:
        return None
    if parsed.len() != present.len() or parsed.null_count():
        return None
    if present.len() == values.len():
        return parsed
    there = values.is_not_null()
    rows = (there.cum_sum().cast(pl.Int64) - 1).set(~there, None)
    return parsed.gather(rows)


def _as_csv(values: pl.Series) -> io.BytesIO:
    return io.BytesIO(values.to_frame("value").write_csv(include_header=False).encode())
