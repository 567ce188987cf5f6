"""Rejected views and timeless models, checks, people and options."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from bollhav_provider import (
    AirflowOptions,
    Batch,
    Column,
    ColumnFreshness,
    Contract,
    Curfew,
    Expression,
    Index,
    InRange,
    Model,
    NotNull,
    People,
    Relationship,
    RowCount,
    Staging,
    State,
    Target,
    TimeChunking,
)

DAILY = Batch(time=TimeChunking("@daily"))


def table(schema: str = "shop", name: str = "orders", **fields: Any) -> Target:
    return Target(schema=schema, name=name, **fields)


#: The definition, the field that is wrong, and what is said about it.
REJECTED: dict[str, tuple[Callable[[], Model], str, str]] = {
    "timeless_with_batching": (
        lambda: Model(target=table(), temporality="timeless", batching=DAILY),
        "batching",
        "a timeless model has no windows to cut; leave batching out, or write temporality='temporal'",
    ),
    "timeless_with_begin": (
        lambda: Model(target=table(), temporality="timeless", contract=Contract(begin="2024-01-01T00:00Z")),
        "contract.begin",
        "a timeless model has no range in time; leave it out, or write temporality='temporal'",
    ),
    "timeless_with_end": (
        lambda: Model(target=table(), temporality="timeless", contract=Contract(end="2024-01-01T00:00Z")),
        "contract.end",
        "a timeless model has no range in time; leave it out, or write temporality='temporal'",
    ),
    "view_with_batching": (
        lambda: Model(target=table(), materialization="view", query="SELECT 1", batching=DAILY),
        "batching",
        "a view has no windows to cut; leave batching out",
    ),
    "temporal_view_with_batching": (
        lambda: Model(target=table(), materialization="view", temporality="temporal", query="SELECT 1", batching=DAILY),
        "batching",
        "a view is computed when it is read and has no units; leave batching out",
    ),
    "view_with_staging": (
        lambda: Model(target=table(staging=Staging()), materialization="view", query="SELECT 1"),
        "target.staging",
        "a view holds no rows to stage; leave it out",
    ),
    "view_with_recreate_table": (
        lambda: Model(target=table(recreate_table=True), materialization="view", query="SELECT 1"),
        "target.recreate_table",
        "a view holds no rows; leave it out",
    ),
    "view_with_truncate_table": (
        lambda: Model(target=table(truncate_table=True), materialization="view", query="SELECT 1"),
        "target.truncate_table",
        "a view holds no rows; leave it out",
    ),
    "view_with_write_mode": (
        lambda: Model(target=table(write_mode="append"), materialization="view", query="SELECT 1"),
        "target.write_mode",
        "a view is never written; leave it out",
    ),
    "view_with_indexes": (
        lambda: Model(
            target=table(columns=[Column("a", "text")], indexes=[Index("a")]), materialization="view", query="SELECT 1"
        ),
        "target.indexes",
        "PostgreSQL has no indexes on views; leave them out, or put them on the tables that the view reads",
    ),
    "view_with_checks": (
        lambda: Model(
            target=table(columns=[Column("a", "text")]), materialization="view", query="SELECT 1", checks=[NotNull("a")]
        ),
        "checks",
        "a view writes no rows that could be checked; put the checks on the models that it reads",
    ),
    "view_with_key": (
        lambda: Model(
            target=table(columns=[Column("a", "text", nullable=False)]),
            materialization="view",
            query="SELECT 1",
            key="a",
        ),
        "key",
        "a view has no key; leave it out",
    ),
    "view_with_allow_empty": (
        lambda: Model(target=table(), materialization="view", query="SELECT 1", allow_empty="block"),
        "allow_empty",
        "a view writes no rows that could be missing; leave it out",
    ),
    "view_without_query": (
        lambda: Model(target=table(), materialization="view"),
        "query",
        "a view is its query; write query='SELECT ...', or materialization='table'",
    ),
    "two_connections_of_the_state": (
        lambda: Model(target=table(), state=State(dsn_env_var="A", conn_id="b")),
        "state.conn_id",
        "dsn_env_var and conn_id both say where the library is; keep one",
    ),
    "tag_with_operator": (
        lambda: Model(target=table(), tags=["a&b"]),
        "tags",
        "'a&b' is no tag: up to 100 characters without spaces, quotes and & | ( ) [ ] , : which selections "
        "are written with; write for instance 'finance-daily'",
    ),
    "owner_empty": (
        lambda: Model(target=table(), people=People(owner=" ")),
        "people.owner",
        "the owner is empty; name one or leave it out",
    ),
    "email_no_address": (
        lambda: Model(target=table(), people=People(email="me")),
        "people.email",
        "'me' is no address; write name@example.org",
    ),
    "curfew_of_no_time": (
        lambda: Model(target=table(), curfew=Curfew(ranges=[("10:00", "10:00")])),
        "curfew.ranges",
        "from 10:00 to 10:00 is no time at all; write two different times or enabled=False to stop the model "
        "altogether",
    ),
    "curfew_zone": (
        lambda: Model(target=table(), curfew=Curfew(ranges=[("10:00", "11:00")], tz="Mars")),
        "curfew.tz",
        "'Mars' is not a known time zone; write an IANA name such as 'Europe/Stockholm' or 'UTC'",
    ),
    "check_on_unknown_column": (
        lambda: Model(target=table(columns=[Column("a", "text")]), checks=[NotNull("b")]),
        "checks[0]",
        "column 'b' is not declared; declared are a",
    ),
    "check_twice": (
        lambda: Model(target=table(columns=[Column("a", "text")]), checks=[NotNull("a"), NotNull("a")]),
        "checks[1].name",
        "'not_null(a)' is the name of another check; give one of them a name",
    ),
    "check_range_without_bounds": (
        lambda: Model(target=table(columns=[Column("a", "text")]), checks=[InRange("a")]),
        "checks[0].min",
        "neither min nor max is given, so every value passes; give one",
    ),
    "check_range_inverted": (
        lambda: Model(target=table(columns=[Column("a", "text")]), checks=[InRange("a", min=2, max=1)]),
        "checks[0].max",
        "min 2 is greater than max 1, so no value passes; exchange them",
    ),
    "check_row_count_without_bounds": (
        lambda: Model(target=table(), checks=[RowCount()]),
        "checks[0].min",
        "neither min nor max is given, so every number passes; give one",
    ),
    "check_row_count_inverted": (
        lambda: Model(target=table(), checks=[RowCount(min=2, max=1)]),
        "checks[0].max",
        "min 2 is greater than max 1, so no number passes; exchange them",
    ),
    "check_expression_empty": (
        lambda: Model(target=table(), checks=[Expression(" ")]),
        "checks[0].sql",
        "the condition is empty; write one, for instance 'amount >= 0'",
    ),
    "check_expression_with_semicolon": (
        lambda: Model(target=table(), checks=[Expression("a > 1; DROP TABLE x")]),
        "checks[0].sql",
        "a condition holds no ';'; write one boolean expression",
    ),
    "check_relationship_malformed": (
        lambda: Model(target=table(columns=[Column("a", "text")]), checks=[Relationship("a", "ref.a.b.c")]),
        "checks[0].to",
        "'ref.a.b.c' is not the name of a table; write 'schema.name' or 'catalog.schema.name'",
    ),
    "check_freshness_of_no_age": (
        lambda: Model(target=table(columns=[Column("a", "date")]), checks=[ColumnFreshness("a", timedelta(0))]),
        "checks[0].within",
        "0:00:00 is no age that anything can have; write a positive duration such as timedelta(days=1)",
    ),
    "schedule_with_chunks": (
        lambda: Model(target=table(), batching=DAILY, airflow=AirflowOptions(schedule="@daily")),
        "airflow.schedule",
        "'@daily': a model with time chunks is scheduled by its own windows; leave it out, or say with "
        "TimeChunking(window=...) what one scheduled run covers",
    ),
    "schedule_no_cron": (
        lambda: Model(target=table(), airflow=AirflowOptions(schedule="sometimes")),
        "airflow.schedule",
        "'sometimes' has 1 fields instead of five; write five fields: minute hour day-of-month month "
        "day-of-week; or write 'auto', 'assets' or None",
    ),
    "callback_no_path": (
        lambda: Model(target=table(), airflow=AirflowOptions(on_failure_callback="notify")),
        "airflow.on_failure_callback",
        "'notify' is no import path; write 'package.module:function'",
    ),
    "airflow_dates": (
        lambda: Model(
            target=table(), airflow=AirflowOptions(start_date="2024-01-02T00:00Z", end_date="2024-01-01T00:00Z")
        ),
        "airflow.end_date",
        "start_date is not before end_date; exchange them",
    ),
}


@pytest.mark.parametrize("name", REJECTED)
def test_it_is_rejected_with_its_remedy(name: str, assert_rejected: Callable[..., None]) -> None:
    assert_rejected(*REJECTED[name])
