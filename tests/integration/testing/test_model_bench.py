"""A user's model has a unit test in five lines."""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl
import pytest

from bollhav_provider.data.upstream import Upstream
from bollhav_provider.exceptions import CheckFailedError, ConfigurationError, IntervalError
from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.model import (
    Batch,
    ChunkFlex,
    Column,
    Contract,
    Curfew,
    Materialization,
    Model,
    NotNull,
    Source,
    SourceApi,
    SourceModel,
    State,
    Target,
    Temporality,
    TimeChunking,
    UpstreamContract,
    WriteMode,
)
from bollhav_provider.testing import assert_partition_invariant, frozen_clock, run_model
from bollhav_provider.testing.bench import ModelBench, unit_of

NEW_YORK = "America/New_York"
FLIGHTS = pl.DataFrame(
    {
        "time_hour": [dt.datetime(2013, 1, 1, h, tzinfo=dt.UTC) for h in (5, 6, 7)],
        "carrier": ["UA", "UA", "AA"],
        "dep_delay": [1.0, None, 4.5],
    }
)
AIRLINES = [{"carrier": "UA", "name": "United"}, {"carrier": "AA", "name": "American"}]

raw_flights = Model(
    target=Target(
        schema="raw",
        name="flights",
        columns=[
            Column("time_hour", "timestamptz", nullable=False, partition_on=True),
            Column("carrier", "char(2)"),
            Column("dep_delay", "double precision"),
        ],
    ),
    contract=Contract(begin="2013-01-01T00:00-05:00"),
    batching=Batch(time=TimeChunking(chunk="@daily", tz=NEW_YORK)),
    state=State(),
)


def carrier_day(**changes: Any) -> Model:
    model = Model(
        **{
            "target": Target(
                schema="mart",
                name="carrier_day",
                write_mode=WriteMode.UPSERT,
                columns=[
                    Column("day", "date", primary_key=True, partition_on=True),
                    Column("carrier", "text", primary_key=True),
                    Column("carrier_name", "text"),
                    Column("flights", "integer", nullable=False),
                ],
            ),
            "contract": Contract(begin="2013-01-01T00:00-05:00"),
            "batching": Batch(time=TimeChunking(chunk="@daily", tz=NEW_YORK)),
            "upstream": [
                Source("raw.flights", type=SourceModel(), contract=UpstreamContract.EXACT),
                Source("ref.airlines", type=SourceModel(), contract=UpstreamContract.WHOLE),
            ],
            "state": State(),
            **changes,
        }
    )

    @model.execute
    def summarise(unit: Unit, flights: Upstream, airlines: Upstream) -> pl.DataFrame:
        assert flights.data is not None
        assert airlines.data is not None
        assert unit.since is not None
        return (
            flights.data.group_by("carrier")
            .agg(flights=pl.len())
            .join(airlines.data.rename({"name": "carrier_name"}), on="carrier", how="left")
            .with_columns(day=pl.lit(unit.since.date()))
        )

    return model


def test_carrier_day(bollhav: ModelBench) -> None:
    out = bollhav.run(carrier_day(), "2013-01-01", flights=FLIGHTS, airlines=AIRLINES)
    assert out.rows(named=True) == [
        {"day": dt.date(2013, 1, 1), "carrier": "AA", "carrier_name": "American", "flights": 1},
        {"day": dt.date(2013, 1, 1), "carrier": "UA", "carrier_name": "United", "flights": 2},
    ]


def test_rows_of_earlier_runs_stay(bollhav: ModelBench) -> None:
    model = carrier_day()
    bollhav.run(model, "2013-01-01", flights=FLIGHTS, airlines=AIRLINES)
    out = bollhav.run(model, "2013-01-02", flights=FLIGHTS, airlines=AIRLINES)
    assert out.height == 4
    assert bollhav.outcome is not None
    assert bollhav.outcome.stats.rows_written == 2


def test_existing_rows_are_merged_with(bollhav: ModelBench) -> None:
    existing = [{"day": dt.date(2013, 1, 1), "carrier": "UA", "carrier_name": "old", "flights": 9}]
    out = bollhav.run(carrier_day(), "2013-01-01", flights=FLIGHTS, airlines=AIRLINES, existing=existing)
    assert out["flights"].to_list() == [1, 2]


