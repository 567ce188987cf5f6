"""The run parameters of a generated DAG, with the texts of the trigger form."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS

if TYPE_CHECKING:
    from bollhav_provider.model import Model

#: Gives the form a picker. Airflow 2 also refuses by it what is no full instant, such as a plain date.
_INSTANT: dict[str, str] = {"format": "date-time"} if AIRFLOW_V_3_0_PLUS else {}
_MODES = ("discover", "bulldozer", "torch")
#: Tells "no value given" from a given None.
_NOTHING = object()
_BOOLEANS = {
    "dry_state": "Only log the plan, in the task prefill, and change nothing.",
    "mark_applied": "Record the window as applied without loading it. Nothing checks that the data is there.",
    "reconcile": "Do all that is outstanding of the contract, failed and blocked units too.",
    "cascade": "Also redo what was made from these windows, by runs of its own DAGs.",
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

    Every default is null, which means: as configured, else the documented default. The form shows the parameters under
    their own names, as the API and the documentation know them, and below each what it does in few words: Airflow keeps
    all of it with every version of every DAG.
    """
    Param = _param_class()
    params: dict[str, Any] = {}
    if model is None or not model.is_windowless:
        since = "Start of the window, included. Empty: the data interval, else the latest window."
        until = "Its end, excluded. Empty: with a since the contract's end or now."
        params["since"] = Param(None, since, type=["null", "string"], **_INSTANT)
        params["until"] = Param(None, until, type=["null", "string"], **_INSTANT)
    if model is None:
        only = "Full name of the one model to write. Empty: all of the DAG."
        params["only"] = Param(None, only, type=["null", "string"])
    if model is not None and not model.is_tracked:
        return params
    mode = (
        "Put back first: nothing (discover), the run's window (bulldozer), the whole model (torch). "
        "Empty or null: as configured."
    )
    params["state_mode"] = Param(None, mode, type=["null", "string"], enum=[None, *_MODES])
    if model is None or model.is_flexible:
        override = "Cron that slices a flexible model's window in this run, for instance @daily."
        params["interval_override"] = Param(None, override, type=["null", "string"])
    for name, description in _BOOLEANS.items():
        params[name] = Param(None, description, type=["null", "boolean"])
    return params
