"""One unit's life, from prepare to the commit and after it."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
import pytest
from run_support import BEGIN, House, daily, day, unbatched

from bollhav_provider.data.upstream import Upstream
from bollhav_provider.exceptions import (
    CheckFailedError,
    DataError,
    EmptyUnitError,
    GateClosedError,
    GrainChangedError,
    HardGateError,
)
from bollhav_provider.intervals import Unit
from bollhav_provider.model import (
    Batch,
    ChunkFlex,
    Column,
    Curfew,
    Materialization,
    Model,
    RowCount,
    Source,
    SourceFile,
    SourceHardcoded,
    SourceModel,
    State,
    Target,
    Temporality,
    TimeChunking,
    UpstreamContract,
    WriteMode,
)
from bollhav_provider.run import Worker, execute_unit, run_key

Make = Callable[..., House]


def hourly_rows(model: Model) -> Model:
    """Let a daily model give three rows a day."""

    @model.execute
    def rows(unit: Unit) -> pl.DataFrame:
        assert unit.since is not None
        return pl.DataFrame(
            {"at": [unit.since + dt.timedelta(hours=h) for h in (0, 1, 23)], "amount": [1, 2, unit.since.day]}
        )

    return model


def test_a_function_model_fills_its_window(house: Make) -> None:
    orders = hourly_rows(daily())
    h = house(orders)
    outcomes = h.run(orders, day(1, 3))
    assert [o.status for o in outcomes] == ["applied"] * 3
    assert outcomes[0].stats.rows_written == 3
    assert h.sql("SELECT count(*), sum(amount) FROM shop.orders") == [(9, 9 + 1 + 2 + 3)]
    assert h.states(orders) == ["applied"] * 3 + ["pending"] * 7
    assert h.states(orders, "rows_written")[:3] == [3, 3, 3]


def test_discover_runs_nothing_twice_and_bulldozer_once_per_run(house: Make) -> None:
    orders = hourly_rows(daily())
    h = house(orders)
    h.run(orders, day(1, 2))
    assert h.run(orders, day(1, 2)) == []
    run = run_key("shop.orders", "manual__1")
    assert len(h.run(orders, day(1, 2), mode="bulldozer", run=run)) == 2
    assert h.run(orders, day(1, 2), mode="bulldozer", run=run) == []
    assert h.sql("SELECT count(*) FROM shop.orders") == [(6,)]


def test_a_query_model_reads_its_upstream_inside_postgresql(house: Make) -> None:
    orders = hourly_rows(daily())
    totals = daily(
        "mart.totals",
        columns=[Column("at", "timestamptz", nullable=False, partition_on=True), Column("total", "bigint")],
        upstream=[Source("shop.orders", type=SourceModel(), contract=UpstreamContract.EXACT)],
        query="SELECT %(since)s::timestamptz AS at, sum(amount)::bigint AS total FROM {orders} "
        "WHERE at >= %(since)s AND at < %(until)s",
    )
    h = house(orders, totals)
    h.run(orders, day(1, 2))
    assert [o.status for o in h.run(totals, day(1, 2))] == ["applied"] * 2
    assert h.sql("SELECT total FROM mart.totals ORDER BY at") == [(4,), (5,)]


def test_an_upstream_is_read_within_the_window_of_its_contract(house: Make) -> None:
    orders = hourly_rows(daily())
    seen: dict[str, Any] = {}
    mart = daily(
        "mart.sums",
        upstream=[
            Source("shop.orders", type=SourceModel(), contract=UpstreamContract.ENCAPSULATE),
            Source("shop.orders", type=SourceModel(), contract=UpstreamContract.THROUGH, alias="past"),
        ],
    )

    @mart.execute
    def sums(unit: Unit, orders: Upstream, past: Upstream) -> pl.DataFrame:
        assert orders.data is not None
        assert past.data is not None
        seen.update(rows=orders.rows, past=past.data.height, applied=len(past.applied), name=orders.name)
        seen["batches"] = [frame.height for frame in past.batches(4)]
        return pl.DataFrame({"at": [unit.since], "amount": [orders.data["amount"].sum()]})

    h = house(orders, mart)
    h.run(orders, day(1, 3))
    h.run(mart, day(2))
    assert seen == {"rows": 3, "past": 6, "applied": 2, "name": "shop.orders", "batches": [4, 2]}
    assert h.sql("SELECT amount FROM mart.sums") == [(5,)]


def test_batches_are_read_beside_the_write_they_feed(house: Make) -> None:
    orders = hourly_rows(daily())
    copy = daily(
        "mart.copied", upstream=[Source("shop.orders", type=SourceModel(), contract=UpstreamContract.WHOLE)]
    )

    @copy.execute
    def copied(unit: Unit, orders: Upstream) -> Iterator[pl.DataFrame]:
        for frame in orders.batches(2):
            yield frame.filter(pl.col("at").is_between(unit.since, unit.until, closed="left"))

    h = house(orders, copy)
    h.run(orders, day(1, 10))
    assert h.run(copy, day(3))[0].stats.rows_written == 3


def test_a_closed_gate_blocks_the_row_with_its_reason(house: Make) -> None:
    orders = hourly_rows(daily())
    mart = daily(
        "mart.sums",
        upstream=[Source("shop.orders", type=SourceModel(), contract=UpstreamContract.EXACT)],
        query="SELECT at, amount FROM {orders} WHERE at >= %(since)s AND at < %(until)s",
    )
    h = house(orders, mart)
    h.run(orders, day(1))
    with pytest.raises(GateClosedError, match="STATE_002"):
        h.run(mart, day(2))
    status, reason = h.states(mart, "status, blocked_reason")[1]
    assert status == "blocked"
    assert reason.startswith("STATE_002: upstream 'shop.orders' (exact)")
    h.run(orders, day(2))
    assert h.run(mart, day(2))[0].applied
    assert h.states(mart, "blocked_reason")[1] is None


def test_an_unregistered_upstream_is_a_hard_error(house: Make) -> None:
    mart = daily(
        "mart.sums",
        upstream=[Source("shop.orders", type=SourceModel(), contract=UpstreamContract.EXACT)],
        query="SELECT at, amount FROM {orders} WHERE at >= %(since)s AND at < %(until)s",
    )
    h = house(mart)
    with pytest.raises(HardGateError, match=r"STATE_001: upstream 'shop\.orders' not registered"):
        h.run(mart, day(1))
    assert h.states(mart)[0] == "blocked"


def test_an_exception_is_recorded_and_raised_again(house: Make) -> None:
    orders = daily()

    @orders.execute
    def broken(unit: Unit) -> pl.DataFrame:
        raise ZeroDivisionError("no luck today")

    h = house(orders)
    with pytest.raises(ZeroDivisionError, match="no luck"):
        h.run(orders, day(1))
    assert h.states(orders)[0] == "error"
    kind, message, trace = h.sql("SELECT error_type, error_message, traceback FROM z_bollhav.errors")[0]
    assert kind.endswith("ZeroDivisionError")
    assert message == "no luck today"
    assert "def broken" in trace or "broken" in trace


class Timeout(Exception):
    """A caller's own time-out."""


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, Timeout])
def test_an_interrupt_leaves_the_unit_pending(house: Make, stop: type[BaseException]) -> None:
    orders = daily()

    @orders.execute
    def stopped(unit: Unit) -> Iterator[pl.DataFrame]:
        yield pl.DataFrame({"at": [unit.since], "amount": [1]})
        raise stop("now")

    h = house(orders)
    h.prepare(orders, day(1))
    with pytest.raises(stop):
        execute_unit(h.connections, h.graph(), orders, Unit(day(1)), h.spec(), interrupts=(Timeout,))
    assert h.states(orders, "status, reason")[0] == ("pending", f"interrupted: {stop.__name__}")
    assert h.sql("SELECT count(*) FROM shop.orders") == [(0,)]
    assert h.sql("SELECT count(*) FROM z_bollhav.errors") == [(0,)]


