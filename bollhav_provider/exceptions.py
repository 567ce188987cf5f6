"""All errors of the provider, one tree.

Each error is built from structured arguments, which stay readable as attributes, and its text names the model, the
field or column, the value, the rule and the remedy. Whether trying again can help is part of the type: ``retryable``.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

#: Of what a problem says in one of its parts.
_LONGEST_TEXT = 2000


class BollhavError(Exception):
    """Base of every error that the provider raises on purpose."""

    #: Whether the same call can succeed later without anybody changing anything.
    retryable: ClassVar[bool] = False


class ConfigurationError(BollhavError):
    """A setting, connection or environment variable is missing or has no meaning."""


class IntervalError(BollhavError, ValueError):
    """An instant without a zone, or a window that is empty or inverted."""


class GridError(BollhavError, ValueError):
    """A chunk that is no grid: six fields, never firing, an unknown zone."""


class Problem(NamedTuple):
    """One thing wrong with one definition."""

    model: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.model}: {self.field}: {self.message}"


def _readable(text: str) -> str:
    """Leave out the middle of a text that nobody reads, because what it quotes is that long."""
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[: _LONGEST_TEXT // 2]} ... {text[-_LONGEST_TEXT // 2 :]}"


class DefinitionError(BollhavError, ValueError):
    """Everything that is wrong with a model's definition, at once.

    Attributes:
        problems: one entry a problem, in the order of the fields.
    """

    def __init__(self, problems: tuple[Problem, ...] | list[Problem]) -> None:
        self.problems = tuple(Problem(*map(_readable, problem)) for problem in problems)
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type[DefinitionError], tuple[tuple[Problem, ...]]]:
        # Parsing happens in processes of its own; the error must arrive as it left.
        return type(self), (self.problems,)


class DefinitionWarning(UserWarning):
    """A definition is legal and probably not what is meant."""


class GraphError(DefinitionError):
    """Definitions that are each right but do not fit together."""


class SelectionError(BollhavError, ValueError):
    """A tag expression that cannot be read.

    Attributes:
        expression: as written.
        column: where, from 1.
    """

    def __init__(self, expression: str, column: int, message: str) -> None:
        self.expression, self.column = expression, column
        super().__init__(f"tags: {expression!r}: column {column}: {message}")


class StateError(BollhavError):
    """The state library refused, or cannot do, what was asked."""


class LibraryOutdatedError(StateError):
    """The library has been made by another version; any run of a model makes it anew."""

    retryable = True


class ModelLockedError(StateError):
    """Another run holds the model-wide lock of ``State(allow_concurrent_runs=False)``."""

    retryable = True


class UnitBusyError(StateError):
    """A unit is still held by a worker that is probably dead; its lease has to end first.

    Attributes:
        model: the model's full name.
        unit: the window.
        owner: who holds it.
        until: when its lease ends unless it is renewed, ISO 8601 in UTC; empty when it has none.
    """

    retryable = True

    def __init__(self, model: str, unit: str, owner: str, until: str, held: str, waited: float) -> None:
        self.model, self.unit, self.owner, self.until = model, unit, owner, until
        ends = f"its lease ends at {until} unless it is renewed" if until else "it has no lease"
        super().__init__(
            f"{model} {unit}: {held} ({owner}) still holds the unit: {ends}; waited {waited:.0f} s. Remedy: let the "
            "task be retried after that, end that process if it still runs, or allow a longer wait with the option "
            "busy_timeout."
        )
        self._arguments = (model, unit, owner, until, held, waited)

    def __reduce__(self) -> tuple[type[UnitBusyError], tuple[str, str, str, str, str, float]]:
        return type(self), self._arguments


class LeaseLostError(StateError):
    """The claim on a unit was lost; nothing of this attempt may be committed. Another attempt may."""

    retryable = True


class GrainChangedError(StateError):
    """A fixed model's state rows do not lie on its current grid."""


class GateError(StateError):
    """A unit may not run because of its upstreams."""


class GateClosedError(GateError):
    """An upstream is not ready yet; it may become so."""

    retryable = True


