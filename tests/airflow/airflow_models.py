"""Small models that the tests of Airflow's side share. Nothing is read when they are made."""

from __future__ import annotations

from typing import Any

from bollhav_provider.model import (
    Batch,
    Column,
    Contract,
    Model,
    Source,
    State,
    Target,
    Temporality,
    TimeChunking,
    UpstreamContract,
    WriteMode,
)

BEGIN, END = "2024-01-01T00:00:00+00:00", "2024-01-04T00:00:00+00:00"
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")

_COLUMNS = [
    Column("at", "timestamptz", primary_key=True, nullable=False, partition_on=True),
    Column("n", "integer", nullable=False),
]


def windowed(
    name: str,
    *,
    chunk: str = "@daily",
    window: str | None = None,
    upstream: tuple[Source, ...] = (),
    units_per_task: int = 1,
    tz: str = "UTC",
    begin: str | None = BEGIN,
    end: str | None = END,
    **more: Any,
) -> Model:
    """Return a model with one row a unit: its start, and 1; or the number of its first upstream's rows."""
    schema, table = name.split(".")
    rows = "SELECT %(since)s::timestamptz AS at, 1 AS n WHERE %(since)s < %(until)s"
    if upstream:
        alias = upstream[0].alias_name
        rows = (
            f"SELECT %(since)s::timestamptz AS at, count(*)::integer AS n FROM {{{alias}}} u "  # noqa: S608
            "WHERE u.at >= %(since)s AND u.at < %(until)s"
        )
    return Model(
        target=Target(schema=schema, name=table, write_mode=WriteMode.RECREATE_PARTITION, columns=_COLUMNS),
        description=f"{name}, for tests.",
        contract=Contract(begin=begin, end=end),
        batching=Batch(time=TimeChunking(chunk=chunk, window=window, tz=tz), units_per_task=units_per_task),
        upstream=upstream,
        query=rows,
        state=State(),
        **more,
    )


def gated(name: str, contract: UpstreamContract, **more: Any) -> Source:
    """Return a source that gates."""
    return Source(name, contract=contract, **more)


def timeless(name: str, upstream: tuple[Source, ...] = (), **more: Any) -> Model:
    """Return a model of one row."""
    schema, table = name.split(".")
    query = "SELECT 1 AS n"
    if upstream:
        query = f"SELECT count(*)::integer AS n FROM {{{upstream[0].alias_name}}}"  # noqa: S608
    return Model(
        target=Target(schema=schema, name=table, write_mode=WriteMode.TRUNCATE, columns=[Column("n", "integer")]),
        temporality=Temporality.TIMELESS,
        upstream=upstream,
        query=query,
        state=State(),
        **more,
    )


def report_of_two() -> tuple[Model, Model, Model]:
    """Return two models, and one that waits for exactly the same window of both."""
    orders, returns = windowed("shop.orders"), windowed("shop.returns")
    gates = tuple(gated(model.full_name, UpstreamContract.EXACT) for model in (orders, returns))
    query = (
        "SELECT %(since)s::timestamptz AS at, 1 AS n FROM {orders} o JOIN {returns} USING (at) "
        "WHERE o.at >= %(since)s AND o.at < %(until)s"
    )
    return orders, returns, windowed("mart.report").replace(upstream=gates, query=query)