def test_a_failure_after_the_commit_is_logged_and_stays_applied(
    house: Make, caplog: pytest.LogCaptureFixture
) -> None:
    orders = hourly_rows(daily())
    h = house(orders)
    h.prepare(orders, day(1))

    def tell(_: object) -> None:
        raise OSError("nobody listens")

    outcome = execute_unit(h.connections, h.graph(), orders, Unit(day(1)), h.spec(), on_commit=tell)
    assert outcome.applied
    assert outcome.warnings == ("telling of its commit failed: nobody listens",)
    assert h.states(orders)[0] == "applied"
    assert "nobody listens" in caplog.text


def test_a_failing_check_publishes_nothing(house: Make) -> None:
    orders = hourly_rows(
        daily(checks=[RowCount(at_least=10)] if "at_least" in RowCount.model_fields else [RowCount(min=10)])
    )
    h = house(orders)
    with pytest.raises(CheckFailedError):
        h.run(orders, day(1))
    assert h.sql("SELECT count(*) FROM shop.orders") == [(0,)]
    assert h.states(orders)[0] == "error"


def test_two_workers_do_not_share_a_unit(house: Make) -> None:
    orders = hourly_rows(daily())
    h = house(orders)
    h.run(orders, day(1))
    outcome = execute_unit(h.connections, h.graph(), orders, Unit(day(1)), h.spec())
    assert outcome.status == "skipped"


