"""The ``[bollhav]`` section of Airflow's configuration, as the settings of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from bollhav_provider.settings import OPTIONS, Settings

SECTION = "bollhav"


def configured() -> dict[str, Any]:
    """Return what the deployment's owner set in the section; what nobody set is absent."""
    from airflow.providers.common.compat.sdk import conf

    values = {}
    for option in OPTIONS:
        value = conf.get(SECTION, option.name, fallback=None)
        if value not in (None, ""):
            values[option.name] = value
    return values


def airflow_option(name: str, default: str) -> str:
    """Return one of the options that only Airflow's side reads.

    Args:
        name: a key of :data:`~bollhav_provider.hooks.options.AIRFLOW_OPTIONS`.
        default: where neither the configuration nor the environment's ``BOLLHAV_<NAME>`` says anything.
    """
    from airflow.providers.common.compat.sdk import conf

    value = conf.get(SECTION, name, fallback=None)
    return str(value or os.environ.get(f"BOLLHAV_{name.upper()}") or default)


def deployment_settings(params: Mapping[str, Any] | None = None) -> Settings:
    """Settle the options of this process: run parameters, Airflow's configuration, environment, defaults.

    Raises:
        ConfigurationError: a value has no meaning.
    """
    return Settings.resolve(params, configured(), os.environ)
