"""Taking a unit: at once, after its dead holder's lease, or not at all (Semantics: claims).

Losing a race to a live worker is a skip. A unit that a dead worker left behind is no such race: it is this
worker's to do, and to report it as done, or as skipped, before somebody did it would be a lie. Who is dead?

* An earlier try of the same task: the scheduler starts a retry only when the try before it is over, mostly.
* A worker whose session lock is gone while its lease still runs: its server session ended with it.

Neither is a proof on its own: a scheduler may have lost sight of a worker that lives, and a worker may have
lost its connection and be about to open another. So the lease is waited for, unless both hold, or the second
holds and the worker's process is known to be gone from this machine. Then nothing of it can be under way: its
transaction ended with its session, and what might still come is fenced by the attempt number.
"""

from __future__ import annotations

import logging
import time
from datetime import timedelta

from bollhav_provider import state
from bollhav_provider.exceptions import UnitBusyError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Model
from bollhav_provider.run.lanes import Lanes
from bollhav_provider.run.spec import RunSpec
from bollhav_provider.state.owners import is_over

logger = logging.getLogger(__name__)

#: Seconds between two looks at a unit that is waited for; a look is the claim itself.
_PAUSE = (0.05, 1.0)


def take(
    lanes: Lanes, model: Model, spec: RunSpec, unit: Unit, lease: timedelta
) -> state.Claim | state.Refusal:
    """Take the claim on a unit, waiting for a dead holder's lease where there is one.

    Args:
        lanes: the worker's connections.
        model: registered, with state.
        spec: who works, and how long to wait at most.
        unit: what to take.
        lease: how long the claim lasts without being renewed.

    Returns:
        The claim; or why there is nothing to do: the unit is applied, its row is gone, or a live worker has it.

    Raises:
        UnitBusyError: a worker that is over, or an earlier try of this task that is not, holds the unit longer than
            the run waits.
        ModelLockedError: another run holds the whole model.
    """
    started = time.monotonic()
    patience = spec.busy_timeout.total_seconds()
    pause = min(max(lease.total_seconds() / 20, _PAUSE[0]), _PAUSE[1])
    first: state.Refusal | None = None
    over: str | None = None
    while True:
        result = state.try_claim(
            lanes.state, model, spec.env, unit, spec.run, lease, locks=spec.advisory_locks, over=over
        )
        if isinstance(result, state.Claim):
            if first is not None:
                logger.info(
                    "%s %s: taken over after %.1f s.", model.full_name, unit.label, time.monotonic() - started
                )
            return result
        holder = result.holder
        if result.final or holder is None:
            return result
        mine = holder.precedes(spec.run)
        if not mine and (not holder.gone or _renewed(first, result)):
            return result  # a race that is lost to somebody who lives
        if over is None and lanes.shared and holder.gone and (mine or is_over(holder.owner)):
            over, first = holder.owner, first or result
            logger.warning(
                "%s %s: %s (%s) is over, and so is its session: its unit is taken over.",
                model.full_name, unit.label, _who(holder, mine), holder.owner,
            )  # fmt: skip
            continue
        waited = time.monotonic() - started
        if waited >= patience:
            raise UnitBusyError(
                model.full_name, unit.label, holder.owner, _until(result), _who(holder, mine), waited
            )
        if first is None:
            first = result
            logger.warning(
                "%s %s: %s (%s) still holds the unit, until %s unless it renews its lease; waiting for %.0f s at most.",
                model.full_name, unit.label, _who(holder, mine), holder.owner,
                _until(result) or "its session ends", patience,
            )  # fmt: skip
        time.sleep(min(pause, max(patience - waited, _PAUSE[0])))


def _renewed(first: state.Refusal | None, now: state.Refusal) -> bool:
    """Return whether the holder was seen to be alive meanwhile: it is another one, or it renewed its lease."""
    if first is None or first.holder is None or now.holder is None:
        return False
    return (first.holder.owner, first.lease_until) != (now.holder.owner, now.lease_until)


def _who(holder: state.Holder, mine: bool) -> str:
    return f"try {holder.try_number} of this task" if mine else f"a worker of run {holder.run_id}"


def _until(refusal: state.Refusal) -> str:
    return refusal.lease_until.isoformat(timespec="seconds") if refusal.lease_until is not None else ""
