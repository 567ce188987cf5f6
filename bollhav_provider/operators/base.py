"""What all operators of the provider share: their model, its graph, the library's connection, and how errors end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, BaseOperator

from bollhav_provider.exceptions import BollhavError, ConfigurationError
from bollhav_provider.hooks.settings import airflow_option
from bollhav_provider.links import TASK_LINKS
from bollhav_provider.version_compat import (
    AIRFLOW_V_3_0_PLUS,
    AIRFLOW_V_3_3_PLUS,
    TaskInterrupted,
    airflow_time_outs,
    mask_secret,
    task_colour,
)

if TYPE_CHECKING:
    from bollhav_provider.graph import Graph
    from bollhav_provider.hooks.connections import AirflowConnections
    from bollhav_provider.model import Model
    from bollhav_provider.settings import Settings


@contextlib.contextmanager
def failing_for_good(task: Any = None) -> Iterator[None]:
    """Make errors that no retry can heal fail the task at once.

    On Airflow 3.3 the task's retry policy does that and the error stays what it is; elsewhere, and where a
    user gave the task a policy of their own, it becomes an ``AirflowFailException``. On Airflow 2 every other error
    becomes an ``AirflowException``: after one that is not its own, Airflow forgets that a person marked the task.
    """
    try:
        yield
    except BollhavError as exc:
        if not (exc.retryable or has_our_policy(task)):
            raise AirflowFailException(f"{type(exc).__name__}: {exc}") from exc
        if AIRFLOW_V_3_0_PLUS:
            raise
        raise AirflowException(f"{type(exc).__name__}: {exc}") from exc


def for_the_log(exc: BaseException) -> str:
    """Return an exception's message for a task's log, without credentials, and hide them in what Airflow says of it.

    A driver's or a vendor's message may quote the address that it was given, password included, and Airflow shows the
    exception with its traceback. It masks what it is told.
    """
    from bollhav_provider.state.masking import secrets_in, shown

    for secret in secrets_in(exc):
        mask_secret(secret)
    return shown(exc)


def has_our_policy(task: Any) -> bool:
    """Whether the task's retry policy is the provider's."""
    if not AIRFLOW_V_3_3_PLUS or task is None:
        return False
    from bollhav_provider.operators.retries import BollhavRetryPolicy

    return isinstance(getattr(task, "retry_policy", None), BollhavRetryPolicy)


def default_retries(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return operator arguments with the provider's retry policy, where Airflow knows retry policies, and with retries.

    What the DAG or a task group says in its ``default_args`` stays.
    """
    said = kwargs.keys() | (kwargs.get("default_args") or {}).keys()
    if AIRFLOW_V_3_3_PLUS and "retry_policy" not in said:
        from bollhav_provider.operators.retries import BollhavRetryPolicy

        kwargs["retry_policy"] = BollhavRetryPolicy()
    if "retries" not in said:
        kwargs["retries"] = configured_retries()
    return kwargs


@cache
def configured_retries() -> int:
    """Return how often a task is tried again where nobody says: as Airflow is configured, else as the provider is.

    Airflow's own default is never, with which nothing that could heal would.

    Raises:
        ConfigurationError: the option is no number.
    """
    from airflow.providers.common.compat.sdk import conf

    said = airflow_option("retries", "2")
    if not said.isdecimal():
        raise ConfigurationError(f"[bollhav] retries is {said!r}: write a whole number, such as 2, or 0 for none.")
    return conf.getint("core", "default_task_retries", fallback=0) or int(said)


class ModelOperator(BaseOperator):
    """Base of operators that work on one model.

    Args:
        model: the model.
        graph: resolves its upstreams; by default a graph of this model alone, whose upstreams the library
            resolves.
        bollhav_conn_id: Airflow connection of the library; as configured by default.
    """

    #: Definitions are immutable: a copy of a task shares them.
    shallow_copy_attrs: Sequence[str] = ("model", "graph")
    ui_color = task_colour("#dfe9f5")
    operator_extra_links = TASK_LINKS
    #: Exceptions by which Airflow stops a task from outside; the unit stays pending.
    _interrupts: ClassVar[tuple[type[BaseException], ...]] = ()

    def __init__(
        self,
        *,
        model: Model,
        graph: Graph | None = None,
        bollhav_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**default_retries(kwargs))
        self.model = model
        self.graph = graph
        self.bollhav_conn_id = bollhav_conn_id
        self._connections: AirflowConnections | None = None
        self._executing = False

    def resolved_graph(self) -> Graph:
        """Return the graph that resolves the model's upstreams."""
        if self.graph is None:
            from bollhav_provider.graph import build_graph

            self.graph = build_graph([self.model])
        return self.graph

    def connect(self, settings: Settings) -> AirflowConnections:
        """Return the connections of this task, which a kill cancels."""
        from bollhav_provider.hooks.library import LibraryHook

        hook = LibraryHook(self.bollhav_conn_id, settings=settings)
        self._connections = hook.connections(f"bollhav {self.task_id}")
        return self._connections

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """Mark the time in which a kill must interrupt what runs."""
        self._executing = True
        try:
            with failing_for_good(self):
                yield
        finally:
            self._executing = False

    def on_kill(self) -> None:
        """Stop: cancel what the server does for us, and unwind so that the claim goes back to pending.

        Airflow calls this from its signal handler, and Airflow 3 lets the task go on afterwards, so it must raise;
        after a time-out there is nothing left to unwind.
        """
        if self._connections is not None:
            self._connections.cancel()
        if self._executing:
            raise TaskInterrupted(f"{self.task_id}: stopped by Airflow")


def time_outs() -> tuple[type[BaseException], ...]:
    """Return the exceptions by which Airflow ends a task from outside; they leave a unit pending, not in error."""
    return (TaskInterrupted, *airflow_time_outs())
