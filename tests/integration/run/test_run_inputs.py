"""What an execute function receives: which rows of which upstream, from which database, at which cost in memory."""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars as pl
import psycopg
import pytest
from psycopg import sql
from run_support import House, daily, day

from bollhav_provider.data.upstream import Upstream
from bollhav_provider.exceptions import DataError
from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.model import (
    Batch,
    Column,
    Contract,
    Environment,
    Model,
    Source,
    SourceApi,
    SourceHardcoded,
    SourceModel,
    State,
    Target,
    Temporality,
    TimeChunking,
    UpstreamContract,
    WriteMode,
)

Make = Callable[..., House]
HERE = Path(__file__).parent


@pytest.fixture
def other_db(pg_dsn: str) -> Iterator[str]:
    """DSN of a second empty database."""
    name = f"t_{uuid4().hex}"
    with psycopg.connect(pg_dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {} STRATEGY FILE_COPY").format(sql.Identifier(name)))
        yield psycopg.conninfo.make_conninfo(pg_dsn, dbname=name)
        conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def reading(source: Source, keep: Callable[[Upstream], Any], **arguments: Any) -> tuple[Model, list[Any]]:
    """A daily model that keeps what it sees of one upstream and writes nothing."""
    seen: list[Any] = []
    model = daily("mart.seen", upstream=[source], **arguments)

    @model.execute
    def look(unit: Unit, up: Upstream) -> None:
        seen.append(keep(up))

    return model, seen


def frame_of(up: Upstream) -> Any:
    assert up.data is not None
    return up.data.get_column(up.data.columns[0]).sort().to_list()


def test_an_outside_table_is_read_whole_or_by_the_column_that_it_is_partitioned_by(house: Make) -> None:
    whole, seen = reading(Source("raw.landing", type=SourceModel(), alias="up"), frame_of)
    h = house(whole)
    h.sql("CREATE SCHEMA raw; CREATE TABLE raw.landing (n int, at timestamptz)")
    h.sql(
        "INSERT INTO raw.landing SELECT i, '2024-01-01Z'::timestamptz + i * interval '12h' FROM generate_series(0, 5) i"
    )
    h.run(whole, day(2))
    assert seen == [[0, 1, 2, 3, 4, 5]]
    part, seen = reading(Source("raw.landing", type=SourceModel(partitioned_by="at"), alias="up"), frame_of)
    h.models = [part]
    h.run(part, day(2), mode="bulldozer")
    assert seen == [[2, 3]]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("date", ["2023-12-31", "2024-01-01", "2024-01-02"], [dt.date(2024, 1, 1)]),
        (
            "timestamp",
            ["2023-12-31 23:59", "2024-01-01 00:00", "2024-01-01 23:59", "2024-01-02 00:00"],
            [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 23, 59)],
        ),
        (
            "timestamptz",
            ["2023-12-31 23:59Z", "2024-01-01 00:00Z", "2024-01-02 00:00Z"],
            [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)],
        ),
    ],
)  # fmt: skip
def test_a_window_is_read_in_terms_of_the_partition_columns_type(
    house: Make, kind: str, values: list[str], expected: list[Any]
) -> None:
    model, seen = reading(Source("raw.landing", type=SourceModel(partitioned_by="at"), alias="up"), frame_of)
    h = house(model)
    h.sql(f"CREATE SCHEMA raw; CREATE TABLE raw.landing (at {kind})")
    for value in values:
        h.sql("INSERT INTO raw.landing VALUES (%s)", value)
    h.run(model, day(1))
    assert seen == [expected]


