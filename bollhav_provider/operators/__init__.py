"""The provider's operators, for generated DAGs and for DAGs of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bollhav_provider.operators.execute import ExecuteOperator
    from bollhav_provider.operators.library import (
        CheckGatesOperator,
        MarkAppliedOperator,
        RecordAppliedOperator,
        ResetOperator,
    )
    from bollhav_provider.operators.prefill import PrefillOperator
    from bollhav_provider.operators.run_model import RunModelOperator

#: Imported when touched: naming a module of this package must not load Airflow.
_WHERE = {
    "CheckGatesOperator": "library",
    "ExecuteOperator": "execute",
    "MarkAppliedOperator": "library",
    "PrefillOperator": "prefill",
    "RecordAppliedOperator": "library",
    "ResetOperator": "library",
    "RunModelOperator": "run_model",
}

__all__ = [
    "CheckGatesOperator",
    "ExecuteOperator",
    "MarkAppliedOperator",
    "PrefillOperator",
    "RecordAppliedOperator",
    "ResetOperator",
    "RunModelOperator",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
