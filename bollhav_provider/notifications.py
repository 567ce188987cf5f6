"""A notifier: what happened to which model and window, in one message, handed to a function of yours."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from airflow.providers.common.compat.sdk import BaseNotifier

log = logging.getLogger(__name__)

Send = Callable[[dict[str, Any]], Any]


class BollhavNotifier(BaseNotifier):
    """Tell somebody how a task of a model ended:
    ``on_failure_callback=BollhavNotifier(send="alerts.slack:post")``.

    Args:
        send: is called with the message: a function, or its import path ``package.module:function``. By
            default the message is logged.
        kwargs: what every notifier takes.
    """

    template_fields = ()

    def __init__(self, send: Send | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.send = send

    def notify(self, context: Any) -> None:
        """Send the message."""
        message = notice(context)
        send = self.send
        if isinstance(send, str):
            module, _, name = send.partition(":")
            send = getattr(import_module(module), name)
        if send is None:
            log.error("%s", message["text"])
        else:
            send(message)


def notice(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return what there is to tell of a task.

    Returns:
        ``dag_id, run_id, task_id, try_number, state, model, window, people, error, url`` and ``text``, one
        sentence of it all; what is not known is None.
    """
    ti, task = context.get("ti"), context.get("task")
    state = getattr(ti, "state", None)
    model = getattr(task, "model", None) or getattr(task, "downstream", None)
    exception = context.get("exception")
    error = f"{type(exception).__name__}: {exception}" if isinstance(exception, BaseException) else exception
    people = getattr(model, "people", None)
    message: dict[str, Any] = {
        "dag_id": getattr(ti, "dag_id", None),
        "run_id": getattr(ti, "run_id", None),
        "task_id": getattr(ti, "task_id", None),
        "try_number": getattr(ti, "try_number", None),
        "state": str(getattr(state, "value", state) or ""),
        "model": getattr(model, "full_name", None),
        # Every task has a label; that of one with units is their window.
        "window": (getattr(task, "label", None) or None) if hasattr(task, "units") else None,
        "people": people.model_dump(mode="json", exclude_defaults=True) if people is not None else {},
        "error": str(error) if error else None,
        "url": getattr(ti, "log_url", None),
    }
    what = " ".join(filter(None, (message["model"], message["window"]))) or message["dag_id"]
    message["text"] = f"{what}: task {message['task_id']} {message['state'] or 'ended'}" + (
        f": {message['error']}" if message["error"] else ""
    )
    return message
