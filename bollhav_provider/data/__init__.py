"""Users' tables: create, read, write, check. The only room that touches them.

Names are looked up when they are used, so that importing the room costs neither polars nor a database driver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bollhav_provider.data.checks import CheckFailure, CheckReport, run_checks
    from bollhav_provider.data.ddl import TargetReport, ensure_target
    from bollhav_provider.data.privileges import Preflight, preflight
    from bollhav_provider.data.query import write_query
    from bollhav_provider.data.stats import WriteStats
    from bollhav_provider.data.views import create_view
    from bollhav_provider.data.writer import write

#: Public name -> the module that holds it.
_WHERE = {
    "CheckFailure": "checks",
    "CheckReport": "checks",
    "Preflight": "privileges",
    "TargetReport": "ddl",
    "WriteStats": "stats",
    "create_view": "views",
    "ensure_target": "ddl",
    "preflight": "privileges",
    "run_checks": "checks",
    "write": "writer",
    "write_query": "query",
}

__all__ = [
    "CheckFailure",
    "CheckReport",
    "Preflight",
    "TargetReport",
    "WriteStats",
    "create_view",
    "ensure_target",
    "preflight",
    "run_checks",
    "write",
    "write_query",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_WHERE)
