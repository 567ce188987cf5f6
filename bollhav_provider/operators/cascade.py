"""Starting what a run with ``cascade`` put back (Semantics: restatement).

The run's first task has put every unit downstream back to ``pending`` before anything is loaded. It also starts the
runs that make them again, one for each stretch of time: all at once, because each waits at its gates until what it
reads is there again. So a DAG needs no task for it, and a deployment without cascades pays nothing.

The runs' ids follow from who put the units back and from their windows: whoever asks again, a retry or the task after
it was cleared, finds them there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid5

from airflow.providers.common.compat.sdk import AirflowFailException

from bollhav_provider.operators.dag_runs import Answer, is_paused, start_run
from bollhav_provider.operators.only import models_of
from bollhav_provider.operators.run_context import run_window, said_params
from bollhav_provider.operators.run_keys import CASCADE_KEY

if TYPE_CHECKING:
    from datetime import datetime

    from bollhav_provider.hooks.connections import AirflowConnections
    from bollhav_provider.intervals import Interval
    from bollhav_provider.model import Model
    from bollhav_provider.operators.base import ModelOperator
    from bollhav_provider.run import CascadeStep, RunSpec

#: Most runs of one model; where more stretches were put back, those next to each other share a run.
_MOST_RUNS = 20
#: Ended attempts on a model that are looked through for the DAG that made them.
_ATTEMPTS = 50
#: Characters of a model's name in a run's id, which Airflow stores up to 250 of.
_NAME = 120
#: What Airflow, unless it is configured otherwise, refuses in a run's id.
_UNFIT = re.compile(r"[^A-Za-z0-9_.~:+-]")


class Again(NamedTuple):
    """One run that makes units again.

    Attributes:
        model: the model's full name.
        window: what the run covers; None for a model without windows.
        units: how many units of it were put back.
        run_id: the run's id, the same whoever asks for it again.
    """

    model: str
    window: Interval | None
    units: int
    run_id: str

    @property
    def conf(self) -> dict[str, Any]:
        """The run's parameters: it does what is outstanding in the window, and puts nothing back itself."""
        span = {}
        if self.window is not None:
            span = {"since": self.window.since.isoformat(), "until": self.window.until.isoformat()}
        return {**span, "state_mode": "discover", "cascade": False}

    def __str__(self) -> str:
        return f"{self.units} unit(s) of {self.model}" + (f" in {self.window}" if self.window is not None else "")


