"""Arguments that cannot be, all of a model's problems in one error, and warnings."""

from __future__ import annotations

import pickle
import warnings
from datetime import datetime, timedelta, timezone

import pytest

from bollhav_provider import (
    AirflowOptions,
    Batch,
    Column,
    Contract,
    Curfew,
    DefinitionError,
    DefinitionWarning,
    Model,
    Source,
    SourceHardcoded,
    State,
    Target,
    TimeChunking,
)


def test_all_problems_of_a_model_come_in_one_error() -> None:
    with pytest.raises(DefinitionError) as caught:
        Model(
            target=Target(schema="shop", name="a.b", write_mode="upsert", columns=[Column("id", "serial")]),
            temporality="timeless",
            batching=Batch(time=TimeChunking("* * * * * *")),
            upstream=[Source("raw.x", contract="exact"), Source("f", type=SourceHardcoded())],
        )
    assert [problem.field for problem in caught.value.problems] == [
        "target.name",
        "target.columns['id'].type",
        "batching",
        "target.write_mode",
        "batching.time.chunk",
        "upstream['raw.x'].contract",
        "upstream['f'].type.rows",
    ]
    assert {problem.model for problem in caught.value.problems} == {"shop.a.b"}


def test_the_error_survives_the_way_to_another_process() -> None:
    with pytest.raises(DefinitionError) as caught:
        Model(target=Target(schema="shop", name="a.b"))
    arrived = pickle.loads(pickle.dumps(caught.value))
    assert (str(arrived), arrived.problems) == (str(caught.value), caught.value.problems)


