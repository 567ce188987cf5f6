"""The run parameters of a generated DAG, with the texts of the trigger form."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS

if TYPE_CHECKING:
    from bollhav_provider.model import Model

#: Gives the form a picker. Airflow 2 also refuses by it what is no full instant, such as a plain date.
_INSTANT: dict[str, str] = {"format": "date-time"} if AIRFLOW_V_3_0_PLUS else {}
#: What the form shows for each mode.
_MODES = {
    "discover": "discover: nothing, what is applied stays",
    "bulldozer": "bulldozer: the run's window",
    "torch": "torch: every unit of the model",
}
#: Tells "no value given" from a given None.
_NOTHING = object()
_BOOLEANS = {
    "dry_state": ("Plan only", "Show the plan in the log of the task prefill and change nothing."),
    "mark_applied": (
        "Mark as applied",
        "Record the window's units as applied without moving any data, for data that was loaded another way. "
        "Nothing checks that the data is there.",
    ),
    "reconcile": (
        "Reconcile",
        "Work off everything outstanding of the whole contract, not the run's window alone. Errors, orphaned and "
        "blocked units are looked at again.",
    ),
    "cascade": (
        "Cascade",
        "Make the windows downstream that were made from this run's windows outstanding again, across DAGs, and start "
        "runs of those DAGs for them. The log of the task prefill names the runs.",
    ),
}


@cache
def _param_class() -> Any:
    """Return a ``Param`` that does not ask the JSON schema validator whether its own null is null.

    Airflow validates every parameter of every DAG several times per parse, at two milliseconds each, which is most
    of what parsing a generated DAG would cost. A value that somebody gives is validated like any other. Airflow's
    serialiser knows parameters by the name of their class, so the name stays.
    """
    from airflow.providers.common.compat.sdk import Param

    class NullParam(Param):
        def resolve(self, value: Any = _NOTHING, suppress_exception: bool = False) -> Any:
            if value is _NOTHING:
                return None if self.value is None else super().resolve(suppress_exception=suppress_exception)
            return super().resolve(value, suppress_exception)

        def __deepcopy__(self, memo: Any) -> Any:
            twin = type(self)(self.value, self.description, schema=self.schema)
            twin.__dict__.update(self.__dict__)
            return twin

        def __copy__(self) -> Any:
            return self.__deepcopy__(None)

    for name in ("__name__", "__qualname__", "__module__"):
        setattr(NullParam, name, getattr(Param, name))
    return NullParam


def run_params(model: Model | None) -> dict[str, Any]:
    """Return the parameters that make sense for a model; for None those of a DAG of several models.

    Every default is null, which means: as configured, else the documented default.
    """
    Param = _param_class()
    params: dict[str, Any] = {}
    windowed = model is None or not model.is_windowless
    if windowed:
        params["since"] = Param(
            None, type=["null", "string"], **_INSTANT, title="Since",
            description="Start of the window, included. Empty: the run's data interval, else the latest window. "
            "The API takes a date as well: midnight in the model's zone.",
        )  # fmt: skip
        params["until"] = Param(
            None, type=["null", "string"], **_INSTANT, title="Until",
            description="End of the window, excluded. Empty: with a Since the contract's end or now, else as above.",
        )  # fmt: skip
    if model is None:
        params["only"] = Param(
            None, type=["null", "string"], title="Only one table",
            description="Full name of the one model to write; its parents are read as they are. Empty: all of the DAG.",
        )  # fmt: skip
    if model is not None and not model.is_tracked:
        return params
    params["state_mode"] = Param(
        None, type=["null", "string"], enum=[None, *_MODES], title="State mode",
        values_display={"None": "as configured (bulldozer, unless said otherwise)", **_MODES},
        description="What is put back first, once a run. Whatever it is, the run does its own window alone.",
    )  # fmt: skip
    if model is None or model.is_flexible:
        params["interval_override"] = Param(
            None, type=["null", "string"], title="Interval override",
            description="Cron that slices the window of a flexible model in this run, for instance @daily.",
        )  # fmt: skip
    for name, (title, description) in _BOOLEANS.items():
        params[name] = Param(None, type=["null", "boolean"], title=title, description=description)
    return params
