"""The library: which models there are, and where each keeps its state (Semantics: library)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from psycopg import sql
from psycopg.types.json import Jsonb

from bollhav_provider.exceptions import StateError
from bollhav_provider.state import coverage
from bollhav_provider.state.clock import utc
from bollhav_provider.state.metadata import OURS, metadata, sources
from bollhav_provider.state.refs import Conn, StateRef
from bollhav_provider.state.schema import ensure_state_table, naming_grants

if TYPE_CHECKING:
    from bollhav_provider.model import Environment, Model

log = logging.getLogger(__name__)

_COLUMNS = (
    "full_name", "upstream", "sources", "model_type", "state_schema", "state_table", "temporality",
    "fixed_intervals", "metadata", "last_seen",
)  # fmt: skip
_SELECT = sql.SQL(", ").join(map(sql.Identifier, _COLUMNS))


@dataclass(frozen=True, slots=True)
class LibraryEntry:
    """One row of the library, whoever wrote it.

    Attributes:
        full_name: with the environment's suffix.
        upstream: gated upstream names as declared, without suffix.
        sources: ``{name, kind[, read_query]}`` of every input.
        model_type: ``TABLE`` or ``VIEW``.
        state_schema, state_table: where its state is; both None for an entry without state.
        temporality: ``temporal`` or ``timeless``.
        fixed_intervals: False only for a flexible model.
        metadata: what else the writer says of the model; keys that a writer does not know are absent.
        last_seen: when it was last registered.
    """

    full_name: str
    upstream: tuple[str, ...]
    sources: tuple[Mapping[str, Any], ...]
    model_type: str
    state_schema: str | None
    state_table: str | None
    temporality: str
    fixed_intervals: bool
    metadata: Mapping[str, Any] = field(hash=False)
    last_seen: datetime

    @property
    def ref(self) -> StateRef | None:
        """Where its state is, or None."""
        if self.state_schema is None or self.state_table is None:
            return None
        return StateRef(self.state_schema, self.state_table, self.full_name)

    @property
    def content_hash(self) -> str | None:
        """The fingerprint of the model's inline inputs, where it has any and its writer says so."""
        ours = self.metadata.get(OURS)
        found = ours.get("content_hash") if isinstance(ours, Mapping) else None
        return found if isinstance(found, str) else None


def register(conn: Conn, model: Model, env: Environment) -> LibraryEntry | None:
    """Write the model's row of the library, and make its state table exist, complete and with its coverage.

    Renames, moved state tables and changed upstreams propagate. Safe from any number of processes at once.

    Args:
        conn: in autocommit; the schema is bootstrapped.
        model: what is registered. One without state is registered only with ``library=True``.
        env: names schema and suffix.

    Returns:
        The entry, or None for a model that does not belong into the library.

    Raises:
        StateError: the state table cannot be made or completed.
    """
    if not (model.is_tracked or model.library):
        return None
    ref = StateRef.of(model, env)
    with naming_grants(conn, ref.schema):
        return _register(conn, model, env, ref)


def _register(conn: Conn, model: Model, env: Environment, ref: StateRef) -> LibraryEntry:
    if model.is_tracked:
        ensure_state_table(conn, ref)
        coverage.install(conn, ref)
        _keep_upstreams(conn, model, env)
    query = sql.SQL(
        """
        INSERT INTO {library} AS l (full_name, upstream, sources, model_type, state_schema, state_table,
                                    temporality, fixed_intervals, metadata, last_seen)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, clock_timestamp())
        ON CONFLICT (full_name) DO UPDATE SET
            upstream = excluded.upstream, sources = excluded.sources, model_type = excluded.model_type,
            state_schema = excluded.state_schema, state_table = excluded.state_table,
            temporality = excluded.temporality, fixed_intervals = excluded.fixed_intervals,
            metadata = l.metadata || excluded.metadata, last_seen = excluded.last_seen
        RETURNING {columns}
        """
    ).format(library=sql.Identifier(ref.schema, "library"), columns=_SELECT)
    values = (
        ref.full_name,
        _upstream_names(model),
        Jsonb(sources(model)),
        "VIEW" if model.is_view else "TABLE",
        ref.schema if model.is_tracked else None,
        ref.table if model.is_tracked else None,
        model.temporality.value,
        not model.is_flexible,
        Jsonb(metadata(model)),
    )
    row = conn.execute(query, values).fetchone()
    assert row is not None
    return _entry(row)


def _keep_upstreams(conn: Conn, model: Model, env: Environment) -> None:
    """Keep the coverage of gated upstreams too: one that another implementation runs does not do so itself."""
    names = [
        env.table(table).full_name
        for source in model.gated
        if not (source.deactivate_for_dev and env.is_suffixed)
        for key in source.keys
        if (table := model.table_of(source, key)) is not None
    ]
    if names:
        coverage.install_all(conn, env, names)


def get_entry(conn: Conn, env: Environment, full_name: str) -> LibraryEntry | None:
    """Return one entry, or None.

    Args:
        conn: any.
        env: names the schema.
        full_name: as the library has it, with the environment's suffix.
    """
    query = sql.SQL("SELECT {} FROM {} WHERE full_name = %s").format(
        _SELECT, sql.Identifier(env.state_schema, "library")
    )
    row = conn.execute(query, (full_name,)).fetchone()
    return _entry(row) if row else None


def entries(conn: Conn, env: Environment) -> list[LibraryEntry]:
    """Return the whole library, in order of the names."""
    query = sql.SQL("SELECT {} FROM {} ORDER BY full_name").format(_SELECT, sql.Identifier(env.state_schema, "library"))
    return [_entry(row) for row in conn.execute(query)]


def require_entry(conn: Conn, env: Environment, full_name: str) -> LibraryEntry:
    """Return one entry.

    Raises:
        StateError: there is none.
    """
    entry = get_entry(conn, env, full_name)
    if entry is None:
        raise StateError(
            f"{full_name}: not registered in {env.state_schema}.library: run it once, or correct the name; "
            "the library's names carry the environment's suffix."
        )
    return entry


def _entry(row: tuple[Any, ...]) -> LibraryEntry:
    value = dict(zip(_COLUMNS, row, strict=True))
    value["upstream"] = tuple(value["upstream"] or ())
    value["sources"] = tuple(value["sources"]) if isinstance(value["sources"], list) else ()
    value["metadata"] = value["metadata"] if isinstance(value["metadata"], dict) else {}
    value["last_seen"] = utc(value["last_seen"])
    return LibraryEntry(**value)


def _upstream_names(model: Model) -> list[str]:
    """Gated upstreams by full name; a pattern, which stands for several, as it is declared."""
    names = []
    for source in model.gated:
        for key in source.keys:
            table = model.table_of(source, key)
            names.append(key if table is None else table.full_name)
    return list(dict.fromkeys(names))
