"""Inputs that are written in the code: a few rows, or an SQL literal."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from pydantic import Field

from bollhav_provider.exceptions import DataError
from bollhav_provider.model.base import Bag, Definition, Finding, FrozenDict, thaw

if TYPE_CHECKING:
    import polars as pl


_MANY_BITS = 10_000


class SourceHardcoded(Definition):
    """Data written inline: exactly one of ``rows`` and ``sql``."""

    kind: Literal["hardcoded"] = "hardcoded"
    rows: tuple[FrozenDict, ...] | None = Field(
        default=None, description="The rows, one mapping each; the keys are the columns."
    )
    sql: str | None = Field(default=None, description="A SELECT or VALUES that reads no table and yields the rows.")
    extra: Bag = Field(default_factory=FrozenDict, description="Anything your own code wants to know.")

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            rows: Sequence[Mapping[str, Any]] | None = None,
            sql: str | None = None,
            extra: Mapping[str, Any] = ...,
            kind: Literal["hardcoded"] = "hardcoded",
        ) -> None: ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of ``rows``, in order of first appearance."""
        return tuple(dict.fromkeys(name for row in self.rows or () for name in row))

    @property
    def content_hash(self) -> str:
        """A fingerprint of the content, the same in every process, on every platform and in every year.

        It depends on the values, their types and the order of rows and columns, and on nothing else.
        """
        import json
        from hashlib import sha256

        content = (
            {"sql": self.sql}
            if self.rows is None
            else {"columns": self.columns, "rows": [plain(row) for row in self.rows]}
        )
        text = json.dumps(content, ensure_ascii=True, allow_nan=True, separators=(",", ":"))
        return sha256(text.encode("ascii")).hexdigest()

    def to_dataframe(self, conn: Any = None) -> "pl.DataFrame":
        """Return the content as a polars frame.

        Args:
            conn: an open psycopg (or other DB-API) connection, on which ``sql`` is run; ``rows`` need none.

        Raises:
            ValueError: ``sql`` without a connection.
            DataError: a column's values have no one type, so that some would be changed.
        """
        import polars as pl

        if self.rows is not None:
            return pl.DataFrame({name: self._series(name) for name in self.columns})
        if conn is None:
            raise ValueError(
                "SourceHardcoded(sql=...) is read by the database; pass an open connection, as in to_dataframe(conn)"
            )
        cursor = conn.cursor()
        try:
            cursor.execute(self.sql)
            names = [item[0] for item in cursor.description]
            return pl.DataFrame(cursor.fetchall(), schema=names, orient="row", infer_schema_length=None)
        finally:
            cursor.close()

    def _series(self, name: str) -> "pl.Series":
        """Return one column, after checking that every value comes back as it was written."""
        import polars as pl

        values = [_cell(row.get(name)) for row in self.rows or ()]
        if any(isinstance(value, float) for value in values):
            values = [float(value) if type(value) is int and int(float(value)) == value else value for value in values]
        try:
            series = pl.Series(name, values, strict=True)
            back: list[Any] = series.to_list()
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            back = []
        for position, value in enumerate(values):
            if position >= len(back) or not _same(value, back[position]):
                first = next((other for other in values if other is not None), None)
                at = (
                    position
                    if back
                    else next(
                        (
                            index
                            for index, other in enumerate(values)
                            if other is not None and type(other) is not type(first)
                        ),
                        0,
                    )
                )
                raise DataError(
                    f"SourceHardcoded: column {name!r}, row {at + 1}: {values[at]!r} cannot be held beside "
                    f"{first!r} unchanged; "
                    "write all values of a column in one type"
                )
        return series

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the content by itself."""
        if self.rows is not None and self.sql is not None:
            yield "sql", "both rows and sql are given; keep one"
        elif self.rows is None and self.sql is None:
            yield "rows", "neither rows nor sql is given; write rows=[{...}] or sql='VALUES ...'"
        elif self.sql is not None and not self.sql.strip():
            yield "sql", "the statement is empty; write a SELECT or VALUES, or use rows=[...]"


def _cell(value: Any) -> Any:
    """Return a value as polars takes it."""
    if isinstance(value, UUID):
        return str(value)
    return thaw(value)


def _same(given: Any, back: Any) -> bool:
    """Whether a value came back unchanged; a key that a mapping lacks is the same as one without value."""
    if isinstance(given, dict) and isinstance(back, dict):
        return all(_same(given.get(key), item) for key, item in back.items()) and given.keys() <= back.keys()
    if isinstance(given, list) and isinstance(back, list):
        return len(given) == len(back) and all(map(_same, given, back))
    if isinstance(given, float) and given != given:
        return isinstance(back, float) and back != back
    return bool(given == back) and isinstance(given, bool) == isinstance(back, bool)


def plain(value: Any) -> Any:
    """Return a value as JSON that tells types apart, so that 1, 1.0, '1' and True differ."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        # Python writes no more than some thousand decimal digits.
        return {"int": str(value) if value.bit_length() < _MANY_BITS else hex(value)}
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            return {"instant": value.astimezone(UTC).isoformat()}
        return {"datetime": value.isoformat()}
    if isinstance(value, date | time):
        return {type(value).__name__: value.isoformat()}
    if isinstance(value, timedelta):
        return {"duration": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, UUID):
        return {"uuid": str(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Mapping):
        return {"map": [[str(key), plain(item)] for key, item in value.items()]}
    if isinstance(value, tuple | list):
        return {"list": [plain(item) for item in value]}
    if isinstance(value, set | frozenset):
        return {"set": sorted((plain(item) for item in value), key=repr)}
    return {type(value).__name__: str(value)}
