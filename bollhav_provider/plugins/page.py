"""The page behind a task's ``State`` link: a model's units as the library has them. For Airflow 3's API server."""

from __future__ import annotations

from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from fastapi import FastAPI

    from bollhav_provider.intervals import Interval
    from bollhav_provider.model import Model
    from bollhav_provider.state import LibraryEntry, UnitRow

#: Most units that are shown.
_LIMIT = 500
_STYLE = (
    "body{font-family:system-ui,sans-serif;margin:2rem;background:#fff;color:#222}table{border-collapse:collapse}"
    "td,th{border-bottom:1px solid #ddd;padding:.3rem .8rem;text-align:left;vertical-align:top}"
)


def build_app() -> FastAPI:
    """Return the app; everything in it asks for a person who may see plugins' pages."""
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
    from airflow.api_fastapi.core_api.security import requires_access_view
    from fastapi import Depends, FastAPI, Query
    from fastapi.responses import HTMLResponse

    allowed = Depends(requires_access_view(access_view=AccessView.PLUGINS))
    app = FastAPI(title="Bollhav", dependencies=[allowed], docs_url=None, redoc_url=None, openapi_url=None)

    # A plain function: FastAPI runs it beside the event loop, which a look into the database must not hold up.
    def model(
        full_name: str, since: Annotated[str | None, Query()] = None, until: Annotated[str | None, Query()] = None
    ) -> HTMLResponse:
        status, text = model_page(full_name, since, until)
        return HTMLResponse(text, status_code=status)

    # The annotations are text in this module; FastAPI cannot resolve names that live in this function.
    model.__annotations__ = {
        "full_name": str,
        "since": Annotated[str | None, Query()],
        "until": Annotated[str | None, Query()],
        "return": HTMLResponse,
    }
    app.get("/models/{full_name}", response_class=HTMLResponse)(model)
    return app


def model_page(full_name: str, since: str | None = None, until: str | None = None) -> tuple[int, str]:
    """Return status and HTML of a model's page.

    Args:
        full_name: as the library has it.
        since: start of the window to show, ISO 8601 with an offset; with ``until``.
        until: its end.
    """
    from bollhav_provider.exceptions import BollhavError, IntervalError
    from bollhav_provider.intervals import Interval, as_utc

    window: Interval | None = None
    try:
        if since and until:
            window = Interval(as_utc(since, "since"), as_utc(until, "until"))
        found = _look(full_name, window)
    except IntervalError as exc:
        return 400, _page(full_name, f"<p>{escape(str(exc))}</p>")
    except BollhavError as exc:
        return 503, _page(full_name, f"<p>{escape(str(exc))}</p>")
    if found is None:
        return 404, _page(full_name, "<p>No model of that name is registered in this library.</p>")
    entry, rows = found
    return 200, _page(full_name, _facts(entry) + _table(rows))


def _look(full_name: str, window: Interval | None) -> tuple[LibraryEntry, list[UnitRow]] | None:
    from bollhav_provider.hooks.library import LibraryHook
    from bollhav_provider.hooks.settings import deployment_settings
    from bollhav_provider.operators.run_context import environment
    from bollhav_provider.state import get_entry, units

    env = environment(deployment_settings())
    with LibraryHook().connections("bollhav page").state() as conn:
        entry = get_entry(conn, env, full_name)
        if entry is None:
            return None
        if entry.ref is None:
            return entry, []
        return entry, units(conn, _model(entry), env, window, outstanding=False, limit=_LIMIT)


def _model(entry: LibraryEntry) -> Model:
    """Return a stand-in for what is registered: the API server has no definitions."""
    from bollhav_provider.operators.standin import stand_in

    batching = entry.metadata.get("batching") or {}
    return stand_in(
        entry.full_name,
        chunk=batching.get("chunk"),
        tz=entry.metadata.get("tz") or "UTC",
        flexible=not entry.fixed_intervals,
        timeless=entry.temporality == "timeless",
    )


def _facts(entry: LibraryEntry) -> str:
    description = entry.metadata.get("description")
    text = f"<p>{escape(str(description))}</p>" if description else ""
    if entry.upstream:
        text += "<p>Waits for " + ", ".join(f"<code>{escape(name)}</code>" for name in entry.upstream) + ".</p>"
    return text + f"<p>Last registered {_instant(entry.last_seen)}.</p>"


def _table(rows: list[UnitRow]) -> str:
    if not rows:
        return "<p>There are no units in this window.</p>"
    head = "".join(f"<th>{title}</th>" for title in ("window", "status", "applied", "rows", "who", "why"))
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in _cells(row))}</tr>" for row in rows)
    more = f"<p>The first {_LIMIT} are shown.</p>" if len(rows) >= _LIMIT else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}"


def _cells(row: UnitRow) -> list[str]:
    marked = row.row.get("marked_by")
    why = row.blocked_reason or row.row.get("reason") or ""
    written = row.row.get("rows_written")
    return [
        escape(row.unit.label),
        escape(row.status + (f", marked by {marked}" if marked else "")),
        _instant(row.applied_at),
        "" if written is None else str(written),
        escape(str(row.row.get("who") or "")),
        escape(str(why)),
    ]


def _instant(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _page(title: str, body: str) -> str:
    shown = escape(title)
    head = f"<meta charset='utf-8'><title>{shown}</title><style>{_STYLE}</style>"
    return f"<!doctype html><html lang='en'><head>{head}</head><body><h1>{shown}</h1>{body}</body></html>"
