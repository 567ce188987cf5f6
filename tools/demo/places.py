"""Where a deployment keeps what. Standard library only: ``./run clean`` reads it without an installation."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from bollhav_provider.testing.postgres import PostgresServer, everyone_may_reach
from tools import LOCAL, ROOT


@dataclass(frozen=True)
class Places:
    """The directory of one deployment and what is where in it.

    Args:
        home: holds everything of it: Airflow's home, the server, the logs.
    """

    home: Path

    @property
    def warehouse(self) -> str:
        """Name of the database with the library, its state and the models' tables."""
        return f"bollhav_{self.home.name}"

    @property
    def metadata(self) -> str:
        """Name of the database with Airflow's metadata."""
        return f"{self.warehouse}_airflow"

    @property
    def airflow_home(self) -> Path:
        """AIRFLOW_HOME."""
        return self.home / "airflow"

    @property
    def logs(self) -> Path:
        """The components' output and the tasks' logs."""
        return self.home / "logs"

    def server(self) -> PostgresServer:
        """Return the deployment's own server, started or not.

        It lies beside the rest, unless that is out of reach of the account that root has to run it as.
        """
        home = self.home / "postgres"
        if os.geteuid() == 0 and not everyone_may_reach(ROOT):
            home = Path("/var/lib") / f"bollhav-{hashlib.sha256(str(home).encode()).hexdigest()[:10]}"
        return PostgresServer(home, settings=("max_connections=200", "jit=off"))

    def keys(self) -> dict[str, str]:
        """Return the secrets of this deployment, made once and kept with its data; the UI's password among them."""
        path = self.home / "keys.json"
        if path.exists():
            return dict(json.loads(path.read_text()))
        made = {
            "fernet": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "jwt": secrets.token_urlsafe(32),
            "api": secrets.token_urlsafe(32),
            "password": secrets.token_urlsafe(9),
        }
        write_secret(path, made)
        return made


def write_secret(path: Path, content: dict[str, str]) -> None:
    """Write JSON that only its owner may read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(content))


#: Those of ``./run demo`` and of the end-to-end tests.
DEMO, E2E = Places(LOCAL / "demo"), Places(LOCAL / "e2e")
