"""Which models share a DAG: one each, or those of one tag, schema or selection that have one grain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.factory.names import dag_id

if TYPE_CHECKING:
    from bollhav_provider.intervals import Grid
    from bollhav_provider.model import Model

WAYS = ("model", "tag", "schema", "all")
#: Cron aliases' words in ids; other crons are spelt out.
_WORDS = {
    "0 * * * *": "hourly",
    "0 0 * * *": "daily",
    "0 0 * * 0": "weekly",
    "0 0 1 * *": "monthly",
    "0 0 1 */3 *": "quarterly",
    "0 0 1 1 *": "yearly",
}
#: A group's name when its models have no tag, or everything is one group.
_ALL, _UNTAGGED = "bollhav", "untagged"


class Group(NamedTuple):
    """Models that share a DAG.

    Attributes:
        dag_id: the DAG's id. It says the grain, so that a model of another grain that is added later changes
            no id.
        models: in order of their full names.
        alone: whether it is one model's own DAG, without a task group around it.
    """

    dag_id: str
    models: tuple[Model, ...]
    alone: bool = False


def grouped(models: Iterable[Model], way: str) -> list[Group]:
    """Divide models among DAGs.

    Args:
        models: the models to build.
        way: one of :data:`WAYS`.

    Raises:
        ConfigurationError: there is no such way.
    """
    if way not in WAYS:
        raise ConfigurationError(f"build_dags: group_by is {way!r}: write one of {', '.join(WAYS)}.")
    ordered = sorted(models, key=lambda m: m.full_name)
    if way == "model":
        return [Group(dag_id(model.full_name), (model,), alone=True) for model in ordered]
    found: dict[str, list[Model]] = {}
    for model in ordered:
        found.setdefault(dag_id(f"{_name(model, way)}.{grain(model)}"), []).append(model)
    return [Group(name, tuple(found[name])) for name in sorted(found)]


def _name(model: Model, way: str) -> str:
    if way == "schema":
        return model.identity.schema
    if way == "tag":
        return model.tags[0] if model.tags else _UNTAGGED
    return _ALL


def possible_groups(metadata: Mapping[str, Any]) -> set[str]:
    """Return the ids of the DAGs of several models that a registered model can be in, from the library's metadata."""
    from bollhav_provider.intervals import Grid

    batching = metadata.get("batching") or {}
    cron = batching.get("window") or batching.get("chunk")
    word = _grain(Grid(cron, metadata.get("tz") or "UTC") if cron else None)
    tag = next(iter(metadata.get("tags") or ()), _UNTAGGED)
    return {dag_id(f"{name}.{word}") for name in (metadata.get("schema"), tag, _ALL) if name}


def grain(model: Model) -> str:
    """Return a word for what one scheduled run covers: ``daily``, ``hourly-Europe_Stockholm``, ``timeless``."""
    return _grain(model.run_grid)


def _grain(grid: Grid | None) -> str:
    if grid is None:
        return "timeless"
    cron = " ".join(grid.cron.split())
    word = cron.removeprefix("@") if cron.startswith("@") else _WORDS.get(cron)
    if word is None:
        word = "cron_" + cron.replace("*", "x").replace("/", "by").replace(",", "and").replace(" ", "_")
    zone = "" if grid.tz == "UTC" else "-" + grid.tz.replace("/", "_")
    return word + zone
