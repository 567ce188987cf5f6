"""Claims: a unit is worked on by the one holder of its lease (Semantics: claims).

A lease is an attempt number and an expiry by the database's clock on the unit's row, renewed while the work
goes on. Every later transition is conditional on that attempt. Where the connection leads straight to the
server, the session advisory lock of the shared protocol is held as well, so that other implementations keep
off; behind a transaction pooler such a lock would stay with a server connection that is somebody else's a
moment later, so there it is only looked at.
"""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, cast
from uuid import UUID

from psycopg import sql

from bollhav_provider.exceptions import ConfigurationError, LeaseLostError, ModelLockedError
from bollhav_provider.intervals import Unit
from bollhav_provider.state.clock import utc
from bollhav_provider.state.owners import new_owner
from bollhav_provider.state.refs import Conn, RunKey, StateRef
from bollhav_provider.state.schema import function
from bollhav_provider.state.single import grows

if TYPE_CHECKING:
    from bollhav_provider.model import Environment, Model

log = logging.getLogger(__name__)

#: ``auto`` holds the session lock where the connection is direct, ``on`` always (a pooler in session mode),
#: ``off`` never.
Locks = Literal["auto", "on", "off"]
LOCKS: tuple[Locks, ...] = ("auto", "on", "off")

#: Somebody who only looks at a unit holds its lock for a moment: so often we come back, and so long we wait,
#: in seconds.
_LOCK_TRIES = 4
_LOCK_PAUSE = 0.02

