"""What the provider's pages show, read from the library. All SQL is the state room's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bollhav_provider.model import Environment
    from bollhav_provider.state import LibraryEntry, UnitRow
    from bollhav_provider.state.browse import Standing

#: Most models, and most units, of one page.
MODELS, UNITS = 200, 100
#: What may be seen of a set of DAG ids.
Allowed = Callable[[set[str]], set[str]]


@dataclass(frozen=True)
class Models:
    """The list of models.

    Attributes:
        shown: each with how it stands; None for one without state.
        after: name of the last one where there are more; None at the end.
        empty: whether the library has no model at all that may be seen.
    """

    shown: tuple[tuple[LibraryEntry, Standing | None], ...]
    after: str | None
    empty: bool


@dataclass(frozen=True)
class Asked:
    """What of a model's units is asked for.

    Attributes:
        since, until: of the window as they were given; empty for an open side.
        status: only units that have it.
        before: only units whose window starts before it: the next page.
    """

    since: str = ""
    until: str = ""
    status: str = ""
    before: str = ""


@dataclass(frozen=True)
class OneModel:
    """A model's page.

    Attributes:
        entry: as the library has it.
        standing: in numbers; None for a model without state.
        rows: its units, the latest windows first.
        feeds: names of the models that wait for it, as far as they may be seen.
        waits: names of the registered models that it waits for, by the name that it declares, likewise.
        older: start of the window from which on there is more; None at the end.
    """

    entry: LibraryEntry
    standing: Standing | None
    rows: tuple[UnitRow, ...]
    feeds: tuple[str, ...]
    waits: Mapping[str, str]
    older: datetime | None


def look_at_models(allowed: Allowed, wanted: str = "", *, trouble: bool = False, after: str = "") -> Models:
    """Read the list, in order of the names.

    Args:
        allowed: which DAGs may be seen.
        wanted: part of a name, or a tag; empty for all.
        trouble: only models that somebody should look at.
        after: name of the last model of the page before.
    """
    from bollhav_provider.state.browse import registered, standings

    shown: list[tuple[LibraryEntry, Standing | None]] = []
    with _library() as (conn, env):
        # Not in the database's order, which is one of its collation: pages go on after a name.
        entries = sorted(_visible(registered(conn, env), allowed), key=lambda entry: entry.full_name)
        left = [entry for entry in entries if entry.full_name > after and _matches(entry, wanted)]
        while left and len(shown) <= MODELS:
            some, left = left[: MODELS + 1], left[MODELS + 1 :]
            found = standings(conn, [entry.ref for entry in some if entry.ref is not None])
            for entry in some:
                stands = found.get(entry.ref) if entry.ref is not None else None
                if not trouble or (stands is not None and stands.troubled):
                    shown.append((entry, stands))
    last = shown[MODELS - 1][0].full_name if len(shown) > MODELS else None
    return Models(tuple(shown[:MODELS]), last, not entries)


def look_at_model(full_name: str, asked: Asked, allowed: Allowed) -> OneModel | None:
    """Read a model's page; None for a model that is not registered.

    Args:
        full_name: as the library has it, or without the environment's suffix.
        asked: which units.
        allowed: which DAGs may be seen.

    Raises:
        IntervalError: an instant is none, or the window is empty.
        PermissionError: the model may not be seen.
    """
    from bollhav_provider.state.browse import recent, registered, standings

    with _library() as (conn, env):
        names = {entry.full_name: entry for entry in registered(conn, env)}
        entry = names.get(full_name) or names.get(_in_library(env, full_name))
        if entry is None:
            return None
        visible = {one.full_name for one in _visible(list(names.values()), allowed)}
        if entry.full_name not in visible:
            raise PermissionError(f"You may not see the DAG of {full_name}.")
        rows = recent(conn, entry, **_ends(entry, asked), status=asked.status or None, limit=UNITS + 1)
        standing = standings(conn, [entry.ref]).get(entry.ref) if entry.ref is not None else None
    waits = {name: _in_library(env, name) for name in entry.upstream}
    feeds = [
        name
        for name, other in names.items()
        if name in visible and entry.full_name in {_in_library(env, one) for one in other.upstream}
    ]
    last = rows[UNITS - 1].covers if len(rows) > UNITS else None
    return OneModel(
        entry,
        standing,
        tuple(rows[:UNITS]),
        tuple(feeds),
        {name: found for name, found in waits.items() if found in visible},
        last.since if last else None,
    )


def library_id() -> str:
    """Return the id of the connection whose library is shown: the configured one."""
    from bollhav_provider.hooks.settings import deployment_settings

    return deployment_settings().conn_id


@contextmanager
def _library() -> Iterator[tuple[Any, Environment]]:
    """Open a connection to the library; closes it at the end."""
    from bollhav_provider.hooks.library import LibraryHook
    from bollhav_provider.hooks.settings import deployment_settings
    from bollhav_provider.operators.run_context import environment

    with closing(LibraryHook().connections("bollhav page").state()) as conn:
        yield conn, environment(deployment_settings())


def _ends(entry: LibraryEntry, asked: Asked) -> dict[str, datetime | None]:
    """Return the instants that are asked for; a date is midnight in the zone of the model's windows."""
    from bollhav_provider.exceptions import IntervalError
    from bollhav_provider.intervals import as_utc_or_day

    given = {"since": asked.since, "until": asked.until, "before": asked.before}
    ends = {name: as_utc_or_day(text, name, zone(entry)) if text else None for name, text in given.items()}
    since, until = ends["since"], ends["until"]
    if since is not None and until is not None and since >= until:
        raise IntervalError(f"since: {asked.since} is not before until, {asked.until}: exchange them.")
    return ends


def zone(entry: LibraryEntry) -> str:
    """Return the zone of a model's windows."""
    from zoneinfo import ZoneInfo

    tz = str(entry.metadata.get("tz") or "UTC")
    try:
        ZoneInfo(tz)
    except (ValueError, OSError):  # another writer's, or of another machine
        return "UTC"
    return tz


def dag_of(entry: LibraryEntry) -> str:
    """Return the id of the DAG that a model has when it has one of its own."""
    from bollhav_provider.factory.names import dag_id

    names = [entry.metadata.get(part) for part in ("catalog", "schema", "table")]
    return dag_id(".".join(str(name) for name in names if name) if names[1] and names[2] else entry.full_name)


def _visible(entries: list[LibraryEntry], allowed: Allowed) -> list[LibraryEntry]:
    """Return the models whose DAG may be seen; one that runs in a DAG of several is judged by its own name."""
    seen = allowed({dag_of(entry) for entry in entries})
    return [entry for entry in entries if dag_of(entry) in seen]


def _matches(entry: LibraryEntry, wanted: str) -> bool:
    wanted = wanted.strip().casefold()
    tags = {str(tag).casefold() for tag in entry.metadata.get("tags") or ()}
    return wanted in entry.full_name.casefold() or wanted in tags


def _in_library(env: Environment, name: str) -> str:
    """Return a declared name as the library has it; a pattern, or anything else that is no name, stays as it is."""
    from bollhav_provider.sensors.upstream import env_name

    try:
        return env_name(env, name)
    except ValueError:
        return name
