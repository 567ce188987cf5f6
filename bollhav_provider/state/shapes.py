"""The shared tables as data: one description from which a fresh table is made and an older one is completed.

The order and types of the first columns of ``library``, ``errors`` and a state table are shared with another
implementation that writes the same tables at the same time and names only those. Every column after them is
ours and has a default (Semantics: library, "Migrations are additive").
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql


def raw(text: str) -> sql.SQL:
    """Return SQL of our own (never a user's value) as a composable."""
    return sql.SQL(text)


@dataclass(frozen=True, slots=True)
class Col:
    """One column.

    Attributes:
        name: its name.
        fresh: type and clauses when the table is made.
        added: type and clauses when it is added to a table that lacks it; never a constraint that an old row
        breaks.
    """

    name: str
    fresh: str
    added: str

    @classmethod
    def same(cls, name: str, clauses: str) -> Col:
        """A column that is made and added in the same way."""
        return cls(name, clauses, clauses)


@dataclass(frozen=True, slots=True)
class Shape:
    """One table: columns, table constraints, storage options, and columns that an older shape wrongly made NOT NULL."""

    columns: tuple[Col, ...]
    constraints: tuple[str, ...] = ()
    options: str = ""
    relaxed: tuple[str, ...] = ()

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    def create(self, table: sql.Identifier) -> sql.Composed:
        """Return the statement that makes the table."""
        parts = [sql.Identifier(c.name) + raw(f" {c.fresh}") for c in self.columns]
        body = sql.SQL(", ").join([*parts, *map(raw, self.constraints)])
        return sql.SQL("CREATE TABLE {} ({}) {}").format(table, body, raw(self.options))

    def complete(self, table: sql.Identifier, present: dict[str, bool]) -> sql.Composed | None:
        """Return the one ALTER TABLE that brings an older table to this shape, or None when nothing lacks.

        Args:
            table: the qualified name.
            present: the table's columns, each with whether it is NOT NULL.
        """
        steps = [
            sql.SQL("ADD COLUMN {} {}").format(sql.Identifier(c.name), raw(c.added))
            for c in self.columns
            if c.name not in present
        ]
        steps += [
            sql.SQL("ALTER COLUMN {} DROP NOT NULL").format(sql.Identifier(name))
            for name in self.relaxed
            if present.get(name)
        ]
        if not steps:
            return None
        return sql.SQL("ALTER TABLE {} {}").format(table, sql.SQL(", ").join(steps))


LIBRARY = Shape(
    columns=(
        Col.same("full_name", "TEXT PRIMARY KEY"),
        Col("upstream", "TEXT[] NOT NULL", "TEXT[] NOT NULL DEFAULT '{}'"),
        Col.same("sources", "JSONB NOT NULL DEFAULT '[]'"),
        Col.same("model_type", "TEXT NOT NULL DEFAULT 'TABLE'"),
        Col.same("state_schema", "TEXT"),
        Col.same("state_table", "TEXT"),
        Col.same("temporality", "TEXT NOT NULL DEFAULT 'temporal'"),
        Col.same("fixed_intervals", "BOOLEAN NOT NULL DEFAULT true"),
        Col.same("metadata", "JSONB NOT NULL DEFAULT '{}'"),
        Col.same("last_seen", "TIMESTAMPTZ NOT NULL DEFAULT now()"),
    ),
    relaxed=("state_schema", "state_table"),
)

ERRORS = Shape(
    columns=(
        Col.same("id", "BIGSERIAL PRIMARY KEY"),
        Col.same("full_name", "TEXT NOT NULL"),
        Col.same("run_id", "UUID NOT NULL"),
        Col.same("since", "TIMESTAMPTZ"),
        Col.same("until", "TIMESTAMPTZ"),
        Col.same("error_type", "TEXT NOT NULL"),
        Col.same("error_message", "TEXT"),
        Col.same("traceback", "TEXT"),
        Col.same("created_at", "TIMESTAMPTZ NOT NULL DEFAULT now()"),
        Col.same("attempt", "BIGINT"),
        Col.same("details", "JSONB NOT NULL DEFAULT '{}'"),
    ),
    relaxed=("since", "until"),
)

STATE = Shape(
    columns=(
        Col.same("id", "BIGSERIAL PRIMARY KEY"),
        Col.same("model_name", "TEXT"),
        Col.same("run_id", "UUID NOT NULL"),
        Col.same("since", "TIMESTAMPTZ"),
        Col.same("until", "TIMESTAMPTZ"),
        Col.same("status", "TEXT NOT NULL"),
        Col.same("blocked_reason", "TEXT"),
        Col.same("applied_at", "TIMESTAMPTZ"),
        Col.same("temporality", "TEXT NOT NULL DEFAULT 'temporal'"),
        # ours: the claim
        Col.same("attempt", "BIGINT NOT NULL DEFAULT 0"),
        Col.same("owner", "TEXT"),
        Col.same("lease_until", "TIMESTAMPTZ"),
        Col.same("started_at", "TIMESTAMPTZ"),
        Col.same("lock_pid", "INTEGER"),
        # ours: what the last attempt did, and who it was
        Col.same("duration", "INTERVAL"),
        Col.same("rows_in", "BIGINT"),
        Col.same("rows_written", "BIGINT"),
        Col.same("rows_changed", "BIGINT"),
        Col.same("reason", "TEXT"),
        Col.same("marked_by", "TEXT"),
        Col.same("content_hash", "TEXT"),
        Col.same("who", "TEXT"),
        Col.same("dag_id", "TEXT"),
        Col.same("airflow_run_id", "TEXT"),
        Col.same("task_id", "TEXT"),
        Col.same("try_number", "INTEGER"),
        Col.same("details", "JSONB"),
    ),
    constraints=("UNIQUE (since, until)",),
    # room on the page for the versions that one unit's life makes
    options="WITH (fillfactor = 85)",
    relaxed=("since", "until", "model_name"),
)

#: Ended attempts, kept for a configurable time. Ours alone.
HISTORY = Shape(
    columns=(
        Col.same("id", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
        Col.same("full_name", "TEXT NOT NULL"),
        Col.same("since", "TIMESTAMPTZ"),
        Col.same("until", "TIMESTAMPTZ"),
        Col.same("run_id", "UUID"),
        Col.same("attempt", "BIGINT"),
        Col.same("outcome", "TEXT NOT NULL"),
        Col.same("reason", "TEXT"),
        Col.same("started_at", "TIMESTAMPTZ"),
        Col.same("finished_at", "TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()"),
        Col.same("rows_in", "BIGINT"),
        Col.same("rows_written", "BIGINT"),
        Col.same("rows_changed", "BIGINT"),
        Col.same("owner", "TEXT"),
        Col.same("who", "TEXT"),
        Col.same("dag_id", "TEXT"),
        Col.same("airflow_run_id", "TEXT"),
        Col.same("task_id", "TEXT"),
        Col.same("try_number", "INTEGER"),
    ),
)

#: Which run reset which window, so that its retry does not reset again. Ours alone.
RESETS = Shape(
    columns=(
        Col.same("full_name", "TEXT NOT NULL"),
        Col.same("run_id", "UUID NOT NULL"),
        Col.same("window_key", "TEXT NOT NULL"),
        Col.same("mode", "TEXT NOT NULL"),
        Col.same("units", "BIGINT NOT NULL DEFAULT 0"),
        Col.same("who", "TEXT"),
        Col.same("reset_at", "TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()"),
    ),
    constraints=("PRIMARY KEY (full_name, run_id, window_key)",),
)

#: The range over which a state table is known to mirror its contract, and on which grid. Ours alone.
PREFILLED = Shape(
    columns=(
        Col.same("state_table", "TEXT PRIMARY KEY"),
        Col.same("chunk", "TEXT NOT NULL"),
        Col.same("tz", "TEXT NOT NULL"),
        Col.same("since", "TIMESTAMPTZ NOT NULL"),
        Col.same("until", "TIMESTAMPTZ NOT NULL"),
    ),
)

#: Which run holds a model that allows no concurrent runs. Ours alone.
MODEL_LOCKS = Shape(
    columns=(
        Col.same("state_table", "TEXT PRIMARY KEY"),
        Col.same("run_id", "UUID NOT NULL"),
        Col.same("owner", "TEXT"),
        Col.same("lease_until", "TIMESTAMPTZ NOT NULL"),
    ),
)

#: When what runs do now and then was last done. Ours alone.
UPKEEP = Shape(
    columns=(
        Col.same("task", "TEXT PRIMARY KEY"),
        Col.same("done_at", "TIMESTAMPTZ NOT NULL"),
    ),
)

#: The function files that are installed, by the digest of their content. Ours alone.
INSTALLED = Shape(
    columns=(
        Col.same("file", "TEXT NOT NULL"),
        Col.same("digest", "TEXT NOT NULL"),
        Col.same("installed_at", "TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()"),
    ),
    constraints=("PRIMARY KEY (file, digest)",),
)

#: The tables with fixed names. A state table's name ends in 16 hex digits, so that it is never one of these.
FIXED: dict[str, Shape] = {
    "library": LIBRARY,
    "errors": ERRORS,
    "history": HISTORY,
    "resets": RESETS,
    "prefilled": PREFILLED,
    "model_locks": MODEL_LOCKS,
    "upkeep": UPKEEP,
    "installed": INSTALLED,
}

#: Indexes of the fixed tables, by table: (name, columns).
FIXED_INDEXES: dict[str, tuple[tuple[str, str], ...]] = {
    "errors": (("errors_full_name_idx", "(full_name)"), ("errors_created_at_idx", "(created_at DESC)")),
    "history": (
        ("history_unit_idx", "(full_name, since)"),
        ("history_finished_at_idx", "(finished_at)"),
    ),
    "resets": (("resets_reset_at_idx", "(reset_at)"),),
}

#: What gates and the search for work want of a state table: the outstanding rows in order of time, flat in the number
#: of applied ones. A peer's table gets it when it is first met.
OUTSTANDING = "(since) INCLUDE (until) WHERE status <> 'applied'"


def outstanding_index(table: str) -> str:
    """Return the name of a state table's index of outstanding rows: unique in its schema, as the table's digest is."""
    return f"outstanding_{table[-45:]}"
