"""Where the demo keeps what. Standard library only: ``./run clean`` reads it without an installation."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
from pathlib import Path

from bollhav_provider.testing.postgres import PostgresServer, everyone_may_reach
from tools import LOCAL, ROOT

#: Everything of the demo: Airflow's home, the server, the logs.
HOME = LOCAL / "demo"
AIRFLOW_HOME = HOME / "airflow"
LOGS = HOME / "logs"
#: The two databases that the demo makes, on its own server or on one that is given.
WAREHOUSE, METADATA = "bollhav_demo", "bollhav_demo_airflow"


def demo_server() -> PostgresServer:
    """Return the demo's own server, started or not.

    It lies beside the rest, unless that is out of reach of the account that root has to run it as.
    """
    home = HOME / "postgres"
    if os.geteuid() == 0 and not everyone_may_reach(ROOT):
        home = Path("/var/lib") / f"bollhav-demo-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:10]}"
    settings = ("max_connections=200", "jit=off")
    return PostgresServer(home, settings=settings)


def keys() -> dict[str, str]:
    """Return the secrets of this deployment, made once and kept with its data: of the UI's login too."""
    path = HOME / "keys.json"
    if path.exists():
        return dict(json.loads(path.read_text()))
    made = {
        "fernet": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "jwt": secrets.token_urlsafe(32),
        "api": secrets.token_urlsafe(32),
        "password": secrets.token_urlsafe(9),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(made))
    return made