class Cascade:
    """Starts the runs downstream of one run.

    Args:
        task: the run's first task.
        context: its context.
        connections: to the library.
        spec: the run.
    """

    def __init__(
        self, task: ModelOperator, context: Mapping[str, Any], connections: AirflowConnections, spec: RunSpec
    ) -> None:
        self._task = task
        self._log = task.log
        self._context = context
        self._connections = connections
        self._spec = spec
        self._dag_ids: Mapping[str, str] = getattr(task, "dag_ids", {})

    def refuse_own_queue(self, steps: Iterable[CascadeStep]) -> None:
        """Refuse a cascade that would wait for itself, before anything is put back.

        Args:
            steps: what would be put back.

        Raises:
            AirflowFailException: the DAG allows one run at a time, and one of its models would wait for a further run.
        """
        dag = self._task.get_dag()
        if dag is None or dag.max_active_runs != 1:
            return
        from bollhav_provider.factory.names import dag_id
        from bollhav_provider.operators.own_queue import gates, stuck

        queued: list[Again] = []
        elsewhere: list[Again] = []
        for again in self._runs(steps, warn=False):
            here = self._dag_ids.get(again.model, dag_id(again.model)) == dag.dag_id
            (queued if here else elsewhere).append(again._replace(model=self._in_library(again.model)))
        if not queued:
            return
        with self._connections.state(self._task.model) as conn:
            links = gates(conn, self._task.resolved_graph(), self._spec.env)
        held = {self._in_library(name) for name in models_of(self._task)}
        mine = {self._in_library(name): done for name, done in self._done_here().items()}
        found = stuck(queued, elsewhere, links, held, mine)
        if found is None:
            return
        span = str(self._spec.window) if self._spec.window is not None else "the whole"
        raise AirflowFailException(
            f"{self._task.model.full_name}: a run of {span} with cascade would wait for itself: {found.waiting} waits "
            f"for {found.again}, which another run of the DAG {dag.dag_id} has to make again, and that DAG allows one "
            "run at a time (max_active_runs=1), so it starts only when this one has ended. Nothing was put back. Give "
            "the run a since and until that hold all of it, allow the DAG more runs at a time, or use `bollhav run "
            "--cascade`."
        )

    def start(self, steps: Iterable[CascadeStep]) -> None:
        """Start a run for everything that was put back, and say of what it cannot be done what somebody has to do.

        Raises:
            Exception: Airflow could not be asked. The runs that are there by then are not started again.
        """
        failure: Exception | None = None
        told: list[dict[str, Any]] = []
        for again in self._runs(steps):
            try:
                dag_id, answer = self._ask(again)
            except Exception as exc:
                self._log.warning("%s: its run could not be asked for: %s: %s", again, type(exc).__name__, exc)
                failure = failure or exc
                continue
            self._tell(again, dag_id, answer)
            told.append(
                {"model": again.model, "dag_id": dag_id, "run_id": again.run_id, "outcome": answer.outcome}
                | {"units": again.units, "window": again.window.to_json() if again.window else None}
            )
        ti = self._context.get("ti")
        if told and ti is not None:
            ti.xcom_push(key=CASCADE_KEY, value=told)
        if failure is not None:
            raise failure

    def _runs(self, steps: Iterable[CascadeStep], *, warn: bool = True) -> list[Again]:
        """Return a run for each stretch that this run does not do itself, the models in the steps' order."""
        from bollhav_provider.intervals import IntervalSet

        runs: list[Again] = []
        mine = self._done_here()
        by_model: dict[tuple[str, Any], list[CascadeStep]] = {}
        for step in steps:
            by_model.setdefault((step.model, step.put_back_by), []).append(step)
        for (name, by), found in by_model.items():
            if name in self._task.resolved_graph() and not found[0].here:
                if warn:
                    self._log.warning(
                        "%s: %d unit(s) are pending again and stay so: the model is not enabled here.",
                        name, sum(step.units for step in found),
                    )  # fmt: skip
                continue
            whole, own = mine.get(name, (False, None))
            if whole:
                continue
            windows = [step.window for step in found if step.window is not None]
            if not windows:
                runs.append(Again(name, None, 1, run_id(self._task.model.full_name, name, by, None)))
                continue
            left = IntervalSet(windows) - IntervalSet([own] if own is not None else [])
            for window in fewer(left.islands, self._most(name)):
                units = sum(window.contains(part) for step in found for part in step.parts)
                runs.append(Again(name, window, units, run_id(self._task.model.full_name, name, by, window)))
        return runs

    def _done_here(self) -> dict[str, tuple[bool, Interval | None]]:
        """Return what this very run does after this task: models, whether wholly, else in which window.

        Its own model is not among them: what was put back of it, of one that reads its own past, was applied when the
        run's units were listed.
        """
        found: dict[str, tuple[bool, Interval | None]] = {}
        only = said_params(self._context).get("only")
        for model in _models_behind(self._task):
            if only and only != model.full_name:
                continue
            window = run_window(self._context, model, self._now)
            found[model.full_name] = (self._spec.reconcile or model.is_windowless, window.window)
        return found

    def _in_library(self, name: str) -> str:
        """Return a model's name in the run's environment."""
        from bollhav_provider.model import TableId

        return self._spec.env.table(TableId.parse(name)).full_name

    def _now(self) -> datetime:
        from bollhav_provider.state import db_now

        with self._connections.state(self._task.model) as conn:
            return db_now(conn)

    def _most(self, name: str) -> int:
        """Return how many runs of a model may be under way at once."""
        graph = self._task.resolved_graph()
        state = graph.model(name).state if name in graph else None
        return 1 if state is not None and not state.allow_concurrent_runs else _MOST_RUNS

    def _ask(self, again: Again) -> tuple[str, Answer]:
        """Ask for a run in the model's DAG: as this file's factory call named it, else as one by itself names it."""
        from bollhav_provider.factory.names import dag_id

        alone = dag_id(again.model)
        known = self._dag_ids.get(again.model, alone)
        answer = _start(self._context, known, again, together=known != alone)
        if answer.outcome != "missing" or again.model in self._dag_ids:
            return known, answer
        together = self._recorded_group(again.model)
        if together is None:
            return known, answer
        return together, _start(self._context, together, again, together=True)

    def _recorded_group(self, name: str) -> str | None:
        """Return the DAG of several models, of another DAG file, by which a model was last made; None where none was.

        The history says which DAG it was. Whether that is one of the factory's, which can be told to make this
        model alone, its id says: anything may happen in others.
        """
        from bollhav_provider.factory.groups import possible_groups
        from bollhav_provider.state import attempts, get_entry

        env, full_name = self._spec.env, self._in_library(name)
        with self._connections.state(self._task.model) as conn:
            entry = get_entry(conn, env, full_name)
            made = attempts(conn, env, full_name, limit=_ATTEMPTS)
        groups = possible_groups(entry.metadata) if entry is not None else ()
        return next((attempt.dag_id for attempt in made if attempt.dag_id in groups), None)

    def _tell(self, again: Again, dag_id: str, answer: Answer) -> None:
        if answer.outcome in ("started", "exists"):
            what = "was started" if answer.outcome == "started" else "is there already"
            self._log.info(
                "%s: made again by the DAG %s, whose run %s %s; it waits for what it reads.",
                again, dag_id, again.run_id, what,
            )  # fmt: skip
            dag = self._task.get_dag()
            if dag is not None and dag.dag_id == dag_id and dag.max_active_runs == 1:
                self._log.info("%s allows one run at a time: that one starts when this one has ended.", dag_id)
            paused = is_paused(dag_id)
            if paused:
                self._log.warning(
                    "%s: the DAG %s is paused: unpause it, its run %s starts then.", again, dag_id, again.run_id
                )
            elif paused is None:
                self._log.info("%s: this Airflow does not tell whether it is paused; it must not be.", dag_id)
            return
        why = "there is no such DAG here" if answer.outcome == "missing" else f"Airflow says: {answer.reason}"
        self._log.warning(
            "%s: pending again, and nothing makes them: no run of the DAG %s could be started (%s). Run them where the "
            "model is at home: its DAG with the parameters %s, or %s.",
            again, dag_id, why, again.conf, _command(again),
        )  # fmt: skip


