"""The Airflow plugin: what only a plugin can register. Imports nothing heavy: every worker loads it for every task."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import AirflowPlugin

from bollhav_provider.links import StateLink, UpstreamLink
from bollhav_provider.timetables.contract import ContractTimetable


class BollhavPlugin(AirflowPlugin):
    """Registers timetables and links."""

    name = "bollhav"
    timetables = [ContractTimetable]  # noqa: RUF012 - as Airflow declares it
    operator_extra_links = [StateLink(), UpstreamLink()]  # noqa: RUF012
