"""For people who test their models: a fixture, a function, and what they stand on.

With pytest the fixture is there by itself::

    def test_carrier_day(bollhav):
        out = bollhav.run(carrier_day, "2013-01-01", flights=FLIGHTS, airlines=AIRLINES)
        assert out.row(0, named=True)["flights"] == 842

Names are looked up when they are used, so that importing this costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bollhav_provider.testing.bench import ModelBench, run_model
    from bollhav_provider.testing.clock import frozen_clock
    from bollhav_provider.testing.invariance import assert_partition_invariant
    from bollhav_provider.testing.postgres import PostgresServer

#: Public name -> the module that holds it.
_WHERE = {
    "ModelBench": "bench",
    "PostgresServer": "postgres",
    "assert_partition_invariant": "invariance",
    "frozen_clock": "clock",
    "run_model": "bench",
}

__all__ = ["ModelBench", "PostgresServer", "assert_partition_invariant", "frozen_clock", "run_model"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_WHERE)
