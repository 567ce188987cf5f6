"""Links from a task to the state rows behind it, and to its upstream's DAG and windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from airflow.providers.common.compat.sdk import BaseOperatorLink

from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS, dag_page

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import TaskInstanceKey

#: Where the plugin's pages are. Links to them have no slash in front: Airflow's UI follows those from its own root,
#: which need not be that of the server.
PREFIX = "/bollhav"


class StateLink(BaseOperatorLink):
    """The units that the task works on, as the library has them."""

    name = "State"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        model = getattr(operator, "model", None) or getattr(operator, "downstream", None)
        full_name = getattr(model, "full_name", None)
        if full_name is None:
            return ""
        return state_page(full_name, getattr(operator, "units", None))


class UpstreamLink(BaseOperatorLink):
    """The DAG of the upstream that a sensor waits for."""

    name = "Upstream"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        dag_id = getattr(operator, "upstream_dag_id", None)
        if dag_id:
            return dag_page(dag_id)
        full_name = getattr(operator, "upstream", None)
        return state_page(full_name, None) if full_name and AIRFLOW_V_3_0_PLUS else ""


class UpstreamStateLink(BaseOperatorLink):
    """The units of the upstream in the window that a sensor waits for, as the library has them."""

    name = "Upstream windows"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        full_name = getattr(operator, "upstream", None)
        return state_page(full_name, getattr(operator, "units", None)) if full_name else ""


#: What the provider's tasks show. Airflow 2 has no pages of plugins to link to.
TASK_LINKS = (StateLink(),) if AIRFLOW_V_3_0_PLUS else ()
SENSOR_LINKS = (UpstreamLink(), UpstreamStateLink(), *TASK_LINKS) if AIRFLOW_V_3_0_PLUS else (UpstreamLink(),)


def state_page(full_name: str, units: Any) -> str:
    """Return the address of a model's page, at the window of ``units``."""
    query: dict[str, str] = {}
    if isinstance(units, list | tuple) and units:
        first, last = units[0], units[-1]
        if isinstance(first, dict) and first.get("since"):
            query = {"since": first["since"], "until": last["until"]}
    address = f"{PREFIX.lstrip('/')}/models/{quote(full_name, safe='')}"
    return address + (f"?{urlencode(query)}" if query else "")
