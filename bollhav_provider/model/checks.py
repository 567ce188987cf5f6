"""Checks on the rows that a unit wrote, run in the unit's transaction before it counts as applied."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from bollhav_provider.model.base import Definition, Finding, Words, shown
from bollhav_provider.model.enums import Severity
from bollhav_provider.model.instants import Duration
from bollhav_provider.model.names import TableId

if TYPE_CHECKING:
    from collections.abc import Sequence


Columns = Annotated[Words, Field(min_length=1)]


def _one_message(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Report a value of no kind once, instead of once for each kind that it is not."""
    try:
        return handler(value)
    except ValidationError:
        raise ValueError(f"must be a number, a text, a date or an instant, not {shown(value)}") from None


def _no_nan(value: Any) -> Any:
    if value != value:
        raise ValueError("NaN is greater than every number to PostgreSQL and bounds nothing; write a number")
    return value


Scalar = Annotated[bool | int | float | Decimal | date | datetime | str, WrapValidator(_one_message)]
Bound = Annotated[int | float | Decimal | date | datetime | str, WrapValidator(_one_message), AfterValidator(_no_nan)]


class Check(Definition):
    """What all checks have; use one of the kinds below it."""

    name: str | None = Field(
        default=None, description="What the check is called in messages; not given: made of what it checks."
    )
    severity: Severity = Field(
        default=Severity.ERROR, description="`error`: publish nothing; `warn`: publish and record."
    )
    description: str | None = Field(default=None, description="Why the check is there.")

    @property
    def column_names(self) -> tuple[str, ...]:
        """The target's columns that the check looks at."""
        columns = getattr(self, "columns", None)
        column = getattr(self, "column", None)
        return columns if columns is not None else (column,) if column is not None else ()

    @property
    def label(self) -> str:
        """The name, or one made of what is checked, for instance ``not_null(day, carrier)``."""
        kind = str(getattr(self, "kind", "check"))
        return self.name or (f"{kind}({', '.join(self.column_names)})" if self.column_names else kind)


class NotNull(Check):
    """None of the columns is NULL."""

    _positional: ClassVar[tuple[str, ...]] = ("columns",)
    kind: Literal["not_null"] = "not_null"
    columns: Columns = Field(description="The columns.")

    if TYPE_CHECKING:

        def __init__(
            self,
            columns: "str | Sequence[str]",
            *,
            severity: Severity | str = ...,
            name: str | None = None,
            description: str | None = None,
        ) -> None: ...


class Unique(Check):
    """No two rows of the target agree in all the columns; new rows are compared with old ones too."""

    _positional: ClassVar[tuple[str, ...]] = ("columns",)
    kind: Literal["unique"] = "unique"
    columns: Columns = Field(description="The columns.")

    if TYPE_CHECKING:

        def __init__(
            self,
            columns: "str | Sequence[str]",
            *,
            severity: Severity | str = ...,
            name: str | None = None,
            description: str | None = None,
        ) -> None: ...


class AcceptedValues(Check):
    """The column holds one of the values; NULL passes."""

    _positional: ClassVar[tuple[str, ...]] = ("column", "values")
    kind: Literal["accepted_values"] = "accepted_values"
    column: str = Field(description="The column.")
    values: tuple[Scalar, ...] = Field(min_length=1, description="The values.")

    if TYPE_CHECKING:

        def __init__(
            self,
            column: str,
            values: "Sequence[Any]",
            *,
            severity: Severity | str = ...,
            name: str | None = None,
            description: str | None = None,
        ) -> None: ...


