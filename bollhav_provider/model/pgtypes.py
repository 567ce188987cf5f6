"""Reading and normalising the names of PostgreSQL types.

``numeric(6,1)``, ``timestamptz``, ``varchar(20)[]`` and ``shop.mood`` become a :class:`PgType`, whose ``sql``
is what the server itself would say (``format_type``), so that a declaration can be compared with a table.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from bollhav_provider.model.base import did_you_mean
from bollhav_provider.model.names import length_problem, quote

_ALIASES = {
    "int": "integer", "int4": "integer", "int8": "bigint", "int2": "smallint",
    "float8": "double precision", "float4": "real",
    "decimal": "numeric", "dec": "numeric", "bool": "boolean",
    "varchar": "character varying", "char varying": "character varying",
    "national character varying": "character varying",
    "char": "character", "nchar": "character", "national character": "character", "bpchar": "character",
    "varbit": "bit varying",
    "timestamptz": "timestamp with time zone", "timestamp": "timestamp without time zone",
    "timetz": "time with time zone", "time": "time without time zone",
}  # fmt: skip

#: Built-in types by how many modifiers they take at most.
_BUILTIN = {
    **dict.fromkeys(
        (
            "smallint", "integer", "bigint", "real", "double precision", "boolean", "text", "bytea", "date", "json",
            "jsonb", "uuid", "inet", "cidr", "macaddr", "macaddr8", "money", "xml", "oid", "name", "point", "line",
            "lseg", "box", "path", "polygon", "circle", "tsvector", "tsquery", "pg_lsn", "jsonpath", "xid", "xid8",
            "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange", "int4multirange",
            "int8multirange", "nummultirange", "tsmultirange", "tstzmultirange", "datemultirange",
            "regclass", "regtype", "regproc", "regrole", "regnamespace", "citext", "hstore", "ltree",
        ),
        0,
    ),
    **dict.fromkeys(
        (
            "character varying", "character", "bit", "bit varying", "timestamp with time zone", "interval",
            "timestamp without time zone", "time with time zone", "time without time zone",
        ),
        1,
    ),
    "numeric": 2,
}  # fmt: skip

_SERIAL = {
    "serial": "integer", "serial4": "integer", "bigserial": "bigint", "serial8": "bigint",
    "smallserial": "smallint", "serial2": "smallint",
}  # fmt: skip

#: Names from elsewhere that PostgreSQL does not know.
_FOREIGN = {
    "string": "text", "str": "text", "utf8": "text", "clob": "text", "longtext": "text", "nvarchar": "varchar",
    "datetime": "timestamptz", "double": "double precision", "number": "numeric", "blob": "bytea", "binary": "bytea",
    "varbinary": "bytea", "bytes": "bytea", "tinyint": "smallint", "mediumint": "integer", "int16": "smallint",
    "int32": "integer", "int64": "bigint", "uint64": "numeric(20,0)", "float32": "real", "float64": "double precision",
    "uniqueidentifier": "uuid", "dict": "jsonb", "struct": "jsonb", "list": "text[]",
}  # fmt: skip

#: Types of extensions whose names come close to those of others.
_EXTENSIONS = frozenset(
    ("vector", "halfvec", "sparsevec", "geometry", "geography", "cube", "seg", "isbn", "lquery", "raster")
)

_PSEUDO = frozenset(("any", "anyelement", "anyarray", "record", "void", "trigger", "unknown", "cstring", "internal"))
_TIMED = frozenset(name for name in _BUILTIN if name.startswith("time"))
_INTERVAL_FIELDS = frozenset(
    ("year", "month", "day", "hour", "minute", "second", "year to month", "day to hour", "day to minute",
     "day to second", "hour to minute", "hour to second", "minute to second")
)  # fmt: skip

_ARRAY = re.compile(r"\s*(\[\s*\d*\s*\]|\barray(\s*\[\s*\d+\s*\])?)\s*$", re.IGNORECASE)
_MODIFIERS = re.compile(r"\(([^()]*)\)")
_PART = r'(?:"(?:[^"]|"")+"|[^\W\d][\w$]*)'
_QUALIFIED = re.compile(rf"^(?:({_PART})\.)?({_PART})$")


class TypeNameError(ValueError):
    """A type's name that cannot be read, with what to write instead."""


