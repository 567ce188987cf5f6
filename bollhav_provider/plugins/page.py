"""The app behind the provider's pages: all models, and one model's units. For Airflow 3's API server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Any

from bollhav_provider.plugins.looking import Allowed, Asked, library_id, look_at_model, look_at_models
from bollhav_provider.plugins.markup import model_page, models_page, page, problem

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)


def build_app() -> FastAPI:
    """Return the app; everything in it asks for a person who may see plugins' pages, and the models' DAGs."""
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
    from airflow.api_fastapi.core_api.security import get_user, requires_access_view
    from fastapi import Depends, FastAPI, Query
    from fastapi.responses import HTMLResponse

    allowed = Depends(requires_access_view(access_view=AccessView.PLUGINS))
    app = FastAPI(title="Bollhav", dependencies=[allowed], docs_url=None, redoc_url=None, openapi_url=None)

    # Plain functions: FastAPI runs them beside the event loop, which a look into the database must not hold up.
    def models(user: Any, q: str = "", trouble: bool = False, after: str = "") -> HTMLResponse:
        return _answer(show_models(dags_of(user), q, trouble=trouble, after=after))

    def model(
        user: Any, full_name: str, since: str = "", until: str = "", status: str = "", before: str = ""
    ) -> HTMLResponse:
        return _answer(show_model(full_name, Asked(since, until, status, before), dags_of(user)))

    # The annotations are text in this module; FastAPI cannot resolve names that live in this function.
    text = Annotated[str, Query()]
    known = {"user": Annotated[Any, Depends(get_user)], "return": HTMLResponse}
    models.__annotations__ = {**known, "q": text, "trouble": Annotated[bool, Query()], "after": text}
    model.__annotations__ = {**known, "full_name": str} | dict.fromkeys(("since", "until", "status", "before"), text)
    for path, function in (("/models", models), ("/models/{full_name}", model)):
        app.get(path, response_class=HTMLResponse)(function)

    def _answer(found: tuple[int, str]) -> HTMLResponse:
        return HTMLResponse(found[1], status_code=found[0], headers={"Cache-Control": "no-store"})

    return app


def dags_of(user: Any) -> Allowed:
    """Return what says which DAGs a person may read, as Airflow's auth manager has it."""

    def allowed(dag_ids: set[str]) -> set[str]:
        from airflow.api_fastapi.app import get_auth_manager

        manager: Any = get_auth_manager()
        found: set[str] = manager.filter_authorized_dag_ids(dag_ids=dag_ids, user=user, method="GET")
        return found

    return allowed


def show_models(allowed: Allowed, wanted: str = "", *, trouble: bool = False, after: str = "") -> tuple[int, str]:
    """Return status and HTML of the list of models.

    Args:
        allowed: which DAGs may be seen.
        wanted: part of a name, or a tag.
        trouble: only models that somebody should look at.
        after: name of the last model of the page before.
    """
    try:
        found = look_at_models(allowed, wanted, trouble=trouble, after=after)
        return 200, models_page(found, wanted, trouble=trouble)
    except Exception as exc:
        return _unreadable("Models", exc)


def show_model(full_name: str, asked: Asked, allowed: Allowed) -> tuple[int, str]:
    """Return status and HTML of a model's page.

    Args:
        full_name: as the library has it, or without the environment's suffix.
        asked: which of its units.
        allowed: which DAGs may be seen.
    """
    from bollhav_provider.exceptions import IntervalError

    try:
        found = look_at_model(full_name, asked, allowed)
    except IntervalError as exc:
        return 400, page(full_name, problem(str(exc)), up=True)
    except PermissionError as exc:
        return 403, page(full_name, problem(str(exc)), up=True)
    except Exception as exc:
        return _unreadable(full_name, exc)
    if found is None:
        text = (
            f"No model of that name is registered in the library of connection {library_id()!r}: its first run there "
            "registers it. What another connection leads to is not shown."
        )
        return 404, page(full_name, problem(text), up=True)
    return 200, model_page(found, asked)


def _unreadable(title: str, exc: Exception) -> tuple[int, str]:
    """Return the page that says why the library cannot be read: no connection, no such database, too many clients."""
    log.warning("the library cannot be read for the page %r", title, exc_info=exc)
    return 503, page(title, problem(f"The library cannot be read: {type(exc).__name__}: {exc}"))
