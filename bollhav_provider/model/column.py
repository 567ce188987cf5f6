"""Columns and indexes of a target."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from bollhav_provider.model.base import Definition, Finding, Words
from bollhav_provider.model.enums import Allow
from bollhav_provider.model.grids import grid_problem
from bollhav_provider.model.names import SYSTEM_COLUMNS, name_problem

if TYPE_CHECKING:
    from bollhav_provider.model.pgtypes import PgType


MAX_INDEX_COLUMNS = 32


def _words(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class Column(Definition):
    """One column of a target: ``Column("day", "date", primary_key=True)``."""

    _positional: ClassVar[tuple[str, ...]] = ("name", "type")

    name: str = Field(description="The column's name, in the case that it shall have in PostgreSQL.")
    type: str = Field(
        description="A PostgreSQL type, for instance `numeric(6,1)`, `timestamptz`, `text[]` or `shop.mood`."
    )
    nullable: bool = Field(
        default=True,
        description="Whether the column may hold NULL. Not given: true, but false for a primary key or an identity.",
    )
    primary_key: bool = Field(default=False, description="Whether the column is part of the primary key.")
    unique: bool = Field(default=False, description="Whether no two rows may have the same value in this column.")
    nulls_not_distinct: bool = Field(
        default=False,
        description=(
            "Lets a nullable column be part of a key, where two NULLs then are the same: UNIQUE NULLS "
            "NOT DISTINCT, PostgreSQL 15 and later."
        ),
    )
    partition_on: bool = Field(
        default=False,
        description="Whether the column says which window a row belongs to: a date, a timestamp or a timestamptz.",
    )
    order_by: bool = Field(
        default=False,
        description="Whether, among rows with the same key, the one with the greatest value in this column wins.",
    )
    description: str | None = Field(default=None, description="Becomes the column's comment.")
    default: str | None = Field(default=None, description="An SQL expression, for instance `now()` or `'open'`.")
    identity: Literal[False, "always", "by default"] = Field(
        default=False, description="Numbers rows: true or `always`, or `by default` to accept given numbers."
    )
    generated: str | None = Field(
        default=None, description="An SQL expression over other columns, stored with the row."
    )
    allow: Annotated[tuple[Allow, ...], BeforeValidator(_words)] = Field(
        default=(),
        description=(
            "Changes that may be made to values that the column cannot hold exactly; by default they are refused."
        ),
    )
    naive_tz: str | None = Field(
        default=None,
        description=(
            "The zone of datetimes that carry none, and of a column of type timestamp; by default they "
            "are refused or UTC."
        ),
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            type: str,
            *,
            nullable: bool = True,
            primary_key: bool = False,
            unique: bool = False,
            nulls_not_distinct: bool = False,
            partition_on: bool = False,
            order_by: bool = False,
            description: str | None = None,
            default: str | None = None,
            identity: bool | Literal["always", "by default"] = False,
            generated: str | None = None,
            allow: Allow | str | Sequence[Allow | str] = (),
            naive_tz: str | None = None,
        ) -> None: ...

    @classmethod
    def _prepare(cls, data: dict[str, Any]) -> dict[str, Any]:
        if data.get("identity") is True:
            data = {**data, "identity": "always"}
        if "nullable" not in data and (data.get("primary_key") is True or data.get("identity")):
            data = {**data, "nullable": False}
        return data

    @property
    def pg_type(self) -> "PgType":
        """The type, read and normalised, with length, precision and scale."""
        from bollhav_provider.model.pgtypes import parse_type

        return parse_type(self.type)

    @property
    def is_written(self) -> bool:
        """Whether rows bring a value for the column; generated ones and those of an identity are made by
        PostgreSQL."""
        return self.generated is None and self.identity != "always"

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the column by itself."""
        from bollhav_provider.model.pgtypes import type_problem

        if problem := name_problem(self.name, "column name"):
            yield "name", problem
        if self.name in SYSTEM_COLUMNS:
            yield "name", f"every table of PostgreSQL has a column {self.name!r} of its own; choose another name"
        if problem := type_problem(self.type):
            yield "type", problem
            return
        kind = self.pg_type
        if self.partition_on and not is_partition_type(kind):
            yield (
                "partition_on",
                f"a column of type {self.type} cannot say which window a row belongs to; "
                "choose one of type date, timestamp or timestamptz",
            )
        if self.identity and (kind.is_array or kind.name not in ("smallint", "integer", "bigint")):
            yield (
                "identity",
                f"PostgreSQL numbers smallint, integer and bigint only, not {self.type}; write type 'bigint'",
            )
        made_by = [what for what in ("default", "identity", "generated") if getattr(self, what)]
        if len(made_by) > 1:
            yield made_by[1], f"{' and '.join(made_by)} exclude each other; keep one"
        for field in ("default", "generated"):
            if getattr(self, field) is not None and not getattr(self, field).strip():
                yield field, "the SQL expression is empty; leave the argument out"
        if self.naive_tz is not None:
            yield from self._naive_tz_problems(kind)
        if self.primary_key and self.unique:
            yield (
                "unique",
                "a primary key column needs no unique=True; for a key of several columns use an Index with unique=True",
            )

    def _naive_tz_problems(self, kind: "PgType") -> Iterator[Finding]:
        if not kind.name.startswith("timestamp"):
            yield "naive_tz", f"a column of type {self.type} has no use for a zone; leave the argument out"
        if problem := grid_problem("@daily", str(self.naive_tz)):
            yield "naive_tz", problem[1]


def is_partition_type(kind: "PgType") -> bool:
    """Whether a column of this type can be compared with a window."""
    return not kind.is_array and kind.name in ("date", "timestamp with time zone", "timestamp without time zone")


class Index(Definition):
    """An index of a target: ``Index(["origin", "time_hour"])``."""

    _positional: ClassVar[tuple[str, ...]] = ("columns",)

    columns: Words = Field(min_length=1, description="The columns, in order.")
    unique: bool = Field(default=False, description="Whether no two rows may agree in all the columns.")
    name: str | None = Field(
        default=None, description="The index's name; not given: made of the table and the columns."
    )
    method: str = Field(default="btree", description="The access method: btree, hash, gin, gist, brin or spgist.")
    where: str | None = Field(
        default=None, description="An SQL condition; the index then holds only the rows that meet it."
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            columns: str | list[str] | tuple[str, ...],
            *,
            unique: bool = False,
            name: str | None = None,
            method: str = "btree",
            where: str | None = None,
        ) -> None: ...

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the index by itself."""
        if self.name is not None and (problem := name_problem(self.name, "index name")):
            yield "name", problem
        if not self.method.isidentifier():
            yield "method", f"{self.method!r} is no access method; write btree, hash, gin, gist, brin or spgist"
        if len(set(self.columns)) < len(self.columns):
            yield "columns", "a column is named twice; name each once"
        if len(self.columns) > MAX_INDEX_COLUMNS:
            yield "columns", f"an index of PostgreSQL has at most {MAX_INDEX_COLUMNS} columns"


Indexes = tuple[Index, ...]
