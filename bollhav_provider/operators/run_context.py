"""From a task's context to the run of the core: its window, its options, who works."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException

from bollhav_provider.exceptions import ConfigurationError, IntervalError
from bollhav_provider.hooks.settings import deployment_settings
from bollhav_provider.version_compat import generation

if TYPE_CHECKING:
    from bollhav_provider.intervals import Grid, Interval, ResolvedWindow
    from bollhav_provider.model import Environment, Model
    from bollhav_provider.settings import Settings
    from bollhav_provider.state import RunKey


#: What other programs, and our command line, call some parameters.
_OTHER_WORDS = {"mode": "state_mode", "dry_run": "dry_state", "dryrun": "dry_state"}
#: Types of runs that events of assets start, on Airflow 2 and 3.
_BY_EVENTS = ("dataset_triggered", "asset_triggered")


def said_params(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run's parameters that somebody gave a value; null is "as configured"."""
    params = context.get("params") or {}
    return {name: value for name, value in dict(params).items() if value is not None}


def run_settings(context: Mapping[str, Any]) -> Settings:
    """Settle the options of this run.

    Raises:
        AirflowFailException: a parameter or option has no meaning; trying again cannot help.
    """
    try:
        return deployment_settings(said_params(context))
    except ConfigurationError as exc:
        raise AirflowFailException(str(exc)) from exc


def refuse_misspelt(context: Mapping[str, Any], declared: Collection[str]) -> None:
    """Refuse a run whose configuration has a key that reads like one of our parameters and is none of the DAG's.

    Airflow takes any key, so that a misspelt ``since`` would quietly run, and reset, another window. Keys that resemble
    nothing are somebody else's business.

    Args:
        context: the task's context.
        declared: the parameters of the run's DAG.

    Raises:
        AirflowFailException: names the keys and what was probably meant.
    """
    from difflib import get_close_matches

    from bollhav_provider.factory.params import run_params

    known = sorted(run_params(None))
    others = _OTHER_WORDS if "state_mode" in declared else {}  # in DAGs of people's own they may mean anything
    meant = {}
    for key in dict(getattr(context.get("dag_run"), "conf", None) or {}):
        if key in declared or key in known:
            continue
        word = key.lower().replace("-", "_")
        if close := [others[word]] if word in others else get_close_matches(word, known, 1, 0.7):
            meant[key] = close[0]
    if meant:
        listed = ", ".join(f"{key!r} (did you mean {name!r}?)" for key, name in sorted(meant.items()))
        raise AirflowFailException(
            f"the run's configuration has no parameter {listed}: nothing was done. The parameters are: "
            f"{', '.join(known)}."
        )


