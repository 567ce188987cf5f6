"""``Upstream``: what an execute function receives for an input. Nothing is read before it is touched."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
from psycopg import sql

from bollhav_provider.data.carriage import Field
from bollhav_provider.data.fetch import describe, fetch, fetch_batches
from bollhav_provider.data.files import FileVersion, find_files, read_file, scan_file
from bollhav_provider.data.scope import Scope, condition, scope_of
from bollhav_provider.exceptions import DataError
from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.model import Model, Source, SourceApi, SourceFile, SourceHardcoded, SourceModel, TableId

if TYPE_CHECKING:
    import polars as pl

logger = logging.getLogger(__name__)

#: Frames of files that one worker keeps from unit to unit: by source, with the versions that were read.
FileCache = dict[SourceFile, "tuple[tuple[FileVersion, ...], pl.DataFrame]"]
#: Larger ones are read again, bytes.
_CACHED_AT_MOST = 256 * 1024 * 1024

#: What the server says when a relation is not there. No permission to see it is something else.
_ABSENT = (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)


class Reader(Protocol):
    """Where an upstream's rows are read. The run gives one that keeps within its connections."""

    def relation(self, source: Source) -> AbstractContextManager[psycopg.Connection[Any]]:
        """Lend a connection for one read of ``source``."""
        ...

    def batches(self, source: Source) -> AbstractContextManager[psycopg.Connection[Any]]:
        """Lend a connection for one fetch of a batch of ``source``; the same one at every call of a unit."""
        ...

    def api(self, source: Source) -> Any:
        """Return what the connection of a ``SourceApi`` resolves to, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Placement:
    """What reading a relation takes to know of it.

    Attributes:
        table: where it is in this environment.
        temporal: whether it has windows.
        partition_column: its partition column, None when nobody says.
        tz: zone of its chunk, whose midnights bound a partition column of dates.
        naive_tz: zone of a partition column of timestamps without a zone.
    """

    table: TableId
    temporal: bool = False
    partition_column: str | None = None
    tz: str = "UTC"
    naive_tz: str = "UTC"


class Upstream:
    """One input of a unit, read when it is touched and only then.

    Attributes:
        model: the upstream's definition; None when it is no model of this deployment.
        name: the upstream's full name in this environment, or the source's name for files, APIs and inline
            data.
        ref: the quoted identifier to use in SQL; raises ``DataError`` for what is no relation.
        interval: the unit's window; None when it has none.
        source: the declaration.
    """

    def __init__(
        self,
        *,
        owner: Model,
        parameter: str,
        source: Source,
        model: Model | None,
        unit: Unit,
        reader: Reader,
        placement: Callable[[], Placement] | None = None,
        applied: Callable[[], tuple[tuple[Interval | None, datetime], ...]] | None = None,
        base: Path | None = None,
        cache: FileCache | None = None,
    ) -> None:
        self.model = model
        self.source = source
        self.interval = unit.window
        self._owner = owner
        self._parameter = parameter
        self._unit = unit
        self._reader = reader
        self._place = placement
        self._placement: Placement | None = None
        self._applied_reader = applied
        self._base = base
        self._cache = cache
        self._fields: tuple[Field, ...] | None = None
        self._absent = False
        self._data: pl.DataFrame | None = None
        self._was_read = False
        self._files: tuple[FileVersion, ...] | None = None

    def __repr__(self) -> str:
        return f"<Upstream {self.name} for {self._owner.full_name} {self._unit.label}>"

    @property
    def name(self) -> str:
        return self._placed.table.full_name if self._is_relation else self.source.name

    @property
    def ref(self) -> str:
        if not self._is_relation:
            kind = type(self.source.type).__name__
            raise DataError(
                f"{self._what}: a {kind} has no name that SQL could use: read it with {self._parameter}.data "
                f"and return, "
                "or join, the frame."
            )
        table = self._placed.table
        return ".".join('"' + part.replace('"', '""') + '"' for part in (table.schema, table.name))

    @property
    def scope(self) -> Scope:
        """What is read: what the gate covers."""
        if not self._is_relation:
            return Scope()
        scope = scope_of(self.source.contract, self._unit, upstream_temporal=self._placed.temporal)
        if not scope.everything and self._placed.partition_column is None and self.source.contract is None:
            return Scope()  # an outside table that says nothing of its windows is read whole
        return scope

    @property
    def data(self) -> pl.DataFrame | None:
        """The rows in scope, read once; None, with a warning, when the relation does not exist.

        Raises:
            DataError: the rows cannot be read exactly, or belong to no window that can be told.
            psycopg.Error: any other refusal of the server, no permission among them.
        """
        if not self._was_read:
            self._data = self._read()
            self._was_read = True
        return self._data

    @property
    def lazy(self) -> pl.LazyFrame | None:
        """The rows in scope as a lazy frame; plain files are scanned, never held as a whole."""
        if isinstance(self.source.type, SourceFile) and not self._was_read:
            return scan_file(
                self.source.type, base=self._base, dates=self._dates, files=self.files, what=self._what
            )
        data = self.data
        return data.lazy() if data is not None else None

    def batches(self, n: int = 100_000) -> Iterator[pl.DataFrame]:
        """Yield the rows in scope in frames of at most ``n`` rows; memory is bounded by one of them.

        Nothing is yielded for a relation that does not exist.

        Args:
            n: most rows of a frame, at least 1.
        """
        if n < 1:
            raise DataError(f"{self._what}: batches({n}): ask for at least 1 row.")
        if self._is_relation and not self._was_read:
            yield from self._batches(n)
            return
        if isinstance(self.source.type, SourceFile) and not self._was_read:
            lazy = self.lazy
            if lazy is not None and hasattr(lazy, "collect_batches"):
                for frame in lazy.collect_batches(chunk_size=n, maintain_order=True):
                    for start in range(0, frame.height, n):
                        yield frame.slice(start, n)
                return
        data = self.data
        if data is not None:
            yield from data.iter_slices(n)

    @property
    def rows(self) -> int | None:
        """How many rows are in scope, counted by the server unless read; None without the relation."""
        if self._was_read or not self._is_relation:
            data = self.data
            return data.height if data is not None else None
        query = self._query()
        if query is None:
            return None
        with self._reader.relation(self.source) as conn:
            row = conn.execute(sql.SQL("SELECT count(*) FROM ({}) AS q").format(query)).fetchone()
        return int(row[0]) if row else 0

    @property
    def missing(self) -> bool:
        """Whether there is no such relation."""
        return self._is_relation and self._described() is None

    @property
    def applied(self) -> tuple[tuple[Interval | None, datetime], ...]:
        """The upstream's applied windows in scope, each with its ``applied_at``; empty without state."""
        return self._applied_reader() if self._applied_reader is not None else ()

    @property
    def connection(self) -> Any:
        """What the ``conn_id`` of a ``SourceApi`` stands for (host, login, password), or None."""
        return self._reader.api(self.source)

    @property
    def files(self) -> tuple[FileVersion, ...]:
        """The files of a ``SourceFile``, as they were when first looked at; empty for anything else."""
        if isinstance(self.source.type, SourceFile) and self._files is None:
            self._files = find_files(self.source.type, base=self._base, what=self._what)
        return self._files or ()

    @property
    def files_read(self) -> tuple[FileVersion, ...]:
        """The files that were looked at so far."""
        return self._files or ()

    @property
    def _is_relation(self) -> bool:
        return isinstance(self.source.type, SourceModel)

    @property
    def _what(self) -> str:
        return f"{self._owner.full_name}: parameter {self._parameter!r}: upstream {self.source.name!r}"

    @property
    def _placed(self) -> Placement:
        if self._placement is None:
            assert self._place is not None
            self._placement = self._place()
        return self._placement

    @property
    def _dates(self) -> tuple[str, ...]:
        return tuple(
            c.name
            for c in self._owner.target.columns
            if str(c.type).lower().startswith(("date", "timestamp"))
        )

    def _read(self) -> pl.DataFrame | None:
        kind = self.source.type
        if isinstance(kind, SourceFile):
            return self._read_file(kind)
        if isinstance(kind, SourceHardcoded):
            return self._read_hardcoded(kind)
        if isinstance(kind, SourceApi):
            raise DataError(
                f"{self._what}: a SourceApi is configuration, nothing reads it for you: call it in the "
                f"execute function with "
                f"{self._parameter}.source.type and {self._parameter}.connection."
            )
        query = self._query()
        if query is None:
            return None
        with self._reader.relation(self.source) as conn:
            return fetch(conn, query, fields=self._fields, what=self._what)

    def _read_file(self, source: SourceFile) -> pl.DataFrame:
        """Read the files, or take what an earlier unit of this worker read of the same versions of them."""
        known = self._cache.get(source) if self._cache is not None else None
        if known is not None and known[0] == self.files:
            return known[1]
        frame = read_file(source, base=self._base, dates=self._dates, files=self.files, what=self._what)
        if self._cache is not None and frame.estimated_size() <= _CACHED_AT_MOST:
            self._cache[source] = (self.files, frame)
        return frame

    def _read_hardcoded(self, source: SourceHardcoded) -> pl.DataFrame:
        if source.sql is None:
            return source.to_dataframe()
        query = sql.SQL(source.sql.strip().rstrip(";"))
        with self._reader.relation(self.source) as conn:
            return fetch(conn, query, what=self._what)

    def _batches(self, n: int) -> Iterator[pl.DataFrame]:
        query = self._query()
        if query is None:
            return
        frames: Iterator[pl.DataFrame] | None = None
        try:
            while True:
                # Lent anew for every batch, so that the lease can be renewed on the same connection in
                # between.
                with self._reader.batches(self.source) as conn:
                    if frames is None:
                        frames = fetch_batches(conn, query, size=n, fields=self._fields, what=self._what)
                    frame = next(frames, None)
                if frame is None:
                    return
                yield frame
        finally:
            if frames is not None:
                with self._reader.batches(self.source):
                    frames.close()  # type: ignore[attr-defined]

    def _described(self) -> tuple[Field, ...] | None:
        """Look at the relation's columns, once; None when it does not exist."""
        if self._absent or self._fields is not None:
            return self._fields
        try:
            with self._reader.relation(self.source) as conn:
                self._fields = describe(conn, self._select())
        except _ABSENT:
            self._absent = True
            logger.warning(
                "%s: the relation %s does not exist: there is nothing to read for %s.",
                self._what,
                self.name,
                self._unit.label,
            )
        return self._fields

    def _select(self) -> sql.Composed:
        table = self._placed.table
        return sql.SQL("SELECT * FROM {}").format(sql.Identifier(table.schema, table.name))

    def _query(self) -> sql.Composed | None:
        """Return the SELECT of the rows in scope; None when the relation does not exist."""
        fields = self._described()
        if fields is None:
            return None
        scope = self.scope
        if scope.everything:
            return self._select()
        column = self._placed.partition_column
        if column is None:
            raise DataError(
                f"{self._what}: the {self.source.contract} contract reads {scope}, and {self.name} does not "
                f"say which column "
                "holds the time: give one of its columns partition_on=True, or write "
                "type=SourceModel(partitioned_by='...')."
            )
        field = next((field for field in fields if field.name == column), None)
        if field is None:
            raise DataError(
                f"{self._what}: {self.name} has no column {column!r}, which should be its partition column."
            )
        place = self._placed
        where = condition(scope, column, field.kind, place.tz, place.naive_tz, self._what)
        assert where is not None
        return sql.SQL("{} WHERE {}").format(self._select(), where)
