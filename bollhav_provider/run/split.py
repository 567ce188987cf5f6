"""Target and state in two databases: what can be promised, and how.

The rows' transaction carries the claim's token. When the worker dies between the two commits, the next
attempt of the same run, or of a run that only looks for what is outstanding, finds the token, sees that the
state does not know of it, and records what is there instead of writing it a second time. A run that
invalidates its window writes again, as it was asked to.
"""

from __future__ import annotations

import logging

from bollhav_provider import state
from bollhav_provider.data.commits import CommitMark, close_mark, open_mark, read_mark
from bollhav_provider.exceptions import LeaseLostError
from bollhav_provider.run import checkpoints
from bollhav_provider.run.commit import unit_transaction
from bollhav_provider.run.heartbeat import Heartbeat
from bollhav_provider.run.lanes import Lanes
from bollhav_provider.run.spec import RunSpec
from bollhav_provider.run.work import Work, Written
from bollhav_provider.state.outcome import is_applied_by

logger = logging.getLogger(__name__)


def write(lanes: Lanes, work: Work, claim: state.Claim, spec: RunSpec, heartbeat: Heartbeat) -> Written:
    """Commit a unit's rows with the claim's token, or find that an earlier attempt did.

    Raises:
        LeaseLostError: a later attempt has written the unit.
    """
    target = spec.env.table(work.model.identity)
    mark = CommitMark(claim.id, claim.attempt, claim.owner, claim.run.run_id)
    left = read_mark(lanes.target, target, work.unit)
    if left is not None and _stands(lanes, left, claim, spec):
        logger.warning(
            "%s: attempt %d committed its rows and died before it could say so: they are recorded, not "
            "written again.",
            work.label,
            left.attempt,
        )
        adopted = CommitMark(
            mark.claim_row,
            mark.attempt,
            mark.owner,
            mark.run_id,
            left.rows_in,
            left.rows_written,
            left.rows_changed,
        )
        with lanes.target.transaction():
            _open(lanes, work, spec, adopted)
            close_mark(lanes.target, target, work.unit, adopted)
        return Written(left.rows_in, left.rows_written, left.rows_changed)
    payload = work.compute()
    heartbeat.check()

    def look() -> bool:
        lanes.drop_main()
        found = read_mark(lanes.target, target, work.unit)
        return found is not None and found.owner == claim.owner

    conn = lanes.target
    with unit_transaction(conn, work.label, look):
        _open(lanes, work, spec, mark)
        written = work.store(conn, payload)
        heartbeat.check()
        done = CommitMark(
            mark.claim_row,
            mark.attempt,
            mark.owner,
            mark.run_id,
            written.rows_in,
            written.rows_written,
            written.rows_changed,
        )
        close_mark(conn, target, work.unit, done)
        checkpoints.reach(checkpoints.AFTER_WRITE, work.unit)
    return written


def _open(lanes: Lanes, work: Work, spec: RunSpec, mark: CommitMark) -> None:
    if not open_mark(lanes.target, spec.env.table(work.model.identity), work.unit, mark):
        raise LeaseLostError(
            f"{work.label}: a later attempt has written the unit already; nothing of attempt {mark.attempt} "
            f"is committed."
        )


def _stands(lanes: Lanes, left: CommitMark, claim: state.Claim, spec: RunSpec) -> bool:
    """Return whether rows that are in the target are what this claim is to write."""
    wanted = left.run_id == claim.run.run_id or spec.mode == "discover"
    return wanted and not is_applied_by(lanes.state, claim.state, claim.unit, left.owner)
