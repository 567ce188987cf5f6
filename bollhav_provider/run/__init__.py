"""One run: plan a window into units, live one unit's life.

The steps, in order: :func:`prepare` once a run, :func:`execute_unit` (or :func:`execute_units`, or a
:class:`Worker`) for what it lists, :func:`finish` where the end of the run is known. Where connections come from
is the caller's: :class:`Connections`.
"""

from __future__ import annotations

from bollhav_provider.run.cascade import CascadeStep, steps_of
from bollhav_provider.run.connections import Connections, ConnectOptions, DsnConnections, connect
from bollhav_provider.run.execute import execute_unit, execute_units, pointless
from bollhav_provider.run.prepare import finish, prepare
from bollhav_provider.run.results import Prepared, UnitOutcome, UnitStats, batches
from bollhav_provider.run.spec import RunSpec, run_key
from bollhav_provider.run.worker import Worker

__all__ = [
    "CascadeStep",
    "ConnectOptions",
    "Connections",
    "DsnConnections",
    "Prepared",
    "RunSpec",
    "UnitOutcome",
    "UnitStats",
    "Worker",
    "batches",
    "connect",
    "execute_unit",
    "execute_units",
    "finish",
    "pointless",
    "prepare",
    "run_key",
    "steps_of",
]
