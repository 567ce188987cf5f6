"""What the library says of a model beside its columns: the keys that are shared, and ours beside them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bollhav_provider.model import Column, Model, Source

#: The key under which everything stands that only this project writes, beside ``tz``.
OURS = "bollhav_provider"


def sources(model: Model) -> list[dict[str, Any]]:
    """Return every declared input as ``{name, kind[, read_query]}``."""
    found = []
    for source in model.upstream:
        entry: dict[str, Any] = {"name": source.name, "kind": source.kind}
        if (read_query := getattr(source.type, "read_query", None)) is not None:
            entry["read_query"] = read_query
        found.append(entry)
    return found


def metadata(model: Model) -> dict[str, Any]:
    """Return the model's metadata, as JSON holds it."""
    target = model.target
    partition = model.partition_column
    return {
        "upstreams": [_upstream(model, source, key) for source in model.gated for key in source.keys],
        "write_mode": target.write_mode.value,
        "enabled": model.enabled,
        "description": model.description,
        "dsn_env_var": target.dsn_env_var,
        "catalog": target.catalog,
        "schema": target.schema,
        "table": target.name,
        "tags": list(model.tags),
        "partitioned_by": partition.name if partition is not None else None,
        "staging": target.staging is not None,
        "primary_key": [column.name for column in target.primary_key],
        "unique_columns": [column.name for column in target.columns if column.unique],
        "columns": [_column(column) for column in target.columns],
        "contract": {"begin": _iso(model.contract.begin), "end": _iso(model.contract.end)},
        "batching": _batching(model),
        "people": model.people.model_dump(mode="json", exclude_none=True),
        "tz": model.tz,
        OURS: _ours(model),
    }


def _upstream(model: Model, source: Source, key: str) -> dict[str, Any]:
    table = model.table_of(source, key)
    freshness = source.freshness
    return {
        "name": key if table is None else table.full_name,
        "contract": source.contract.value if source.contract is not None else None,
        "freshness": None
        if freshness is None
        else {"within_seconds": freshness.within.total_seconds(), "scope": freshness.scope.value},
        "deactivate_for_dev": source.deactivate_for_dev,
    }


def _column(column: Column) -> dict[str, Any]:
    kind = column.pg_type
    return {
        "name": column.name,
        "type": column.type,
        "nullable": column.nullable,
        "primary_key": column.primary_key,
        "unique": column.unique,
        "length": kind.length,
        "precision": kind.precision,
        "scale": kind.scale,
    }


def _batching(model: Model) -> dict[str, Any] | None:
    batching = model.batching
    if batching is None:
        return None
    time = batching.time
    return {
        "chunk": time.chunk if time else None,
        "window": time.window if time else None,
        "lookback": time.lookback if time else 0,
        "size": batching.size,
        "fixed_intervals": not model.is_flexible,
    }


def _ours(model: Model) -> dict[str, Any]:
    time = model.batching.time if model.batching else None
    attest = getattr(time.flexibility, "attest", None) if time else None
    return {
        "fingerprint": model.fingerprint,
        "content_hash": model.content_hash,
        "conn_id": model.target.conn_id,
        "key": list(model.key),
        "attest": attest,
        "max_lag": {source.name: source.max_lag for source in model.gated if source.max_lag},
        "inputs_known": model.inputs_known,
        "sequential": model.state is not None and model.state.sequential,
    }


def _iso(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant is not None else None
