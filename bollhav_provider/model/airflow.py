"""What a model asks of Airflow. Pure data: nothing here imports it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from bollhav_provider.model.base import Bag, Definition, Finding, FrozenDict, shown
from bollhav_provider.model.grids import grid_problem
from bollhav_provider.model.instants import Duration, Instant


def import_path(value: Any) -> Any:
    """Turn a function of a module into ``module:name``; leave strings alone.

    Raises:
        ValueError: the function cannot be found again by its name.
    """
    if isinstance(value, str) or value is None or not callable(value):
        return value
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if not module or not name or "<" in name:
        raise ValueError(
            f"{shown(value)} cannot be found again by its name; define the function at the top of a module"
        )
    return f"{module}:{name}"


def _several(value: Any) -> Any:
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return tuple(import_path(item) for item in value)
    return (import_path(value),)


Callbacks = Annotated[tuple[str, ...], BeforeValidator(_several, json_schema_input_type=str | list[str])]


_DURATIONS = (
    "dagrun_timeout", "retry_delay", "max_retry_delay", "execution_timeout", "poke_interval", "sensor_timeout",
)  # fmt: skip


class AirflowOptions(Definition):
    """Arguments of the model's DAG and tasks; what is not given comes from the factory's defaults."""

    schedule: str | None = Field(
        default="auto",
        description="`auto`: the model's own windows, or for a model without windows after its upstreams; "
        "`assets`: after its upstreams in any case; null: never by itself; or the cron of a model without windows.",
    )
    tz: str = Field(default="UTC", description="IANA zone of a cron in `schedule`.")
    start_date: Instant | None = Field(
        default=None, description="First instant that is scheduled; not given: the contract's begin."
    )
    end_date: Instant | None = Field(
        default=None, description="Last instant that is scheduled; not given: the contract's end."
    )
    catchup: bool | None = Field(default=None, description="Whether runs are made for windows that passed meanwhile.")
    max_active_runs: int | None = Field(default=None, ge=1, le=2**31 - 1, description="Runs of the DAG at a time.")
    max_active_tasks: int | None = Field(default=None, ge=1, le=2**31 - 1, description="Tasks of the DAG at a time.")
    dagrun_timeout: Duration | None = Field(default=None, description="After which a run fails.")
    is_paused_upon_creation: bool | None = Field(default=None, description="Whether the DAG starts paused.")
    retries: int | None = Field(default=None, ge=0, le=2**31 - 1, description="How often a failed task is tried again.")
    retry_delay: Duration | None = Field(default=None, description="Between two tries.")
    retry_exponential_backoff: bool | None = Field(default=None, description="Whether the delay doubles.")
    max_retry_delay: Duration | None = Field(default=None, description="The longest delay.")
    pool: str | None = Field(default=None, description="Pool of the executing tasks.")
    pool_slots: int | None = Field(default=None, ge=1, le=2**31 - 1, description="Slots that one task takes.")
    queue: str | None = Field(default=None, description="Queue of the executor.")
    priority_weight: int | None = Field(default=None, ge=-(2**31), le=2**31 - 1, description="Priority of the tasks.")
    weight_rule: str | None = Field(default=None, description="downstream, upstream or absolute.")
    execution_timeout: Duration | None = Field(default=None, description="After which an executing task is stopped.")
    executor: str | None = Field(default=None, description="Name of the executor, where several are configured.")
    executor_config: Bag = Field(default_factory=FrozenDict, description="Passed on to the executor.")
    trigger_rule: str | None = Field(default=None, description="Trigger rule of the first task.")
    sensor_mode: Literal["defer", "reschedule", "poke"] | None = Field(default=None, description="How the gates wait.")
    poke_interval: Duration | None = Field(default=None, description="Between two looks at a gate.")
    sensor_timeout: Duration | None = Field(default=None, description="After which a waiting gate gives up.")
    soft_fail: bool | None = Field(default=None, description="Whether a gate that gave up skips instead of failing.")
    on_failure_callback: Callbacks = Field(
        default=(), description="Functions, or their import paths `module:function`."
    )
    on_success_callback: Callbacks = Field(default=(), description="Functions, or their import paths.")
    on_retry_callback: Callbacks = Field(default=(), description="Functions, or their import paths.")
    on_skipped_callback: Callbacks = Field(default=(), description="Functions, or their import paths.")
    dag_args: Bag = Field(default_factory=FrozenDict, description="Other arguments of the DAG, as they are.")
    task_args: Bag = Field(
        default_factory=FrozenDict, description="Other arguments of the executing task, as they are."
    )

    @property
    def cron(self) -> str | None:
        """The cron in ``schedule``, if it is one."""
        return None if self.schedule in ("auto", "assets", None) else self.schedule

    def given(self) -> dict[str, Any]:
        """Return the options that are given and not empty, by name."""
        given = self.model_fields_set
        if not given:
            return {}
        return {
            name: value
            for name in type(self).model_fields
            if name in given and (value := getattr(self, name)) is not None
        }

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the options by themselves."""
        problem = grid_problem(self.cron if self.cron is not None else "@daily", self.tz)
        if problem is not None:
            yield problem if problem[0] == "tz" else ("schedule", f"{problem[1]}; or write 'auto', 'assets' or None")
        if self.start_date and self.end_date and self.start_date >= self.end_date:
            yield "end_date", "start_date is not before end_date; exchange them"
        for name in ("on_failure_callback", "on_success_callback", "on_retry_callback", "on_skipped_callback"):
            for path in getattr(self, name):
                module, _, function = path.partition(":")
                if not all(part.isidentifier() for part in (*module.split("."), *function.split("."))):
                    yield name, f"{shown(path)} is no import path; write 'package.module:function'"
        for name in _DURATIONS:
            given = getattr(self, name)
            if given is not None and (given < timedelta(0) or (given == timedelta(0) and name != "retry_delay")):
                yield name, f"{given} is no time to wait; write a positive duration, such as '5m'"
