"""Requests to a web server like Airflow 2's, with what the provider registers there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from airflow_testing import task_row


@functools.cache
def _application() -> Any:
    from flask import Flask, current_app, request

    from bollhav_provider.plugins.web_2 import build_blueprint

    application = Flask("web server")
    application.register_blueprint(build_blueprint())

    @application.route("/", methods=["GET", "POST"])
    @application.post("/internal_api/v1/rpcapi")
    def view() -> str:
        current_app.config["view"](request)
        return ""

    return application


class _Person:
    """What Airflow's auth manager knows of who is logged in."""

    def __init__(self, name: str) -> None:
        self._name = name

    def is_logged_in(self) -> bool:
        return bool(self._name)

    def get_user_name(self) -> str:
        return self._name


def request_by(person: str, view: Callable[[Any], None], *, path: str = "/", method: str = "POST") -> int:
    """Make a request that ``view`` answers, and return the status."""
    application = _application()
    application.config["view"] = view
    with patch("airflow.www.extensions.init_auth_manager.get_auth_manager", return_value=_Person(person)):
        return int(application.test_client().open(path, method=method).status_code)


def mark_in_request(dag_run: Any, *names: str, state: str = "success", person: str = "ada", **how: str) -> None:
    """Mark tasks as the views of Airflow 2 do."""
    from airflow.utils.session import create_session

    def view(_: Any) -> None:
        with create_session() as session:
            for name in names:
                task_row(session, dag_run, name).set_state(state, session=session)

    assert request_by(person, view, **how) == 200