def test_a_known_upstream_is_read_by_its_partition_column(bollhav: ModelBench) -> None:
    far = FLIGHTS.with_columns(pl.col("time_hour") + pl.duration(days=3))
    out = bollhav.know(raw_flights).run(
        carrier_day(), "2013-01-01", flights=pl.concat([FLIGHTS, far]), airlines=AIRLINES
    )
    assert out["flights"].sum() == 3


def test_a_query_is_run_on_the_given_frames(bollhav: ModelBench) -> None:
    model = Model(
        target=Target(
            schema="mart",
            name="delays",
            write_mode=WriteMode.RECREATE_PARTITION,
            columns=[
                Column("at", "timestamptz", nullable=False, partition_on=True),
                Column("total", "numeric(8,2)"),
            ],
        ),
        batching=Batch(time=TimeChunking(chunk="@daily", tz=NEW_YORK)),
        upstream=[Source("raw.flights", type=SourceModel(), contract=UpstreamContract.ENCAPSULATE)],
        query="SELECT %(since)s::timestamptz AS at, sum(dep_delay)::numeric(8,2) AS total FROM {flights} "
        "WHERE time_hour >= %(since)s AND time_hour < %(until)s",
        state=State(),
    )
    assert bollhav.run(model, "2013-01-01", flights=FLIGHTS)["total"].to_list()[0] == 5.5


def test_a_view_is_made_and_read(bollhav: ModelBench) -> None:
    view = Model(
        target=Target(schema="mart", name="late", columns=[Column("carrier", "text")]),
        materialization=Materialization.VIEW,
        upstream=[Source("raw.flights", type=SourceModel())],
        query="SELECT carrier FROM {flights} WHERE dep_delay > 2",
    )
    assert bollhav.run(view, flights=FLIGHTS)["carrier"].to_list() == ["AA"]


def test_files_apis_and_patterns_take_frames_too(bollhav: ModelBench) -> None:
    model = Model(
        target=Target(
            schema="ref", name="all", write_mode=WriteMode.TRUNCATE, columns=[Column("n", "bigint")]
        ),
        temporality=Temporality.TIMELESS,
        upstream=[
            Source("crm.contacts", type=SourceApi(base_url="https://crm.example.org")),
            Source("*.orders", many=True, alias="orders"),
        ],
    )

    @model.execute
    def gather(contacts: Upstream, orders: list[Upstream]) -> pl.DataFrame:
        assert contacts.data is not None
        return pl.DataFrame({"n": [contacts.data.height, *(leg.rows for leg in orders)]})

    one = [{"id": 1}]
    out = bollhav.run(
        model, contacts=[{"id": 1}, {"id": 2}], orders=[pl.DataFrame(one), pl.DataFrame(one * 3)]
    )
    assert sorted(out["n"]) == [1, 2, 3]


def test_a_relation_that_does_not_exist_is_none(bollhav: ModelBench) -> None:
    model = carrier_day()
    with pytest.raises(AssertionError):  # the function's own
        bollhav.run(model, "2013-01-01", flights=None, airlines=AIRLINES)


def test_an_empty_input_has_the_columns_of_the_upstream_that_is_known(bollhav: ModelBench) -> None:
    out = bollhav.know(raw_flights).run(carrier_day(), "2013-01-01", flights=[], airlines=AIRLINES)
    assert out.is_empty()


def test_an_empty_input_of_an_unknown_upstream_asks_for_types(bollhav: ModelBench) -> None:
    with pytest.raises(ConfigurationError, match=r"raw\.flights: .*typed empty frame.*bollhav\.know\(model\)"):
        bollhav.run(carrier_day(), "2013-01-01", flights=[], airlines=AIRLINES)


def test_a_forgotten_frame_is_named(bollhav: ModelBench) -> None:
    with pytest.raises(ConfigurationError, match=r"no frame is given for its input raw\.flights: give flights="):
        bollhav.run(carrier_day(), "2013-01-01", airlines=AIRLINES)


