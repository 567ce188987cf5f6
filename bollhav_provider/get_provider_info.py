"""What Airflow reads at start-up about this provider. Imports nothing heavy: every process of a deployment calls it."""

from __future__ import annotations

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


_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_OPERATORS = ("execute", "prefill", "run_model", "library")


def _connection_type() -> dict[str, Any]:
    """Return the form of connection type ``bollhav``; everything in it but the password is shown."""
    text = {"type": ["string", "null"]}
    return {
        "connection-type": "bollhav",
        "hook-class-name": "bollhav_provider.hooks.library.LibraryHook",
        "hook-name": "Bollhav library",
        "ui-field-behaviour": {
            "hidden-fields": [],
            "relabeling": {"schema": "Database", "login": "User", "host": "Host or socket directory"},
            "placeholders": {"port": "5432", "host": "db.example.com", "schema": "warehouse"},
        },
        "conn-fields": {
            "sslmode": {
                "label": "SSL mode",
                "description": "Whether the connection is encrypted, and whom it has to lead to.",
                "schema": {
                    "type": ["string", "null"],
                    "enum": [None, *_SSL_MODES],
                    "values_display": {"None": "as libpq has it (prefer)"},
                },
            },
            "sslrootcert": {
                "label": "SSL root certificate",
                "description": "Path of the certificate authority's file, on workers, triggerer and API server.",
                "schema": text,
            },
            "options": {
                "label": "Options",
                "description": "Further server settings of each session, for instance -c search_path=public.",
                "schema": text,
            },
        },
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
