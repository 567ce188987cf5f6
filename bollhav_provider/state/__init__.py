"""State: the only room that knows the library. Schema, library, units, claims, transitions, coverage, gates.

Functions take psycopg connections in autocommit and open their own transactions, unless they say otherwise.
"""

from __future__ import annotations

from bollhav_provider.state import coverage, reasons
from bollhav_provider.state.claims import Claim, Holder, Refusal, claim, renew, try_claim, unlock, unlock_model
from bollhav_provider.state.clock import db_now
from bollhav_provider.state.flexible import prune
from bollhav_provider.state.gate_types import GateReport, GateRequest, GateRequests, GateResult
from bollhav_provider.state.gates import acheck_gates, acheck_unit, check_gates, check_unit, gate_requests
from bollhav_provider.state.history import Attempt, ErrorRecord, Retention, attempts, errors, purge
from bollhav_provider.state.library import LibraryEntry, entries, get_entry, register, require_entry
from bollhav_provider.state.marking import mark_applied
from bollhav_provider.state.observe import GateWatch, aobserve, aobserve_all, observe, observe_all
from bollhav_provider.state.prefill import declared_range, prefill
from bollhav_provider.state.reconcile import Reconciled, reconcile
from bollhav_provider.state.refs import RunKey, StateRef, account, channel
from bollhav_provider.state.reset import reset
from bollhav_provider.state.schema import bootstrap
from bollhav_provider.state.transitions import ApplyStats, apply, block, fail, release
from bollhav_provider.state.units import UnitRow, units, working

__all__ = [
    "ApplyStats",
    "Attempt",
    "Claim",
    "ErrorRecord",
    "GateReport",
    "GateRequest",
    "GateRequests",
    "GateResult",
    "GateWatch",
    "Holder",
    "LibraryEntry",
    "Reconciled",
    "Refusal",
    "Retention",
    "RunKey",
    "StateRef",
    "UnitRow",
    "account",
    "acheck_gates",
    "acheck_unit",
    "aobserve",
    "aobserve_all",
    "apply",
    "attempts",
    "block",
    "bootstrap",
    "channel",
    "check_gates",
    "check_unit",
    "claim",
    "coverage",
    "db_now",
    "declared_range",
    "entries",
    "errors",
    "fail",
    "gate_requests",
    "get_entry",
    "mark_applied",
    "observe",
    "observe_all",
    "prefill",
    "prune",
    "purge",
    "reasons",
    "reconcile",
    "register",
    "release",
    "renew",
    "require_entry",
    "reset",
    "try_claim",
    "units",
    "unlock",
    "unlock_model",
    "working",
]
