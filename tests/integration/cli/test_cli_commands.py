"""The commands on a real database."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from typer.testing import CliRunner, Result

from bollhav_provider.cli.main import app
from bollhav_provider.exceptions import ConfigurationError, StateError
from bollhav_provider.model import Environment
from bollhav_provider.state import bootstrap

MODELS = """
from datetime import timedelta

import polars as pl

from bollhav_provider import (
    Batch, ChunkFlex, Column, Contract, Model, Source, SourceModel, State, Target, TimeChunking, Unit, Upstream,
    UpstreamContract, WriteMode,
)

def daily(schema, name, **more):
    return Model(
        target=Target(schema=schema, name=name, write_mode=WriteMode.RECREATE_PARTITION,
                      columns=[Column("at", "timestamptz", nullable=False, partition_on=True), Column("n", "integer")]),
        contract=Contract(begin="2024-01-01T00:00Z", end="2024-01-06T00:00Z"),
        batching=Batch(time=more.pop("time", TimeChunking(chunk="@daily"))), state=State(), **more)

orders = daily("shop", "orders", tags=["raw"], description="Orders [with brackets].")

@orders.execute
def rows(unit: Unit) -> pl.DataFrame:
    if unit.since.day == 5:
        raise ValueError("the fifth is [cursed]")
    return pl.DataFrame({"at": [unit.since], "n": [unit.since.day]})

sums = daily("mart", "sums", tags=["mart"],
    upstream=[Source("shop.orders", type=SourceModel(), contract=UpstreamContract.EXACT)],
    query="SELECT at, n FROM {orders} WHERE at >= %(since)s AND at < %(until)s")

flexible = daily("mart", "flex", time=TimeChunking(chunk="@daily", flexibility=ChunkFlex()),
    upstream=[Source("shop.orders", type=SourceModel(), contract=UpstreamContract.ENCAPSULATE)],
    query="SELECT at, n FROM {orders} WHERE at >= %(since)s AND at < %(until)s")
"""

Bollhav = Callable[..., Result]


@pytest.fixture
def bollhav_cli(db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bollhav:
    """Call the command line in a directory with three models."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / f"shop_{tmp_path.name.replace('-', '_')}.py").write_text(MODELS)
    monkeypatch.setenv("BOLLHAV_DSN", db)
    monkeypatch.setenv("COLUMNS", "250")

    def call(*arguments: str, code: int = 0) -> Result:
        told = CliRunner().invoke(app, list(arguments))
        assert told.exit_code == code, (told.output, told.exception)
        return told

    return call


def as_json(told: Result) -> Any:
    return json.loads(told.stdout)


