"""The provider's pages as HTML. Everything that comes from the library is escaped here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from bollhav_provider.plugins.looking import Asked, Models, OneModel, dag_of, zone
from bollhav_provider.plugins.style import document

if TYPE_CHECKING:
    from bollhav_provider.intervals import Interval
    from bollhav_provider.state import LibraryEntry, UnitRow
    from bollhav_provider.state.browse import Standing

#: In which order statuses are shown: what is done, what is to do, what needs somebody.
STATUSES = ("applied", "pending", "running", "blocked", "error")
#: From a model's page, ``bollhav/models/...``, to the root of the UI, under whatever prefix that is served.
_ROOT = "../../"


def models_page(found: Models, wanted: str, *, trouble: bool) -> str:
    """Return the list of models.

    Args:
        found: what there is.
        wanted: what was searched for.
        trouble: whether only models that need somebody were asked for.
    """
    checked = " checked" if trouble else ""
    form = (
        f"<form><input type=search name=q value='{escape(wanted)}' placeholder='Name or tag' aria-label='Name or tag'>"
        f"<label><input type=checkbox name=trouble value=1{checked}> only blocked, failed or stuck</label>"
        "<button>Show</button></form>"
    )
    if found.empty:
        return page("Models", "<p>The library has no model yet: each is registered by its first run.</p>")
    if not found.shown:
        return page("Models", f"{form}<p>No model {'that needs a look' if trouble else 'of that name or tag'}.</p>")
    head = ("model", *STATUSES, "applied until", "last loaded")
    rows = [_model_row(entry, standing) for entry, standing in found.shown]
    more = ""
    if found.after is not None:
        said = {"q": wanted, "trouble": "1" if trouble else "", "after": found.after}
        more = f"<p><a href='{_asking(said)}'>More models</a></p>"
    return page("Models", form + _table(head, rows) + more)


def model_page(found: OneModel, asked: Asked) -> str:
    """Return a model's page.

    Args:
        found: the model and its units.
        asked: what was asked for.
    """
    entry = found.entry
    body = _about(found)
    if found.standing is None:
        return page(entry.full_name, body + "<p>It keeps no state.</p>", up=True)
    body += _chips(found.standing, asked) + _window_form(entry, asked)
    if not found.rows:
        body += "<p>There are no such units.</p>" if asked != Asked() else "<p>There are no units yet.</p>"
        return page(entry.full_name, body, up=True)
    head = ("window", "status", "applied", "rows", "took", "run", "why")
    body += _table(head, [_unit_row(row, zone(entry)) for row in found.rows])
    if found.older is not None:
        body += f"<p><a href='{_query(asked, before=found.older.isoformat())}'>Older windows</a></p>"
    return page(entry.full_name, body, up=True)


def page(title: str, body: str, *, up: bool = False) -> str:
    """Return a whole document.

    Args:
        title: text.
        body: HTML.
        up: whether it is a model's page, below the list.
    """
    nav = "<nav><a href='../models'>Models</a></nav>" if up else ""
    shown = escape(title)
    return document(shown, f"{nav}<h1>{shown}</h1>{body}")


def problem(text: str) -> str:
    """Return why there is nothing to show, as HTML."""
    return f"<p class=error>{escape(text)}</p>"


def _model_row(entry: LibraryEntry, standing: Standing | None) -> list[str]:
    name = entry.full_name
    link = f"models/{quote(name, safe='')}"
    about = _first_line(entry.metadata.get("description"))
    shown = f"<a href='{escape(link)}'>{escape(name)}</a>" + (f"<small>{escape(about)}</small>" if about else "")
    if standing is None:
        return [shown, *[""] * len(STATUSES), "", ""]
    counts = [
        f"<a class='n {status}' href='{escape(link)}?status={status}'>{number:,}</a>"
        + (_note(f"{standing.stuck} stuck") if status == "running" and standing.stuck else "")
        if (number := standing.counts.get(status, 0))
        else ""
        for status in STATUSES
    ]
    return [shown, *counts, _instant(standing.until), _instant(standing.loaded_at)]


def _about(found: OneModel) -> str:
    entry, meta = found.entry, found.entry.metadata
    text = f"<p>{escape(str(meta['description']))}</p>" if meta.get("description") else ""
    batching = meta.get("batching") or {}
    facts = [f"{entry.temporality} {entry.model_type.lower()}"]
    if batching.get("chunk"):
        facts.append(f"windows of {escape(str(batching['chunk']))} in {escape(zone(entry))}")
    contract = meta.get("contract") or {}
    ends = [
        f"{word} {escape(_local_instant(str(contract[name]), zone(entry)))}"
        for name, word in (("begin", "from"), ("end", "to"))
        if contract.get(name)
    ]
    if ends:
        facts.append(f"contract {' '.join(ends)}")
    dag = next((row.row["dag_id"] for row in found.rows if row.row.get("dag_id")), None)
    facts.append(_out(f"{_ROOT}dags/{quote(dag or dag_of(entry), safe='')}", "its DAG"))
    text += f"<p>{' · '.join(facts)}</p>"
    if entry.upstream:
        waits = [_other(found.waits.get(name), name) for name in entry.upstream]
        text += f"<p>Waits for {', '.join(waits)}.</p>"
    if found.feeds:
        text += f"<p>Is waited for by {', '.join(_other(name, name) for name in found.feeds)}.</p>"
    return text + f"<p><small>Registered last {_instant(entry.last_seen)}.</small></p>"


def _other(link: str | None, name: str) -> str:
    """Return a model's name, linked to its page where it has one."""
    shown = f"<code>{escape(name)}</code>"
    return f"<a href='{escape(quote(link, safe=''))}'>{shown}</a>" if link else shown