FILE = "claims.sql"


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to work on one unit, until it expires, is ended or is lost.

    Attributes:
        state: the state table.
        unit: what is worked on.
        id: the row's id.
        attempt: the fencing token: how often the unit was claimed, this time included.
        owner: this worker; unique to the claim.
        expires_at: when the lease ended by the database's clock, as of the claim.
        run: who works.
        lock_key: the unit's advisory lock key.
        lock_pid: the server process whose session holds the advisory lock; None where only the lease is held.
        model_key: the model's advisory lock key when it allows no concurrent runs.
        content_hash: of the model's inline inputs, recorded when the unit is applied.
    """

    state: StateRef
    unit: Unit
    id: int
    attempt: int
    owner: str
    expires_at: datetime
    run: RunKey
    lock_key: str
    lock_pid: int | None = None
    model_key: str | None = None
    content_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a unit that somebody else wants.

    Attributes:
        owner: the claim's owner.
        run_id, task_id, try_number: which run, task and try.
        gone: the claim came with a session lock and the session that held it is over: its worker is dead, or lost
            its connection. False says nothing where there is no session lock (a transaction pooler).
    """

    owner: str
    run_id: UUID
    task_id: str | None
    try_number: int | None
    gone: bool

    def precedes(self, run: RunKey) -> bool:
        """Return whether this is an earlier try of the very task that ``run`` names.

        Such a try is over as far as the scheduler knows: it starts the next one only then.
        """
        return (
            self.run_id == run.run_id
            and self.task_id == run.task_id
            and self.try_number is not None
            and run.try_number is not None
            and self.try_number < run.try_number
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a unit could not be claimed.

    Attributes:
        outcome: ``applied``: nothing is left to do; ``missing``: its row is gone, another run reset or re-sliced the
            model; ``busy``: a lease of somebody else's lives; ``locked``: another session holds its advisory lock;
            ``overlap``: a unit that overlaps it is being worked on.
        detail: who, or which.
        lease_until: when the lease of a busy unit ends unless it is renewed, by the database's clock.
        holder: who has it, as far as a row says.
    """

    outcome: Literal["applied", "missing", "busy", "locked", "overlap"]
    detail: str = ""
    lease_until: datetime | None = None
    holder: Holder | None = None

    @property
    def final(self) -> bool:
        """Whether there is nothing to wait for. Else the unit is in somebody's hands, who may be dead."""
        return self.outcome in ("applied", "missing")

    @property
    def reason(self) -> str:
        """One sentence for a log."""
        return _EXPLAINED[self.outcome].format(self.detail or "unknown")


def claim(
    conn: Conn,
    model: Model,
    env: Environment,
    unit: Unit,
    run: RunKey,
    lease: timedelta | None = None,
    *,
    locks: str = "auto",
) -> Claim | None:
    """Take the claim on a unit, in one round trip.

    Args:
        conn: in autocommit; the session's advisory lock is taken on it.
        model: registered, with state.
        env: names the schema.
        unit: one of :func:`units`.
        run: who works.
        lease: how long the claim lasts without being renewed; ``State(lease_seconds=)`` when not given.
        locks: ``auto``, ``on`` or ``off``: the session advisory lock beside the lease.

    Returns:
        The claim, or None, which is logged, when there is nothing for this worker to do: the unit is applied,
        somebody else works on it or on one that overlaps it, or its row is gone. :func:`try_claim` says which.

    Raises:
        ModelLockedError: the model allows no concurrent runs and another run is at it.
        ConfigurationError: ``locks`` has no meaning.
    """
    result = try_claim(conn, model, env, unit, run, lease, locks=locks)
    if isinstance(result, Claim):
        return result
    log.info("%s %s: not ours: %s", StateRef.of(model, env).full_name, unit.label, result.reason)
    return None


def try_claim(
    conn: Conn,
    model: Model,
    env: Environment,
    unit: Unit,
    run: RunKey,
    lease: timedelta | None = None,
    *,
    locks: str = "auto",
    over: str | None = None,
) -> Claim | Refusal:
    """As :func:`claim`, but say why not: a retry whose first try died has to wait for that one's lease to end.

    Args:
        over: owner of a claim that the caller knows to be over (see :class:`Holder`). Its lease is not waited for when
            the session that held the unit's lock for it is gone too. Whatever is left of that worker is fenced by the
            attempt number, like after any take-over.
    """
    if locks not in LOCKS:
        raise ConfigurationError(f"advisory locks: {locks!r} is none of {', '.join(LOCKS)}.")
    ref = StateRef.of(model, env)
    state = model.state
    exclusive = state is not None and not state.allow_concurrent_runs
    lease = lease or timedelta(seconds=state.lease_seconds if state is not None else 60)
    owner = new_owner()
    key = ref.unit_key(unit)
    model_key = ref.full_name if exclusive else None
    shape = "single" if grows(model) else "flexible" if model.is_flexible else "grid"
    values = (
        ref.table, ref.full_name, model.temporality.value, key, model_key, shape, unit.since, unit.until,
        owner, lease, run.run_id, run.who, run.dag_id, run.airflow_run_id, run.task_id, run.try_number,
        conn.info.backend_pid, locks, over,
    )  # fmt: skip
    query = sql.SQL(
        "SELECT outcome, id, attempt, lease_until, lock_pid, detail, gone, holder_owner, holder_run, holder_task, "
        "holder_try FROM {}({})"
    ).format(
        function(ref.schema, "claim", FILE), sql.SQL(", ").join([sql.Placeholder()] * len(values))
    )
    for attempt in range(1, _LOCK_TRIES + 1):
        row = conn.execute(query, values).fetchone()
        assert row is not None
        outcome, row_id, number, lease_until, lock_pid, detail, gone, held_by, *which = row
        if outcome == "locked" and detail in ("pending", "blocked", "error") and attempt < _LOCK_TRIES:
            # the holder is about to claim it, or only looked
            time.sleep(random.uniform(0.5, 1.5) * _LOCK_PAUSE * attempt)
            continue
        break
    if outcome == "claimed":
        return Claim(
            ref, unit, row_id, number, owner, utc(lease_until), run, key, lock_pid, model_key,
            model.content_hash
        )  # fmt: skip
    if outcome == "model_locked":
        raise ModelLockedError(
            f"{ref.full_name}: State(allow_concurrent_runs=False) and another run is at work: {detail}. "
            "Wait for it to end; "
            "the lock of a run that died ends with its lease."
        )
    run_id, task_id, try_number = which
    holder = Holder(held_by, run_id, task_id, try_number, bool(gone)) if held_by is not None else None
    return Refusal(outcome, detail or "", utc(lease_until) if lease_until is not None else None, holder)


_EXPLAINED = {
    "locked": "another session holds its advisory lock (status {})",
    "busy": "{} works on it",
    "applied": "it is applied already",
    "missing": "it has no row any more; another run reset or re-sliced the model",
    "overlap": "a unit that overlaps it is being worked on: {}",
}


def renew(conn: Conn, claim: Claim, lease: timedelta) -> datetime:
    """Extend the lease of a claim that is still held; call it several times per lease, from a connection of
    its own.

    Args:
        conn: in autocommit; not the one that the unit's transaction runs on.
        claim: to be extended.
        lease: from now on, by the database's clock.

    Returns:
        The new expiry.

    Raises:
        LeaseLostError: it expired, was taken over or was ended; nothing of this attempt may be committed.
    """
    ref = claim.state
    query = sql.SQL("SELECT {}(%s, %s, %s, %s, %s, %s, %s)").format(function(ref.schema, "renew", FILE))
    values = (ref.table, claim.id, claim.attempt, claim.owner, lease, claim.run.run_id, claim.model_key)
    row = conn.execute(query, values).fetchone()
    if row is None or row[0] is None:
        raise LeaseLostError(
            f"{ref.full_name} {claim.unit.label}: the lease of attempt {claim.attempt} is lost: it expired, "
            "or the unit was reset or taken over. Nothing of this attempt is committed; make the lease longer if "
            "the worker was only slow."
        )
    return utc(cast(datetime, row[0]))


def unlock(conn: Conn, claim: Claim) -> bool:
    """Give back the session advisory lock of a claim that was ended on another connection.

    Ending a claim on the connection that took it gives the lock back with the commit; this is for a unit
    whose rows and state were committed elsewhere. Returns whether the lock was held.
    """
    if claim.lock_pid is None:
        return False
    ref = claim.state
    query = sql.SQL("SELECT {}(%s, %s, %s)").format(function(ref.schema, "hand_back_lock", FILE))
    conn.execute(query, (claim.lock_pid, claim.lock_key, claim.model_key))
    return True


def unlock_model(conn: Conn, model: Model, env: Environment, run: RunKey) -> bool:
    """End the model-wide lock of a run before its lease does, when the run is known to be over.

    Returns:
        Whether the run held it.
    """
    ref = StateRef.of(model, env)
    query = sql.SQL("DELETE FROM {} WHERE state_table = %s AND run_id = %s").format(
        sql.Identifier(ref.schema, "model_locks")
    )
    return conn.execute(query, (ref.table, run.run_id)).rowcount == 1