def test_a_curfew_refuses_to_start(house: Make) -> None:
    orders = hourly_rows(
        daily(curfew=Curfew(ranges=[("00:00", "12:00"), ("12:00", "00:00")], reason="month end"))
    )
    h = house(orders)
    prepared = h.prepare(orders, day(1))
    assert prepared.skip
    assert "month end" in prepared.message
    outcome = execute_unit(h.connections, h.graph(), orders, Unit(day(1)), h.spec())
    assert outcome.status == "skipped"
    assert "curfew" in outcome.reason


def test_a_disabled_model_is_never_written(house: Make) -> None:
    orders = hourly_rows(daily(enabled=False))
    h = house(orders)
    assert h.prepare(orders, day(1)).skip
    assert execute_unit(h.connections, h.graph(), orders, Unit(day(1)), h.spec()).status == "skipped"


def test_state_disabled_moves_data_and_records_nothing(empty_house: Make) -> None:
    orders = hourly_rows(daily())
    h = empty_house(orders)
    assert [o.status for o in h.run(orders, day(1, 2), state_disabled=True)] == ["applied"] * 2
    assert h.sql("SELECT count(*) FROM shop.orders") == [(6,)]
    assert h.sql("SELECT to_regnamespace('z_bollhav')::text") == [(None,)]


def test_mark_applied_records_the_runs_own_windows_and_moves_nothing(house: Make) -> None:
    orders = hourly_rows(daily())
    h = house(orders)
    prepared = h.prepare(orders, day(2, 2), mark_applied=True, reason="restored from a dump")
    assert prepared.skip
    assert prepared.counts == {"marked": 2}
    assert h.states(orders, "status, marked_by, reason") == [("applied", "test", "restored from a dump")] * 2
    assert h.sql("SELECT to_regclass('shop.orders')::text") == [(None,)]


def test_a_window_without_a_whole_cell_runs_nothing_and_says_so(house: Make) -> None:
    orders = hourly_rows(daily())
    h = house(orders)
    half = type(day(1))(BEGIN, BEGIN + dt.timedelta(hours=5))
    prepared = h.prepare(orders, half)
    assert prepared.units == ()
    assert "holds no whole window" in prepared.message


def test_a_view_is_made_once_its_gates_are_open(house: Make) -> None:
    orders = hourly_rows(daily())
    view = Model(
        target=Target(schema="mart", name="big", columns=[Column("amount", "integer")]),
        materialization=Materialization.VIEW,
        library=True,
        state=State(),
        upstream=[Source("shop.orders", type=SourceModel(), contract=UpstreamContract.EXISTS)],
        query="SELECT amount FROM {orders} WHERE amount > 1",
    )
    h = house(orders, view)
    with pytest.raises(HardGateError):
        h.run(view)
    assert h.sql("SELECT to_regclass('mart.big')::text") == [(None,)]
    h.run(orders, day(1))
    assert h.run(view, mode="bulldozer")[0].applied
    assert h.sql("SELECT count(*) FROM mart.big") == [(1,)]


