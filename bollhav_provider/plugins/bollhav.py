"""The Airflow plugin: what only a plugin can register. Imports nothing heavy: every worker loads it for every task."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import AirflowPlugin


class BollhavPlugin(AirflowPlugin):
    """Registers the provider's user interface."""

    name = "bollhav"
