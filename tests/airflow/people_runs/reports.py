"""Another Airflow DAG file, whose models are made from a model of the first; two of them share a DAG."""

from bollhav_provider import Batch, Column, Contract, Model, Source, State, Target, TimeChunking, WriteMode, build_dags


def reader(name: str, upstream: str, contract: str) -> Model:
    schema, table = name.split(".")
    columns = [
        Column("at", "timestamptz", primary_key=True, nullable=False, partition_on=True),
        Column("n", "integer", nullable=False),
    ]
    return Model(
        target=Target(schema=schema, name=table, write_mode=WriteMode.RECREATE_PARTITION, columns=columns),
        contract=Contract(begin="2024-01-01T00:00Z", end="2024-01-04T00:00Z"),
        batching=Batch(time=TimeChunking(chunk="@daily")),
        upstream=[Source(upstream, contract=contract, alias="up")],
        query="SELECT %(since)s::timestamptz AS at, count(*)::integer AS n FROM {up} u WHERE u.at < %(until)s",
        state=State(),
    )


build_dags([reader("mart.report", "mart.sums", "through")], into=globals())
build_dags(
    [reader("board.page", "mart.sums", "exact"), reader("board.book", "board.page", "exact")],
    into=globals(),
    group_by="schema",
)
