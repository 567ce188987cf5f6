"""PostgreSQL's refusals in the provider's words: which model, which column, which row, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from bollhav_provider.exceptions import DataError, SchemaMismatchError
from bollhav_provider.model import Model

_LINE = re.compile(r"COPY .*?, line (\d+)(?:, column (.+?))?(?::|$)", re.MULTILINE)

_REMEDIES: tuple[tuple[type[psycopg.Error], str], ...] = (
    (errors.NotNullViolation, "fill the column in the function, or declare it nullable"),
    (errors.UniqueViolation, "write with UPSERT, make the rows unique, or delete what the table has already"),
    (errors.ForeignKeyViolation, "load the referenced table first (declare it as an upstream), or correct the rows"),
    (errors.CheckViolation, "correct the rows, or the table's or domain's constraint"),
    (errors.ExclusionViolation, "correct the rows, or the table's constraint"),
    (errors.CardinalityViolation, "make the rows unique by key in the function or query"),
    (
        errors.UntranslatableCharacter,
        "remove the character in the function; the database's encoding or jsonb has no place for it",
    ),
    (errors.CharacterNotInRepertoire, "remove NUL and other characters that the database's encoding has no place for"),
    (errors.InvalidTextRepresentation, "correct the value to the type's notation, or declare another type"),
    (errors.NumericValueOutOfRange, "declare a wider type, or correct the rows"),
    (errors.InvalidSchemaName, "check the name; the target's schema is made by ensure_target"),
    (errors.UndefinedTable, "check the name; the target is made by ensure_target, an upstream by its own model"),
    (errors.UndefinedColumn, "check the name, quotes included: PostgreSQL folds unquoted names to lower case"),
    (errors.InsufficientPrivilege, "run the GRANT statements that `bollhav doctor` prints"),
    (errors.FeatureNotSupported, "use another kind of target"),
)
#: What trying again, or nobody but the caller, can mend: left as it is.
_TRANSLATED = (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError, psycopg.NotSupportedError)
_SCHEMA = (
    errors.InvalidSchemaName,
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.UndefinedObject,
    errors.DatatypeMismatch,
)


@contextmanager
def translated(model: Model, doing: str) -> Iterator[None]:
    """Turn the server's refusals into ``DataError``; lost connections, deadlocks and time-outs pass as they are.

    Args:
        model: whose rows they are.
        doing: what was being done, as in "writing".
    """
    try:
        yield
    except _TRANSLATED as error:
        kind = SchemaMismatchError if isinstance(error, _SCHEMA) else DataError
        raise kind(message(model, doing, error)) from error


def message(model: Model, doing: str, error: psycopg.Error) -> str:
    """Say what the server said, with the column, the constraint and the row that it named."""
    diag = error.diag
    text = diag.message_primary or str(error)
    parts = []
    line = _LINE.search(diag.context or "")
    column = diag.column_name or (line[2] if line else None)
    if column:
        parts.append(f"column {column!r}")
    if line:
        parts.append(f"row {int(line[1]) - 1}")
    if diag.constraint_name:
        parts.append(f"constraint {diag.constraint_name!r}")
    where = f" ({', '.join(parts)})" if parts else ""
    detail = f" {diag.message_detail}" if diag.message_detail else ""
    remedy = next(
        (hint for kind, hint in _REMEDIES if isinstance(error, kind)),
        diag.message_hint or "correct the rows or the target",
    )
    return f"{model.full_name}: {doing}: {text}{where}.{detail} Remedy: {remedy.rstrip('.')}."
