"""A model of which only what its state needs is known: for tables that others load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bollhav_provider.exceptions import ConfigurationError

if TYPE_CHECKING:
    from bollhav_provider.model import Model
    from bollhav_provider.state import LibraryEntry

#: The description of a stand-in, by which the library's entry of one is told from a model's.
_WHY = "state only: the table is loaded elsewhere"


def stand_in(
    full_name: str,
    *,
    chunk: str | None = None,
    tz: str = "UTC",
    flexible: bool = False,
    timeless: bool = False,
    begin: str | None = None,
    end: str | None = None,
    conn_id: str | None = None,
    dsn_env_var: str | None = None,
) -> Model:
    """Return a model that has the state of ``full_name`` and nothing else.

    Args:
        full_name: ``[catalog.]schema.name``.
        chunk: cron of its windows; None with ``timeless`` or for one growing range.
        tz: zone of the cron.
        flexible: whether any window will do, not only those of the grid.
        timeless: whether it has no windows.
        begin: of what it promises to hold, ISO 8601 with an offset.
        end: likewise; None for open.
        conn_id: Airflow connection of its state, where that is not the configured one.
        dsn_env_var: environment variable with the DSN of its state, likewise.

    Raises:
        ConfigurationError: the name is none.
        DefinitionError: the cron, zone or range has no meaning.
    """
    from bollhav_provider.model import (
        Batch,
        ChunkFix,
        ChunkFlex,
        Contract,
        Model,
        State,
        TableId,
        Target,
        Temporality,
        TimeChunking,
    )

    try:
        table = TableId.parse(full_name)
    except ValueError as exc:
        raise ConfigurationError(f"model is {full_name!r}: {exc}.") from None
    target = Target(schema=table.schema, name=table.name, catalog=table.catalog)
    state = State(conn_id=conn_id, dsn_env_var=dsn_env_var)
    if timeless:
        return Model(target=target, temporality=Temporality.TIMELESS, state=state, description=_WHY)
    batching = None
    if chunk is not None:
        kind = ChunkFlex(attest=_WHY) if flexible else ChunkFix()
        batching = Batch(time=TimeChunking(chunk=chunk, tz=tz, flexibility=kind))
    contract = Contract(begin=begin, end=end)
    return Model(target=target, batching=batching, state=state, contract=contract, description=_WHY)


def declared_stand_in(entry: LibraryEntry, given: Model, *, guessed: bool) -> Model | None:
    """Return a stand-in with the windows that a table's own model declares; None where no model is known for it.

    A model that is registered decides what its windows are: a stand-in with others must not take its place in the
    library, nor write rows between its own.

    Args:
        entry: what the library says of the table.
        given: the stand-in that somebody asks for.
        guessed: whether nobody said which windows ``given`` has.

    Raises:
        ConfigurationError: the table has no state, or somebody said that its windows are others.
    """
    from bollhav_provider.intervals import Grid

    said = entry.metadata
    if said.get("description") == _WHY:
        return None
    if entry.ref is None:
        raise ConfigurationError(f"{entry.full_name} is registered without state: there is nothing to record for it.")
    batching, contract = said.get("batching") or {}, said.get("contract") or {}
    chunk, timeless = batching.get("chunk"), entry.temporality == "timeless"
    own = Grid(chunk, said.get("tz") or "UTC") if chunk else None
    if own is None and not timeless and "batching" not in said:
        return given  # a registrant that does not say what its windows are
    same = own is given.grid is None or (own is not None and given.grid is not None and own.same_as(given.grid))
    if not guessed and (timeless == given.is_temporal or not same):
        asked = "no windows" if not given.is_temporal else f"the windows of {given.grid}"
        has = f"the windows of {own}" if own is not None else "no windows"
        raise ConfigurationError(
            f"{entry.full_name} is registered by a model with {has}, and is to be recorded with {asked}: leave chunk, "
            "tz and timeless out, or give the model itself."
        )
    return stand_in(
        given.full_name,
        chunk=chunk,
        tz=said.get("tz") or "UTC",
        flexible=not entry.fixed_intervals,
        timeless=timeless,
        begin=contract.get("begin"),
        end=contract.get("end"),
    )


def stand_in_json(model: Model) -> dict[str, Any]:
    """Return what :func:`stand_in_from_json` makes a stand-in of ``model`` from."""
    chunking = model.batching.time if model.batching is not None and not model.is_windowless else None
    begin, end = model.contract.begin, model.contract.end
    return {
        "full_name": model.full_name,
        "chunk": chunking.chunk if chunking else None,
        "tz": chunking.tz if chunking else "UTC",
        "flexible": model.is_flexible,
        "timeless": not model.is_temporal,
        "begin": begin.isoformat() if begin else None,
        "end": end.isoformat() if end else None,
        "conn_id": model.state.conn_id if model.state else None,
        "dsn_env_var": model.state.dsn_env_var if model.state else None,
        "content_hash": model.content_hash,  # a stand-in has none; for what is recorded of the model's units
    }


def stand_in_from_json(value: Mapping[str, Any]) -> Model:
    """Return the stand-in that :func:`stand_in_json` described."""
    known = ("chunk", "tz", "flexible", "timeless", "begin", "end", "conn_id", "dsn_env_var")
    return stand_in(value["full_name"], **{name: value[name] for name in known if value.get(name) is not None})
