"""Incremental PostgreSQL tables with real state, inside the Airflow you already run.

The public names are imported when they are first touched, so ``import bollhav_provider`` costs neither
Airflow nor polars nor a database driver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from bollhav_provider.dag_factory import build_dags
    from bollhav_provider.data.upstream import Upstream
    from bollhav_provider.exceptions import BollhavError, DefinitionError, DefinitionWarning
    from bollhav_provider.factory.task_group import ModelTaskGroup
    from bollhav_provider.intervals import Grid, Interval, IntervalSet, Unit
    from bollhav_provider.model import (
        AcceptedValues,
        AirflowOptions,
        Batch,
        Check,
        ChunkFix,
        ChunkFlex,
        Column,
        ColumnFreshness,
        Contract,
        Curfew,
        EmptyPolicy,
        Environment,
        Expression,
        Freshness,
        FreshnessScope,
        Index,
        InRange,
        Materialization,
        Model,
        NotNull,
        OnSchemaChange,
        People,
        Relationship,
        RowCount,
        Severity,
        Source,
        SourceApi,
        SourceFile,
        SourceHardcoded,
        SourceModel,
        Staging,
        State,
        TableId,
        Tags,
        Target,
        Temporality,
        TimeChunking,
        Unique,
        UpstreamContract,
        WriteMode,
    )

_MODEL = (
    "AcceptedValues",
    "AirflowOptions",
    "Batch",
    "Check",
    "ChunkFix",
    "ChunkFlex",
    "Column",
    "ColumnFreshness",
    "Contract",
    "Curfew",
    "EmptyPolicy",
    "Environment",
    "Expression",
    "Freshness",
    "FreshnessScope",
    "InRange",
    "Index",
    "Materialization",
    "Model",
    "NotNull",
    "OnSchemaChange",
    "People",
    "Relationship",
    "RowCount",
    "Severity",
    "Source",
    "SourceApi",
    "SourceFile",
    "SourceHardcoded",
    "SourceModel",
    "Staging",
    "State",
    "TableId",
    "Tags",
    "Target",
    "Temporality",
    "TimeChunking",
    "Unique",
    "UpstreamContract",
    "WriteMode",
)

#: Where each public name lives.
_HOMES = {
    **dict.fromkeys(_MODEL, "bollhav_provider.model"),
    **dict.fromkeys(("Grid", "Interval", "IntervalSet", "Unit"), "bollhav_provider.intervals"),
    **dict.fromkeys(("BollhavError", "DefinitionError", "DefinitionWarning"), "bollhav_provider.exceptions"),
    "Upstream": "bollhav_provider.data.upstream",
    "ModelTaskGroup": "bollhav_provider.factory.task_group",
    "build_dags": "bollhav_provider.dag_factory",
}

__all__ = [
    "AcceptedValues",
    "AirflowOptions",
    "Batch",
    "BollhavError",
    "Check",
    "ChunkFix",
    "ChunkFlex",
    "Column",
    "ColumnFreshness",
    "Contract",
    "Curfew",
    "DefinitionError",
    "DefinitionWarning",
    "EmptyPolicy",
    "Environment",
    "Expression",
    "Freshness",
    "FreshnessScope",
    "Grid",
    "InRange",
    "Index",
    "Interval",
    "IntervalSet",
    "Materialization",
    "Model",
    "ModelTaskGroup",
    "NotNull",
    "OnSchemaChange",
    "People",
    "Relationship",
    "RowCount",
    "Severity",
    "Source",
    "SourceApi",
    "SourceFile",
    "SourceHardcoded",
    "SourceModel",
    "Staging",
    "State",
    "TableId",
    "Tags",
    "Target",
    "Temporality",
    "TimeChunking",
    "Unique",
    "Unit",
    "Upstream",
    "UpstreamContract",
    "WriteMode",
    "build_dags",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
