"""What people ask for, each computed from what it names as its upstreams, and not before that is there."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from bollhav_provider import (
    AirflowOptions,
    Batch,
    Column,
    Freshness,
    Materialization,
    Model,
    Source,
    SourceModel,
    State,
    Target,
    Temporality,
    TimeChunking,
    Unit,
    Upstream,
    UpstreamContract,
    WriteMode,
)
from nyc import CONTRACT, TZ

_DAILY = Batch(time=TimeChunking(chunk="@daily", tz=TZ))

flight_weather = Model(
    description="Every flight with the weather at its airport in the hour of its scheduled departure.",
    target=Target(
        schema="mart",
        name="flight_weather",
        write_mode=WriteMode.RECREATE_PARTITION,
        columns=[
            Column("time_hour", "timestamptz", primary_key=True, nullable=False, partition_on=True),
            Column("carrier", "char(2)", primary_key=True, nullable=False),
            Column("flight", "integer", primary_key=True, nullable=False),
            Column("origin", "char(3)", primary_key=True, nullable=False),
            Column("dest", "char(3)", primary_key=True, nullable=False),
            Column("dep_delay", "smallint", description="minutes; empty when it never left"),
            Column("temp", "double precision", description="degrees Fahrenheit; empty without a report"),
            Column("wind_speed", "double precision", description="miles per hour"),
            Column("precip", "double precision", description="inches"),
            Column("visib", "double precision", description="miles"),
        ],
    ),
    contract=CONTRACT,
    batching=_DAILY,
    upstream=[
        Source("raw.flights", type=SourceModel(), contract=UpstreamContract.ENCAPSULATE),
        Source("raw.weather", type=SourceModel(), contract=UpstreamContract.ENCAPSULATE),
    ],
    query="""
        SELECT f.time_hour, f.carrier, f.flight, f.origin, f.dest, f.dep_delay, w.temp, w.wind_speed, w.precip, w.visib
        FROM {flights} f
        LEFT JOIN {weather} w USING (origin, time_hour)
        WHERE f.time_hour >= %(since)s AND f.time_hour < %(until)s
    """,
    state=State(),
    tags=["demo", "mart"],
)

carrier_day = Model(
    description="Flights and delays per carrier and local day.",
    target=Target(
        schema="mart",
        name="carrier_day",
        write_mode=WriteMode.UPSERT,
        columns=[
            Column("day", "date", primary_key=True, nullable=False, partition_on=True),
            Column("carrier", "char(2)", primary_key=True, nullable=False),
            Column("carrier_name", "text"),
            Column("flights", "integer", nullable=False),
            Column("departed", "integer", nullable=False, description="flights that left"),
            Column("delay", "bigint", nullable=False, description="minutes, over the flights that left"),
            Column("mean_delay", "numeric(6,1)", description="minutes, over the flights that left"),
        ],
    ),
    contract=CONTRACT,
    batching=_DAILY,
    upstream=[
        Source("raw.flights", type=SourceModel(), contract=UpstreamContract.EXACT),
        Source(
            "ref.airlines",
            type=SourceModel(),
            contract=UpstreamContract.WHOLE,
            freshness=Freshness(within=timedelta(days=30)),
        ),
    ],
    state=State(),
    tags=["demo", "mart"],
)


@carrier_day.execute
def summarise(unit: Unit, flights: Upstream, airlines: Upstream) -> pl.DataFrame:
    delay = pl.col("dep_delay").cast(pl.Int64)
    return (
        flights.data.with_columns(day=pl.col("time_hour").dt.convert_time_zone(TZ).dt.date())
        .group_by("day", "carrier")
        .agg(
            flights=pl.len(),
            departed=delay.count(),
            delay=delay.sum(),
            mean_delay=delay.mean().round(1, mode="half_away_from_zero"),
        )
        .join(airlines.data.rename({"name": "carrier_name"}), on="carrier", how="left")
    )


carrier_to_date = Model(
    description="Flights and delays per carrier from the first day up to and including each day.",
    target=Target(
        schema="mart",
        name="carrier_to_date",
        write_mode=WriteMode.RECREATE_PARTITION,
        columns=[
            Column("day", "date", primary_key=True, nullable=False, partition_on=True),
            Column("carrier", "char(2)", primary_key=True, nullable=False),
            Column("flights", "bigint", nullable=False),
            Column("departed", "bigint", nullable=False, description="flights that left"),
            Column("mean_delay", "numeric(6,1)", description="minutes, over the flights that left"),
        ],
    ),
    contract=CONTRACT,
    batching=_DAILY,
    upstream=[Source("mart.carrier_day", type=SourceModel(), contract=UpstreamContract.THROUGH)],
    query=f"""
        SELECT (%(since)s AT TIME ZONE '{TZ}')::date AS day, carrier,
               sum(flights)::bigint AS flights, sum(departed)::bigint AS departed,
               round(sum(delay) / nullif(sum(departed), 0), 1)::numeric(6,1) AS mean_delay
        FROM {{carrier_day}}
        WHERE day <= (%(since)s AT TIME ZONE '{TZ}')::date
        GROUP BY carrier
    """,  # noqa: S608  # the zone is this module's constant
    state=State(),
    tags=["demo", "mart"],
)

leaderboard = Model(
    description="Carriers by their mean delay over all loaded days, the most punctual first.",
    temporality=Temporality.TIMELESS,
    target=Target(
        schema="mart",
        name="leaderboard",
        write_mode=WriteMode.TRUNCATE,
        columns=[
            Column("rank", "integer", nullable=False),
            Column("carrier", "char(2)", primary_key=True, nullable=False),
            Column("carrier_name", "text"),
            Column("flights", "bigint", nullable=False),
            Column("mean_delay", "numeric(6,1)", description="minutes, over the flights that left"),
        ],
    ),
    upstream=[Source("mart.carrier_day", type=SourceModel(), contract=UpstreamContract.WHOLE)],
    query="""
        SELECT rank() OVER (ORDER BY sum(delay) / nullif(sum(departed), 0) NULLS LAST)::integer AS rank,
               carrier, min(carrier_name) AS carrier_name, sum(flights)::bigint AS flights,
               round(sum(delay) / nullif(sum(departed), 0), 1)::numeric(6,1) AS mean_delay
        FROM {carrier_day}
        GROUP BY carrier
    """,
    state=State(),
    # Left to itself it would follow every single load of carrier_day; here somebody asks for it.
    airflow=AirflowOptions(schedule=None),
    tags=["demo", "mart"],
)

busiest_routes = Model(
    description="Routes by their number of flights, with the wind that they left in.",
    temporality=Temporality.TIMELESS,
    materialization=Materialization.VIEW,
    library=True,
    target=Target(
        schema="mart",
        name="busiest_routes",
        columns=[
            Column("origin", "char(3)"),
            Column("dest", "char(3)"),
            Column("flights", "bigint"),
            Column("mean_wind", "double precision", description="miles per hour"),
        ],
    ),
    upstream=[Source("mart.flight_weather", type=SourceModel(), contract=UpstreamContract.EXISTS)],
    query="""
        SELECT origin, dest, count(*) AS flights, avg(wind_speed) AS mean_wind
        FROM {flight_weather}
        GROUP BY origin, dest
    """,
    state=State(),
    airflow=AirflowOptions(schedule=None),
    tags=["demo", "mart"],
)
