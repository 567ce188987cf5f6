"""Fills an execute function's parameters: upstreams by alias, reserved names by what they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from bollhav_provider.data.upstream import FileCache, Placement, Reader, Upstream
from bollhav_provider.exceptions import DataError
from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.model import (
    Environment,
    Model,
    Source,
    SourceFile,
    SourceModel,
    TableId,
    UpstreamContract,
)

#: Contracts that only make sense for an upstream with windows.
_WINDOWED = (UpstreamContract.EXACT, UpstreamContract.ENCAPSULATE, UpstreamContract.THROUGH)


class Resolved(Protocol):
    """One relation, file or API that a source stands for, as the graph resolved it."""

    @property
    def source(self) -> Source: ...
    @property
    def model(self) -> Model | None: ...
    @property
    def table(self) -> TableId | None: ...


class Bindings(Protocol):
    """What a run asks a graph."""

    def is_enabled(self, model: Model, /) -> bool:
        """Return whether the model is written."""
        ...

    def upstreams(self, model: Model, /) -> Mapping[str, Sequence[Resolved]]:
        """Return what each alias of the model stands for."""
        ...


@dataclass(frozen=True, slots=True)
class Registered:
    """What the library says of an upstream that is no model of this deployment."""

    temporal: bool
    partition_column: str | None
    tz: str


#: What a lookup in the library, and in an upstream's state, looks like. Both are made by the run.
LibraryLookup = Callable[[TableId], Registered | None]
AppliedLookup = Callable[
    [Model | None, TableId, Unit, UpstreamContract | None], tuple[tuple[Interval | None, datetime], ...]
]


@dataclass(frozen=True)
class Inputs:
    """Opens the upstreams of one model's units.

    Args:
        model: whose inputs.
        resolved: alias to what the graph bound it to.
        env: where relations are.
        library: looks an upstream of another deployment up.
        applied: looks the applied windows of an upstream up.
        files: what was read of files, for the units that follow.
    """

    model: Model
    resolved: Mapping[str, Sequence[Resolved]]
    env: Environment
    library: LibraryLookup
    applied: AppliedLookup
    files: FileCache = field(default_factory=dict)

    def tables(self) -> dict[str, TableId]:
        """Return alias to relation, without suffix, for inputs that are exactly one relation."""
        return {
            alias: found[0].table
            for alias, found in self.resolved.items()
            if len(found) == 1
            and found[0].table is not None
            and isinstance(found[0].source.type, SourceModel)
        }

    def gated_tables(self) -> dict[str, tuple[TableId, ...]]:
        """Return alias to relations, without suffix, for gated inputs."""
        return gated_tables(self.model, self.resolved)

    def arguments(
        self, unit: Unit, reader: Reader, reserved: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[Upstream]]:
        """Return the arguments of the execute function for one unit, and the upstreams among them.

        Args:
            unit: what is done.
            reader: where upstreams are read.
            reserved: values of ``run``, ``unit``, ``model``, ``conn`` and ``context``.

        Raises:
            DataError: a required upstream is bound to nothing.
        """
        arguments: dict[str, Any] = {}
        opened: list[Upstream] = []
        for parameter in self.model.parameters:
            if parameter.kind == "reserved":
                arguments[parameter.name] = reserved[parameter.name]
                continue
            found = [
                self._open(parameter.name, item, unit, reader)
                for item in self.resolved.get(parameter.name, ())
            ]
            opened.extend(found)
            if parameter.many:
                arguments[parameter.name] = found
            elif found:
                arguments[parameter.name] = found[0]
            elif parameter.optional:
                arguments[parameter.name] = None
            else:
                raise DataError(
                    f"{self.model.full_name}: parameter {parameter.name!r}: no model matches it: add one, "
                    f"correct the source's "
                    "name, or annotate the parameter as Upstream | None and set optional=True."
                )
        return arguments, opened

    def files_of(self, upstreams: list[Upstream]) -> list[tuple[Any, Any]]:
        """Return the files that were read and are to be archived, each with its folder."""
        return [
            (file, upstream.source.type.archive_folder)
            for upstream in upstreams
            if isinstance(upstream.source.type, SourceFile)
            and upstream.source.type.archive_folder is not None
            for file in upstream.files_read
        ]

    def _open(self, parameter: str, item: Resolved, unit: Unit, reader: Reader) -> Upstream:
        table = item.table
        relation = table is not None and isinstance(item.source.type, SourceModel)
        return Upstream(
            owner=self.model,
            parameter=parameter,
            source=item.source,
            model=item.model,
            unit=unit,
            reader=reader,
            cache=self.files,
            placement=(lambda: self._placement(item)) if relation else None,
            applied=(lambda: self.applied(item.model, table, unit, item.source.contract))
            if relation and table
            else None,
        )

    def _placement(self, item: Resolved) -> Placement:
        table = item.table
        assert table is not None
        source = item.source
        assert isinstance(source.type, SourceModel)
        place = self.model.place(source, table, self.env)
        if item.model is not None:
            column = item.model.partition_column
            return Placement(
                place,
                item.model.is_temporal,
                column.name if column else source.type.partitioned_by,
                item.model.tz,
                (column.naive_tz if column else None) or "UTC",
            )
        known = self.library(place) if source.is_gated and source.type.partitioned_by is None else None
        if known is not None:
            return Placement(place, known.temporal, known.partition_column, known.tz)
        temporal = source.contract in _WINDOWED or source.type.partitioned_by is not None
        return Placement(place, temporal and self.model.is_temporal, source.type.partitioned_by)


def gated_tables(model: Model, resolved: Mapping[str, Sequence[Resolved]]) -> dict[str, tuple[TableId, ...]]:
    """Return alias to relations, without suffix, for the inputs that a model's units wait for.

    Args:
        model: whose inputs.
        resolved: what a graph says each alias stands for.
    """
    return {
        source.alias_name: tuple(
            item.table for item in resolved.get(source.alias_name, ()) if item.table is not None
        )
        for source in model.gated
    }


def runnable_upstreams(graph: Bindings, model: Model, env: Environment) -> frozenset[str]:
    """Return the names, as the library has them, of upstreams that the same graph can run.

    Args:
        graph: says what each alias stands for, and which models are enabled.
        model: whose upstreams.
        env: names the schemas.
    """
    return frozenset(
        env.table(item.model.identity).full_name
        for items in graph.upstreams(model).values()
        for item in items
        if item.model is not None and item.model.is_tracked and graph.is_enabled(item.model)
    )
