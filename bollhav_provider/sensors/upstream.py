"""The sensor that waits until an upstream is ready for a window."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    BaseSensorOperator,
)

from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.hooks.settings import airflow_option, deployment_settings
from bollhav_provider.links import SENSOR_LINKS
from bollhav_provider.operators.base import default_retries, failing_for_good
from bollhav_provider.operators.run_context import (
    data_interval,
    environment,
    run_settings,
    said_params,
    says_a_time,
    stand_in_window,
)
from bollhav_provider.operators.run_keys import RUN_KEY
from bollhav_provider.operators.unit_lists import unit_label, units_of
from bollhav_provider.version_compat import seconds, task_colour

if TYPE_CHECKING:
    from bollhav_provider.hooks.connections import AirflowConnections
    from bollhav_provider.intervals import Grid, Interval
    from bollhav_provider.model import Environment, Freshness, Model, TableId, UpstreamContract
    from bollhav_provider.state import GateRequest
    from bollhav_provider.state.refs import Conn
    from bollhav_provider.triggers.questions import Questions

Mode = Literal["defer", "reschedule", "poke"]


class UpstreamSensor(BaseSensorOperator):
    """Wait until a model of the library is ready for a window. Waiting holds no worker slot.

    In a DAG of one's own::

        UpstreamSensor(task_id="orders", model="warehouse.orders", contract="encapsulate",
        freshness=timedelta(days=1))

    waits for the run's window: its parameters ``since`` and ``until``, else its data interval. For a run that has an
    instant or a partition instead, as those of a plain cron and of partitioned DAGs do, it is the upstream's window of
    that partition, or the latest one that had ended at that instant. A run without any waits for the whole of the
    upstream.

    Args:
        model: full name of the upstream, as the library knows it (without an environment's suffix).
        contract: how much of it must be applied: exists, exact, encapsulate, through or whole.
        freshness: how recently it must have been loaded: a ``Freshness``, or the greatest age.
        mode: ``defer`` (the default) waits in the triggerer, ``reschedule`` and ``poke`` as Airflow's
            sensors do.
        downstream: the model on whose behalf the sensor waits. Its state rows then say ``blocked`` with the
            reason.
        bound: the tables that each alias of ``downstream`` stands for, as its graph resolved them.
        units: the units to wait for as JSON, where it is not the run's window.
        prefill_task_id: the task whose XCom holds the run's specification, in a generated DAG.
        bollhav_conn_id: Airflow connection of the library; as configured by default.
        upstream_dag_id: the DAG that makes the upstream, for the link to it.
        kwargs: ``poke_interval`` (seconds; as configured, 15), ``timeout`` (seconds; as configured, a week),
            ``soft_fail`` (skip instead of fail when the time is out, and only then), and everything that any operator
            takes.
    """

    template_fields: Sequence[str] = ("units", "upstream")
    shallow_copy_attrs: Sequence[str] = ("downstream", "bound")
    ui_color = task_colour("#f5ecd7")
    operator_extra_links = SENSOR_LINKS

    def __init__(
        self,
        *,
        model: str,
        contract: UpstreamContract | str = "encapsulate",
        freshness: Freshness | timedelta | None = None,
        mode: Mode = "defer",
        downstream: Model | None = None,
        bound: Mapping[str, Sequence[TableId]] | None = None,
        units: Any = None,
        prefill_task_id: str | None = None,
        bollhav_conn_id: str | None = None,
        upstream_dag_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        if mode not in ("defer", "reschedule", "poke"):
            raise ValueError(f"mode is {mode!r}: write defer, reschedule or poke.")
        for name, option, default in (
            ("poke_interval", "poke_interval", "15"),
            ("timeout", "gate_timeout", "604800"),
        ):
            if name not in kwargs:
                kwargs[name] = float(airflow_option(option, default))
        super().__init__(mode="poke" if mode == "defer" else mode, **default_retries(kwargs))
        self.upstream = model
        self.contract = _contract(contract)
        self.freshness = _freshness(freshness)
        self.deferrable = mode == "defer"
        self.downstream = downstream
        self.bound = bound
        self.units = units
        self.prefill_task_id = prefill_task_id
        self.bollhav_conn_id = bollhav_conn_id
        self.upstream_dag_id = upstream_dag_id

    @property
    def label(self) -> str:
        """The window that is waited for, for the task's label in the UI."""
        return unit_label(self.units) if self.units is not None else ""

    def execute(self, context: Mapping[str, Any]) -> Any:
        if not self.deferrable:
            with self._skipping_for_time_alone():
                return super().execute(context)  # type: ignore[arg-type]
        with failing_for_good(self):
            asked = self._asked(context)
            if self._look(asked):
                return None
        from bollhav_provider.triggers.upstream import UpstreamTrigger

        # The gate is looked at in a worker first and not started from its trigger (start_from_trigger), tried on 3.3.2:
        # only a worker can send the label, so the gates of a run would be 0, 1, 2, ... instead of its windows; what a
        # trigger's templates pull from XCom other than one plain value is never answered, and the gate hangs; and
        # nothing is gained. Two busy cores, medians from the end of prefill to the start of execute behind an open
        # gate: 4.4 s by the worker, 3.8 s by the trigger, whose first one in a triggerer took 41 s; from the upstream's
        # commit to execute behind a gate that waited: 1.0 s by the worker, 1.2 s by the trigger.
        self.defer(
            trigger=UpstreamTrigger(
                **library_of(self.downstream, self.bollhav_conn_id),
                poll_interval=seconds(self.poke_interval),
                finish=True,
                **asked.to_json(),
            ),
            method_name="resume",
            timeout=timedelta(seconds=seconds(self.timeout)),
        )

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any) -> Any:
        with self._skipping_for_time_alone():
            return super().resume_execution(next_method, next_kwargs, context)

    @contextlib.contextmanager
    def _skipping_for_time_alone(self) -> Iterator[None]:
        """Let ``soft_fail`` skip the task when its time is out, and for nothing else.

        Airflow makes a skip of every failure then, also of a gate that can never open, which is to fail at once.
        """
        failure: BaseException | None = None
        try:
            yield
        except AirflowSkipException as exc:
            failure = exc.__cause__
            if failure is None or _is_time_out(failure) or getattr(self, "never_fail", False):
                raise
        if failure is not None:
            raise failure

    def resume(self, context: Mapping[str, Any], event: Any = None) -> None:
        """End as the trigger says; where Airflow did not end the task from the triggerer itself."""
        if not isinstance(event, Mapping) or event.get("status") == "open":
            return
        reason = str(event.get("reason") or "")
        if event.get("status") == "hard":
            from bollhav_provider.state.reasons import with_remedies

            raise AirflowFailException(with_remedies(reason))
        if event.get("status") == "doomed":
            self._give_up(reason)
        raise AirflowException(f"waiting for {self.upstream} failed: {reason}")

    def _give_up(self, reason: str) -> NoReturn:
        """End a wait that nobody needs: another gate of the same unit can never open, so the unit never runs.

        In a generated DAG that gate's own task fails, and the execute task with it; so this one is skipped, and is not
        in the way when the other is cleared: execute looks at all gates itself. Elsewhere a skip might let something
        run.

        Raises:
            AirflowSkipException: in a generated DAG.
            AirflowFailException: in any other, or where what follows would take a skip for its own.
        """
        from bollhav_provider.state.reasons import with_remedies

        waiting = f"{self.downstream.full_name} {self.label}".strip() if self.downstream is not None else "the unit"
        why = f"{self.upstream} is not waited for: {waiting} can never run. {with_remedies(reason)}"
        generated = self.prefill_task_id is not None
        if generated and all(task.trigger_rule == "none_failed" for task in self.downstream_list):
            raise AirflowSkipException(why)
        raise AirflowFailException(why)

    def poke(self, context: Mapping[str, Any]) -> bool:
        with failing_for_good(self):
            return self._look(self._asked(context))

    def _asked(self, context: Mapping[str, Any]) -> Questions:
        """Return what the library is asked: in a generated DAG the model's units, else what the arguments say."""
        from bollhav_provider.triggers.questions import Questions

        env = self._environment(context)
        if self.downstream is None:
            return Questions(env, requests=(self._request(env, self._run_window(context, env)),))
        from bollhav_provider.state import GateWatch

        watches = [GateWatch.of(self.downstream, env, unit, self.bound) for unit in units_of(self.units)]
        if any(self.upstream in watch.requests.skipped for watch in watches):
            self.log.info("%s: not waited for, it is read as it is (deactivate_for_dev)", self.upstream)
        return Questions(env, watches=tuple(watches), source=self.upstream)

    def _environment(self, context: Mapping[str, Any]) -> Environment:
        from bollhav_provider.model import Environment

        ti = context.get("ti")
        if ti is not None and self.prefill_task_id is not None:
            spec = ti.xcom_pull(task_ids=self.prefill_task_id, key=RUN_KEY, map_indexes=None)
            if spec:
                return Environment.from_json(spec.get("env") or {})
        return environment(run_settings(context))

    def _request(self, env: Environment, window: Interval | None) -> GateRequest:
        from bollhav_provider.state import GateRequest

        return GateRequest.of(env_name(env, self.upstream), self.contract, window, self.freshness, source=self.upstream)

    def _run_window(self, context: Mapping[str, Any], env: Environment) -> Interval | None:
        from bollhav_provider.intervals import Interval, as_utc_or_day
        from bollhav_provider.state import db_now

        if self.units is not None:
            return units_of(self.units)[0].window
        params = said_params(context)
        said = {name: params[name] for name in ("since", "until") if params.get(name)}
        if len(said) == 1:
            raise ConfigurationError(
                f"{self.upstream}: the run's parameters have {next(iter(said))} alone, which makes no window to wait "
                "for: give since and until."
            )
        if not said and (found := data_interval(context)) is not None:
            return Interval(*found)
        if not said and not says_a_time(context):
            return None
        with self._connections().state() as conn:
            grid, tz = _windows_of(conn, env, env_name(env, self.upstream))
            if said:
                return Interval(*(as_utc_or_day(said[name], name, tz) for name in ("since", "until")))
            return None if grid is None else stand_in_window(context, grid, tz, lambda: db_now(conn))

    def _look(self, asked: Questions) -> bool:
        """Look at the gates once. Returns whether all are open; says why not in the log and on the state
        rows.

        Raises:
            HardGateError: one can never open.
            AirflowSkipException, AirflowFailException: another one of the same unit can never open.
        """
        from bollhav_provider.exceptions import HardGateError
        from bollhav_provider.state.reasons import with_remedies

        with self._connections().state(self.downstream) as conn:
            answers = asked.ask(conn)
        for reason in answers.reasons:
            if reason not in answers.hard:
                self.log.info("waiting: %s", reason)
        if answers.hard:
            raise HardGateError(with_remedies("; ".join(answers.hard)))
        if answers.doomed and not answers.open:
            self._give_up("; ".join(answers.doomed))
        if answers.open:
            for result in answers.results:
                lag = f", {result.lag} windows behind as max_lag allows" if result.lag else ""
                self.log.info("open: %s (%s)%s", result.request.upstream, result.request.level, lag)
        return answers.open

    def _connections(self) -> AirflowConnections:
        from bollhav_provider.hooks.library import LibraryHook

        return LibraryHook(self.bollhav_conn_id, settings=deployment_settings()).connections(f"bollhav {self.task_id}")