class InRange(Check):
    """The column lies between two bounds, both included; NULL passes."""

    _positional: ClassVar[tuple[str, ...]] = ("column",)
    kind: Literal["in_range"] = "in_range"
    column: str = Field(description="The column.")
    min: Bound | None = Field(default=None, description="The least value.")
    max: Bound | None = Field(default=None, description="The greatest value.")

    if TYPE_CHECKING:

        def __init__(
            self,
            column: str,
            *,
            min: Any = None,
            max: Any = None,
            severity: Severity | str = ...,
            name: str | None = None,
            description: str | None = None,
        ) -> None: ...

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the bounds."""
        if self.min is None and self.max is None:
            yield "min", "neither min nor max is given, so every value passes; give one"
        elif self.min is not None and self.max is not None and _is_greater(self.min, self.max):
            yield "max", f"min {self.min!r} is greater than max {self.max!r}, so no value passes; exchange them"


def _is_greater(one: Any, other: Any) -> bool:
    try:
        return bool(one > other)
    except (TypeError, ArithmeticError):
        return False  # of two types, which PostgreSQL may yet compare


class Relationship(Check):
    """Every value of the column is found in another relation; NULL passes."""

    _positional: ClassVar[tuple[str, ...]] = ("column", "to")
    kind: Literal["relationship"] = "relationship"
    column: str = Field(description="The column.")
    to: str = Field(
        description="The other relation: `schema.name`, or a declared source, whose suffix it then follows."
    )
    to_column: str | None = Field(default=None, description="The other relation's column; not given: of the same name.")

    if TYPE_CHECKING:

        def __init__(
            self,
            column: str,
            to: str,
            *,
            to_column: str | None = None,
            severity: Severity | str = ...,
            name: str | None = None,
            description: str | None = None,
        ) -> None: ...

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the other relation's name."""
        if "." in self.to:
            try:
                TableId.parse(self.to)
            except ValueError as error:
                yield "to", str(error)


class RowCount(Check):
    """The unit wrote a number of rows within bounds."""

    kind: Literal["row_count"] = "row_count"
    min: int | None = Field(default=None, ge=0, le=2**63 - 1, description="The least number of rows.")
    max: int | None = Field(default=None, ge=0, le=2**63 - 1, description="The greatest number of rows.")

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the bounds."""
        if self.min is None and self.max is None:
            yield "min", "neither min nor max is given, so every number passes; give one"
        elif self.min is not None and self.max is not None and self.min > self.max:
            yield "max", f"min {self.min} is greater than max {self.max}, so no number passes; exchange them"


class ColumnFreshness(Check):
    """The newest value of a date or time column among the new rows is recent, by the database's clock."""

    _positional: ClassVar[tuple[str, ...]] = ("column", "within")
    kind: Literal["column_freshness"] = "column_freshness"
    column: str = Field(description="The column.")
    within: Duration = Field(description="The greatest age of its newest value.")

    if TYPE_CHECKING:

        def __init__(
            self,
            column: str,
            within: timedelta | str,
            *,
            severity: Severity | str = ...,
            name: str | None = None,
            description: str | None = None,
        ) -> None: ...

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the limit."""
        if self.within <= timedelta(0):
            yield (
                "within",
                f"{self.within} is no age that anything can have; write a positive duration such as timedelta(days=1)",
            )


class Expression(Check):
    """An SQL condition over the target's columns holds for every new row; NULL passes, as in SQL's CHECK."""

    _positional: ClassVar[tuple[str, ...]] = ("sql",)
    kind: Literal["expression"] = "expression"
    sql: str = Field(description="The condition, for instance `arr_time > dep_time`.")

    if TYPE_CHECKING:

        def __init__(
            self, sql: str, *, severity: Severity | str = ..., name: str | None = None, description: str | None = None
        ) -> None: ...

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the condition."""
        from bollhav_provider.model.sqltext import pieces

        if not self.sql.strip():
            yield "sql", "the condition is empty; write one, for instance 'amount >= 0'"
        elif any(";" in piece.text for piece in pieces(self.sql) if piece.kind == "code"):
            yield "sql", "a condition holds no ';'; write one boolean expression"

    @property
    def label(self) -> str:
        """The name, or the condition itself."""
        return self.name or f"expression({self.sql.strip()})"


AnyCheck = Annotated[
    NotNull | Unique | AcceptedValues | InRange | Relationship | RowCount | ColumnFreshness | Expression,
    Field(discriminator="kind"),
]
Checks = tuple[AnyCheck, ...]