class PgType(NamedTuple):
    """A PostgreSQL type with its modifiers.

    Attributes:
        name: the canonical name without modifiers, for instance ``timestamp with time zone``.
        schema: the schema of a type of the user's own, if one was given.
        length: of ``character varying``, ``character``, ``bit`` and ``bit varying``.
        precision: digits of a ``numeric``, or fractional digits of seconds.
        scale: of a ``numeric``.
        dimensions: how many pairs of brackets; 0 for no array.
        modifiers: those of a type of the user's own, as written; or the fields of an ``interval``.
        builtin: whether PostgreSQL brings the type along (or a well-known extension does).
    """

    name: str
    schema: str | None = None
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    dimensions: int = 0
    modifiers: tuple[str, ...] = ()
    builtin: bool = True

    @property
    def is_array(self) -> bool:
        """Whether it is an array."""
        return self.dimensions > 0

    @property
    def element(self) -> PgType:
        """The type of an array's elements; the type itself when it is no array."""
        return PgType(self.name, self.schema, self.length, self.precision, self.scale, 0, self.modifiers, self.builtin)

    @property
    def sql(self) -> str:
        """The type in SQL, as ``format_type`` shows it: an array has one pair of brackets, whatever its depth."""
        return self._scalar() + ("[]" if self.dimensions else "")

    def _scalar(self) -> str:
        if not self.builtin:
            name = f"{quote(self.schema)}.{_ident(self.name)}" if self.schema else _ident(self.name)
            return f"{name}({','.join(self.modifiers)})" if self.modifiers else name
        if self.name in _TIMED and self.precision is not None:
            head, _, tail = self.name.partition(" ")
            return f"{head}({self.precision}) {tail}"
        if self.name == "interval":
            fields = f" {self.modifiers[0]}" if self.modifiers else ""
            return f"interval{fields}" + (f"({self.precision})" if self.precision is not None else "")
        if self.length is not None:
            return f"{self.name}({self.length})"
        if self.name == "numeric" and self.precision is not None:
            return f"numeric({self.precision},{self.scale or 0})"
        return self.name


def _ident(name: str) -> str:
    return name if re.fullmatch(r"[a-z_][a-z0-9_$]*", name) else quote(name)


@lru_cache(maxsize=4096)
def parse_type(text: str) -> PgType:
    """Read the name of a PostgreSQL type.

    Args:
        text: for instance ``numeric(6,1)``, ``timestamptz``, ``varchar(20)``, ``text[]``, ``shop.mood`` or
            ``"My Type"``.

    Raises:
        TypeNameError: it cannot be read, or there is a better way to write it.
    """
    rest, dimensions = text.strip(), 0
    while match := _ARRAY.search(rest):
        rest, dimensions = rest[: match.start()], dimensions + 1
    if not rest:
        raise TypeNameError("the type is empty; write a PostgreSQL type such as 'text', 'integer' or 'numeric(6,1)'")
    modifiers: tuple[str, ...] = ()
    if not rest.startswith('"') and (found := _MODIFIERS.search(rest)):
        modifiers = tuple(part.strip() for part in found[1].split(","))
        rest = f"{rest[: found.start()]} {rest[found.end() :]}"
    name = " ".join(rest.split())
    lower = name.lower()
    if lower in _SERIAL:
        raise TypeNameError(
            f"{text!r} is no type but a way to make a default; write {_SERIAL[lower]!r} with identity=True"
        )
    if lower in _FOREIGN:
        raise TypeNameError(f"PostgreSQL has no type {text!r}; write {_FOREIGN[lower]!r}")
    if lower in _PSEUDO:
        raise TypeNameError(f"{text!r} is a pseudo-type that no column can have; write the type of its values")
    if lower == "float":
        return _float(text, modifiers, dimensions)
    if lower.startswith("interval "):
        fields = lower.removeprefix("interval ")
        if fields not in _INTERVAL_FIELDS:
            raise TypeNameError(
                f"{text!r} names no fields of an interval; write 'interval' or, say, 'interval day to second'"
            )
        return PgType("interval", precision=_seconds(text, modifiers), dimensions=dimensions, modifiers=(fields,))
    canonical = _ALIASES.get(lower, lower)
    if canonical in _BUILTIN:
        return _builtin(text, canonical, lower, modifiers, dimensions)
    return _own(text, name, modifiers, dimensions)


