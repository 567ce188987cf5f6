"""Airflow's way to the library: the hook of connection type ``bollhav``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bollhav_provider.hooks.library import LibraryHook

#: Imported when touched: naming a module of this package must not load Airflow.
_WHERE = {"LibraryHook": "library"}

__all__ = ["LibraryHook"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
