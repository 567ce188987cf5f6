"""Does splitting a window give the same rows? What a flexible model promises, tried out (Semantics: definitions)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.intervals import Interval, Unit, as_utc
from bollhav_provider.model import Model
from bollhav_provider.testing.bench import ModelBench, Window, unit_of
from bollhav_provider.testing.scratch import lasting_server

if TYPE_CHECKING:
    import polars as pl

_SHOWN = 20


def assert_partition_invariant(
    model: Model,
    window: Window,
    upstreams: Mapping[str, Any] | None = None,
    *,
    at: str | datetime | None = None,
    models: Iterable[Model] = (),
    dsn: str | None = None,
    ignore: Iterable[str] = (),
) -> None:
    """Run ``[a, c)`` at once, and ``[a, b)`` then ``[b, c)``, each in an empty database, and compare the
    targets.

    Args:
        model: any model with windows, usually a flexible one.
        window: ``[a, c)``.
        upstreams: frames by alias or name of the input.
        at: ``b``; the middle of the window by default.
        models: definitions of the upstreams: by their partition columns each part reads its own rows.
        dsn: a server to make the databases on.
        ignore: columns that may differ, such as a time of loading.

    Raises:
        AssertionError: the rows differ; up to 20 of them are shown.
        ConfigurationError: nothing says which rows of an upstream a part would read, or ``at`` is not inside
            the window.
    """
    whole = unit_of(model, window).window
    if whole is None:
        raise ConfigurationError(f"{model.full_name}: a model without windows has nothing to be split.")
    middle = as_utc(at, "at") if at is not None else whole.since + (whole.until - whole.since) / 2
    if not whole.since < middle < whole.until:
        raise ConfigurationError(f"{model.full_name}: at: {middle.isoformat()} is not inside {whole}.")
    known = list(models)
    _require_partitions(model, upstreams or {}, known)
    server = dsn or lasting_server()
    at_once = _rows(server, model, [whole], upstreams, known, ignore)
    parts = _rows(
        server,
        model,
        [Interval(whole.since, middle), Interval(middle, whole.until)],
        upstreams,
        known,
        ignore,
    )
    lost, made = _difference(at_once, parts), _difference(parts, at_once)
    if lost.height or made.height:
        raise AssertionError(
            f"{model.full_name}: {whole} gives other rows when it is split at {middle.isoformat()}.\n"
            f"Only in one piece ({lost.height} row(s)):\n{lost.head(_SHOWN)}\n"
            f"Only in two pieces ({made.height} row(s)):\n{made.head(_SHOWN)}\n"
            "A model like that must not be ChunkFlex: let it be ChunkFix, or compute each row from its own "
            "window alone."
        )


def _require_partitions(model: Model, frames: Mapping[str, Any], known: list[Model]) -> None:
    identities = {other.identity: other for other in known}
    for name in frames:
        source = next((s for s in model.inputs if name == s.alias_name or name in s.keys), None)
        if source is None or not source.is_relation:
            continue
        table = model.table_of(source)
        upstream = identities.get(table) if table is not None else None
        if upstream is None:
            raise ConfigurationError(
                f"{model.full_name}: upstream {source.name!r}: nothing says which of its rows belong to a "
                f"part of the window: "
                "give its definition in models=[...]."
            )


def _rows(
    server: str,
    model: Model,
    windows: list[Interval],
    upstreams: Mapping[str, Any] | None,
    known: list[Model],
    ignore: Iterable[str],
) -> pl.DataFrame:
    with ModelBench(server, known) as bench:
        for window in windows:
            bench.run(model, Unit(window), upstreams=upstreams)
        return bench.rows(model).drop(list(ignore), strict=False)


def _difference(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that ``one`` holds more often than ``other``."""
    import polars as pl

    columns = one.columns
    count = [pl.len().alias("bollhav_count")]
    left, right = one.group_by(columns).agg(count), other.group_by(columns).agg(count)
    joined = left.join(right, on=columns, how="left", nulls_equal=True, suffix="_other")
    more = joined.with_columns(
        (pl.col("bollhav_count") - pl.col("bollhav_count_other").fill_null(0)).alias("times")
    )
    return more.filter(pl.col("times") > 0).select(*columns, "times").sort(columns)
