"""What every task of the provider imports, imported once by the processes that tasks are forked from.

The scheduler's LocalExecutor forks a process for each task, and the DAG processor one for each file that it parses;
what they have loaded, nobody loads again. polars is left out on purpose: importing it starts threads, and a process
with threads must not be forked.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from airflow.providers.common.compat.sdk import hookimpl

log = logging.getLogger(__name__)

#: Modules of a DAG file with models, and of the tasks in it.
_MODULES = (
    "bollhav_provider.data.ddl",
    "bollhav_provider.data.query",
    "bollhav_provider.data.upstream",
    "bollhav_provider.data.writer",
    "bollhav_provider.factory.build",
    "bollhav_provider.graph",
    "bollhav_provider.hooks.library",
    "bollhav_provider.model",
    "bollhav_provider.run",
    "bollhav_provider.sensors.upstream",
    "bollhav_provider.triggers.questions",
)
#: What Airflow passes for a long-lived process; a task passes something else.
_LONG_LIVED = "Job"


@hookimpl
def on_starting(component: Any) -> None:
    """Import what the tasks of this process will need."""
    if type(component).__name__ != _LONG_LIVED:
        return
    try:
        for name in _MODULES:
            import_module(name)
        _complete()
    except Exception:  # a task that needs it says so itself; the scheduler has other work
        log.exception("what bollhav's tasks import cannot be imported ahead of them")


def _complete() -> None:
    """Let pydantic build the definitions' validators, which it would do at the first definition of each kind."""
    from bollhav_provider.model.base import pieces
    from bollhav_provider.model.later import build_now

    build_now()
    for piece in pieces():
        piece.model_rebuild()
