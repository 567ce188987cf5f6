"""The target's physical types as ``pg_attribute`` and ``pg_type`` describe them, domains and arrays resolved."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Type names (``pg_type.typname``) whose binary form is the text itself.
TEXTUAL = frozenset({"text", "varchar", "bpchar", "citext", "name", "char", "xml"})
INTEGERS = {"int2": 16, "int4": 32, "int8": 64}
FLOATS = frozenset({"float4", "float8"})
JSON = frozenset({"json", "jsonb"})
#: Types whose equality is equality of the stored bytes: a key of these needs no rewriting when rows match.
BYTEWISE = frozenset(
    {"int2", "int4", "int8", "bool", "date", "time", "timestamp", "timestamptz", "uuid", "bytea", "oid"}
    | {"text", "varchar", "name", "char"}
)


@dataclass(frozen=True, slots=True)
class PhysicalType:
    """One physical type.

    Attributes:
        oid: the base type's OID (a domain's base, all the way down).
        name: ``pg_type.typname`` of the base type (``int4``, ``numeric``), with its schema unless it is PostgreSQL's
            own or ``citext``, so that somebody's type called ``text`` is not taken for the real one.
        kind: ``b`` base, ``e`` enum, ``c`` composite, ``r`` range, ``m`` multirange, ``p`` pseudo.
        modifier: the type modifier, -1 when there is none.
        element: the element's type when this is an array.
        domain: the domain's name when the column is of a domain.
        labels: an enum's labels in order.
        display: the name as ``format_type`` prints it, for messages.
    """

    oid: int
    name: str
    kind: str = "b"
    modifier: int = -1
    element: PhysicalType | None = None
    domain: str | None = None
    labels: tuple[str, ...] = field(default=(), repr=False)
    display: str = ""

    @property
    def is_array(self) -> bool:
        return self.element is not None

    @property
    def is_enum(self) -> bool:
        return self.kind == "e"

    @property
    def is_textual(self) -> bool:
        return self.name in TEXTUAL

    @property
    def length(self) -> int | None:
        """Characters that ``varchar(n)``/``char(n)``, or bits that ``bit(n)``/``varbit(n)``, hold; None: unlimited."""
        if self.modifier < 0:
            return None
        if self.name in ("varchar", "bpchar"):
            return self.modifier - 4
        return self.modifier if self.name in ("bit", "varbit") else None

    @property
    def precision(self) -> int | None:
        """Digits of ``numeric(p, s)``; None: unlimited."""
        if self.name != "numeric" or self.modifier < 0:
            return None
        return ((self.modifier - 4) >> 16) & 0xFFFF

    @property
    def scale(self) -> int | None:
        """Decimal places of ``numeric(p, s)``, negative ones since PostgreSQL 15; None: unlimited."""
        if self.name != "numeric" or self.modifier < 0:
            return None
        # Eleven bits, signed. Earlier servers used sixteen unsigned ones but allow at most 1000: the same number.
        return (((self.modifier - 4) & 0x7FF) ^ 0x400) - 0x400

    @property
    def fraction(self) -> int:
        """Digits of a second that ``time``, ``timestamp`` or ``interval`` keeps: 6 without a modifier."""
        if self.modifier < 0 or self.name not in ("time", "timetz", "timestamp", "timestamptz", "interval"):
            return 6
        digits = self.modifier & 0xFFFF if self.name == "interval" else self.modifier
        return 6 if digits == 0xFFFF else digits

    @property
    def is_cut(self) -> bool:
        """Whether this is an ``interval`` of some fields only, such as ``interval year to month``."""
        return self.name == "interval" and self.modifier >= 0 and (self.modifier >> 16) & 0x7FFF != 0x7FFF

    @property
    def is_bytewise(self) -> bool:
        """Whether two equal values are always the same bytes (``1.0`` and ``1.00`` of ``numeric`` are not)."""
        return self.element is None and (self.is_enum or self.name in BYTEWISE)

    def __str__(self) -> str:
        return self.display or (f"{self.element}[]" if self.element else self.name)


def resolve(oid: int, modifier: int, known: dict[int, dict[str, object]], display: str = "") -> PhysicalType:
    """Build the type of a column out of rows of ``pg_type``.

    Args:
        oid: ``atttypid``.
        modifier: ``atttypmod``.
        known: the rows by OID: name, kind, base, base_modifier, element, labels. Holds every type that is reachable.
        display: what ``format_type`` says.
    """
    domain: str | None = None
    row = known[oid]
    while row["kind"] == "d":
        domain = domain or str(row["name"])
        # A domain's own modifier lies in pg_type; the column's is always -1.
        oid, modifier = _integer(row["base"]), _integer(row["base_modifier"])
        row = known[oid]
    element = None
    if item := _integer(row["element"]):
        # The modifier of an array column is its elements'.
        element = resolve(item, modifier, known)
    labels = row["labels"]
    return PhysicalType(
        oid=oid,
        name=str(row["name"]),
        kind=str(row["kind"]),
        modifier=modifier,
        element=element,
        domain=domain,
        labels=tuple(map(str, labels)) if isinstance(labels, list) else (),
        display=display,
    )


def _integer(value: object) -> int:
    assert isinstance(value, int)
    return value