def timeless(rows: list[dict[str, Any]]) -> Model:
    model = Model(
        target=Target(
            schema="ref",
            name="regions",
            write_mode=WriteMode.TRUNCATE,
            columns=[Column("code", "text", primary_key=True), Column("name", "text")],
        ),
        temporality=Temporality.TIMELESS,
        upstream=[Source("regions_list", type=SourceHardcoded(rows=rows))],
        state=State(),
    )

    @model.execute
    def regions(regions_list: Upstream) -> pl.DataFrame | None:
        return regions_list.data

    return model


def test_a_changed_constant_is_applied_again_by_discover(house: Make) -> None:
    one = timeless([{"code": "N", "name": "North"}])
    h = house(one)
    assert len(h.run(one)) == 1
    assert h.run(one) == []
    two = timeless([{"code": "N", "name": "North"}, {"code": "S", "name": "South"}])
    h.models = [two]
    assert len(h.run(two)) == 1
    assert h.sql("SELECT count(*) FROM ref.regions") == [(2,)]


def test_files_are_archived_after_the_commit_and_only_then(house: Make, tmp_path: Path) -> None:
    drop = tmp_path / "orders.csv"
    drop.write_text("at,amount\n2024-01-01T05:00:00Z,7\n")
    archive = tmp_path / "done"
    fails = [True]
    orders = daily(
        upstream=[Source("orders.csv", type=SourceFile(path=drop, archive_folder=archive), alias="drop")]
    )

    @orders.execute
    def load(drop: Upstream) -> pl.DataFrame:
        frame = drop.data
        assert frame is not None
        if fails.pop():
            raise RuntimeError("first time")
        return frame

    h = house(orders)
    fails.append(True)
    fails.reverse()
    fails[:] = [False, True]
    with pytest.raises(RuntimeError):
        h.run(orders, day(1))
    assert drop.exists()
    assert h.run(orders, day(1))[0].applied
    assert not drop.exists()
    assert (archive / "orders.csv").exists()


def test_a_missing_relation_is_none_with_one_warning(house: Make, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []
    mart = daily("mart.sums", upstream=[Source("raw.landing", type=SourceModel())])

    @mart.execute
    def sums(landing: Upstream) -> None:
        seen.extend([landing.data, landing.rows, landing.missing, list(landing.batches(5)), landing.lazy])

    h = house(mart)
    with caplog.at_level(logging.WARNING):
        assert h.run(mart, day(1))[0].applied
    assert seen == [None, None, True, [], None]
    warnings = [r.message for r in caplog.records if "does not exist" in r.message]
    assert len(warnings) == 1
    assert "mart.sums" in warnings[0]
    assert "'landing'" in warnings[0]
    assert "raw.landing" in warnings[0]
    assert "2024-01-01" in warnings[0]


def test_no_permission_is_a_failure_and_not_missing_data(empty_house: Make) -> None:
    mart = daily("mart.sums", upstream=[Source("raw.landing", type=SourceModel())])

    @mart.execute
    def sums(landing: Upstream) -> pl.DataFrame | None:
        return landing.data

    h = empty_house(mart)
    h.sql(
        "CREATE SCHEMA raw; CREATE TABLE raw.landing (at timestamptz, amount int); DROP ROLE IF EXISTS "
        "bollhav_reader"
    )
    h.sql(
        "CREATE ROLE bollhav_reader LOGIN; GRANT ALL ON DATABASE "
        + psycopg.conninfo.conninfo_to_dict(h.dsn)["dbname"]
        + " TO bollhav_reader"
    )  # type: ignore[operator]
    try:
        h.dsn = psycopg.conninfo.make_conninfo(h.dsn, user="bollhav_reader")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="schema raw"):
            h.run(mart, day(1))
        assert h.states(mart)[0] == "error"
    finally:
        h.dsn = psycopg.conninfo.make_conninfo(h.dsn, user="postgres")
        h.sql("DROP OWNED BY bollhav_reader CASCADE; DROP ROLE bollhav_reader")


def test_a_model_that_computes_nothing_is_explained(house: Make) -> None:
    orders = daily()
    h = house(orders)
    with pytest.raises(DataError, match="nothing computes its rows"):
        h.run(orders, day(1))


