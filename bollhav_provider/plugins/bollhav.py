"""The Airflow plugin: what only a plugin can register. Imports nothing heavy: every worker loads it for every task."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import AirflowPlugin

from bollhav_provider.links import StateLink, UpstreamLink
from bollhav_provider.plugins import listener
from bollhav_provider.timetables.contract import ContractTimetable


class BollhavPlugin(AirflowPlugin):
    """Registers timetables, links and what people do in the UI."""

    name = "bollhav"
    listeners = [listener]  # noqa: RUF012
    timetables = [ContractTimetable]  # noqa: RUF012 - as Airflow declares it
    operator_extra_links = [StateLink(), UpstreamLink()]  # noqa: RUF012
