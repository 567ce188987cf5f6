"""The definition language: what a user writes to declare a table or view.

Pure data: no connection, no clock, no I/O, and nothing heavy at import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bollhav_provider.model.airflow import AirflowOptions
from bollhav_provider.model.base import Definition
from bollhav_provider.model.column import Column, Index
from bollhav_provider.model.enums import (
    EmptyPolicy,
    FreshnessScope,
    Materialization,
    OnSchemaChange,
    Severity,
    Temporality,
    UpstreamContract,
    WriteMode,
)
from bollhav_provider.model.environment import Environment
from bollhav_provider.model.model import Model
from bollhav_provider.model.names import TableId
from bollhav_provider.model.people import Curfew, People, Tags
from bollhav_provider.model.signature import RESERVED, Parameter
from bollhav_provider.model.source import Source
from bollhav_provider.model.source_model import SourceModel
from bollhav_provider.model.state import State
from bollhav_provider.model.target import KeyConstraint, Staging, Target
from bollhav_provider.model.timing import Batch, ChunkFix, ChunkFlex, Contract, TimeChunking

if TYPE_CHECKING:
    from bollhav_provider.model.checks import (
        AcceptedValues,
        Check,
        ColumnFreshness,
        Expression,
        InRange,
        NotNull,
        Relationship,
        RowCount,
        Unique,
    )
    from bollhav_provider.model.freshness import Freshness
    from bollhav_provider.model.hardcoded import SourceHardcoded
    from bollhav_provider.model.lineage import Dataset, Lineage, dataset_name
    from bollhav_provider.model.pgtypes import PgType, parse_type
    from bollhav_provider.model.source_types import SourceApi, SourceFile

_CHECKS = (
    "AcceptedValues",
    "Check",
    "ColumnFreshness",
    "Expression",
    "InRange",
    "NotNull",
    "Relationship",
    "RowCount",
    "Unique",
)
#: What is imported when it is first touched, because writing a definition does not need it.
_LATER = {
    **dict.fromkeys(_CHECKS, "checks"),
    "Dataset": "lineage",
    "Freshness": "freshness",
    "Lineage": "lineage",
    "PgType": "pgtypes",
    "SourceApi": "source_types",
    "SourceFile": "source_types",
    "SourceHardcoded": "hardcoded",
    "dataset_name": "lineage",
    "parse_type": "pgtypes",
}

__all__ = [
    "RESERVED",
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
    "Dataset",
    "Definition",
    "EmptyPolicy",
    "Environment",
    "Expression",
    "Freshness",
    "FreshnessScope",
    "InRange",
    "Index",
    "KeyConstraint",
    "Lineage",
    "Materialization",
    "Model",
    "NotNull",
    "OnSchemaChange",
    "Parameter",
    "People",
    "PgType",
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
    "dataset_name",
    "parse_type",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value
