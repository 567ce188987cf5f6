"""The Airflow plugin: what only a plugin can register. Imports nothing heavy: every worker loads it for every task."""

from __future__ import annotations

import functools
from typing import Any

from airflow.providers.common.compat.sdk import AirflowPlugin

from bollhav_provider.links import PREFIX, StateLink, UpstreamLink, UpstreamStateLink
from bollhav_provider.plugins import listener, preload
from bollhav_provider.timetables.contract import ContractTimetable
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS, AIRFLOW_V_3_1_PLUS


class BollhavPlugin(AirflowPlugin):
    """Registers timetables, links and what people do in the UI."""

    name = "bollhav"
    listeners = [listener, preload]  # noqa: RUF012
    timetables = [ContractTimetable]  # noqa: RUF012 - as Airflow declares it
    operator_extra_links = [StateLink(), UpstreamLink(), UpstreamStateLink()]  # noqa: RUF012

    if AIRFLOW_V_3_0_PLUS:

        @functools.cached_property
        def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
            """The provider's pages, built in the API server alone: every other process loads this class as well."""
            from bollhav_provider.plugins.page import build_app

            return [{"app": build_app(), "url_prefix": PREFIX, "name": "Bollhav"}]

    if AIRFLOW_V_3_1_PLUS:
        #: Where the list of models is found in the UI; like every link to these pages it has no slash in front.
        external_views = [
            {
                "name": "Bollhav models",
                "href": f"{PREFIX.lstrip('/')}/models",
                "url_route": "bollhav",
                "destination": "nav",
                "category": "browse",
            }
        ]

    if not AIRFLOW_V_3_0_PLUS:
        from bollhav_provider.plugins import airflow_2 as _airflow_2

        listeners = [listener, preload, _airflow_2]

        @functools.cached_property
        def flask_blueprints(self) -> list[Any]:  # type: ignore[override]
            """What the web server registers, and no other process: Flask is not imported for a task."""
            from bollhav_provider.plugins.web_2 import build_blueprint

            return [build_blueprint()]