def test_checks_run_as_they_would(bollhav: ModelBench) -> None:
    model = carrier_day(checks=[NotNull("carrier_name")])
    with pytest.raises(CheckFailedError):
        bollhav.run(model, "2013-01-01", flights=FLIGHTS, airlines=AIRLINES[:1])


def test_neither_curfew_nor_switch_stop_a_test(bollhav: ModelBench) -> None:
    model = carrier_day(enabled=False, curfew=Curfew(ranges=[("00:00", "12:00"), ("12:00", "00:00")]))
    assert bollhav.run(model, "2013-01-01", flights=FLIGHTS, airlines=AIRLINES).height == 2


def test_a_frame_for_no_input_is_refused(bollhav: ModelBench) -> None:
    with pytest.raises(ConfigurationError, match="'flight', which is no input of it; did you mean 'flights'"):
        bollhav.run(carrier_day(), "2013-01-01", flight=FLIGHTS)


def test_run_model_makes_a_database_of_its_own(bollhav_dsn: str) -> None:
    out = run_model(
        carrier_day(),
        "2013-01-01",
        {"raw.flights": FLIGHTS, "airlines": pl.DataFrame(AIRLINES)},
        dsn=bollhav_dsn,
    )
    assert out.height == 2


def test_a_unit_is_named_by_a_local_date_an_instant_or_its_ends() -> None:
    model = carrier_day()
    day = Interval(dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC), dt.datetime(2013, 1, 2, 5, tzinfo=dt.UTC))
    for window in (
        "2013-01-01",
        dt.date(2013, 1, 1),
        "2013-01-01T22:00Z",
        day,
        Unit(day),
        (day.since, day.until),
    ):
        assert unit_of(model, window).window == day
    with pytest.raises(IntervalError, match="so a run needs one"):
        unit_of(model, None)
    with pytest.raises(IntervalError):
        unit_of(model, dt.datetime(2013, 1, 1))


def flexible(query: str, **arguments: Any) -> Model:
    return Model(
        target=Target(
            schema="mart",
            name="kept",
            write_mode=WriteMode.RECREATE_PARTITION,
            columns=[
                Column("at", "timestamptz", nullable=False, partition_on=True),
                Column("number", "bigint"),
            ],
        ),
        contract=Contract(begin="2013-01-01T00:00-05:00"),
        batching=Batch(time=TimeChunking(chunk="@daily", tz=NEW_YORK, flexibility=ChunkFlex(**arguments))),
        upstream=[Source("raw.flights", type=SourceModel(), contract=UpstreamContract.ENCAPSULATE)],
        query=query,
        state=State(),
    )


WHERE = "FROM {flights} WHERE time_hour >= %(since)s AND time_hour < %(until)s"


def test_a_row_by_row_query_is_partition_invariant(bollhav_dsn: str) -> None:
    model = flexible("SELECT time_hour AS at, 1::bigint AS number " + WHERE)
    assert_partition_invariant(
        model,
        "2013-01-01",
        {"flights": FLIGHTS},
        at="2013-01-01T06:30Z",
        models=[raw_flights],
        dsn=bollhav_dsn,
    )


def test_an_aggregate_is_not_and_the_rows_are_shown(bollhav_dsn: str) -> None:
    model = flexible(
        "SELECT min(time_hour) AS at, count(*) AS number " + WHERE + " HAVING count(*) > 0",
        attest="it is a lie",
    )
    with pytest.raises(
        AssertionError,
        match=r"(?s)other rows when it is split.*Only in one piece \(1 row.*must not be ChunkFlex",
    ):
        assert_partition_invariant(
            model,
            "2013-01-01",
            {"flights": FLIGHTS},
            at="2013-01-01T06:30Z",
            models=[raw_flights],
            dsn=bollhav_dsn,
        )


def test_invariance_needs_to_know_which_rows_a_part_reads(bollhav_dsn: str) -> None:
    with pytest.raises(ConfigurationError, match="give its definition"):
        assert_partition_invariant(
            flexible("SELECT time_hour AS at, 1::bigint AS number " + WHERE),
            "2013-01-01",
            {"flights": FLIGHTS},
            dsn=bollhav_dsn,
        )


def test_the_clock_stands_still() -> None:
    with frozen_clock("2024-05-01T12:00Z") as at:
        assert dt.datetime.now(dt.UTC) == at
