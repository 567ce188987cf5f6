"""What the package registers with Airflow, and that registering costs nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest

from bollhav_provider.get_provider_info import get_provider_info
from bollhav_provider.settings import OPTIONS
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS


def schema() -> dict[str, Any]:
    path = Path(str(airflow.__file__)).parent / "provider_info.schema.json"
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def test_the_provider_info_is_valid() -> None:
    info = get_provider_info()
    if not AIRFLOW_V_3_0_PLUS:  # a key of Airflow 3 that 2 ignores
        for connection in info["connection-types"]:
            connection.pop("conn-fields")
            connection.pop("ui-field-behaviour")
    jsonschema.validate(info, schema())
    assert info["package-name"] == "airflow-provider-bollhav"


def test_everything_that_the_provider_info_names_exists() -> None:
    info = get_provider_info()
    for kind in ("operators", "sensors", "hooks", "triggers"):
        for module in (name for entry in info[kind] for name in entry["python-modules"]):
            import_module(module)
    classes = [*info["extra-links"], *info["notifications"], *(d["class-name"] for d in info["task-decorators"])]
    classes += [c["hook-class-name"] for c in info["connection-types"]]
    for path in classes:
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name), path


def test_airflow_finds_the_provider_and_everything_that_it_brings() -> None:
    from airflow.providers_manager import ProvidersManager

    manager, info = ProvidersManager(), get_provider_info()
    shown = manager.providers["airflow-provider-bollhav"].data  # by `airflow providers get`
    assert {key: shown[key] for key in info} == info
    hook = manager.hooks["bollhav"]
    assert hook is not None
    assert (hook.hook_name, hook.connection_testable) == ("Bollhav library", True)
    assert set(info["extra-links"]) <= set(manager.extra_links_class_names)
    assert set(info["notifications"]) <= set(manager.notification)
    assert "bollhav" in manager.taskflow_decorators
    triggers = {trigger.trigger_class_name for trigger in manager.trigger}
    assert set(info["triggers"][0]["python-modules"]) <= triggers
    assert "bollhav" in dict(manager.provider_configs)["airflow-provider-bollhav"]


FORM = """
import json
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService
(form,) = (found for found in HookMetaService.hook_meta_data() if found.connection_type == "bollhav")
print(json.dumps([form.standard_fields.url_schema.title, sorted(form.extra_fields)]))
"""


def test_the_connection_type_has_its_form_on_every_airflow() -> None:
    fields = {"sslmode", "sslrootcert", "options"}
    if AIRFLOW_V_3_0_PLUS:
        # As the API server does it: before anything else has looked at the providers' hooks.
        done = subprocess.run([sys.executable, "-c", FORM], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1]) == ["Database", sorted(fields)]
        return
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    assert manager.field_behaviours["bollhav"]["relabeling"]["schema"] == "Database"
    assert {f"extra__bollhav__{name}" for name in fields} <= set(manager.connection_form_widgets)


def test_every_option_is_described_and_none_has_a_default_that_would_hide_the_environment() -> None:
    options = get_provider_info()["config"]["bollhav"]["options"]
    assert {option.name for option in OPTIONS} <= set(options)
    assert {"poke_interval", "gate_timeout", "asset_host", "asset_database"} <= set(options)
    assert all(option["default"] is None for option in options.values())
    assert options["dsn"]["sensitive"] is True


@pytest.mark.parametrize("module", ["bollhav_provider.plugins.bollhav", "bollhav_provider.get_provider_info"])
def test_what_every_process_imports_is_light(module: str) -> None:
    script = f"""
import sys, {module}
print(sorted({{"polars", "psycopg", "fastapi", "pydantic_core", "sqlglot"}} & (set(sys.modules) - before)))
"""
    preamble = "import sys; import airflow.providers.common.compat.sdk as s; s.AirflowPlugin; s.BaseOperatorLink\n"
    preamble += "from airflow.timetables.interval import CronDataIntervalTimetable; before = set(sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", preamble + script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_plugin_registers_its_timetable() -> None:
    from airflow import plugins_manager

    from bollhav_provider.timetables.contract import ContractTimetable

    names = f"{ContractTimetable.__module__}.{ContractTimetable.__qualname__}"
    if AIRFLOW_V_3_0_PLUS and hasattr(plugins_manager, "get_timetables_plugins"):
        assert names in plugins_manager.get_timetables_plugins()
    else:
        plugins_manager.initialize_timetables_plugins()
        assert names in plugins_manager.timetable_classes


def test_the_contracts_timetable_survives_serialisation() -> None:
    from datetime import UTC, datetime

    from bollhav_provider.timetables.contract import ContractTimetable

    timetable = ContractTimetable("@daily", "Europe/Stockholm", datetime(2024, 4, 1, tzinfo=UTC))
    again = ContractTimetable.deserialize(json.loads(json.dumps(timetable.serialize())))
    assert again == timetable
    assert again.end == timetable.end