def test_a_file_is_read_once_for_the_units_of_one_worker_unless_it_changes(
    house: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bollhav_provider.data import upstream

    drop = tmp_path / "orders.csv"
    drop.write_text("at,amount\n2024-01-01T05:00:00Z,1\n2024-01-02T05:00:00Z,2\n")
    orders = daily(upstream=[Source("orders.csv", type=SourceFile(path=drop), alias="drop")])

    @orders.execute
    def load(unit: Unit, drop: Upstream) -> pl.DataFrame:
        assert drop.data is not None
        return drop.data.filter(pl.col("at").is_between(unit.since, unit.until, closed="left"))

    reads: list[str] = []
    plain = upstream.read_file
    monkeypatch.setattr(upstream, "read_file", lambda *a, **k: reads.append(k["what"]) or plain(*a, **k))
    h = house(orders)
    h.prepare(orders, day(1, 3))
    with Worker(h.connections, h.graph(), orders, h.spec()) as worker:
        worker.execute(Unit(day(1)))
        worker.execute(Unit(day(2)))
        assert len(reads) == 1
        drop.write_text("at,amount\n2024-01-03T05:00:00Z,33\n")
        worker.execute(Unit(day(3)))
    assert len(reads) == 2
    assert h.sql("SELECT amount FROM shop.orders ORDER BY at") == [(1,), (2,), (33,)]


def test_reconcile_works_off_what_is_outstanding_of_the_whole_contract(house: Make) -> None:
    orders = daily()
    fails = [True]

    @orders.execute
    def sometimes(unit: Unit) -> pl.DataFrame:
        if fails[0] and unit.since is not None and unit.since.day == 2:
            raise RuntimeError("not today")
        return pl.DataFrame({"at": [unit.since], "amount": [1]})

    h = house(orders)
    with pytest.raises(RuntimeError):
        h.run(orders, day(1, 4))
    fails[0] = False
    prepared = h.prepare(orders, day(3), reconcile=True)
    assert len(prepared.units) == 7  # the failed one and the six that nobody ran
    assert prepared.counts["errors"] == 1
    assert len(h.run(orders, None, reconcile=True)) == 7
    assert h.states(orders) == ["applied"] * 10


def test_torch_refills_the_contract_and_runs_the_window(house: Make) -> None:
    orders = hourly_rows(daily())
    h = house(orders)
    h.run(orders, day(1, 10))
    outcomes = h.run(orders, day(1, 2), mode="torch")
    assert [o.status for o in outcomes] == ["applied"] * 2
    assert h.states(orders) == ["applied"] * 2 + ["pending"] * 8
    assert h.sql("SELECT count(*) FROM shop.orders") == [(30,)]


def test_a_changed_grid_is_an_error_that_names_the_way_out(house: Make) -> None:
    orders = hourly_rows(daily())
    h = house(orders)
    h.run(orders, day(1))
    other = hourly_rows(daily().replace(batching=Batch(time=TimeChunking(chunk="0 */7 * * *"))))
    h.models = [other]
    with pytest.raises(GrainChangedError, match="torch"):
        h.prepare(other, day(1))


def test_an_override_slices_a_flexible_window_and_is_ignored_with_a_warning_on_a_fixed_one(
    house: Make,
) -> None:
    query = "SELECT g AS at, 1 AS amount FROM generate_series(%(since)s, %(until)s - interval '1h', interval '1h') g"
    flexible = daily(query=query).replace(
        batching=Batch(time=TimeChunking(chunk="@daily", flexibility=ChunkFlex()))
    )
    h = house(flexible)
    assert len(h.run(flexible, day(1, 2), interval_override="0 */6 * * *")) == 8
    assert h.run(flexible, day(1, 2)) == []
    assert len(h.run(flexible, day(2, 2))) == 1  # only the gap
    assert h.sql("SELECT count(*), count(DISTINCT at) FROM shop.orders") == [(72, 72)]
    fixed = daily("shop.fixed", query=query)
    h.models = [fixed]
    prepared = h.prepare(fixed, day(1), interval_override="@hourly")
    assert len(prepared.units) == 1
    assert "ignored" in prepared.warnings[0]


def test_a_sequential_model_waits_for_its_own_past(house: Make) -> None:
    orders = hourly_rows(daily(state=State(sequential=True)))
    h = house(orders)
    h.prepare(orders, day(1, 3))
    with pytest.raises(GateClosedError):
        execute_unit(h.connections, h.graph(), orders, Unit(day(2)), h.spec())
    assert h.states(orders)[1] == "blocked"
    assert [o.status for o in h.run(orders, day(1, 3))] == ["applied"] * 3


def test_an_unbatched_model_loads_a_day_once_and_no_day_that_it_covers(house: Make) -> None:
    model = unbatched()
    h = house(model)
    for number in (3, 4):
        assert len(h.run(model, day(number), mode="bulldozer")) == 1
    for number in (1, 2, 3):  # a backfill of what is covered
        assert h.run(model, day(number), mode="bulldozer") == []
    assert len(h.run(model, day(4), mode="bulldozer")) == 1  # the last day is the run's own
    assert h.run(model, day(4), mode="discover") == []
    assert h.sql("SELECT count(*) FROM shop.totals") == [(3,)]
    assert h.states(model, "since, until, status") == [(day(1).since, day(4).until, "applied")]


def test_a_marked_unbatched_model_covers_its_range(house: Make) -> None:
    model = unbatched()
    h = house(model)
    h.prepare(model, day(4), mark_applied=True)
    assert h.states(model, "since, until, status") == [(day(1).since, day(4).until, "applied")]
    assert h.run(model, day(4), mode="discover") == []


def empty_daily(policy: Any, arrived: list[dict[str, Any]], **fields: Any) -> Model:
    """A daily model whose source holds what ``arrived`` holds."""
    model = daily(**({} if policy is None else {"allow_empty": policy}), **fields)

    @model.execute
    def rows(unit: Unit) -> pl.DataFrame:
        return pl.DataFrame(arrived, schema={"at": pl.Datetime("us", "UTC"), "amount": pl.Int32})

    return model


@pytest.mark.parametrize(("policy", "warns"), [(None, True), ("warn", True), ("allow", False), (True, False)])
def test_a_unit_without_rows_is_applied_and_says_so(house: Make, policy: Any, warns: bool) -> None:
    orders = empty_daily(policy, [])
    h = house(orders)
    (outcome,) = h.run(orders, day(1))
    assert (outcome.status, outcome.stats.rows_in) == ("applied", 0)
    assert [w for w in outcome.warnings if "gave no rows; say with allow_empty" in w] == list(outcome.warnings)
    assert bool(outcome.warnings) is warns
    assert h.states(orders, "status, rows_written")[0] == ("applied", 0)


@pytest.mark.parametrize("policy", ["block", False])
def test_a_unit_without_rows_is_blocked_where_that_means_not_yet(house: Make, policy: Any) -> None:
    arrived: list[dict[str, Any]] = [{"at": BEGIN, "amount": 1}]
    orders = empty_daily(policy, arrived)
    h = house(orders)
    assert [outcome.status for outcome in h.run(orders, day(1))] == ["applied"]
    kept = arrived.pop()
    with pytest.raises(EmptyUnitError) as caught:
        h.run(orders, day(1), mode="bulldozer")
    assert caught.value.retryable
    assert h.sql("SELECT amount FROM shop.orders") == [(1,)], "what was there is not deleted for nothing"
    assert h.states(orders, "status, blocked_reason")[0] == (
        "blocked",
        "STATE_007: 'shop.orders' [2024-01-01T00:00Z, 2024-01-02T00:00Z) gave no rows, and allow_empty is 'block'",
    )
    arrived.append({**kept, "amount": 2})
    assert [outcome.status for outcome in h.run(orders, day(1))] == ["applied"]
    assert h.sql("SELECT amount FROM shop.orders") == [(2,)]


def test_a_query_without_rows_is_judged_the_same(house: Make) -> None:
    orders = daily(
        query="SELECT %(since)s AS at, 1 AS amount WHERE %(until)s > '2024-01-03T00:00Z'", allow_empty="block"
    )
    h = house(orders)
    with pytest.raises(EmptyUnitError, match="STATE_007"):
        h.run(orders, day(1, 3))
    assert h.states(orders)[:3] == ["blocked", "blocked", "applied"]
