"""The documentation of a generated DAG, from what the model says about itself."""

from __future__ import annotations

from collections.abc import Sequence
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

    Deterministic: the same definition gives the same text, so that no new DAG version is made without a
        change.
    """
    parts = [f"### `{model.full_name}`"]
    if model.description:
        parts.append(model.description.strip())
    parts.append(_table(("", ""), _facts(model)))
    if upstreams := _upstreams(model):
        parts += ["#### Upstreams", _table(("source", "kind", "gate", "freshness"), upstreams)]
    downstream = sorted(m.full_name for m in graph.downstreams(model))
    if downstream:
        parts += ["#### Downstreams", ", ".join(f"`{name}`" for name in downstream)]
    if model.target.columns:
        rows = [(f"`{c.name}`", f"`{c.type}`", _key(c), c.description or "") for c in model.target.columns]
        parts += ["#### Columns", _table(("column", "type", "", "description"), rows)]
    if model.query:
        parts += ["#### Query", f"```sql\n{_dedented(model.query)}\n```"]
    return "\n\n".join(parts) + "\n"


def _facts(model: Model) -> list[tuple[str, str]]:
    facts = [("kind", f"{model.temporality} {model.materialization}")]
    if not model.is_view:
        facts.append(("write mode", f"`{model.target.write_mode}`"))
    if (grid := model.grid) is not None:
        facts.append(("window", f"`{grid.cron}` in {grid.tz}"))
    if (run_grid := model.run_grid) is not None and run_grid != model.grid:
        facts.append(("one run covers", f"`{run_grid.cron}` in {run_grid.tz}"))
    if contract := _contract(model):
        facts.append(("contract", contract))
    if model.is_tracked:
        page = f"; [its windows]({state_page(model.full_name, None)})" if AIRFLOW_V_3_0_PLUS else ""
        facts.append(("state", f"`{model.state_table}`{page}"))
    people = _people(model)
    if people:
        facts.append(("people", people))
    return facts


def _contract(model: Model) -> str:
    """Return the ends of the contract in the zone of the model's windows, where a day's begin is a midnight."""
    begin, end = model.contract.begin, model.contract.end
    parts = [f"{word} {_local(at, model.tz)}" for word, at in (("from", begin), ("to", end)) if at is not None]
    return f"{' '.join(parts)} in {model.tz}" if parts else ""


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


def _upstreams(model: Model) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for source in model.sources:
        freshness = source.freshness
        fresh = f"within {freshness.within} ({freshness.scope})" if freshness else ""
        gate = f"`{source.contract}`" if source.contract else "none"
        kind = source.kind
        rows.append((f"`{source.name}`", kind, gate, fresh))
    return rows


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
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def _dedented(text: str) -> str:
    from textwrap import dedent

    return dedent(text).strip("\n")
