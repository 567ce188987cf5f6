"""The documentation of a generated DAG, from what the model says about itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from bollhav_provider.links import state_page
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS

if TYPE_CHECKING:
    from bollhav_provider.graph import Graph
    from bollhav_provider.model import Model


def model_markdown(model: Model, graph: Graph) -> str:
    """Return a page about a model: what it is, its window, its columns and where they come from.

    Deterministic: the same definition gives the same text, so that no new DAG version is made without a change. Each
    version of the DAG is stored with it, so nothing is written at length.
    """
    parts = [f"### `{model.full_name}`"]
    if model.description:
        parts.append(model.description.strip())
    parts.append("\n".join(f"- {name}: {said}" for name, said in _facts(model, graph)))
    if model.target.columns:
        rows = [(f"`{c.name}`", f"`{c.type}`", _key(c), c.description or "") for c in model.target.columns]
        parts.append(_table(("column", "type", "", ""), rows))
    if model.query:
        parts.append(f"```sql\n{_dedented(model.query)}\n```")
    return "\n\n".join(parts) + "\n"


def _facts(model: Model, graph: Graph) -> Iterator[tuple[str, str]]:
    mode = "" if model.is_view else f", `{model.target.write_mode}`"
    yield "kind", f"{model.temporality} {model.materialization}{mode}"
    if (grid := model.grid) is not None:
        run_grid = model.run_grid
        covers = f"; one run covers `{run_grid.cron}`" if run_grid is not None and run_grid != grid else ""
        yield "window", f"`{grid.cron}` in {grid.tz}{covers}"
    if contract := _contract(model):
        yield "contract", contract
    if model.is_tracked:
        page = f"; [its windows]({state_page(model.full_name, None)})" if AIRFLOW_V_3_0_PLUS else ""
        yield "state", f"`{model.state_table}`{page}"
    if people := _people(model):
        yield "people", people
    if upstreams := ", ".join(_upstreams(model)):
        yield "upstreams", upstreams
    if downstreams := ", ".join(f"`{name}`" for name in sorted(m.full_name for m in graph.downstreams(model))):
        yield "downstreams", downstreams


def _contract(model: Model) -> str:
    """Return the ends of the contract in the zone of the model's windows, where a day's begin is a midnight."""
    begin, end = model.contract.begin, model.contract.end
    parts = [f"{word} {_local(at, model.tz)}" for word, at in (("from", begin), ("to", end)) if at is not None]
    zone = f" in {model.tz}" if model.grid is None else ""  # the window above says it
    return f"{' '.join(parts)}{zone}" if parts else ""


def _local(at: datetime, tz: str) -> str:
    local = at.astimezone(ZoneInfo(tz)).replace(tzinfo=None)
    return local.isoformat(" ", "minutes" if not (local.second or local.microsecond) else "auto")


def _people(model: Model) -> str:
    people = model.people
    said = {
        "owner": people.owner,
        "team": people.team,
        "stewards": ", ".join(people.stewards),
        "slack": people.slack,
        "email": ", ".join(people.email),
    }
    return "; ".join(f"{role}: {who}" for role, who in said.items() if who)


def _upstreams(model: Model) -> Iterator[str]:
    """Yield each input with what it is, unless that is a model, and what it is waited for."""
    for source in model.sources:
        said = [] if source.kind == "model" else [source.kind]
        if source.contract:
            said.append(f"`{source.contract}`")
        if fresh := source.freshness:
            said.append(f"loaded within {fresh.within} ({fresh.scope})")
        yield f"`{source.name}` ({', '.join(said)})" if said else f"`{source.name}`"


def _key(column: Any) -> str:
    marks = []
    if column.primary_key:
        marks.append("key")
    if column.partition_on:
        marks.append("partition")
    if not column.nullable and not column.primary_key:
        marks.append("not null")
    return ", ".join(marks)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [f"|{'|'.join(head)}|", "|" + "-|" * len(head)]
    lines += [f"|{'|'.join(map(_cell, row))}|" for row in rows]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def _dedented(text: str) -> str:
    from textwrap import dedent

    return dedent(text).strip("\n")
