"""docker-compose.yaml is valid by the compose specification, and is the deployment that it says it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_pydantic.models import ComposeSpecification  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
AIRFLOW = ("api-server", "scheduler", "dag-processor", "triggerer", "worker")
SECRET = re.compile(r"PASSWORD$|SECRET|FERNET|SQL_ALCHEMY_CONN|AIRFLOW_CONN_|BROKER_URL|RESULT_BACKEND")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())
    return loaded


def test_it_is_valid_by_the_compose_specification(compose: dict[str, Any]) -> None:
    # The classes are generated from the specification's JSON schema and refuse what it does not know. The generator
    # leaves out the pattern by which the specification allows extensions at the top, so those are not shown to it.
    known = {key: value for key, value in compose.items() if not key.startswith("x-")}
    ComposeSpecification.model_validate(known)
    with pytest.raises(ValueError, match="healthchek"):
        ComposeSpecification.model_validate({"services": {"one": {"image": "x", "healthchek": {}}}})


def test_it_has_every_component_and_two_workers(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert set(services) == {"metadata", "warehouse", "redis", "init", *AIRFLOW}
    assert services["worker"]["deploy"]["replicas"] == 2
    for name in AIRFLOW:
        assert services[name]["environment"]["AIRFLOW__CORE__EXECUTOR"] == "CeleryExecutor"


def test_everything_that_stays_up_is_checked_and_nobody_is_root(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert str(service["user"]).split(":")[0] not in ("", "0", "root"), name
        assert name == "init" or service["healthcheck"]["test"], name


def test_whoever_is_waited_for_exists_and_can_be(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in services, name
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[other], f"{name} waits for {other}"


def test_no_secret_is_written_down_and_each_is_asked_for(compose: dict[str, Any]) -> None:
    example = (ROOT / ".env.example").read_text()
    asked: set[str] = set()
    for service in compose["services"].values():
        for key, value in service.get("environment", {}).items():
            found = re.findall(r"\$\{(\w+):\?", str(value))
            asked.update(found)
            if SECRET.search(key):
                assert found, key
    assert asked == set(re.findall(r"^(\w+)=$", example, re.MULTILINE))
    assert ".env" in (ROOT / ".gitignore").read_text().split()


def test_the_provider_comes_from_this_checkout(compose: dict[str, Any]) -> None:
    assert compose["services"]["worker"]["build"] == {"context": ".", "dockerfile": "Dockerfile"}
    copied = re.findall(r"^COPY --chown=\S+ (.+) /opt/provider", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    names = " ".join(copied).split()
    assert "bollhav_provider" in names
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for name in names:
        assert (ROOT / name).exists(), name
        assert name in let_in, f"{name} does not reach the builder"
