"""Sensors for generated DAGs and for DAGs of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bollhav_provider.sensors.upstream import UpstreamSensor

#: Imported when touched: naming a module of this package must not load Airflow.
_WHERE = {"UpstreamSensor": "upstream"}

__all__ = ["UpstreamSensor"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
