"""``SourceFile.dateformat``: columns of text that hold dates, turned into dates."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from bollhav_provider.exceptions import DataError

if TYPE_CHECKING:
    import polars as pl

_CLOCK = re.compile(r"%[HIklMSTRrXcfpsq.369+zZ]")


def restore_dates(
    frame: pl.DataFrame, dateformat: str | None, known: Collection[str], what: str
) -> pl.DataFrame:
    """Turn columns in ``dateformat`` into dates, or timestamps when the format holds a clock time.

    Args:
        frame: as polars parsed it.
        dateformat: ``strftime`` format; None changes nothing.
        known: columns that are dates whatever they look like; integers such as 20130131 among them.
        what: model, source and file, named by errors.

    Raises:
        DataError: a value of a known column does not have the format; the text shows it and its row.
    """
    import polars as pl

    if dateformat is None or frame.height == 0:
        return frame
    changed = []
    for name in frame.columns:
        column = frame[name]
        if name in known and column.dtype.is_integer():
            column = column.cast(pl.String)
        if column.dtype != pl.String or column.null_count() == column.len():
            continue
        dates = _parsed(column.str.strip_chars(), dateformat)
        wrong = dates.is_null() & column.is_not_null()
        if not wrong.any():
            changed.append(dates)
        elif name in known:
            row = int(wrong.arg_true()[0])
            raise DataError(
                f"{what}: column {name!r}, row {row + 1}: {column[row]!r} has not the dateformat "
                f"{dateformat!r}: correct the "
                "file, or the dateformat."
            )
    return frame.with_columns(changed) if changed else frame


def _parsed(column: pl.Series, dateformat: str) -> Any:
    import polars as pl

    kind: Any = pl.Date
    if _CLOCK.search(dateformat):
        kind = pl.Datetime("us", "UTC") if "%z" in dateformat or "%Z" in dateformat else pl.Datetime("us")
    return column.str.strptime(kind, dateformat, strict=False, exact=True)