def run_id(cause: str, name: str, by: UUID, window: Interval | None) -> str:
    """Return a run's id: readable, and made of nothing but what was put back and on whose behalf.

    Args:
        cause: full name of the model whose run put it back.
        name: full name of the model that is made again.
        by: on whose behalf.
        window: what the run covers.
    """
    digest = uuid5(by, f"{name} {window}").hex[:12]
    at = f"{window.since:%Y-%m-%dT%H:%M:%SZ}" if window is not None else "whole"
    return f"cascade__{_UNFIT.sub('_', cause)[:_NAME]}__{at}__{digest}"


def fewer(windows: Sequence[Interval], most: int) -> list[Interval]:
    """Join windows across the smallest gaps between them until at most ``most`` are left.

    Args:
        windows: in order of time, none touching another.
        most: at least 1.
    """
    from bollhav_provider.intervals import Interval

    gaps = sorted(range(1, len(windows)), key=lambda i: windows[i].since - windows[i - 1].until, reverse=True)
    cuts = [0, *sorted(gaps[: most - 1]), len(windows)]
    return [Interval(windows[first].since, windows[last - 1].until) for first, last in pairwise(cuts) if first < last]


def _start(context: Mapping[str, Any], dag_id: str, again: Again, *, together: bool) -> Answer:
    if context.get("ti") is None:
        return Answer("refused", "the task does not run in Airflow")
    return start_run(dag_id, again.run_id, again.conf | ({"only": again.model} if together else {}))


def _models_behind(task: ModelOperator) -> list[Model]:
    """Return the models whose runs begin after ``task`` in its own DAG."""
    from bollhav_provider.operators.prefill import PrefillOperator
    from bollhav_provider.operators.run_model import RunModelOperator

    dag = task.get_dag()
    if dag is None:
        return []
    found = [dag.get_task(task_id) for task_id in sorted(task.get_flat_relative_ids(upstream=False))]
    return [other.model for other in found if isinstance(other, PrefillOperator | RunModelOperator)]


def _command(again: Again) -> str:
    if again.window is None:
        return f"bollhav run {again.model} --mode discover"
    since, until = again.window.since.isoformat(), again.window.until.isoformat()
    return f"bollhav run {again.model} --since {since} --until {until} --mode discover"
