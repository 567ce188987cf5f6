"""The closed vocabularies of the definition language."""

from __future__ import annotations

from enum import StrEnum


class Word(StrEnum):
    """A word that may be written in any case; it is kept in lower case."""

    @classmethod
    def _missing_(cls, value: object) -> Word | None:
        if isinstance(value, str):
            return next((member for member in cls if member.value == value.strip().lower()), None)
        return None


class Temporality(Word):
    """Whether a model's rows belong to windows of time."""

    TEMPORAL = "temporal"
    TIMELESS = "timeless"


class Materialization(Word):
    """What a model is in PostgreSQL."""

    TABLE = "table"
    VIEW = "view"


class WriteMode(Word):
    """What happens to the rows that are already in the target when a unit is written."""

    APPEND = "append"
    """Add the rows and leave all others alone."""
    UPSERT = "upsert"
    """Insert new keys, update the rows of known ones."""
    RECREATE_PARTITION = "recreate_partition"
    """Delete the unit's window, then insert; the window is cleared even when there are no rows to insert."""
    TRUNCATE = "truncate"
    """Empty the table, then insert."""
    RECREATE = "recreate"
    """Drop and create the table, then insert."""


class UpstreamContract(Word):
    """How much of an upstream must be applied before a unit may run."""

    EXISTS = "exists"
    """The upstream is registered; nothing is said about its data."""
    EXACT = "exact"
    """One applied row of the upstream is exactly my window."""
    ENCAPSULATE = "encapsulate"
    """The applied rows of the upstream cover my window, in any grain."""
    THROUGH = "through"
    """Everything from the upstream's begin up to the end of my window is applied."""
    WHOLE = "whole"
    """The whole upstream is applied."""


class FreshnessScope(Word):
    """Which of the applied rows that a contract selects must be recent."""

    LATEST = "latest"
    """The newest ``applied_at``."""
    ALL = "all"
    """The oldest ``applied_at``, so every one of them."""
    HEAD = "head"
    """The ``applied_at`` of the row with the greatest ``until``; reloading an old window does not count."""


class OnSchemaChange(Word):
    """What to do when the target table and the declaration differ."""

    FAIL = "fail"
    ADD = "add"
    IGNORE = "ignore"


class Severity(Word):
    """What a failing check does."""

    ERROR = "error"
    """Publish nothing."""
    WARN = "warn"
    """Publish, and record the failure."""


class EmptyPolicy(Word):
    """What becomes of a unit whose function or query gives no rows."""

    WARN = "warn"
    """It is applied, with no rows recorded and a warning."""
    ALLOW = "allow"
    """It is applied: no rows are nothing special."""
    BLOCK = "block"
    """It is not applied: nothing is written, and the unit is blocked until a later run finds rows."""


class Allow(Word):
    """What may be done to a value that a column cannot hold exactly, instead of refusing the rows."""

    ROUND = "round"
    """Round to the column's scale, to its fractional digits of a second, or to a floating point number."""
    STRIP_NUL = "strip_nul"
    """Remove NUL characters from texts."""
    REPLACE_NUL = "replace_nul"
    """Put U+FFFD in the place of NUL characters."""
    NAN_AS_NULL = "nan_as_null"
    """Store NULL for NaN."""
