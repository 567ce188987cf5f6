"""An Airflow DAG file: the models that the tests of runs at the same time, cascades and patience work with."""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

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
    build_dags,
)
from bollhav_provider.sensors import UpstreamSensor

READS = "SELECT %(since)s::timestamptz AS at, count(*)::integer AS n FROM {up} u WHERE u.at < %(until)s"
COUNTS = "SELECT %(since)s::timestamptz AS at, {n} AS n WHERE %(since)s < %(until)s"


def daily(name: str, n: str = "1", upstream: str = "", contract: str = "exact", **more: object) -> Model:
    schema, table = name.split(".")
    columns = [
        Column("at", "timestamptz", primary_key=True, nullable=False, partition_on=True),
        Column("n", "integer", nullable=False),
    ]
    return Model(
        target=Target(schema=schema, name=table, write_mode=WriteMode.RECREATE_PARTITION, columns=columns),
        contract=Contract(begin="2024-01-01T00:00Z", end=more.pop("end", "2024-01-04T00:00Z")),
        batching=Batch(time=TimeChunking(chunk="@daily")),
        upstream=[Source(upstream, contract=contract, alias="up")] if upstream else [],
        query=READS if upstream else COUNTS.format(n=n),
        state=more.pop("state", State()),
        **more,
    )


BRIEF = {"sensor_timeout": timedelta(seconds=4), "poke_interval": timedelta(seconds=1)}
BUSY = "control.busy(%(since)s::timestamptz)"
models = [
    daily("shop.orders"),
    daily("mart.sums", upstream="shop.orders"),
    daily("shop.partial"),
    daily("mart.waiting", upstream="shop.partial"),
    daily("mart.soft", upstream="shop.partial", airflow=AirflowOptions(soft_fail=True, **BRIEF)),
    daily("mart.strict", upstream="shop.partial", airflow=AirflowOptions(**BRIEF)),
    daily("shop.clock", BUSY, end="2024-01-07T00:00Z", airflow=AirflowOptions(catchup=True)),
    daily("shop.often", BUSY, end="2024-01-05T00:00Z"),
    daily("shop.slow", "control.slow()", state=State(lease_seconds=6)),
]
build_dags(models, into=globals(), default_args={"retries": 2, "retry_delay": timedelta(seconds=1)})

with DAG("waits", schedule=None, start_date=datetime(2024, 1, 1, tzinfo=UTC)):
    for mode in ("defer", "reschedule", "poke"):
        for soft in (False, True):
            UpstreamSensor(
                task_id=f"{mode}_{'skips' if soft else 'fails'}",
                model="shop.partial",
                contract="exact",
                mode=mode,
                soft_fail=soft,
                timeout=4,
                # A task that comes back within a second may do so before the scheduler has heard that it left.
                poke_interval=10 if mode == "reschedule" else 1,
                retries=2,
            )
