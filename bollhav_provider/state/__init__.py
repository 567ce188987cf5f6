"""State: the only room that knows the library. Schema, library, units, claims, transitions, coverage, gates.

Functions take psycopg connections in autocommit and open their own transactions, unless they say otherwise.
"""

from __future__ import annotations

from bollhav_provider.state import coverage, reasons
from bollhav_provider.state.gate_types import GateReport, GateRequest, GateRequests, GateResult
from bollhav_provider.state.gates import acheck_gates, acheck_unit, check_gates, check_unit, gate_requests
from bollhav_provider.state.observe import GateWatch, aobserve, aobserve_all, observe, observe_all
from bollhav_provider.state.refs import RunKey, StateRef

__all__ = [
    "GateReport",
    "GateRequest",
    "GateRequests",
    "GateResult",
    "GateWatch",
    "RunKey",
    "StateRef",
    "acheck_gates",
    "acheck_unit",
    "aobserve",
    "aobserve_all",
    "check_gates",
    "check_unit",
    "coverage",
    "gate_requests",
    "observe",
    "observe_all",
    "reasons",
]
