"""How one polars column becomes one PostgreSQL column: expressions, and the checks that make them exact."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

ROUND = "round"
STRIP_NUL = "strip_nul"
REPLACE_NUL = "replace_nul"
NAN_AS_NULL = "nan_as_null"


@dataclass(frozen=True, slots=True)
class Rule:
    """What a column's declaration allows to be changed on the way (Semantics: writing; nothing is changed silently).

    Attributes:
        allow: of ``round``, ``strip_nul``, ``replace_nul``, ``nan_as_null``.
        naive_tz: the zone of datetimes that carry none, None to refuse them.
    """

    allow: frozenset[str] = frozenset()
    naive_tz: str | None = None

    def allows(self, what: str) -> bool:
        return what in self.allow


@dataclass(frozen=True, slots=True)
class Check:
    """A reason for which values cannot be written as they are.

    Attributes:
        broken: a boolean expression, true (never null) for the values that are meant.
        what: the end of the sentence "column 'x' (integer) ...".
        remedy: what to write or declare instead.
    """

    broken: pl.Expr
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Value:
    """A converted column.

    Attributes:
        text: the value as the server's own parser reads it; null is NULL.
        binary: the value in the Arrow type whose binary form the server's type has; None when there is none.
        jsonb: whether the binary form is text behind jsonb's version byte.
        checks: evaluated on the source column before anything is sent.
    """

    text: pl.Expr
    binary: pl.Expr | None = None
    jsonb: bool = False
    checks: tuple[Check, ...] = field(default=())


class Unconvertible(Exception):
    """A column of this kind never goes into a column of that type.

    Attributes:
        what: the end of the sentence "column 'x' (integer) ...".
        remedy: what to write or declare instead.
    """

    def __init__(self, what: str, remedy: str) -> None:
        self.what = what
        self.remedy = remedy
        super().__init__(f"{what}; {remedy}")


def option(name: str) -> str:
    """Name the declaration that allows a change."""
    return f"Column(..., allow={name!r})"
