"""Inputs that are written in the code: a few rows, or an SQL literal."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from pydantic import Field

from bollhav_provider.model.base import Bag, Definition, Finding, FrozenDict, thaw

if TYPE_CHECKING:
    import polars as pl


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
        """
        import polars as pl

        if self.rows is not None:
            columns = self.columns
            data = {name: [thaw(row.get(name)) for row in self.rows] for name in columns}
            return pl.DataFrame(data, strict=True, infer_schema_length=None)
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

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the content by itself."""
        if self.rows is not None and self.sql is not None:
            yield "sql", "both rows and sql are given; keep one"
        elif self.rows is None and self.sql is None:
            yield "rows", "neither rows nor sql is given; write rows=[{...}] or sql='VALUES ...'"
        elif self.sql is not None and not self.sql.strip():
            yield "sql", "the statement is empty; write a SELECT or VALUES, or use rows=[...]"


def plain(value: Any) -> Any:
    """Return a value as JSON that tells types apart, so that 1, 1.0, '1' and True differ."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return {"int": str(value)}
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