def _windows_of(conn: Conn, env: Environment, full_name: str) -> tuple[Grid | None, str]:
    """Return what one scheduled run of a registered model covers, and its zone, as far as the library says it."""
    from bollhav_provider.intervals import Grid
    from bollhav_provider.state.browse import find_entry

    entry = find_entry(conn, env, full_name)
    if entry is None:
        return None, "UTC"
    batching, tz = entry.metadata.get("batching") or {}, entry.metadata.get("tz") or "UTC"
    cron = batching.get("window") or batching.get("chunk")
    return Grid(cron, tz) if cron else None, tz


def library_of(model: Model | None, conn_id: str | None) -> dict[str, Any]:
    """Return arguments of a trigger that say where a model's library is: its own, where its state names one.

    Args:
        model: who waits; None for nobody's gates.
        conn_id: Airflow connection of the deployment's library; None for the configured one.
    """
    state = model.state if model is not None else None
    if state is not None and state.conn_id:
        return {"conn_id": state.conn_id}
    if state is not None and state.dsn_env_var:
        return {"conn_id": None, "dsn_env_var": state.dsn_env_var}
    return {"conn_id": conn_id}


def _is_time_out(exc: BaseException) -> bool:
    """Whether an exception says that the time is out; Airflow 2 has none of its own for a task that is deferred."""
    if isinstance(exc, AirflowSensorTimeout | AirflowTaskTimeout):
        return True
    return type(exc).__name__.startswith("TaskDeferral") and "timeout" in str(exc).lower()


def env_name(env: Environment, full_name: str) -> str:
    """Return a model's name in an environment."""
    from bollhav_provider.model import TableId

    try:
        return env.table(TableId.parse(full_name)).full_name
    except ValueError as exc:
        raise ConfigurationError(f"model is {full_name!r}: {exc}.") from None


def _contract(value: UpstreamContract | str) -> UpstreamContract:
    from bollhav_provider.model import UpstreamContract

    try:
        return UpstreamContract(value)
    except ValueError:
        raise ConfigurationError(
            f"contract is {value!r}: write one of {', '.join(level.value for level in UpstreamContract)}."
        ) from None


def _freshness(value: Freshness | timedelta | None) -> Freshness | None:
    if not isinstance(value, timedelta):
        return value
    from bollhav_provider.model import Freshness

    return Freshness(within=value)