def test_a_day_of_a_local_zone_is_one_date(house: Make) -> None:
    tz = "America/New_York"
    days = Model(
        target=Target(
            schema="raw",
            name="days",
            write_mode=WriteMode.RECREATE_PARTITION,
            columns=[Column("day", "date", nullable=False, partition_on=True)],
        ),
        contract=Contract(begin="2024-01-01T00:00-05:00", end="2024-01-05T00:00-05:00"),
        batching=Batch(time=TimeChunking(chunk="@daily", tz=tz)),
        state=State(),
        query=f"SELECT (%(since)s AT TIME ZONE '{tz}')::date AS day",
    )
    seen: list[Any] = []
    mart = days.replace(
        target=Target(
            schema="mart", name="days", columns=[Column("day", "date", nullable=False, partition_on=True)]
        ),
        query=None,
        upstream=(Source("raw.days", type=SourceModel(), contract=UpstreamContract.EXACT),),
    )

    @mart.execute
    def look(days: Upstream) -> None:
        seen.append(frame_of(days))

    h = house(days, mart)
    window = Interval(dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC), dt.datetime(2024, 1, 3, 5, tzinfo=dt.UTC))
    h.run(days, window)
    h.run(mart, window)
    assert seen == [[dt.date(2024, 1, 1)], [dt.date(2024, 1, 2)]]


def test_the_library_says_how_a_model_of_another_pipeline_is_partitioned(house: Make) -> None:
    theirs = daily("shop.orders", query="SELECT %(since)s::timestamptz AS at, 7 AS amount")
    source = Source("shop.orders", type=SourceModel(), contract=UpstreamContract.ENCAPSULATE, alias="up")
    mine, seen = reading(source, lambda up: (up.model, frame_of(up)))
    h = house(theirs)
    h.run(theirs, day(1, 3))
    h.models = [mine]  # this deployment does not have the other's definition
    h.run(mine, day(2))
    assert seen == [(None, [dt.datetime(2024, 1, 2, tzinfo=dt.UTC)])]


def test_a_window_of_what_names_no_partition_column_is_refused(house: Make) -> None:
    theirs = daily(
        "shop.orders",
        columns=[Column("amount", "integer")],
        target={"write_mode": WriteMode.APPEND},
        query="SELECT 7 AS amount WHERE %(since)s < %(until)s",
    )
    source = Source("shop.orders", type=SourceModel(), contract=UpstreamContract.ENCAPSULATE, alias="up")
    mine, _ = reading(source, frame_of)
    h = house(theirs, mine)
    h.run(theirs, day(1))
    with pytest.raises(
        DataError, match=r"mart\.seen: parameter 'up': .*does not say which column.*partitioned_by"
    ):
        h.run(mine, day(1))


def test_an_upstream_in_another_database_is_read_through_its_own_connection(
    house: Make, other_db: str
) -> None:
    source = Source("crm.people", type=SourceModel(dsn_env_var="CRM_DSN"), alias="up")
    model, seen = reading(source, lambda up: (frame_of(up), [f.height for f in up.batches(2)], up.rows))
    h = house(model, CRM_DSN=other_db)
    House(other_db).sql("CREATE SCHEMA crm; CREATE TABLE crm.people AS SELECT generate_series(1, 3) AS id")
    h.run(model, day(1))
    assert seen == [([1, 2, 3], [2, 1], 3)]


def test_a_suffixed_run_reads_its_own_copy_or_production(empty_house: Make) -> None:
    orders = daily("shop.orders", query="SELECT %(since)s::timestamptz AS at, 7 AS amount")
    names: list[str] = []
    mart = daily(
        "mart.seen",
        upstream=[
            Source("shop.orders", type=SourceModel(), contract=UpstreamContract.EXACT, alias="own"),
            Source(
                "shop.rates",
                type=SourceModel(),
                contract=UpstreamContract.EXISTS,
                alias="shared",
                deactivate_for_dev=True,
            ),
        ],
    )

    @mart.execute
    def look(own: Upstream, shared: Upstream, model: Model) -> None:
        names.extend([own.name, own.ref, shared.name, model.ref("shop.orders"), model.ref("shop.rates")])
        assert shared.data is not None

    h = empty_house(orders, mart)
    h.sql("CREATE SCHEMA shop; CREATE TABLE shop.rates AS SELECT 1 AS id")
    env = Environment("pr1")
    h.run(orders, day(1), env=env)
    h.run(mart, day(1), env=env)
    assert names == [
        "shop_pr1.orders",
        '"shop_pr1"."orders"',
        "shop.rates",
        '"shop_pr1"."orders"',
        '"shop"."rates"',
    ]
    assert h.sql("SELECT count(*) FROM shop_pr1.orders") == [(1,)]
    assert h.sql("SELECT to_regclass('shop.orders')::text, to_regclass('z_bollhav.library')::text") == [
        (None, None)
    ]