class HardGateError(GateError):
    """A contract that can never be satisfied as declared, or an upstream that nobody registered."""


class DataError(BollhavError):
    """Rows that cannot be written, or read, exactly as they are."""


class SchemaMismatchError(DataError):
    """The target table is not what the model declares, or the frame not what the table takes."""


class RowsRefusedError(DataError):
    """Values that the target cannot hold exactly as they are.

    Attributes:
        model: the model's full name.
        column: the column's name.
        reason: the end of the sentence "column 'x' ...".
        count: how many rows it concerns, among those that were looked at; None when it concerns the whole column.
        samples: up to five of them, as text: the row's number (from 0), its key and the value.
        remedy: what to write or declare instead.
    """

    def __init__(
        self,
        model: str,
        column: str,
        reason: str,
        *,
        remedy: str,
        count: int | None = None,
        samples: tuple[str, ...] = (),
    ) -> None:
        self.model, self.column, self.reason, self.remedy = model, column, reason, remedy
        self.count, self.samples = count, samples
        rows = "" if count is None else f" ({count} {'row' if count == 1 else 'rows'})"
        shown = f": {'; '.join(samples)}" if samples else ""
        super().__init__(f"{model}: column {column!r} {reason}{rows}{shown}. Remedy: {remedy}.")


class RowsOutsideWindowError(RowsRefusedError):
    """Rows that do not belong to the unit's window."""


class DuplicateKeyError(DataError):
    """Several rows of one batch have the same key, and nothing says which of them is meant.

    Attributes:
        model: the model's full name.
        key: the key's columns.
        samples: up to twenty keys, as text, each with its number of rows.
    """

    def __init__(self, model: str, key: tuple[str, ...], samples: tuple[str, ...]) -> None:
        self.model, self.key, self.samples = model, key, samples
        super().__init__(
            f"{model}: key ({', '.join(key)}): several rows of the batch share a key: {'; '.join(samples)}. "
            "Remedy: make the rows unique in the function, or mark with Column(..., order_by=True) the column "
            "whose greatest value wins."
        )


class RowCountError(DataError):
    """PostgreSQL took another number of rows than it was given; nothing is kept."""

    def __init__(self, model: str, sent: int, taken: int) -> None:
        self.model, self.sent, self.taken = model, sent, taken
        super().__init__(
            f"{model}: {sent} rows were sent and PostgreSQL took {taken}. Remedy: look for a BEFORE trigger on the "
            "target that drops rows; the unit was rolled back."
        )


class MissingPrivilegeError(DataError):
    """The target's connection lacks privileges.

    Attributes:
        statements: what an owner has to run.
    """

    def __init__(self, model: str, statements: tuple[str, ...]) -> None:
        self.model, self.statements = model, statements
        super().__init__(
            f"{model}: the target's connection lacks privileges. Remedy: have an owner run\n  "
            + "\n  ".join(statements)
        )


class EmptyUnitError(DataError):
    """A unit gave no rows, and its model says with ``allow_empty='block'`` that this means: not yet."""

    retryable = True


class CheckFailedError(DataError):
    """A data check with severity ``error`` failed; nothing was published."""


class ServerRefusedError(BollhavError):
    """The server could not do its part: a full disk, a lock that was not had in time. The unit was rolled back.

    Attributes:
        model: the model's full name.
        unit: the window.
        sqlstate: PostgreSQL's code.
    """

    retryable = True

    def __init__(self, model: str, unit: str, sqlstate: str, message: str, remedy: str) -> None:
        self.model, self.unit, self.sqlstate = model, unit, sqlstate
        self._arguments = (model, unit, sqlstate, message, remedy)
        super().__init__(
            f"{model} {unit}: the server says: {message.rstrip('.')} ({sqlstate}). Nothing of the unit is kept. "
            f"Remedy: {remedy}."
        )

    def __reduce__(self) -> tuple[type[ServerRefusedError], tuple[str, str, str, str, str]]:
        return type(self), self._arguments


class CommitUnknownError(BollhavError):
    """The connection went away during a commit and the outcome could not be read back."""

    retryable = True
