"""The models of the waiting benchmark: two wait for one, day by day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bollhav_provider import (
    AirflowOptions,
    Batch,
    Column,
    Contract,
    Model,
    Source,
    State,
    Target,
    TimeChunking,
    WriteMode,
)

#: The first day of all.
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
#: How many days they have: more than any run of the benchmark.
DAYS = 1400


def daily(name: str, query: str, **more: object) -> Model:
    """Return a model of one row a day."""
    schema, table = name.split(".")
    columns = [
        Column("at", "timestamptz", primary_key=True, nullable=False, partition_on=True),
        Column("n", "integer", nullable=False),
    ]
    return Model(
        target=Target(schema=schema, name=table, write_mode=WriteMode.RECREATE_PARTITION, columns=columns),
        contract=Contract(begin=BEGIN, end=BEGIN + timedelta(days=DAYS)),
        batching=Batch(time=TimeChunking(chunk="@daily")),
        airflow=AirflowOptions(retries=0),
        query=query,
        state=State(),
        **more,
    )


orders = daily("shop.orders", "SELECT %(since)s::timestamptz AS at, 1 AS n WHERE %(since)s < %(until)s")
COUNT = (
    "SELECT %(since)s::timestamptz AS at, count(*)::integer AS n FROM {orders} o "
    "WHERE o.at >= %(since)s AND o.at < %(until)s"
)
report = daily("mart.report", COUNT, upstream=[Source("shop.orders", contract="exact")])
audit = daily("mart.audit", COUNT, upstream=[Source("shop.orders", contract="exact")])