def query(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as conn:
        return conn.execute(statement).fetchall()  # type: ignore[arg-type]


WEEK = ("--since", "2024-01-01", "--until", "2024-01-05")


def test_plan_and_run_of_a_window(bollhav_cli: Bollhav, db: str) -> None:
    planned = as_json(bollhav_cli("plan", *WEEK, "--json"))
    assert planned["counts"] == {"run": 4, "after": 8}
    told = bollhav_cli("plan", "mart.sums", *WEEK, code=3)
    assert "after shop.orders, which has not run yet and is not part of this plan" in told.output
    assert "can never run" not in told.output
    told = bollhav_cli("run", "shop.orders", *WEEK)
    assert "[2024-01-01T00:00Z, 2024-01-02T00:00Z): applied, 1 row(s)" in told.output
    assert query(db, "SELECT sum(n) FROM shop.orders") == [(10,)]
    ran = as_json(bollhav_cli("run", "mart.sums", *WEEK, "--json"))
    assert [unit["status"] for unit in ran["units"]] == ["applied"] * 4
    planned = as_json(bollhav_cli("plan", *WEEK, "--mode", "discover", "--json"))
    assert planned["counts"] == {"applied": 8, "run": 4}


def test_run_writes_the_target_alone_and_says_what_it_waits_for(bollhav_cli: Bollhav, db: str) -> None:
    bollhav_cli("run", "shop.orders", "--since", "2024-01-01", "--until", "2024-01-02")
    told = bollhav_cli("run", "mart.sums", "--since", "2024-01-01", "--until", "2024-01-03", code=3)
    assert (
        "[2024-01-02T00:00Z, 2024-01-03T00:00Z): blocked, STATE_002: upstream 'shop.orders' (exact)"
        in told.output
    )
    assert query(db, "SELECT count(*) FROM shop.orders") == [(1,)]


def test_a_failing_unit_is_an_exit_code_and_stands_in_status(bollhav_cli: Bollhav) -> None:
    told = bollhav_cli("run", "shop.orders", "--all", code=1)
    assert "error, ValueError: the fifth is [cursed]" in told.output
    stands = {model["model"]: model for model in as_json(bollhav_cli("status", "--json"))}
    assert stands["shop.orders"]["counts"]["applied"] == 4
    assert stands["shop.orders"]["counts"]["error"] == 1
    assert stands["shop.orders"]["last_error"].endswith("the fifth is [cursed]")
    assert stands["mart.sums"]["exists"] is False
    assert "[2024-01-01T00:00Z, 2024-01-05T00:00Z)" in bollhav_cli("status").output


def test_gaps_and_failed_windows_are_told(bollhav_cli: Bollhav) -> None:
    assert "never ran" in bollhav_cli("status", "shop.orders").output
    assert bollhav_cli("doctor").output.splitlines()[-1] == "nothing wrong"
    for day in (1, 4):
        bollhav_cli("run", "shop.orders", "--since", f"2024-01-0{day}", "--until", f"2024-01-0{day + 1}")
    told = bollhav_cli("status", "shop.orders").output
    assert "[2024-01-01T00:00Z, 2024-01-05T00:00Z), 1 gap(s), the first [2024-01-02T00:00Z, 2024-01-04T00:00Z)" in told
    told = bollhav_cli("doctor", "shop.orders").output
    assert "1 gap(s), the first missing window is [2024-01-02T00:00Z, 2024-01-03T00:00Z)" in told
    assert "nothing wrong" not in told
    bollhav_cli("run", "shop.orders", "--since", "2024-01-05", "--until", "2024-01-06", code=1)
    assert "1 unit(s) are in error, the last [2024-01-05T00:00Z" in bollhav_cli("doctor", "shop.orders").output


def test_explain_shows_what_is_waited_for(bollhav_cli: Bollhav) -> None:
    bollhav_cli("run", "shop.orders", "--since", "2024-01-01", "--until", "2024-01-02")
    told = as_json(
        bollhav_cli("explain", "mart.sums", "--since", "2024-01-01", "--until", "2024-01-03", "--json")
    )
    assert [gate["satisfied"] for unit in told["units"] for gate in unit["gates"]] == [True, False]
    assert told["inputs"][0]["contract"] == "exact"
    shown = bollhav_cli("explain", "mart.sums", "--since", "2024-01-01", "--until", "2024-01-03").output
    assert "reads shop.orders as 'orders' (model; waits: exact)" in shown
    assert "shut: STATE_002" in shown
    assert "Orders [with brackets]." in bollhav_cli("explain", "shop.orders").output


def test_reset_and_mark_applied_ask_first(bollhav_cli: Bollhav) -> None:
    day = ("--since", "2024-01-01", "--until", "2024-01-02")
    bollhav_cli("run", "shop.orders", *day)
    bollhav_cli("reset", "shop.orders", *day, code=1)  # nobody says yes
    assert as_json(bollhav_cli("reset", "shop.orders", *day, "--yes", "--json"))["reset"] == 1
    marked = bollhav_cli("mark-applied", "shop.orders", *day, "--yes", "--reason", "restored", "--who", "ann")
    assert (
        "1 unit(s) of [2024-01-01T00:00Z, 2024-01-02T00:00Z) are marked applied by ann (restored)"
        in marked.output
    )
    assert as_json(bollhav_cli("status", "shop.orders", "--json"))[0]["marked"] == 1


def test_restatement_is_shown_and_cascades(bollhav_cli: Bollhav) -> None:
    for model in ("shop.orders", "mart.sums", "mart.flex"):
        bollhav_cli("run", model, *WEEK)
    bollhav_cli("run", "shop.orders", "--since", "2024-01-02", "--until", "2024-01-03")
    stands = {model["model"]: model["outdated"] for model in as_json(bollhav_cli("status", "--json"))}
    assert stands == {"shop.orders": 0, "mart.sums": 1, "mart.flex": 1}
    planned = as_json(bollhav_cli("plan", *WEEK, "--cascade", "--mode", "discover", "--json"))
    assert [(one["model"], one["unit"]["since"][:10]) for one in planned["outdated"]] == [
        ("mart.flex", "2024-01-02"),
        ("mart.sums", "2024-01-02"),
    ]
    bollhav_cli("run", "shop.orders", "--since", "2024-01-02", "--until", "2024-01-03", "--cascade")
    assert {model["outdated"] for model in as_json(bollhav_cli("status", "--json"))} == {0}


def test_doctor_finds_and_mends(bollhav_cli: Bollhav, db: str) -> None:
    assert {finding["code"] for finding in as_json(bollhav_cli("doctor", "--json"))} == {"library", "scope"}
    bollhav_cli("run", "shop.orders", *WEEK)
    table = query(db, "SELECT state_table FROM z_bollhav.library WHERE full_name = 'shop.orders'")[0][0]
    with psycopg.connect(db, autocommit=True) as conn:
        conn.execute("SET session_replication_role = replica")
        for statement in (
            "DELETE FROM z_bollhav.{} WHERE since = '2024-01-02Z'",
            "UPDATE z_bollhav.{} SET status = 'running', lease_until = now() - interval '1h' "
            "WHERE since = '2024-01-05Z'",
        ):
            conn.execute(sql.SQL(statement).format(sql.Identifier(table)))
    found = {f["code"]: f for f in as_json(bollhav_cli("doctor", "--json", code=1))}
    assert {"coverage", "hole", "expired_lease", "never_run"} <= set(found)
    assert "covered, and not applied: [2024-01-02T00:00Z, 2024-01-03T00:00Z)" in found["coverage"]["message"]
    bollhav_cli("doctor", "--fix")
    after = {f["code"] for f in as_json(bollhav_cli("doctor", "--json"))}
    assert not {"coverage", "hole", "expired_lease"} & after


def test_doctor_names_missing_privileges_as_grants(bollhav_cli: Bollhav, db: str) -> None:
    bollhav_cli("run", "shop.orders", *WEEK)
    name = psycopg.conninfo.conninfo_to_dict(db)["dbname"]
    with psycopg.connect(db, autocommit=True) as conn:
        conn.execute(f'CREATE ROLE "r_{name}" LOGIN')
        conn.execute(f'GRANT USAGE ON SCHEMA z_bollhav, shop TO "r_{name}"')
        conn.execute(f'GRANT ALL ON ALL TABLES IN SCHEMA z_bollhav TO "r_{name}"')
        try:
            limited = psycopg.conninfo.make_conninfo(db, user=f"r_{name}")
            told = bollhav_cli("doctor", "shop.orders", "--dsn", limited, "--json", code=1)
            grants = next(f for f in as_json(told) if f["code"] == "privileges")["message"]
            assert "GRANT" in grants
            assert "shop" in grants
        finally:
            conn.execute(f'DROP OWNED BY "r_{name}"; DROP ROLE "r_{name}"')


def test_prune_keeps_what_is_covered(bollhav_cli: Bollhav, monkeypatch: pytest.MonkeyPatch) -> None:
    bollhav_cli("run", "shop.orders", *WEEK)
    bollhav_cli("run", "mart.flex", *WEEK)
    before = as_json(bollhav_cli("status", "mart.flex", "--json"))[0]
    pruned = as_json(bollhav_cli("prune", "--json"))
    assert pruned["errors"] == 0
    after = as_json(bollhav_cli("status", "mart.flex", "--json"))[0]
    assert (after["first"], after["last"]) == (before["first"], before["last"])


def test_an_unknown_model_is_named_with_the_nearest(bollhav_cli: Bollhav) -> None:
    told = bollhav_cli("run", "shop.ordres", code=1)
    assert "shop.orders" in str(told.exception)


def test_a_run_with_cascade_puts_back_first_and_runs_again_in_order(bollhav_cli: Bollhav, db: str) -> None:
    for model in ("shop.orders", "mart.sums", "mart.flex"):
        bollhav_cli("run", model, *WEEK)
    second = ("--since", "2024-01-02", "--until", "2024-01-03")
    told = as_json(bollhav_cli("run", "shop.orders", *second, "--cascade", "--json"))
    assert [(unit["model"], unit["status"]) for unit in told["units"]] == [
        ("shop.orders", "applied"), ("mart.flex", "applied"), ("mart.sums", "applied")
    ]  # fmt: skip
    planned = as_json(bollhav_cli("plan", "shop.orders", *second, "--cascade", "--json"))
    assert [(one["model"], one["because"]) for one in planned["outdated"]] == [
        ("mart.flex", ["shop.orders"]), ("mart.sums", ["shop.orders"])
    ]  # fmt: skip
    # a window that fails leaves what is made from it put back, and says that it waits
    told = bollhav_cli("run", "shop.orders", "--since", "2024-01-05", "--until", "2024-01-06", "--cascade", code=1)
    assert "the fifth is [cursed]" in told.output


def test_several_models_run_each_after_what_it_reads(bollhav_cli: Bollhav) -> None:
    told = as_json(bollhav_cli("run", "mart.sums", "shop.orders", *WEEK, "--json"))
    assert [unit["model"] for unit in told["units"]] == ["shop.orders"] * 4 + ["mart.sums"] * 4
    told = as_json(bollhav_cli("run", "--select", "mart", *WEEK, "--json"))
    assert [unit["model"] for unit in told["units"]] == ["mart.sums"] * 4
    assert "--select" in str(bollhav_cli("run", *WEEK, code=1).exception)


def test_a_dry_run_plans_all_that_match_together_and_changes_nothing(
    bollhav_cli: Bollhav, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRY_STATE", "1")
    planned = as_json(bollhav_cli("run", *WEEK, "--json"))
    assert planned["counts"] == {"run": 4, "after": 8}
    assert [model["model"] for model in planned["models"]] == ["shop.orders", "mart.flex", "mart.sums"]
    alone = as_json(bollhav_cli("run", "mart.sums", *WEEK, "--json", code=3))
    assert alone["counts"] == {"blocked": 4}  # its upstream has to run first, and can
    assert query(db, "SELECT count(*) FROM pg_namespace WHERE nspname IN ('z_bollhav', 'shop', 'mart')") == [(0,)]
    monkeypatch.delenv("DRY_STATE")
    bollhav_cli("run", "shop.orders", "--since", "2024-01-01", "--until", "2024-01-02")
    waiting = as_json(bollhav_cli("run", "mart.sums", *WEEK, "--dry", "--json", code=3))
    assert waiting["counts"] == {"run": 1, "blocked": 3}


def test_units_that_another_worker_has_are_no_success(bollhav_cli: Bollhav, db: str) -> None:
    bollhav_cli("run", "shop.orders", "--since", "2024-01-01", "--until", "2024-01-02")
    table = query(db, "SELECT state_table FROM z_bollhav.library WHERE full_name = 'shop.orders'")[0][0]
    with psycopg.connect(db, autocommit=True) as conn:
        statement = "UPDATE z_bollhav.{} SET status = 'running', owner = 'far:1:x', lease_until = now() + interval '1h'"
        conn.execute(sql.SQL(statement + " WHERE since = '2024-01-02Z'").format(sql.Identifier(table)))
    told = bollhav_cli("run", "shop.orders", "--since", "2024-01-02", "--until", "2024-01-03", code=3)
    assert "1 unit(s) are left to others" in told.output
    assert "far:1:x" in told.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "mart.sums", *WEEK),
        ("status",),
        ("plan",),
        ("doctor",),
        ("prune",),
        ("reset", "mart.sums", "--yes"),
        ("mark-applied", "mart.sums", "--yes"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_command_leaks_sql_where_nothing_has_run_yet(bollhav_cli: Bollhav, arguments: tuple[str, ...]) -> None:
    told = bollhav_cli(*arguments).output
    assert "LINE 1" not in told
    assert "relation" not in told
    if arguments[0] == "explain":
        assert "nothing has run yet in this library (z_bollhav)" in told


def test_nobody_to_ask_is_told_how_to_go_on(bollhav_cli: Bollhav) -> None:
    for command in ("reset", "mark-applied"):
        told = bollhav_cli(command, "shop.orders", *WEEK, code=1)
        assert isinstance(told.exception, ConfigurationError)
        assert "give --yes" in str(told.exception)


def test_a_role_that_may_not_make_the_library_is_told_what_to_be_granted(bollhav_cli: Bollhav, db: str) -> None:
    database = psycopg.conninfo.conninfo_to_dict(db)["dbname"]
    with psycopg.connect(db, autocommit=True) as conn:
        conn.execute("SET client_min_messages = error; DROP ROLE IF EXISTS bare_clerk; CREATE ROLE bare_clerk LOGIN")
        try:
            conn.execute("SET ROLE bare_clerk")
            with pytest.raises(StateError) as refused:
                bootstrap(conn, Environment())
            assert f'GRANT CREATE ON DATABASE "{database}" TO ' in str(refused.value)
            assert "ON SCHEMA" not in str(refused.value)
        finally:
            conn.execute("RESET ROLE; DROP ROLE bare_clerk")
