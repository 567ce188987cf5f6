"""One unit's life: claim, gates, work, one transaction, and what comes after (Semantics: state, commit)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from bollhav_provider import state
from bollhav_provider.exceptions import CommitUnknownError, EmptyUnitError, LeaseLostError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Model
from bollhav_provider.run import checkpoints, split
from bollhav_provider.run.commit import unit_transaction
from bollhav_provider.run.connections import Connections
from bollhav_provider.run.heartbeat import Heartbeat
from bollhav_provider.run.inputs import Bindings
from bollhav_provider.run.lanes import Lanes
from bollhav_provider.run.lookups import inputs_of
from bollhav_provider.run.refusals import refused
from bollhav_provider.run.results import UnitOutcome, UnitStats
from bollhav_provider.run.spec import RunSpec
from bollhav_provider.run.taking import take
from bollhav_provider.run.work import Work, Written
from bollhav_provider.state import outcome as outcomes

logger = logging.getLogger(__name__)

#: A model without state has no lease to say how long it lasts.
_NO_LEASE = timedelta(seconds=60)


class Worker:
    """Works off units of one model on one set of connections; a context manager.

    Args:
        connections: where they come from.
        graph: binds the model's upstreams.
        model: what is run.
        spec: how.
        context: given to execute functions that ask for ``context``.
        on_commit: told of every applied unit after its commit; a failure in it is logged and changes nothing.
        interrupts: exceptions that mean "stopped from outside" beside those that are no ``Exception`` at all:
            the unit is left ``pending``.
    """

    def __init__(
        self,
        connections: Connections,
        graph: Bindings,
        model: Model,
        spec: RunSpec,
        *,
        context: Mapping[str, Any] | None = None,
        on_commit: Callable[[UnitOutcome], None] | None = None,
        interrupts: tuple[type[BaseException], ...] = (),
    ) -> None:
        self.model = model
        self.spec = spec
        self._context = context or {}
        self._on_commit = on_commit
        self._interrupts = interrupts
        self._enabled = graph.is_enabled(model)
        self._lanes = Lanes(connections, model)
        self._inputs = inputs_of(graph, model, spec.env, self._lanes)
        declared = timedelta(seconds=model.state.lease_seconds) if model.state else _NO_LEASE
        self._lease = spec.lease or declared

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._lanes.close()

    def execute(self, unit: Unit) -> UnitOutcome:
        """Do one unit.

        Returns:
            ``applied``, or ``skipped`` with the reason when there is nothing for this worker to do.

        Raises:
            UnitBusyError: a worker that is over, an earlier try of this task for instance, still holds the unit.
            GateClosedError: an upstream is not ready; the row is ``blocked`` and says so.
            HardGateError: a gate that can never open as declared; the row is ``blocked``.
            LeaseLostError: the claim was lost meanwhile; nothing was committed.
            ServerRefusedError: a full disk, a lock that was not had in time and the like; the row is ``error``.
            CommitUnknownError: the connection broke during the commit and nobody can say what became of it.
            Exception: whatever the model's function or the database raised; the row is ``error``.
        """
        if refusal := self._refusal():
            logger.info("%s %s: not started: %s", self.model.full_name, unit.label, refusal)
            return UnitOutcome(unit, "skipped", refusal)
        started = time.monotonic()
        work = Work(self.model, self.spec, unit, self._lanes, self._inputs, self._context)
        if not self.model.is_tracked or self.spec.state_disabled:
            written = self._without_state(work)
        else:
            claim = take(self._lanes, self.model, self.spec, unit, self._lease)
            if isinstance(claim, state.Refusal):
                logger.info("%s %s: skipped: %s", self.model.full_name, unit.label, claim.reason)
                return UnitOutcome(unit, "skipped", claim.reason, before=claim.outcome == "applied")
            written = self._with_state(work, claim)
        stats = UnitStats(
            written.rows_in,
            written.rows_written,
            written.rows_changed,
            timedelta(seconds=time.monotonic() - started),
        )
        return self._finish(work, UnitOutcome(unit, "applied", stats=stats, warnings=written.warnings))

    def _refusal(self) -> str | None:
        """Say why no unit may start now, or None."""
        if not self._enabled:
            return "the model is not enabled here: it is read, never written"
        if self.spec.dry_state:
            return "the run is dry: it shows the plan and changes nothing"
        if self.model.curfew is not None:
            return self.model.curfew.closed_at(datetime.now(UTC))
        return None

    def _without_state(self, work: Work) -> Written:
        """Move the data alone. Nothing records them, so a broken commit cannot be looked up."""
        try:
            with self.spec.env.active():
                payload = work.compute()
                conn = self._lanes.target
                with unit_transaction(conn, work.label, lambda: _nothing_tells(work.label)):
                    return work.store(conn, payload)
        except BaseException as exc:
            self._lanes.recover()
            if told := refused(exc, self.model.full_name, work.unit.label):
                raise told from exc
            raise
        finally:
            self._lanes.release_reads()

    def _with_state(self, work: Work, claim: state.Claim) -> Written:
        blocked = False
        try:
            checkpoints.reach(checkpoints.AFTER_CLAIM, work.unit)
            report = self._check_gates(work.unit)
            if not report.open:
                blocked = state.block(self._lanes.state, claim, report) or True
                report.require_open()
            heartbeat = Heartbeat(
                lambda patience: self._renew(claim, patience), self._lease, self._lanes.interrupt, work.label
            )
            with heartbeat, self.spec.env.active():
                details = _details(report)
                if self._lanes.shared:
                    return self._commit_together(work, claim, heartbeat, details)
                return self._commit_apart(work, claim, heartbeat, details)
        except BaseException as exc:
            self._lanes.recover()
            told = refused(exc, self.model.full_name, work.unit.label)
            if told is not None:
                told.__cause__ = exc
            if not blocked:
                self._settle(claim, told or exc)
            if told is not None:
                raise told from exc
            raise
        finally:
            self._lanes.release_reads()

    def _check_gates(self, unit: Unit) -> state.GateReport:
        """Look at every gate once more, now that nobody else can start the unit; one round trip."""
        requests = state.gate_requests(self.model, self.spec.env, unit, self._inputs.gated_tables())
        for name in requests.skipped:
            logger.info(
                "%s %s: the gate on %s is not checked: deactivate_for_dev, and the run is suffixed; "
                "production is read.",
                self.model.full_name,
                unit.label,
                name,
            )
        if not len(requests):
            return state.GateReport((), requests.skipped)
        return state.check_unit(self._lanes.state, self.spec.env, requests)

    def _commit_together(
        self, work: Work, claim: state.Claim, heartbeat: Heartbeat, details: dict[str, Any] | None
    ) -> Written:
        """Write, check and apply in one transaction."""
        payload = work.compute()
        heartbeat.check()
        conn = self._lanes.target
        try:
            with unit_transaction(conn, work.label, lambda: self._was_applied(claim)):
                written = work.store(conn, payload)
                heartbeat.stop()  # a renewal would wait for the row that is about to be applied
                heartbeat.check()
                state.apply(conn, claim, _apply_stats(written, details))
                checkpoints.reach(checkpoints.AFTER_WRITE, work.unit)
        except psycopg.Error as exc:
            heartbeat.stop()
            if heartbeat.lost is not None:
                raise heartbeat.lost from exc
            raise
        return written

    def _commit_apart(
        self, work: Work, claim: state.Claim, heartbeat: Heartbeat, details: dict[str, Any] | None
    ) -> Written:
        """Commit the rows with the attempt's mark, then the state."""
        written = split.write(self._lanes, work, claim, self.spec, heartbeat)
        checkpoints.reach(checkpoints.BETWEEN_COMMITS, work.unit)
        heartbeat.stop()
        heartbeat.check()
        conn = self._lanes.state
        with unit_transaction(conn, work.label, lambda: self._was_applied(claim)):
            state.apply(conn, claim, _apply_stats(written, details))
        return written

    def _renew(self, claim: state.Claim, patience: float) -> None:
        with self._lanes.renewal(patience) as conn:
            state.renew(conn, claim, self._lease)

    def _was_applied(self, claim: state.Claim) -> bool:
        return outcomes.was_applied(self._lanes.fresh_state(), claim)

    def _settle(self, claim: state.Claim, exc: BaseException) -> None:
        """Say on the row how the unit ended. What cannot be said ends with the lease."""
        if isinstance(exc, LeaseLostError | CommitUnknownError):
            return  # the row is somebody else's, or nobody can reach it
        try:
            if isinstance(exc, EmptyUnitError):
                state.block(self._lanes.state, claim, str(exc))
            elif isinstance(exc, self._interrupts) or not isinstance(exc, Exception):
                state.release(self._lanes.state, claim, f"interrupted: {type(exc).__name__}")
            else:
                state.fail(self._lanes.state, claim, exc, details=_failure_details(exc))
        except (psycopg.Error, OSError) as problem:
            logger.error(
                "%s %s: could not be recorded: %s. The unit is free again when its lease ends.",
                claim.state.full_name,
                claim.unit.label,
                problem,
            )

    def _finish(self, work: Work, outcome: UnitOutcome) -> UnitOutcome:
        """Do what comes after the commit. The unit stays applied whatever happens here."""
        checkpoints.reach(checkpoints.AFTER_COMMIT, work.unit)
        steps: list[tuple[str, Callable[[], None]]] = [("archiving its files", work.archive)]
        if self._on_commit is not None:
            told = self._on_commit
            steps.append(("telling of its commit", lambda: told(outcome)))
        warnings = list(outcome.warnings)
        for what, step in steps:
            try:
                step()
            except Exception as exc:
                logger.exception("%s: applied, but %s failed", work.label, what)
                warnings.append(f"{what} failed: {exc}")
        if len(warnings) == len(outcome.warnings):
            return outcome
        return UnitOutcome(outcome.unit, outcome.status, outcome.reason, outcome.stats, tuple(warnings))


def _apply_stats(written: Written, details: dict[str, Any] | None) -> state.ApplyStats:
    if written.warnings:
        details = {**(details or {}), "warnings": list(written.warnings)}
    return state.ApplyStats(written.rows_in, written.rows_written, written.rows_changed, details=details)


def _details(report: state.GateReport) -> dict[str, Any] | None:
    """What a relaxation forgave stays with the unit."""
    lagging = [result.to_json() for result in report.lagging]
    return {"lag": lagging} if lagging else None


def _failure_details(exc: BaseException) -> dict[str, Any] | None:
    details = getattr(exc, "details", None)
    return dict(details) if isinstance(details, Mapping) else None


def _nothing_tells(label: str) -> bool:
    raise CommitUnknownError(
        f"{label}: the connection broke during COMMIT, and without state nothing says whether the rows are there: look "
        "at the target before running again."
    )
