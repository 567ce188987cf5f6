"""Options of the ``[bollhav]`` section that only Airflow's side reads. Imports nothing."""

from __future__ import annotations

#: Names and descriptions.
AIRFLOW_OPTIONS: dict[str, str] = {
    "poke_interval": "Seconds between two looks at the gates of everything that waits in one triggerer (default 15).",
    "gate_timeout": "Seconds after which a waiting sensor gives up (default 604800, a week).",
    "retries": "How often a task of the provider is tried again where neither its model, its DAG nor `[core] "
    "default_task_retries` says; what cannot heal is not (default 2).",
    "asset_host": "Host, and port unless it is 5432, in the URIs of the models' assets (default bollhav).",
    "asset_database": "Database in the URIs of the models' assets (default library).",
}
