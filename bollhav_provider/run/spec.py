"""What one run is asked to do, as plain data that travels as JSON between tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid5

from bollhav_provider.exceptions import ConfigurationError, GridError
from bollhav_provider.intervals import Grid, Interval
from bollhav_provider.model import Environment
from bollhav_provider.settings import STATE_MODES, Settings
from bollhav_provider.state import Retention, RunKey

#: Namespace of the run ids that are derived from a DAG's run, so that a retry has the id of its first try.
_RUNS = UUID("6ba5f1f4-6a5e-5b0a-9d0e-2f3f6d0f8c11")


def run_key(
    dag_id: str | None = None,
    airflow_run_id: str | None = None,
    task_id: str | None = None,
    try_number: int | None = None,
    who: str | None = None,
    *,
    clear_number: int = 0,
) -> RunKey:
    """Say who works.

    Args:
        dag_id: the DAG; None outside Airflow, where every call is a run of its own.
        airflow_run_id: the DAG run. The run id follows from it and ``dag_id`` alone, so that a retry is the
            same run.
        task_id: the task, for the history.
        try_number: the task's try, for the history.
        who: the person or program behind it, for the history.
        clear_number: how often the run was cleared; a cleared run is a new one, which resets again.
    """
    if dag_id is None or airflow_run_id is None:
        return RunKey.ad_hoc(who)
    parts = [dag_id, airflow_run_id] + ([str(clear_number)] if clear_number else [])
    return RunKey(uuid5(_RUNS, "\x1f".join(parts)), dag_id, airflow_run_id, task_id, try_number, who)


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run over one window.

    Attributes:
        run: who works; the same for every try of the run.
        env: suffixes, fixed at the run's start.
        window: what the run covers; None for a windowless model, and for a run over the model's whole range.
        mode: ``discover``, ``bulldozer`` or ``torch``: how much is invalidated first, once per run and
            window.
        interval_override: cron that slices a flexible model's window in this run.
        dry_state: show the plan, change nothing.
        state_disabled: move data, neither read nor write state.
        mark_applied: record state, move no data.
        reconcile: everything outstanding of the whole contract is this run's work.
        cascade: reset and run the windows downstream too.
        reason: why windows are marked or reset by hand, for the record.
        lease: how long a claim lasts without being renewed; None for what the model's state says.
        busy_timeout: how long a unit is waited for that a worker which is over still holds.
        advisory_locks: ``auto``, ``on`` or ``off``: the session lock beside the lease.
        retention: how long errors and history are kept; runs delete what is older now and then.
    """

    run: RunKey
    env: Environment = field(default_factory=Environment)
    window: Interval | None = None
    mode: str = "bulldozer"
    interval_override: str | None = None
    dry_state: bool = False
    state_disabled: bool = False
    mark_applied: bool = False
    reconcile: bool = False
    cascade: bool = False
    reason: str | None = None
    lease: timedelta | None = None
    busy_timeout: timedelta = timedelta(seconds=90)
    advisory_locks: str = "auto"
    retention: Retention = field(default_factory=Retention)

    def __post_init__(self) -> None:
        if self.mode not in STATE_MODES:
            raise ConfigurationError(f"run: mode {self.mode!r} is none of {', '.join(STATE_MODES)}.")
        if self.mark_applied and self.state_disabled:
            raise ConfigurationError(
                "run: mark_applied records state without data, state_disabled moves data without state: "
                "choose one."
            )
        if self.reconcile and self.state_disabled:
            raise ConfigurationError(
                "run: reconcile works off what the state says is outstanding, state_disabled looks at no state: "
                "choose one."
            )

    @classmethod
    def from_settings(
        cls, settings: Settings, run: RunKey, env: Environment, window: Interval | None
    ) -> RunSpec:
        """Make the run that the settled options ask for."""
        return cls(
            run=run,
            env=env,
            window=window,
            mode=settings.state_mode,
            interval_override=settings.interval_override or None,
            dry_state=settings.dry_state,
            state_disabled=settings.state_disabled,
            mark_applied=settings.mark_applied,
            reconcile=settings.reconcile,
            cascade=settings.cascade,
            lease=settings.lease,
            busy_timeout=timedelta(seconds=settings.busy_timeout),
            advisory_locks=settings.advisory_locks,
            retention=Retention.of_days(settings.error_retention_days, settings.history_retention_days),
        )

    def with_window(self, window: Interval | None) -> RunSpec:
        """Return the same run over another window."""
        return replace(self, window=window)

    def override(self, tz: str) -> Grid:
        """Return the grid of ``interval_override``, which is given.

        Args:
            tz: zone of the model's windows.

        Raises:
            GridError: it is no cron; says so of the parameter.
        """
        try:
            return Grid(self.interval_override or "", tz)
        except GridError as exc:
            raise GridError(str(exc).replace("chunk:", "interval_override:", 1)) from None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "run": self.run.to_json(),
            "env": self.env.to_json(),
            "window": self.window.to_json() if self.window else None,
            "mode": self.mode,
            "interval_override": self.interval_override,
            "dry_state": self.dry_state,
            "state_disabled": self.state_disabled,
            "mark_applied": self.mark_applied,
            "reconcile": self.reconcile,
            "cascade": self.cascade,
            "reason": self.reason,
            "lease_seconds": self.lease.total_seconds() if self.lease else None,
            "busy_seconds": self.busy_timeout.total_seconds(),
            "advisory_locks": self.advisory_locks,
            "retention": self.retention.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunSpec:
        """Read what :meth:`to_json` wrote; keys that a newer writer added are ignored."""
        window, lease = value.get("window"), value.get("lease_seconds")
        return cls(
            run=RunKey.from_json(value["run"]),
            env=Environment.from_json(value.get("env") or {}),
            window=Interval.from_json(window) if window else None,
            mode=value.get("mode", "bulldozer"),
            interval_override=value.get("interval_override"),
            dry_state=bool(value.get("dry_state", False)),
            state_disabled=bool(value.get("state_disabled", False)),
            mark_applied=bool(value.get("mark_applied", False)),
            reconcile=bool(value.get("reconcile", False)),
            cascade=bool(value.get("cascade", False)),
            reason=value.get("reason"),
            lease=timedelta(seconds=lease) if lease else None,
            busy_timeout=timedelta(seconds=value.get("busy_seconds", 90)),
            advisory_locks=value.get("advisory_locks", "auto"),
            retention=Retention.from_json(value.get("retention") or {}),
        )
