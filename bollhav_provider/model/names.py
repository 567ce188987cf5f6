"""Names: what PostgreSQL can hold, how names are quoted, and the names that are derived from others.

PostgreSQL cuts a name at 63 bytes without saying so; two long names can then be one table. Every name, given
or derived, is therefore measured in bytes before it is used (Semantics: definitions).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MAX_NAME_BYTES = 63
#: The schema of the library; those of environments begin with it.
LIBRARY_SCHEMA = "z_bollhav"

_CONTEXT_LENGTH = 16
_SLUG_LENGTH = 44
_STAGING_SLUG_LENGTH = 40
_VOWELS = str.maketrans("", "", "aeiou")


def quote(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def name_problem(name: str, what: str = "name") -> str | None:
    """Say what is wrong with a name, or None.

    Args:
        name: the name as PostgreSQL would get it.
        what: what the name is for, as it is to be called in the message.
    """
    if not name or not name.strip():
        return f"the {what} is empty; give it a name"
    if "\x00" in name:
        return f"the {what} {name!r} holds a NUL byte, which no PostgreSQL name can; remove it"
    if "." in name:
        return (
            f"the {what} {name!r} holds a dot, which separates catalog, schema and name; write the "
            "parts as fields of their own"
        )
    return length_problem(name, what)


def length_problem(name: str, what: str) -> str | None:
    """Say that a name is too long for PostgreSQL, or None."""
    size = len(name.encode("utf-8", "surrogatepass"))
    if size <= MAX_NAME_BYTES:
        return None
    return (
        f"the {what} {name!r} is {size} bytes long and PostgreSQL cuts names at {MAX_NAME_BYTES} "
        "bytes without saying so; "
        f"shorten it by {size - MAX_NAME_BYTES} {'byte' if size - MAX_NAME_BYTES == 1 else 'bytes'}"
    )


#: What a table cannot call its columns, because every table has these already.
SYSTEM_COLUMNS = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})


def schema_problem(schema: str) -> str | None:
    """Say why no model can be in a schema, or None."""
    if schema == LIBRARY_SCHEMA or schema.startswith(f"{LIBRARY_SCHEMA}_"):
        return (
            f"the schema {schema!r} holds the library and the state of models, in production or in an environment; "
            "write another schema"
        )
    if schema.startswith("pg_") or schema == "information_schema":
        return f"PostgreSQL keeps the schema {schema!r} to itself; write another schema"
    return None


class TableId(NamedTuple):
    """The identity of a relation: a tuple of names, never a joined string.

    Attributes:
        catalog: the database, or None for the one that is connected to.
        schema: the schema.
        name: the table or view.
    """

    catalog: str | None
    schema: str
    name: str

    @property
    def full_name(self) -> str:
        """``[catalog.]schema.name``, for people and as the library's key."""
        catalog, schema, name = self
        if schema and name:  # put together often enough for the shortest way to matter
            return f"{catalog}.{schema}.{name}" if catalog else f"{schema}.{name}"
        return ".".join(part for part in self if part)

    @property
    def quoted(self) -> str:
        """The relation as quoted SQL, without the catalog: PostgreSQL has one a connection."""
        return f"{quote(self.schema)}.{quote(self.name)}"

    @classmethod
    def parse(cls, text: str) -> TableId:
        """Read ``schema.name`` or ``catalog.schema.name``.

        Raises:
            ValueError: it has another number of parts, or an empty one.
        """
        parts = text.split(".")
        if len(parts) not in (2, 3) or not all(part.strip() for part in parts):
            raise ValueError(f"{text!r} is not the name of a table; write 'schema.name' or 'catalog.schema.name'")
        catalog = parts[0] if len(parts) == 3 else None
        return cls(catalog, parts[-2], parts[-1])

    def __str__(self) -> str:
        return self.full_name


def _digest(full_name: str) -> str:
    from hashlib import blake2b

    return blake2b(full_name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _slug(full_name: str, length: int) -> str:
    *others, table = full_name.lower().replace("-", "_").split(".")
    context = "_".join(part.translate(_VOWELS) for part in others)[:_CONTEXT_LENGTH]
    if not context:
        return table[:length]
    return f"{context}_{table[: length - len(context) - 1]}"


def state_table_name(full_name: str) -> str:
    """Return the name of a model's state table: a pure function of its unsuffixed full name.

    The same name is computed by every other program that shares the library.
    """
    return f"{_slug(full_name, _SLUG_LENGTH)}_{_digest(full_name)}"


def staging_table_name(full_name: str) -> str:
    """Return the name of a model's staging table, which lies beside its state table."""
    return f"{_slug(full_name, _STAGING_SLUG_LENGTH)}_{_digest(full_name)}_stg"


def constraint_name(table: str, columns: Iterable[str], kind: str) -> str:
    """Return the name of a constraint or index as PostgreSQL itself would form it, only never cut.

    Args:
        table: the table's name.
        columns: the columns in order; none for a primary key.
        kind: ``pkey``, ``key`` or ``idx``.
    """
    return "_".join((table, *columns, kind))
