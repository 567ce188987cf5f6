"""What Airflow reads at start-up about this provider. Imports nothing heavy: every process of a deployment calls it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

_NAME = "Bollhav"
_VERSION = "0.1.0"


def get_provider_info() -> dict[str, Any]:
    """Return the provider description of Airflow's ``provider_info.schema.json``."""
    return {
        "package-name": "airflow-provider-bollhav",
        "name": _NAME,
        "description": "Incremental PostgreSQL tables with real state.",
        "integrations": [
            {
                "integration-name": _NAME,
                "external-doc-url": "https://www.postgresql.org/docs/current/",
                "tags": ["software"],
            }
        ],
        "operators": [
            {"integration-name": _NAME, "python-modules": [f"bollhav_provider.operators.{m}" for m in _OPERATORS]}
        ],
        "sensors": [{"integration-name": _NAME, "python-modules": ["bollhav_provider.sensors.upstream"]}],
        "hooks": [{"integration-name": _NAME, "python-modules": ["bollhav_provider.hooks.library"]}],
        "triggers": [{"integration-name": _NAME, "python-modules": ["bollhav_provider.triggers.upstream"]}],
        "connection-types": [_connection_type()],
        "extra-links": [
            "bollhav_provider.links.StateLink",
            "bollhav_provider.links.UpstreamLink",
            "bollhav_provider.links.UpstreamStateLink",
        ],
        "notifications": ["bollhav_provider.notifications.BollhavNotifier"],
        "task-decorators": [{"name": "bollhav", "class-name": "bollhav_provider.operators.run_model.bollhav_task"}],
        "config": {"bollhav": {"description": "Options of the Bollhav provider.", "options": _options()}},
    }


_OPERATORS = ("execute", "prefill", "run_model", "library")


def _connection_type() -> dict[str, Any]:
    """Return the form of connection type ``bollhav``; everything in it but the password is shown."""
    from bollhav_provider.hooks import form

    return {
        "connection-type": "bollhav",
        "hook-class-name": "bollhav_provider.hooks.library.LibraryHook",
        "hook-name": "Bollhav library",
        "ui-field-behaviour": {
            "hidden-fields": list(form.HIDDEN),
            "relabeling": dict(form.LABELS),
            "placeholders": dict(form.PLACEHOLDERS),
        },
        "conn-fields": deepcopy(form.FIELDS),
    }


def _options() -> dict[str, Any]:
    """Return the ``[bollhav]`` section, without defaults: what nobody set is looked for in the environment."""
    from bollhav_provider.hooks.options import AIRFLOW_OPTIONS
    from bollhav_provider.settings import OPTIONS

    described = {option.name: f"{option.description}{_default(option.default)}" for option in OPTIONS}
    described |= AIRFLOW_OPTIONS
    return {
        name: {
            "description": description,
            "version_added": _VERSION,
            "type": "string",
            "example": None,
            "default": None,
            "sensitive": name == "dsn",
        }
        for name, description in sorted(described.items())
    }


def _default(value: object) -> str:
    """Return the sentence about an option's default; nothing is said of an empty one."""
    return f" Default: {value}." if value not in (None, "") else ""