def data_interval(context: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
    """Return the run's data interval, or None: a run triggered without a logical date, or by an asset, has none.

    Airflow 2 gives a run that events of datasets started an interval from the first to the last of them. It spans
    windows that no event was of, so that it is none.
    """
    start, end = context.get("data_interval_start"), _interval_end(context)
    if start is None or end is None or start >= end:
        return None
    return start, end


def _interval_end(context: Mapping[str, Any]) -> datetime | None:
    """Return the end of the run's interval, or its instant; None for a run that events of assets started."""
    if _run_type(context.get("dag_run")) in _BY_EVENTS:
        return None
    end: datetime | None = context.get("data_interval_end")
    return end


def who(context: Mapping[str, Any]) -> str:
    """Return the user that triggered the run where Airflow says it, else the DAG's run."""
    run = context.get("dag_run")
    user = getattr(run, "triggering_user_name", None)
    return user or f"airflow {_run_type(run)}".strip()


def marking_reason(context: Mapping[str, Any]) -> str:
    """Return why a run's windows are marked applied: the note that somebody gave the run, else what asks for it."""
    run, ti = context.get("dag_run"), context.get("ti")
    with contextlib.suppress(Exception):  # Airflow 2 looks it up in a session that may be over
        if note := str(getattr(run, "note", None) or "").strip():
            return note
    asks = "the run parameter mark_applied" if said_params(context).get("mark_applied") else "the option mark_applied"
    where = f" of the run {run.run_id} of the DAG {run.dag_id}" if run is not None and ti is not None else ""
    return f"{asks}{where}"


def _run_type(run: Any) -> str:
    kind = getattr(run, "run_type", None)
    return str(getattr(kind, "value", kind) or "")


def task_run(context: Mapping[str, Any], *, cleared: int = 0) -> RunKey:
    """Return who works: this task, in this try, of this DAG run.

    Args:
        context: the task's context; outside Airflow every call is a run of its own.
        cleared: which clear of the run's first task this is; a cleared run is a new one, which resets again.
    """
    from bollhav_provider.run import run_key

    ti, run = context.get("ti"), context.get("dag_run")
    if ti is None:
        return run_key(who="python")
    task_id = ti.task_id
    if (ti.map_index if ti.map_index is not None else -1) >= 0:
        task_id = f"{task_id}[{ti.map_index}]"
    return run_key(
        ti.dag_id,
        getattr(run, "run_id", None) or ti.run_id,
        task_id,
        ti.try_number,
        who(context),
        clear_number=cleared,
    )


def environment(settings: Settings) -> Environment:
    """Return the run's environment, its date appendix fixed now."""
    from bollhav_provider.model import Environment

    return Environment.fixed_at(
        datetime.now(UTC),
        settings.schema_suffix or None,
        settings.schema_appendix or None,
        settings.target_suffix or None,
    )


def first_clear(context: Mapping[str, Any]) -> int:
    """Return 0, or after how many tries this task was last cleared."""
    ti = context.get("ti")
    if ti is None:
        return 0
    return generation(ti, getattr(getattr(ti, "task", None), "retries", None)) - 1


def clear_number(context: Mapping[str, Any]) -> int:
    """Return how often something of this DAG run was cleared, as far as Airflow tells."""
    return int(getattr(context.get("dag_run"), "clear_number", None) or 0)


def run_window(context: Mapping[str, Any], model: Model, now: Callable[[], datetime]) -> ResolvedWindow:
    """Return what the run covers: its parameters since and until, else its data interval, else the latest
    window.

    A run of a partitioned DAG has a partition instead of an interval: the window that holds its date, or that starts as
    its key says, as those of the models' assets do. An interval without length, which a cron string's have on
    Airflow 3, stands for an instant: the latest window by then.

    Args:
        context: the task's context.
        model: gives grid, contract and lookback.
        now: the database's clock; asked only when the answer depends on it.

    Raises:
        AirflowFailException: the parameters make no window.
    """
    from bollhav_provider.intervals import ResolvedWindow, as_utc_or_day, resolve_window

    params = said_params(context)
    chunking = model.batching.time if model.batching is not None else None
    try:
        since, until = (
            as_utc_or_day(params[name], name, model.tz) if params.get(name) else None for name in ("since", "until")
        )
        found = None if since or until else _covered(context, model, now)
        if found is not None and found.until > (at := now() if _is_partition(context) else found.until):
            why = (
                f"the partition's window {found} has not ended at {at:%Y-%m-%dT%H:%MZ}; nothing to run. A run for the "
            )
            return ResolvedWindow(None, (), "data interval", f"{why}partition that has ended has run_offset=-1.")
        settled = (since and until) or found
        return resolve_window(
            model.grid,
            now=datetime.now(UTC) if settled or not model.is_temporal else now(),
            since=since,
            until=until,
            data_interval=found,
            begin=model.contract.begin,
            end=model.contract.end,
            lookback=chunking.lookback if chunking else 0,
            flexible=model.is_flexible,
            run_grid=model.run_grid,
            temporal=model.is_temporal,
        )
    except IntervalError as exc:
        raise AirflowFailException(f"{model.full_name}: the run's window: {exc}") from exc


def _covered(context: Mapping[str, Any], model: Model, now: Callable[[], datetime]) -> Interval | None:
    """Return the data interval, or what stands for it; None for a run that says nothing of any time."""
    from bollhav_provider.intervals import Interval

    if (found := data_interval(context)) is not None:
        return Interval(*found)
    return None if model.run_grid is None else stand_in_window(context, model.run_grid, model.tz, now)


def says_a_time(context: Mapping[str, Any]) -> bool:
    """Whether the run has an interval, an instant or a partition: one by hand or by an asset may have none of them."""
    return _interval_end(context) is not None or _is_partition(context)


def stand_in_window(context: Mapping[str, Any], grid: Grid, tz: str, now: Callable[[], datetime]) -> Interval | None:
    """Return the window of a grid that a run without a data interval stands for.

    That is the window of its partition, or the latest one that had ended at its instant.

    Args:
        context: the task's context.
        grid: what one run covers.
        tz: zone of a partition that is a plain date.
        now: the database's clock.

    Returns:
        None where the run says nothing of any time.
    """
    from bollhav_provider.intervals import as_utc

    if (at := _partition(context, tz)) is not None:
        return grid.cell(at)
    moment = _interval_end(context)
    return None if moment is None else grid.latest_complete(min(as_utc(moment, "data_interval_end"), now()))


def _is_partition(context: Mapping[str, Any]) -> bool:
    return data_interval(context) is None and bool(context.get("partition_date") or context.get("partition_key"))


def _partition(context: Mapping[str, Any], tz: str) -> datetime | None:
    """Return the instant that the run's partition is of (a plain date in zone ``tz``); None where its key says none."""
    from bollhav_provider.intervals import as_utc, as_utc_or_day

    if (date := context.get("partition_date")) is not None:
        return as_utc(date, "partition_date")
    key = str(context.get("partition_key") or "")
    try:
        at = datetime.fromisoformat(key)
    except ValueError:
        return None
    # The keys of assets' events are in UTC and do not say so.
    return as_utc(at.replace(tzinfo=UTC) if "T" in key and at.tzinfo is None else as_utc_or_day(key, "key", tz), "key")
