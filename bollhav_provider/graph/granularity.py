"""Which grains of time may be joined (Semantics: dependencies between models, granularity).

* Between models with windows, an ungated, inferred or EXACT edge needs equal grids: a unit reads, or waits
  for, one window of the upstream that is exactly its own. ENCAPSULATE and above join any grids, EXISTS asks
  nothing about windows.
* A timeless model reads one with windows only through WHOLE or EXISTS.
* EXACT, ENCAPSULATE and THROUGH ask for windows, which a timeless upstream does not have; EXACT asks for a
  grain, which a flexible upstream does not keep.
* Views do not hide a mismatch: the rules hold for what a view reads as if it were read directly, unless the
  model has a source of its own on what lies behind the view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from bollhav_provider.exceptions import Problem
from bollhav_provider.model.enums import UpstreamContract

if TYPE_CHECKING:
    from bollhav_provider.graph.types import ResolvedInput
    from bollhav_provider.intervals import Grid
    from bollhav_provider.model import Model

__all__ = ["behind_views", "grain_problems"]

_EXISTS, _EXACT, _WHOLE = UpstreamContract.EXISTS, UpstreamContract.EXACT, UpstreamContract.WHOLE
_OF_WINDOWS = (UpstreamContract.EXACT, UpstreamContract.ENCAPSULATE, UpstreamContract.THROUGH)

#: What matters of a table for these rules. Of all tables of one grain behind a view, one is enough.
Grain = tuple["Grid | None", bool, bool]


def _grain(model: Model) -> Grain:
    return (model.grid, model.is_flexible, model.is_temporal)


def behind_views(
    order: Iterable[Model], inputs: Mapping[str, Mapping[str, tuple[ResolvedInput, ...]]]
) -> dict[str, dict[Grain, Model]]:
    """Return, for each view, one table a grain among those that it reads, through other views as well.

    Args:
        order: all models, each after what it reads.
        inputs: what each model reads, by full name and alias.
    """
    found: dict[str, dict[Grain, Model]] = {}
    for view in order:
        if not view.is_view:
            continue
        behind: dict[Grain, Model] = {}
        for upstream in _models(inputs[view.full_name]):
            if upstream.is_view:
                for grain, model in found.get(upstream.full_name, {}).items():
                    behind.setdefault(grain, model)
            else:
                behind.setdefault(_grain(upstream), upstream)
        found[view.full_name] = behind
    return found


def _models(inputs: Mapping[str, tuple[ResolvedInput, ...]]) -> Iterator[Model]:
    models = {item.model.full_name: item.model for found in inputs.values() for item in found if item.model is not None}
    for name in sorted(models):
        yield models[name]


def grain_problems(
    model: Model,
    inputs: Mapping[str, tuple[ResolvedInput, ...]],
    views: Mapping[str, Mapping[Grain, Model]],
) -> Iterator[Problem]:
    """Yield what is wrong between a model's grain and those of its upstreams; nothing for a view."""
    if model.is_view:
        return
    direct = {
        _grain(item.model)
        for found in inputs.values()
        for item in found
        if item.model is not None and not item.model.is_view
    }
    for alias, found in inputs.items():
        for item in found:
            upstream = item.model
            if upstream is None:
                continue
            field = f"upstream[{item.source.name!r}]"
            message = _mismatch(model, upstream, item.source.contract)
            if message is not None:
                yield Problem(model.full_name, field, message)
            if message is not None or not upstream.is_view:
                continue
            for grain, behind in views.get(upstream.full_name, {}).items():
                # The model's own source on what lies behind the view is judged by itself, and says how it is
                # waited for.
                message = None if grain in direct else _mismatch(model, behind, item.source.contract, view=True)
                if message is not None:
                    yield Problem(
                        model.full_name,
                        field,
                        f"the view {upstream.full_name!r} (alias {alias!r}) reads {behind.full_name!r}: {message}",
                    )
                    break


def _mismatch(model: Model, upstream: Model, contract: UpstreamContract | None, *, view: bool = False) -> str | None:
    """Say why a model cannot read an upstream under a contract, or None."""
    name = upstream.full_name
    if not upstream.is_temporal:
        if contract in _OF_WINDOWS and not view:
            remedy = (
                f"write contract='exists', and beside it a source with {contract.value!r} on what the view reads"
                if upstream.is_view
                else "write contract='whole' or 'exists'"
            )
            return f"{contract.value!r} asks for windows of {name!r}, which is timeless and has none; {remedy}"
        return None
    if contract in (_EXISTS, _WHOLE) or upstream.is_view:
        return None
    if contract in _OF_WINDOWS and model.grid is not None and upstream.grid is None and upstream.is_tracked:
        return (
            f"{contract.value!r} asks for windows of {name!r}, which has no time chunks and one unit without bounds; "
            "write contract='whole', or batching=Batch(time=TimeChunking(...)) on it"
        )
    how = "without a contract" if contract is None else f"with {contract.value!r}"
    remedy = f", or add Source({name!r}, contract='whole') beside the view" if view else ""
    if not model.is_temporal:
        return (
            f"a timeless model reads {name!r}, which has windows, {how}; write contract='whole' to wait "
            f"for all of them, or 'exists' to take what is there{remedy}"
        )
    if contract is _EXACT and upstream.is_flexible:
        return (
            f"'exact' asks {name!r} for a grain that it does not keep, because it is flexible and its rows "
            "are joined; write contract='encapsulate'"
        )
    mine, theirs = model.grid, upstream.grid
    if contract not in (None, _EXACT) or mine is None or theirs is None or upstream.is_flexible or mine.same_as(theirs):
        return None
    if view:
        remedy = f", for instance beside the view: Source({name!r}, contract='encapsulate')"
    return (
        f"{name!r} has windows of {theirs} and this model windows of {mine}; {how} both must be equal: "
        f"write contract='encapsulate' to wait until the window is covered in whatever grain{remedy}"
    )