def test_an_unknown_argument_does_not_hide_the_other_problems() -> None:
    with pytest.raises(DefinitionError) as caught:
        Model(target=Target(schema="shop", name="a.b"), upstreams=["raw.x"])  # type: ignore[call-arg]
    assert [problem.field for problem in caught.value.problems] == ["upstreams", "target.name"]
    assert caught.value.problems[0].message == "unknown argument; did you mean 'upstream'?"


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: Model(), "Model: target: missing; write target=..."),
        (lambda: Target(name="x"), "Target('x'): schema: missing; write schema=..."),
        (
            lambda: Column("a", "text", nulable=False),
            "Column('a'): nulable: unknown argument; did you mean 'nullable'?",
        ),
        (
            lambda: Column("a", "text", False),
            "Column: arguments: Column takes by position only name, type; name the others, as in name=value",
        ),
        (
            lambda: Column("a", name="b", type="text"),
            "Column('b'): name: given twice, by position and by name; keep one",
        ),
        (
            lambda: State(True),
            "State: arguments: State takes no argument by position; name the others, as in name=value",
        ),
        (lambda: State(concurrent=True), "State: concurrent: unknown argument; did you mean 'allow_concurrent_runs'?"),
        (
            lambda: State(zzz=1),
            "State: zzz: unknown argument; the arguments are dsn_env_var, conn_id, allow_concurrent_runs, "
            "sequential, lease_seconds",
        ),
        (lambda: Source("a", contrct="exact"), "Source('a'): contrct: unknown argument; did you mean 'contract'?"),
        (
            lambda: Source("a", contract="exactly"),
            "Source('a'): contract: must be 'exists', 'exact', 'encapsulate', 'through' or 'whole', not 'exactly'",
        ),
        (
            lambda: Source("a", contract="window"),
            "Source('a'): contract: must be 'exists', 'exact', 'encapsulate', 'through' or 'whole', not 'window'",
        ),
        (
            lambda: Source("a", type="files"),
            "Source('a'): type: 'files' is none of model, file, api, hardcoded; did you mean 'file'?",
        ),
        (lambda: Source("a", type="file"), "Source('a'): type.file.path: missing; write path=..."),
        (lambda: Target(schema=1, name="x"), "Target('x'): schema: must be a string, not 1"),
        (
            lambda: TimeChunking("@daily", lookback=-1),
            "TimeChunking: lookback: must be greater than or equal to 0, not -1",
        ),
        (lambda: Batch(size=0), "Batch: size: must be greater than or equal to 1, not 0"),
        (
            lambda: Contract(begin=datetime(2024, 1, 1)),
            "Contract: begin: 2024-01-01T00:00:00 has no time zone; write it with a zone, for instance "
            "'2024-01-01T00:00:00+01:00' or '2024-01-01T00:00Z'",
        ),
        (
            lambda: Contract(end="2024-01-01"),
            "Contract: end: 2024-01-01T00:00:00 has no time zone; write it with a zone, for instance "
            "'2024-01-01T00:00:00+01:00' or '2024-01-01T00:00Z'",
        ),
        (
            lambda: Contract(begin=datetime(2024, 1, 1).date()),
            "Contract: begin: 2024-01-01 is a date and no instant; write '2024-01-01T00:00+00:00'",
        ),
        (
            lambda: Contract(end="infinity"),
            "Contract: end: 'infinity' is no fixed instant; leave end out for an open end, or write one such "
            "as '2024-01-01T00:00Z'",
        ),
        (
            lambda: Contract(begin=20240101),
            "Contract: begin: 20240101 is no instant; write an ISO 8601 string such as '2024-01-01T00:00+00:00'",
        ),
        (
            lambda: Contract(begin=datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
            "Contract: begin: 0001-01-01T00:00:00+01:00 lies outside the years 1 to 9999 in UTC; leave an "
            "open end out instead",
        ),
        (
            lambda: AirflowOptions(start_date=datetime(2024, 1, 1)),
            "AirflowOptions: start_date: 2024-01-01T00:00:00 has no time zone; write it with a zone, for "
            "instance '2024-01-01T00:00:00+01:00' or '2024-01-01T00:00Z'",
        ),
        (
            lambda: AirflowOptions(on_failure_callback=lambda context: None),
            "cannot be found again by its name; define the function at the top of a module",
        ),
        (
            lambda: Curfew(ranges=[("25:00", "06:00")]),
            "Curfew: ranges[0][0]: must be in a valid time format, hour value is outside expected range of "
            "0-23, not '25:00'",
        ),
    ],
)
def test_an_argument_that_cannot_be_is_refused_where_it_is_written(write: object, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        write()  # type: ignore[operator]
    assert message in str(caught.value)
    assert len(caught.value.problems) == 1


def test_cron_with_both_kinds_of_days_warns_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = Model(target=Target(schema="a", name="b"), batching=Batch(time=TimeChunking("0 0 1 * 1")))
        assert model.grid is not None
        assert model.run_grid is not None
    (warning,) = caught
    assert warning.category is DefinitionWarning
    assert str(warning.message) == (
        "a.b: batching.time.chunk: '0 0 1 * 1' restricts both day-of-month and day-of-week; cron fires when "
        "either of them "
        "matches, not both; leave one of them '*' if that is not meant"
    )
    assert warning.filename == __file__


def test_a_begin_off_the_grid_warns_with_the_first_window() -> None:
    with pytest.warns(DefinitionWarning) as caught:
        Model(
            target=Target(schema="a", name="b"),
            contract=Contract(begin="2024-01-01T10:17Z"),
            batching=Batch(time=TimeChunking("@hourly", tz="Europe/Stockholm")),
        )
    assert str(caught[0].message) == (
        "a.b: contract.begin: 2024-01-01T10:17Z is no tick of '@hourly' in Europe/Stockholm; "
        "the first window is [2024-01-01T11:00Z, 2024-01-01T12:00Z)"
    )


def test_a_range_without_a_whole_window_warns() -> None:
    with pytest.warns(DefinitionWarning, match=r"no whole window of '@daily' lies between begin and end"):
        Model(
            target=Target(schema="a", name="b"),
            contract=Contract(begin="2024-01-01T01:00Z", end="2024-01-02T05:00Z"),
            batching=Batch(time=TimeChunking("@daily")),
        )


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        ("0001-01-01T00:00Z", "contract.begin: 0001-01-01T00:00Z is no tick of '@yearly' in UTC; the first window is "),
        ("9999-12-31T23:59Z", "contract.begin: the chunk '@yearly' has no window after 9999-12-31T23:59Z"),
    ],
)
def test_the_ends_of_the_calendar_warn(begin: str, said: str) -> None:
    with pytest.warns(DefinitionWarning) as caught:
        Model(
            target=Target(schema="a", name="b"),
            contract=Contract(begin=begin),
            batching=Batch(time=TimeChunking("@yearly")),
        )
    assert str(caught[0].message).startswith(f"a.b: {said}")
    with pytest.raises(DefinitionError, match=f"begin {begin} is equal to end {begin}"):
        Model(target=Target(schema="a", name="b"), contract=Contract(begin=begin, end=begin))


def test_truncating_before_every_window_warns() -> None:
    with pytest.warns(DefinitionWarning, match="only the rows of the last one remain"):
        Model(target=Target(schema="a", name="b", write_mode="truncate"), batching=Batch(time=TimeChunking("@daily")))
