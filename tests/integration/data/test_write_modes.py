"""What each write mode leaves in the target, counts, and refuses."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
import pytest
from psycopg import sql
from write_helpers import (
    ENV,
    NOON,
    SINCE,
    UNTIL,
    WHOLE,
    WINDOW,
    connect,
    copying_as,
    model_of,
    rows,
    waits,
    write,
)

from bollhav_provider import data
from bollhav_provider.data import WriteStats
from bollhav_provider.exceptions import (
    DataError,
    DuplicateKeyError,
    RowCountError,
    RowsOutsideWindowError,
    RowsRefusedError,
    SchemaMismatchError,
)
from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.model import Batch, Column, Environment, Model, Staging, TimeChunking

ID = Column("id", "bigint", primary_key=True)
AT = Column("at", "timestamptz", partition_on=True)


@pytest.fixture
def conn(module_db: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(module_db) as connection:
        connection.execute("DROP SCHEMA IF EXISTS shop CASCADE; DROP SCHEMA IF EXISTS shop_pr1 CASCADE")
        yield connection


def made(conn: psycopg.Connection[Any], *columns: Column, **fields: Any) -> Model:
    model = model_of(*columns, **fields)
    data.ensure_target(conn, model, ENV)
    return model


def frame(ids: list[int], at: dt.datetime = NOON) -> pl.DataFrame:
    return pl.DataFrame({"id": ids, "at": [at] * len(ids)}, schema={"id": pl.Int64, "at": pl.Datetime("us", "UTC")})


def test_append_adds_rows_and_leaves_others(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, Column("id", "bigint"), AT, write_mode="append")
    assert write(conn, model, frame([1])) == WriteStats(1, 1, 1, 0)
    assert write(conn, model, frame([1])) == WriteStats(1, 1, 1, 0)
    assert [row[0] for row in rows(conn, model)] == [1, 1]


def test_recreate_partition_replaces_exactly_its_window(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, ID, AT, write_mode="recreate_partition")
    tomorrow = Unit(Interval(UNTIL, UNTIL + dt.timedelta(days=1)))
    write(conn, model, frame([1, 2]))
    write(conn, model, frame([3], UNTIL), tomorrow)
    assert write(conn, model, frame([4], SINCE)) == WriteStats(1, 1, 1, 2)
    assert [row[0] for row in rows(conn, model)] == [3, 4]


@pytest.mark.parametrize("nothing", [None, [], frame([]), frame([]).lazy(), iter(()), frame([]).to_arrow()], ids=type)
def test_no_rows_clear_the_window(conn: psycopg.Connection[Any], nothing: Any) -> None:
    model = made(conn, ID, AT, write_mode="recreate_partition")
    write(conn, model, frame([1, 2]))
    assert write(conn, model, nothing) == WriteStats(0, 0, 0, 2)
    assert rows(conn, model) == []


@pytest.mark.parametrize("mode", ["truncate", "recreate"])
def test_modes_that_replace_the_table_leave_only_the_new_rows(conn: psycopg.Connection[Any], mode: str) -> None:
    model = made(conn, ID, write_mode=mode)
    write(conn, model, frame([1, 2]).select("id"))
    assert write(conn, model, frame([3]).select("id")).rows_changed == 1
    assert rows(conn, model) == [(3,)]
    write(conn, model, None)
    assert rows(conn, model) == []


def test_recreate_makes_the_table_as_it_is_declared_and_keeps_grants(conn: psycopg.Connection[Any]) -> None:
    conn.execute("DROP ROLE IF EXISTS reader; CREATE ROLE reader")
    made(conn, ID, write_mode="recreate")
    conn.execute("GRANT SELECT ON shop.t TO reader WITH GRANT OPTION; GRANT SELECT ON shop.t TO PUBLIC")
    model = model_of(ID, Column("name", "text", description="new"), write_mode="recreate")
    write(conn, model, [{"id": 1, "name": "a"}])
    assert rows(conn, model) == [(1, "a")]
    grants = conn.execute(
        "SELECT grantee, is_grantable FROM information_schema.role_table_grants WHERE table_name = 't' AND "
        "privilege_type = 'SELECT' AND grantee <> current_user ORDER BY 1"
    ).fetchall()
    assert grants == [("PUBLIC", "NO"), ("reader", "YES")]
    conn.execute("DROP OWNED BY reader; DROP ROLE reader")


def test_recreate_says_what_depends_on_the_table(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, ID, write_mode="recreate")
    conn.execute("CREATE VIEW shop.v AS SELECT * FROM shop.t")
    with pytest.raises(DataError, match=r"view shop.v depends on table shop.t.*Remedy: use write_mode='truncate'"):
        write(conn, model, [{"id": 1}])


def test_upsert_inserts_updates_and_leaves_alone(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, ID, Column("v", "text"), Column("w", "json"), write_mode="upsert")
    first = pl.DataFrame({"id": [1, 2, 3], "v": ["a", "b", None], "w": ['{"x":1}', None, "[]"]})
    assert write(conn, model, first) == WriteStats(3, 3, 3, 0)
    before = rows(conn, model, "id, xmin::text")
    assert write(conn, model, first) == WriteStats(3, 3, 0, 0)
    second = pl.DataFrame({"id": [2, 3, 4], "v": ["b", "c", "d"], "w": [None, "[]", "1"]})
    assert write(conn, model, second) == WriteStats(3, 3, 2, 0)
    assert rows(conn, model, "id, v, w") == [(1, "a", {"x": 1}), (2, "b", None), (3, "c", []), (4, "d", 1)]
    after = dict(rows(conn, model, "id, xmin::text"))
    assert [key for key, version in before if after[key] != version] == [3]


def test_upsert_keeps_the_last_spelling_of_equal_values(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, ID, Column("v", "numeric"), write_mode="upsert")
    write(conn, model, pl.DataFrame({"id": [1], "v": ["1.5"]}))
    assert write(conn, model, pl.DataFrame({"id": [1], "v": ["1.50"]})).rows_changed == 1
    assert rows(conn, model, "v::text") == [("1.50",)]


def test_upsert_by_a_key_of_all_columns_only_inserts(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, ID, write_mode="upsert")
    assert write(conn, model, frame([1, 2]).select("id")).rows_changed == 2
    assert write(conn, model, frame([2, 3]).select("id")) == WriteStats(2, 2, 1, 0)


def test_upsert_by_the_models_key_finds_rows_by_it(conn: psycopg.Connection[Any]) -> None:
    model = made(
        conn,
        ID,
        Column("code", "text", nullable=False),
        Column("v", "integer"),
        key=["code"],
        write_mode="upsert",
    )
    write(conn, model, [{"id": 1, "code": "x", "v": 1}])
    write(conn, model, [{"id": 2, "code": "x", "v": 2}])
    assert rows(conn, model) == [(2, "x", 2)]


def test_duplicate_keys_in_a_batch_are_an_error_that_names_them(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, ID, Column("k", "text", primary_key=True), Column("v", "integer"), write_mode="upsert")
    batch = [{"id": i // 2, "k": "a", "v": i} for i in range(60)]
    with pytest.raises(DuplicateKeyError) as caught:
        write(conn, model, batch)
    assert caught.value.key == ("id", "k")
    assert len(caught.value.samples) == 20
    assert caught.value.samples[0] == "(0, a) 2 times"
    assert "order_by=True" in str(caught.value)
    assert rows(conn, model) == []


def test_duplicate_keys_are_an_error_even_when_the_first_row_changes_nothing(
    conn: psycopg.Connection[Any],
) -> None:
    model = made(conn, ID, Column("v", "integer"), write_mode="upsert")
    write(conn, model, [{"id": 1, "v": 1}])
    with pytest.raises(DuplicateKeyError):
        write(conn, model, [{"id": 1, "v": 1}, {"id": 1, "v": 2}])
    assert rows(conn, model) == [(1, 1)]


def test_an_order_column_decides_between_rows_of_one_key(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, ID, Column("v", "text"), Column("seen", "integer", order_by=True), write_mode="upsert")
    batch = [
        {"id": 1, "v": "new", "seen": 2},
        {"id": 1, "v": "old", "seen": 1},
        {"id": 1, "v": "none", "seen": None},
    ]
    assert write(conn, model, batch) == WriteStats(3, 1, 1, 0)
    assert rows(conn, model) == [(1, "new", 2)]
    assert write(conn, model, [{"id": 1, "v": "late", "seen": 1}]).rows_changed == 0
    assert rows(conn, model) == [(1, "new", 2)]
    assert write(conn, model, [{"id": 1, "v": "corrected", "seen": 2}]).rows_changed == 1


def test_rows_that_the_order_column_cannot_tell_apart_are_an_error(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, ID, Column("v", "text"), Column("seen", "integer", order_by=True), write_mode="upsert")
    tie = [{"id": 1, "v": "a", "seen": 2}, {"id": 1, "v": "b", "seen": 2}]
    with pytest.raises(DuplicateKeyError, match=r"\(1\) 2 times"):
        write(conn, model, tie)
    assert write(conn, model, [*tie[:1], *tie[:1]]).rows_changed == 1  # the same row twice is one row


def test_null_keys_are_refused_unless_the_column_opts_in(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, ID, Column("v", "integer"), write_mode="upsert")
    with pytest.raises(RowsRefusedError, match=r"'id' .*is a key column but null"):
        write(conn, model, [{"id": None, "v": 1}])
    if conn.info.server_version < 150000:
        pytest.skip("NULLS NOT DISTINCT came with PostgreSQL 15")
    loose = made(
        conn,
        Column("a", "integer", primary_key=True, nullable=True, nulls_not_distinct=True),
        Column("v", "integer"),
        name="loose",
        write_mode="upsert",
    )
    write(conn, loose, [{"a": None, "v": 1}, {"a": 1, "v": 1}])
    write(conn, loose, [{"a": None, "v": 2}])
    assert rows(conn, loose) == [(1, 1), (None, 2)]
    with pytest.raises(DuplicateKeyError, match=r"\(NULL\) 2 times"):
        write(conn, loose, [{"a": None, "v": 2}, {"a": None, "v": 3}])


def test_a_key_that_the_table_cannot_look_up_is_refused_before_rows_move(
    conn: psycopg.Connection[Any],
) -> None:
    model = model_of(ID, Column("v", "integer"), write_mode="upsert", on_schema_change="ignore")
    conn.execute("CREATE SCHEMA shop; CREATE TABLE shop.t (id bigint NOT NULL, v integer)")
    conn.execute("CREATE UNIQUE INDEX ON shop.t (id) WHERE id > 0")
    with pytest.raises(
        SchemaMismatchError,
        match=r'no unique index over exactly \("id"\).*CREATE UNIQUE INDEX ON "shop"."t" \("id"\)',
    ):
        write(conn, model, [{"id": 1, "v": 1}])


@pytest.mark.parametrize("kind", ["binary", "csv"])
@pytest.mark.parametrize("mode", ["append", "upsert", "recreate_partition"])
def test_rows_outside_the_window_are_counted_and_shown(conn: psycopg.Connection[Any], mode: str, kind: str) -> None:
    model = made(conn, ID, AT, write_mode=mode)
    late = pl.concat([frame([1]), frame([2, 3], UNTIL), frame([4], SINCE - dt.timedelta(microseconds=1))])
    with copying_as(kind), pytest.raises(RowsOutsideWindowError) as caught:
        write(conn, model, late)
    assert caught.value.count == 3
    assert caught.value.samples[0] == "row 1 (id=2) holds 2024-01-02 00:00:00+00:00"
    assert "[2024-01-01T00:00Z, 2024-01-02T00:00Z)" in str(caught.value)
    assert rows(conn, model) == []
    with pytest.raises(RowsOutsideWindowError, match=r"row 0 .* holds None"):
        write(conn, model, pl.DataFrame({"id": [1], "at": [None]}))


def test_the_suffix_of_the_environment_names_the_target(conn: psycopg.Connection[Any]) -> None:
    env = Environment(suffix="pr1")
    model = model_of(ID, write_mode="upsert")
    data.ensure_target(conn, model, env)
    with conn.transaction():
        data.write(conn, model, env, WHOLE, [{"id": 1}])
    assert conn.execute("SELECT id FROM shop_pr1.t").fetchall() == [(1,)]


def test_nothing_is_committed_but_by_the_caller(conn: psycopg.Connection[Any]) -> None:
    for mode in ("append", "upsert", "truncate", "recreate"):
        model = made(conn, ID, write_mode=mode, name=mode)
        write(conn, model, [{"id": 1}])
        with pytest.raises(RuntimeError), conn.transaction():  # noqa: PT012
            data.write(conn, model, ENV, WHOLE, [{"id": 2}])
            raise RuntimeError
        assert rows(conn, model) == [(1,)]


def test_writing_outside_a_transaction_is_refused(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, ID)
    with pytest.raises(DataError, match="needs an open transaction"):
        data.write(conn, model, ENV, WHOLE, [{"id": 1}])


def test_a_trigger_that_drops_rows_is_noticed(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, ID)
    conn.execute(
        "CREATE FUNCTION shop.drop_it() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';CREATE "
        "TRIGGER dropping BEFORE INSERT ON shop.t FOR EACH ROW WHEN (NEW.id = 2) EXECUTE FUNCTION shop.drop_it()"
    )
    with pytest.raises(RowCountError, match="3 rows were sent and PostgreSQL took 2"):
        write(conn, model, [{"id": 1}, {"id": 2}, {"id": 3}])


def test_what_the_server_refuses_names_model_constraint_and_row(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, ID, Column("of", "bigint"))
    conn.execute(
        "ALTER TABLE shop.t ADD CONSTRAINT positive CHECK (id > 0), ADD CONSTRAINT fk FOREIGN KEY (of) REFERENCES "
        "shop.t"
    )
    with pytest.raises(DataError, match=r"shop\.t: writing: .*positive.*\(row 1, constraint 'positive'\)"):
        write(conn, model, [{"id": 1, "of": None}, {"id": -1, "of": None}])
    with pytest.raises(DataError, match=r"constraint 'fk'.*Remedy: load the referenced table first"):
        write(conn, model, [{"id": 1, "of": 7}])
    with pytest.raises(DataError, match=r"constraint 't_pkey'.*Remedy: write with UPSERT"):
        write(conn, model, [{"id": 1, "of": None}, {"id": 1, "of": None}])


def test_lost_connections_and_time_outs_pass_as_they_are(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, ID)
    with connect(conn.info.dsn) as other, other.transaction():
        other.execute("LOCK TABLE shop.t")
        conn.execute("SET lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            write(conn, model, [{"id": 1}])


def test_the_columns_cannot_change_between_looking_and_copying(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, Column("id", "bigint"))

    def rows_while_somebody_alters() -> Iterator[pl.DataFrame]:
        with connect(conn.info.dsn) as other:
            other.execute("SET lock_timeout = '50ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute("ALTER TABLE shop.t ALTER id TYPE timestamptz USING now()")
        yield pl.DataFrame({"id": [1]})

    assert write(conn, model, rows_while_somebody_alters()).rows_written == 1


def test_units_of_one_transaction_can_be_upserted_one_after_the_other(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, ID, Column("v", "integer"), write_mode="upsert")
    with conn.transaction():
        data.write(conn, model, ENV, WHOLE, [{"id": 1, "v": 1}])
        data.write(conn, model, ENV, WHOLE, [{"id": 1, "v": 2}])
    assert rows(conn, model) == [(1, 2)]


def test_partitioned_targets_are_written_like_others(conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        "CREATE SCHEMA shop; CREATE TABLE shop.t (id bigint NOT NULL, at timestamptz NOT NULL, PRIMARY KEY (id, "
        "at)) PARTITION BY RANGE (at);CREATE TABLE shop.t_2024 PARTITION OF shop.t FOR VALUES FROM ('2024-01-01Z') "
        "TO ('2025-01-01Z')"
    )
    for mode in ("recreate_partition", "upsert"):
        model = made(conn, ID, Column("at", "timestamptz", partition_on=True, primary_key=True), write_mode=mode)
        write(conn, model, frame([1, 2]))
        write(conn, model, frame([1, 2]))
        assert [row[0] for row in rows(conn, model)] == [1, 2]


def test_a_write_takes_one_round_trip_beyond_copy_and_an_upsert_two(
    conn: psycopg.Connection[Any], tmp_path: Path
) -> None:
    def trips(model: Model, payload: Any) -> int:
        unit = WINDOW if model.partition_column else WHOLE
        return waits(conn, tmp_path / "trace", lambda: data.write(conn, model, ENV, unit, payload))

    copy = 2  # the statement and its answer, the rows and their count
    window = made(conn, ID, AT, write_mode="recreate_partition")
    assert trips(window, frame([1])) == 1 + copy
    assert trips(window, None) == 1
    keyed = made(conn, ID, name="k", write_mode="upsert")
    assert trips(keyed, frame([1]).select("id")) == 2 + copy


@pytest.mark.parametrize(
    ("zone", "since", "until", "day"),
    [
        ("America/New_York", "2024-01-01T05:00Z", "2024-01-02T05:00Z", dt.date(2024, 1, 1)),
        ("America/New_York", "2024-03-10T05:00Z", "2024-03-11T04:00Z", dt.date(2024, 3, 10)),
        ("Australia/Lord_Howe", "2024-04-06T13:00Z", "2024-04-07T13:30Z", dt.date(2024, 4, 7)),
        ("America/Sao_Paulo", "2018-11-04T03:00Z", "2018-11-05T02:00Z", dt.date(2018, 11, 4)),
    ],
)
def test_a_local_day_is_one_date(
    conn: psycopg.Connection[Any], zone: str, since: str, until: str, day: dt.date
) -> None:
    model = made(
        conn,
        Column("day", "date", partition_on=True),
        write_mode="recreate_partition",
        batching=Batch(time=TimeChunking(chunk="@daily", tz=zone)),
    )
    unit = Unit(Interval(dt.datetime.fromisoformat(since), dt.datetime.fromisoformat(until)))
    for neighbour in (-1, 1):
        with pytest.raises(RowsOutsideWindowError):
            write(conn, model, pl.DataFrame({"day": [day + dt.timedelta(days=neighbour)]}), unit)
    conn.execute("INSERT INTO shop.t VALUES (%s), (%s), (%s)", [day + dt.timedelta(days=n) for n in (-1, 0, 1)])
    assert write(conn, model, pl.DataFrame({"day": [day, day]}), unit) == WriteStats(2, 2, 2, 1)
    assert len(rows(conn, model)) == 4


def test_a_window_that_cuts_a_local_day_is_refused_for_dates(conn: psycopg.Connection[Any]) -> None:
    model = made(
        conn,
        Column("day", "date", partition_on=True),
        batching=Batch(time=TimeChunking(chunk="@daily", tz="Europe/Berlin")),
    )
    with pytest.raises(
        DataError,
        match=r"'day' \(date\).*does not start and end at local midnights of Europe/Berlin.*timestamptz",
    ):
        write(conn, model, pl.DataFrame({"day": [dt.date(2024, 1, 1)]}), WINDOW)


def test_readings_of_a_clock_are_utc_unless_a_zone_is_declared(conn: psycopg.Connection[Any]) -> None:
    model = made(conn, Column("at", "timestamp", partition_on=True))
    write(conn, model, pl.DataFrame({"at": [dt.datetime(2024, 1, 1, 23, 59)]}))
    local = made(conn, Column("at", "timestamp", partition_on=True, naive_tz="Europe/Berlin"), name="local")
    write(conn, local, pl.DataFrame({"at": [dt.datetime(2024, 1, 2, 0, 59)]}))
    with pytest.raises(RowsOutsideWindowError):
        write(conn, local, pl.DataFrame({"at": [dt.datetime(2024, 1, 1, 0, 59)]}))
    hour = Unit(Interval(dt.datetime(2024, 10, 27, 0, tzinfo=dt.UTC), dt.datetime(2024, 10, 27, 1, tzinfo=dt.UTC)))
    with pytest.raises(DataError, match="a reading of the clock that exists twice"):
        write(conn, local, None, hour)


def test_a_partition_column_of_another_type_is_refused(conn: psycopg.Connection[Any]) -> None:
    conn.execute("CREATE SCHEMA shop; CREATE TABLE shop.t (id bigint PRIMARY KEY, at date)")
    model = model_of(ID, AT, write_mode="append", on_schema_change="ignore")
    with pytest.raises(
        SchemaMismatchError,
        match="partition column 'at' has type date, the model declares timestamp with time zone",
    ):
        write(conn, model, frame([1]))


def test_a_target_that_is_not_there_or_no_table_is_refused(conn: psycopg.Connection[Any]) -> None:
    for mode in ("append", "upsert", "truncate"):
        with pytest.raises(SchemaMismatchError, match=r"shop.t.*ensure_target"):
            write(conn, model_of(ID, write_mode=mode), [{"id": 1}])
    conn.execute("CREATE SCHEMA shop; CREATE VIEW shop.t AS SELECT 1::bigint AS id")
    with pytest.raises(DataError, match=r"shop.t"):
        write(conn, model_of(ID), [{"id": 1}])


def test_row_level_security_is_named(conn: psycopg.Connection[Any]) -> None:
    made(conn, ID)
    conn.execute(
        "DROP ROLE IF EXISTS limited; CREATE ROLE limited; GRANT USAGE ON SCHEMA shop TO limited; GRANT ALL ON "
        "shop.t TO limited"
    )
    conn.execute(
        "ALTER TABLE shop.t ENABLE ROW LEVEL SECURITY; CREATE POLICY all_rows ON shop.t USING (true) WITH CHECK (true)"
    )
    conn.execute("SET ROLE limited")
    with pytest.raises(DataError, match=r"row-level security of target shop.t applies.*upsert"):
        write(conn, model_of(ID), [{"id": 1}])
    assert write(conn, model_of(ID, write_mode="upsert"), [{"id": 1}]).rows_changed == 1
    conn.execute("RESET ROLE; DROP OWNED BY limited; DROP ROLE limited")


def test_concurrent_upserts_of_the_same_keys_neither_fail_nor_lose_rows(
    conn: psycopg.Connection[Any],
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    model = made(conn, ID, Column("v", "integer"), write_mode="upsert")

    def work(worker: int) -> None:
        with connect(conn.info.dsn) as own:
            for turn in range(5):
                ids = list(range(200))
                batch = pl.DataFrame({"id": ids if turn % 2 else ids[::-1], "v": [worker * 100 + turn] * 200})
                write(own, model, batch)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert rows(conn, model, "count(*), count(DISTINCT v)") == [(200, 1)]


@pytest.mark.parametrize("mode", ["append", "upsert", "recreate_partition"])
def test_staging_keeps_the_rows_of_each_unit(conn: psycopg.Connection[Any], mode: str) -> None:
    conn.execute("DROP SCHEMA IF EXISTS z_bollhav CASCADE")
    model = made(
        conn,
        Column("id", "bigint", primary_key=mode == "upsert"),
        AT,
        Column("twice", "bigint", generated="id * 2"),
        write_mode=mode,
        staging=Staging(keep=dt.timedelta(days=1)),
    )
    assert data.ensure_target(conn, model, ENV) == data.TargetReport(model.identity)
    assert write(conn, model, frame([1, 2])).rows_changed == 2
    assert write(conn, model, frame([2])) == WriteStats(
        1, 1, 0 if mode == "upsert" else 1, 2 if mode.startswith("r") else 0
    )
    assert write(conn, model, None).rows_in == 0
    staged = sql.Identifier("z_bollhav", model.staging_table)
    kept = conn.execute(
        sql.SQL("SELECT id, at, bollhav_since, bollhav_until FROM {} ORDER BY bollhav_loaded_at, id").format(staged)
    )
    assert kept.fetchall() == [(number, NOON, SINCE, UNTIL) for number in (1, 2, 2)]
    conn.execute(sql.SQL("UPDATE {} SET bollhav_loaded_at = now() - interval '2 days'").format(staged))
    write(conn, model, frame([9]))
    assert conn.execute(sql.SQL("SELECT id FROM {}").format(staged)).fetchall() == [(9,)]


def test_the_staging_table_follows_the_target(conn: psycopg.Connection[Any]) -> None:
    conn.execute("DROP SCHEMA IF EXISTS z_bollhav CASCADE")
    made(conn, ID, write_mode="truncate", staging=Staging())
    model = made(conn, ID, Column("v", "text"), write_mode="truncate", staging=Staging(), on_schema_change="add")
    assert write(conn, model, [{"id": 1, "v": "a"}]).rows_written == 1
    assert rows(conn, model) == [(1, "a")]
    conn.execute("ALTER TABLE shop.t ALTER v TYPE varchar(5)")
    changed = model_of(ID, Column("v", "varchar(5)"), write_mode="truncate", staging=Staging())
    with pytest.raises(SchemaMismatchError, match=r"staging table z_bollhav\..*column 'v' is text .*DROP TABLE"):
        data.ensure_target(conn, changed, ENV)


def test_staged_rows_are_rolled_back_with_the_unit(conn: psycopg.Connection[Any]) -> None:
    conn.execute("DROP SCHEMA IF EXISTS z_bollhav CASCADE")
    model = made(conn, ID, write_mode="truncate", staging=Staging())
    with pytest.raises(RuntimeError), conn.transaction():  # noqa: PT012
        data.write(conn, model, ENV, WHOLE, [{"id": 1}])
        raise RuntimeError
    staged = sql.Identifier("z_bollhav", model.staging_table)
    assert conn.execute(sql.SQL("SELECT count(*) FROM {}").format(staged)).fetchone() == (0,)