def type_problem(text: str) -> str | None:
    """Say what is wrong with a type's name, or None."""
    try:
        parse_type(text)
    except TypeNameError as error:
        return str(error)
    return None


def _builtin(text: str, name: str, written: str, modifiers: tuple[str, ...], dimensions: int) -> PgType:
    most = _BUILTIN[name]
    if len(modifiers) > most:
        instead = {"text": "varchar({})", "integer": "numeric({},0)", "bigint": "numeric({},0)"}.get(name)
        remedy = f"write {instead.format(modifiers[0])!r} or {name!r}" if instead else f"write {name!r}"
        raise TypeNameError(f"{name} takes {'no modifier' if not most else f'at most {most}'}, not {text!r}; {remedy}")
    if name == "numeric":
        return _numeric(text, modifiers, dimensions)
    if name in _TIMED or name == "interval":
        return PgType(name, precision=_seconds(text, modifiers), dimensions=dimensions)
    if most == 1:
        # SQL's rule: without a length, character and bit hold one; bpchar and the varying ones hold any
        # number.
        default = 1 if name in ("character", "bit") and written != "bpchar" else None
        length = _number(text, modifiers[0], 1, 10_485_760, "length") if modifiers else default
        if name == "character" and length is None:
            return PgType("bpchar", dimensions=dimensions)
        return PgType(name, length=length, dimensions=dimensions)
    return PgType(name, dimensions=dimensions)


def _numeric(text: str, modifiers: tuple[str, ...], dimensions: int) -> PgType:
    if not modifiers:
        return PgType("numeric", dimensions=dimensions)
    precision = _number(text, modifiers[0], 1, 1000, "precision")
    scale = _number(text, modifiers[1], -1000, 1000, "scale") if len(modifiers) > 1 else 0
    if scale > precision:
        raise TypeNameError(
            f"{text!r} has more digits after the point than digits; write 'numeric({scale},{scale})' or a lower scale"
        )
    return PgType("numeric", precision=precision, scale=scale, dimensions=dimensions)


def _float(text: str, modifiers: tuple[str, ...], dimensions: int) -> PgType:
    bits = _number(text, modifiers[0], 1, 53, "number of bits") if modifiers else 53
    return PgType("real" if bits <= 24 else "double precision", dimensions=dimensions)


def _seconds(text: str, modifiers: tuple[str, ...]) -> int | None:
    return _number(text, modifiers[0], 0, 6, "number of fractional digits") if modifiers else None


def _number(text: str, value: str, least: int, most: int, what: str) -> int:
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise TypeNameError(f"the {what} in {text!r} is not a whole number from {least} to {most}; write one")
    return number


def _own(text: str, name: str, modifiers: tuple[str, ...], dimensions: int) -> PgType:
    match = _QUALIFIED.match(name)
    if not match:
        raise TypeNameError(
            f"{text!r} cannot be read as a type; write one name, with its schema if it is your own: 'shop.mood'"
        )
    schema, own = match[1], match[2]
    if schema is None and not own.startswith('"'):
        known = len(own) <= 3 or own.lower() in _EXTENSIONS
        near = "" if known else did_you_mean(own.lower(), [*_BUILTIN, *_ALIASES])
        if near:
            raise TypeNameError(
                f"PostgreSQL has no type {text!r}; a type of your own is written with its schema, "
                f"as in 'public.{own}'{near}"
            )
    for part in filter(None, (schema, own)):
        if problem := length_problem(_unquote(part), "type name"):
            raise TypeNameError(problem)
    return PgType(
        _unquote(own), _unquote(schema) if schema else None, dimensions=dimensions, modifiers=modifiers, builtin=False
    )


def _unquote(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part.lower()