def test_inline_sql_and_apis(house: Make) -> None:
    seen: list[Any] = []
    model = Model(
        target=Target(
            schema="ref", name="flags", write_mode=WriteMode.TRUNCATE, columns=[Column("id", "integer")]
        ),
        temporality=Temporality.TIMELESS,
        upstream=[
            Source("flags", type=SourceHardcoded(sql="VALUES (1, true), (2, false);")),
            Source("contacts", type=SourceApi(base_url="https://crm.example.org", conn_id="crm")),
        ],
        state=State(),
    )

    @model.execute
    def flags(
        flags: Upstream, contacts: Upstream, conn: psycopg.Connection[Any], run: Any, unit: Unit
    ) -> pl.DataFrame:
        assert flags.data is not None
        with pytest.raises(DataError, match="a SourceApi is configuration"):
            _ = contacts.data
        with pytest.raises(DataError, match="has no name that SQL could use"):
            _ = flags.ref
        seen.extend([contacts.source.type.base_url, contacts.connection, run.mode, unit.windowless])  # type: ignore[union-attr]
        row = conn.execute("SELECT current_setting('TimeZone')").fetchone()
        seen.append(row[0] if row else None)
        return flags.data.select(id="column1")

    h = house(model)
    h.run(model)
    assert seen[:-1] == ["https://crm.example.org", None, "discover", True]
    assert seen[-1] in ("UTC", "Etc/UTC")
    assert h.sql("SELECT id FROM ref.flags ORDER BY 1") == [(1,), (2,)]


def test_a_transaction_left_open_on_conn_is_an_error(house: Make) -> None:
    model = daily()

    @model.execute
    def careless(conn: psycopg.Connection[Any]) -> None:
        conn.execute("BEGIN")

    h = house(model)
    with pytest.raises(DataError, match="left a transaction open on conn"):
        h.run(model, day(1))
    assert h.states(model)[0] == "error"


def test_a_skipped_gate_is_logged(house: Make, caplog: pytest.LogCaptureFixture) -> None:
    source = Source(
        "shop.rates", type=SourceModel(), contract=UpstreamContract.WHOLE, alias="up", deactivate_for_dev=True
    )
    model, _ = reading(source, lambda up: up.missing)
    h = house(model)
    with caplog.at_level(logging.INFO):
        h.run(model, day(1), env=Environment("dev"))
    assert "the gate on shop.rates is not checked: deactivate_for_dev" in caplog.text


MEMORY = """
import json, resource, sys
from run_support import House, daily, day
from bollhav_provider.data.upstream import Upstream
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Source, SourceModel, Column, WriteMode
import polars as pl, pgpq, pyarrow

model = daily("mart.copied", columns=[Column("n", "integer"), Column("words", "text")],
              target={"write_mode": WriteMode.APPEND}, upstream=[Source("raw.big", type=SourceModel())])

@model.execute
def copied(big: Upstream):
    yield from big.batches(5_000)

def peak():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])

h = House(sys.argv[1], [model])
h.prepare(model, day(1))
before = peak()
outcome = h.run(model, day(1))[0]
print(json.dumps({"rows": outcome.stats.rows_written, "grown_kb": peak() - before}))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_batches_are_copied_on_in_bounded_memory(house: Make) -> None:
    h = house()
    h.sql("CREATE SCHEMA raw")
    h.sql(
        "CREATE TABLE raw.big AS SELECT i AS n, repeat(md5(i::text), 40) AS words FROM generate_series(1, 200000) i"
    )
    told = subprocess.run(
        [sys.executable, "-c", MEMORY, h.dsn],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        check=False,
    )
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert found["rows"] == 200_000
    assert found["grown_kb"] < 140_000  # the rows are 256 MB
