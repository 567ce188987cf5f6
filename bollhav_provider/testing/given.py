"""Frames that a test gives for a model's upstreams, as tables that the model then reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from bollhav_provider import data
from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import (
    Column,
    Environment,
    Model,
    Source,
    SourceModel,
    TableId,
    Target,
    Temporality,
    WriteMode,
)
from bollhav_provider.model.base import did_you_mean

if TYPE_CHECKING:
    import polars as pl

#: Where tables lie that stand for files, APIs, inline data and patterns.
SCHEMA = "bollhav_given"


@dataclass(frozen=True, slots=True)
class GivenInput:
    """One upstream as the test gives it; what a graph would say of it."""

    source: Source
    model: Model | None
    table: TableId


@dataclass(frozen=True)
class GivenGraph:
    """Stands for the graph of one model under test."""

    inputs: Mapping[str, tuple[GivenInput, ...]]

    def is_enabled(self, model: Model) -> bool:
        """Whatever is tested is written."""
        return True

    def upstreams(self, model: Model) -> Mapping[str, tuple[GivenInput, ...]]:
        """Return the inputs by alias, as a graph does."""
        return self.inputs


def give(
    conn: psycopg.Connection[Any], model: Model, frames: Mapping[str, Any], known: Iterable[Model] = ()
) -> GivenGraph:
    """Make a table of every given frame, replacing what an earlier call made, and bind the model's inputs to
    them.

    Args:
        conn: in autocommit, to a scratch database.
        model: under test.
        frames: alias or name of an input to a frame, a list of dicts, or None for "there is no such
            relation"; for an input with ``many=True`` a list of frames.
        known: definitions of upstreams; they say types, and by which column an upstream's window is read.
            Without one, an upstream is read whole.

    Raises:
        ConfigurationError: a frame is given for what is no input, none is given for an input, or one without columns
            for an upstream that is not known.
    """
    by_identity = {other.identity: other for other in known}
    wanted: dict[str, tuple[Source, Any]] = {}
    for name, frame in frames.items():
        source = _source(model, name)
        wanted[source.alias_name] = (source, frame)
    inputs: dict[str, tuple[GivenInput, ...]] = {}
    for source in model.inputs:
        alias = source.alias_name
        if alias in wanted:
            inputs[alias] = tuple(_given(conn, model, source, wanted[alias][1], by_identity))
        elif not source.is_relation:
            inputs[alias] = (GivenInput(source, None, TableId(None, SCHEMA, alias)),)
        elif (table := model.table_of(source)) is not None:
            if not source.optional and not _exists(conn, table):
                raise ConfigurationError(
                    f"{model.full_name}: no frame is given for its input {table.full_name}: give {alias}=..., or "
                    f"{alias}=None for a relation that does not exist."
                )
            inputs[alias] = () if source.optional else (GivenInput(_whole(source), None, table),)
        else:
            inputs[alias] = ()
    return GivenGraph(inputs)


def _source(model: Model, name: str) -> Source:
    found = next((s for s in model.inputs if name == s.alias_name or name in s.keys), None)
    if found is None:
        aliases = [source.alias_name for source in model.inputs]
        hint = did_you_mean(name, aliases) or f"; its inputs are {', '.join(aliases) or 'none'}"
        raise ConfigurationError(
            f"{model.full_name}: a frame is given for {name!r}, which is no input of it{hint}"
        )
    return found


def _given(
    conn: psycopg.Connection[Any], model: Model, source: Source, frames: Any, known: Mapping[TableId, Model]
) -> Iterable[GivenInput]:
    several = source.many and isinstance(frames, Sequence) and not (frames and isinstance(frames[0], Mapping))
    for number, frame in enumerate(frames if several else [frames]):
        table = model.table_of(source) if source.is_relation and not several else None
        upstream = known.get(table) if table is not None else None
        table = table or TableId(
            None, SCHEMA, f"{source.alias_name}_{number}" if several else source.alias_name
        )
        _replace(conn, table, upstream, frame)
        stands = source if upstream is not None else _whole(source)
        if not source.is_relation:
            stands = Source(f"{table.schema}.{table.name}", type=SourceModel(), alias=source.alias_name)
        yield GivenInput(stands, upstream, table)


def _whole(source: Source) -> Source:
    """The same input without a contract: nothing says which of its rows would belong to a window."""
    return source.replace(contract=None, freshness=None, deactivate_for_dev=False, max_lag=0)


def _exists(conn: psycopg.Connection[Any], table: TableId) -> bool:
    """Whether an earlier run on the same bench made a relation."""
    name = sql.Identifier(table.schema, table.name).as_string(conn)
    row = conn.execute("SELECT to_regclass(%s) IS NOT NULL", (name,)).fetchone()
    return bool(row and row[0])


def _replace(conn: psycopg.Connection[Any], table: TableId, upstream: Model | None, rows: Any) -> None:
    import polars as pl

    conn.execute(sql.SQL("DROP TABLE IF EXISTS {} CASCADE").format(sql.Identifier(table.schema, table.name)))
    if rows is None:
        return
    frame = rows.collect() if isinstance(rows, pl.LazyFrame) else rows
    if not isinstance(frame, pl.DataFrame):
        frame = pl.DataFrame(frame, infer_schema_length=None)
    declared = {column.name: column for column in upstream.target.columns} if upstream is not None else {}
    if not frame.columns:
        if not declared:
            raise ConfigurationError(
                f"{table.full_name}: an empty input is given, and nothing says which columns it has: give a typed "
                "empty frame, such as pl.DataFrame(schema={'n': pl.Int64}), or bollhav.know(model) with the upstream's "
                "definition."
            )
        frame = pl.DataFrame(schema=dict.fromkeys(declared, pl.Null))
    columns = [
        Column(name, declared[name].type if name in declared else column_type(dtype))
        for name, dtype in frame.schema.items()
    ]
    stand_in = Model(
        target=Target(schema=table.schema, name=table.name, columns=columns, write_mode=WriteMode.APPEND),
        temporality=Temporality.TIMELESS,
    )
    env = Environment()
    data.ensure_target(conn, stand_in, env)
    with conn.transaction():
        data.write(conn, stand_in, env, Unit(None), frame)


def column_type(dtype: pl.DataType) -> str:
    """Return the PostgreSQL type that holds a polars type's values exactly."""
    import polars as pl

    if isinstance(dtype, pl.List | pl.Array):
        return f"{column_type(dtype.inner)}[]"  # type: ignore[arg-type]
    if isinstance(dtype, pl.Decimal):
        return f"numeric({dtype.precision or 38},{dtype.scale})"
    if isinstance(dtype, pl.Datetime):
        return "timestamptz" if dtype.time_zone else "timestamp"
    exact: dict[Any, str] = {
        pl.Int8: "smallint", pl.Int16: "smallint", pl.Int32: "integer", pl.Int64: "bigint", pl.UInt8: "smallint",
        pl.UInt16: "integer", pl.UInt32: "bigint", pl.UInt64: "numeric(20)", pl.Float32: "real",
        pl.Float64: "double precision", pl.Boolean: "boolean", pl.Date: "date", pl.Time: "time",
        pl.Duration: "interval", pl.Binary: "bytea", pl.Struct: "jsonb",
    }  # fmt: skip
    return exact.get(dtype.base_type(), "text")
