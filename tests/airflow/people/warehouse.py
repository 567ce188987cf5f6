"""An Airflow DAG file: the models that the test of what people do in the UI works with."""

from datetime import timedelta

from bollhav_provider import (
    AirflowOptions,
    Batch,
    Column,
    Contract,
    Model,
    Source,
    State,
    Target,
    Temporality,
    TimeChunking,
    WriteMode,
    build_dags,
)


def daily(name: str, query: str, *, end: str = "2024-01-04T00:00Z", units_per_task: int = 1, **more: object) -> Model:
    schema, table = name.split(".")
    columns = [
        Column("at", "timestamptz", primary_key=True, nullable=False, partition_on=True),
        Column("n", "integer", nullable=False),
    ]
    return Model(
        target=Target(schema=schema, name=table, write_mode=WriteMode.RECREATE_PARTITION, columns=columns),
        contract=Contract(begin="2024-01-01T00:00Z", end=end),
        batching=Batch(time=TimeChunking(chunk="@daily"), units_per_task=units_per_task),
        query=query,
        state=State(),
        **more,
    )


ONE = "SELECT %(since)s::timestamptz AS at, {n} AS n {source} WHERE %(since)s < %(until)s"
LONG = "2024-01-21T00:00Z"
orders = daily("shop.orders", ONE.format(n="1", source=""), end=LONG, units_per_task=20)
slow = daily("shop.slow", ONE.format(n="1", source="FROM pg_sleep((SELECT seconds FROM control.sleep))"))
fails = daily(
    "shop.fails", ONE.format(n="1 / (SELECT n FROM control.divisor)", source=""), airflow=AirflowOptions(retries=0)
)
report = daily(
    "mart.report",
    "SELECT %(since)s::timestamptz AS at, count(*)::integer AS n FROM {orders} o "
    "WHERE o.at >= %(since)s AND o.at < %(until)s",
    end=LONG,
    upstream=[Source("shop.orders", contract="exact")],
)

total = Model(
    target=Target(schema="shop", name="total", columns=[Column("n", "bigint")], write_mode=WriteMode.TRUNCATE),
    temporality=Temporality.TIMELESS,
    query="SELECT count(*) AS n FROM {fails}",
    upstream=[Source("shop.fails", contract="exists")],
    state=State(),
)

build_dags(
    [orders, slow, fails, report, total],
    into=globals(),
    default_args={"retries": 2, "retry_delay": timedelta(seconds=1), "pool": "narrow"},
)
