"""What Airflow reads at start-up about this provider."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the provider description of Airflow's ``provider_info.schema.json``."""
    return {
        "package-name": "airflow-provider-bollhav",
        "name": "Bollhav",
        "description": "Incremental PostgreSQL tables with real state.",
    }