def _chips(standing: Standing, asked: Asked) -> str:
    chips = [_chip("all", sum(standing.counts.values()), "", chosen=not asked.status, asked=asked)]
    chips += [
        _chip(status, standing.counts.get(status, 0), status, chosen=asked.status == status, asked=asked)
        for status in STATUSES
        if standing.counts.get(status, 0) or asked.status == status
    ]
    stuck = _note(f"{standing.stuck} running with an ended lease") if standing.stuck else ""
    return f"<p class=chips>{' '.join(chips)}{stuck}</p>"


def _chip(text: str, number: int, status: str, *, chosen: bool, asked: Asked) -> str:
    kind = "n chosen" if chosen else "n"
    return f"<a class='{kind} {status}' href='{_query(asked, status=status, before='')}'>{text} {number:,}</a>"


def _window_form(entry: LibraryEntry, asked: Asked) -> str:
    status = f"<input type=hidden name=status value='{escape(asked.status)}'>" if asked.status else ""
    fields = "".join(
        f"<label>{name} <input name={name} value='{escape(value)}' placeholder='2024-01-31' size=26></label>"
        for name, value in (("since", asked.since), ("until", asked.until))
    )
    everything = _query(asked, since="", until="", before="")
    every = f" <a href='{everything}'>all windows</a>" if asked.since or asked.until else ""
    hint = f"<small>A date is midnight in {escape(zone(entry))}.</small>"
    return f"<form>{fields}{status}<button>Show</button>{every}{hint}</form>"


def _query(asked: Asked, **other: str) -> str:
    """Return the query of the same page with some answers changed; ``?`` alone for none."""
    return _asking({name: getattr(asked, name) for name in ("since", "until", "status", "before")} | other)


def _asking(said: Mapping[str, str]) -> str:
    return escape("?" + urlencode({name: value for name, value in said.items() if value}))


def _unit_row(row: UnitRow, tz: str) -> list[str]:
    more = row.row
    status = f"<span class='n {escape(row.status)}'>{escape(row.status)}</span>"
    if more.get("marked_by"):
        status += _note(f"marked by {more['marked_by']}")
    if row.status == "running" and not row.outstanding:
        status += _note(f"lease until {_instant(more.get('lease_until'))}")
    elif row.status == "running":
        status += _note("its worker is gone: the next run takes it")
    written = more.get("rows_written")
    return [
        _window(row, tz),
        status,
        _instant(row.applied_at),
        "" if written is None else f"{written:,}",
        _duration(more.get("duration")),
        _run(row),
        escape(str(row.blocked_reason or more.get("reason") or "")),
    ]


def _window(row: UnitRow, tz: str) -> str:
    shown = escape(row.unit.label)
    if row.covers is not None and (row.unit.window is None or tz != "UTC"):
        shown += f"<small>{escape(_local(row.covers, tz))}</small>"
    return shown


def _local(window: Interval, tz: str) -> str:
    """Return a window in a zone: a day as its date, anything else with both ends."""
    from zoneinfo import ZoneInfo

    try:
        since, until = (at.astimezone(ZoneInfo(tz)) for at in (window.since, window.until))
    except OverflowError:  # of the years 1 or 9999
        return str(window)
    midnights = all((at.hour, at.minute, at.second) == (0, 0, 0) for at in (since, until))
    if midnights and until.date() - since.date() == timedelta(days=1):
        return f"{since:%Y-%m-%d} {tz}"
    form = "%Y-%m-%d" if midnights else "%Y-%m-%d %H:%M"
    return f"{since:{form}} to {until:{form}} {tz}"


def _local_instant(text: str, tz: str) -> str:
    """Return an instant of the library's metadata in a zone; what is no instant stays as it is."""
    from zoneinfo import ZoneInfo

    try:
        at = datetime.fromisoformat(text).astimezone(ZoneInfo(tz))
    except (ValueError, OverflowError):  # another writer's
        return text
    return f"{at:%Y-%m-%d}" if (at.hour, at.minute, at.second) == (0, 0, 0) else f"{at:%Y-%m-%d %H:%M}"


def _run(row: UnitRow) -> str:
    """Return who worked on a unit: a link to the run, and the person or the kind of run."""
    dag, run, who = (row.row.get(name) for name in ("dag_id", "airflow_run_id", "who"))
    shown = escape(str(who or ""))
    if dag and run:
        address = f"{_ROOT}dags/{quote(str(dag), safe='')}/runs/{quote(str(run), safe='')}"
        shown = _out(address, str(run)) + (f"<small>{shown}</small>" if shown else "")
    return shown + (_note(f"attempt {row.attempt}") if row.attempt > 1 else "")


def _out(address: str, text: str) -> str:
    """Return a link that leaves these pages for one of Airflow's own."""
    return f"<a class=out href='{escape(address)}'>{escape(text)}</a>"


def _table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    """Return a table; each cell knows its column's title, which narrow screens show beside it."""
    titles = "".join(f"<th>{title}</th>" for title in head)
    body = "".join(
        "<tr>" + "".join(f"<td data-t='{t}'>{cell}</td>" for t, cell in zip(head, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def _note(text: str) -> str:
    return f"<small>{escape(text)}</small>"


def _first_line(text: object) -> str:
    lines = str(text or "").strip().splitlines()
    return lines[0] if lines else ""


def _duration(took: object) -> str:
    if not isinstance(took, timedelta):
        return ""
    seconds = took.total_seconds()
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))


def _instant(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
