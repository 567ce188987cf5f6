"""What the run's tests share: models to run, and one call that prepares and executes a window."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import psycopg

from bollhav_provider.graph import build_graph
from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.model import (
    Batch,
    Column,
    Contract,
    Environment,
    Model,
    State,
    Target,
    TimeChunking,
    WriteMode,
)
from bollhav_provider.run import (
    DsnConnections,
    Prepared,
    RunSpec,
    UnitOutcome,
    execute_units,
    prepare,
    run_key,
)

BEGIN = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def day(number: int, days: int = 1) -> Interval:
    """The window of ``days`` days from January ``number``, 2024."""
    since = dt.datetime(2024, 1, number, tzinfo=dt.UTC)
    return Interval(since, since + dt.timedelta(days=days))


def daily(name: str = "shop.orders", **arguments: Any) -> Model:
    """A daily model of two columns whose contract is the first ten days of 2024."""
    schema, table = name.split(".")
    columns = arguments.pop(
        "columns",
        [Column("at", "timestamptz", nullable=False, partition_on=True), Column("amount", "integer")],
    )
    target = {"write_mode": WriteMode.RECREATE_PARTITION, **arguments.pop("target", {})}
    return Model(
        target=Target(schema=schema, name=table, columns=columns, **target),
        contract=Contract(begin="2024-01-01T00:00Z", end="2024-01-11T00:00Z"),
        batching=Batch(time=TimeChunking(chunk="@daily")),
        state=arguments.pop("state", State()),
        **arguments,
    )


def orders(**arguments: Any) -> Model:
    """A daily model with one row a day."""
    model = daily(**arguments)

    @model.execute
    def rows(unit: Unit) -> pl.DataFrame:
        return pl.DataFrame({"at": [unit.since], "amount": [1]})

    return model


def unbatched(name: str = "shop.totals", **arguments: Any) -> Model:
    """A temporal model without windows, which notes its loads: one unit that grows from the first of January."""
    schema, table = name.split(".")
    model = Model(
        target=Target(schema=schema, name=table, columns=[Column("loaded", "integer")]),
        contract=Contract(begin=BEGIN),
        state=State(),
        **arguments,
    )

    @model.execute
    def totals() -> pl.DataFrame:
        return pl.DataFrame({"loaded": [1]}, schema={"loaded": pl.Int32})

    return model


@dataclass
class House:
    """One deployment: a database and its models."""

    dsn: str
    models: list[Model] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def connections(self) -> DsnConnections:
        return DsnConnections(self.dsn, environ=self.environ)

    def graph(self) -> Any:
        return build_graph(self.models)

    def spec(self, window: Interval | None = None, **fields: Any) -> RunSpec:
        return RunSpec(
            **{
                "run": run_key(who="test"),
                "env": Environment(),
                "window": window,
                "mode": "discover",
                **fields,
            }
        )

    def prepare(self, model: Model, window: Interval | None = None, **fields: Any) -> Prepared:
        return prepare(self.connections, self.graph(), model, self.spec(window, **fields))

    def run(self, model: Model, window: Interval | None = None, **fields: Any) -> list[UnitOutcome]:
        spec = self.spec(window, **fields)
        prepared = prepare(self.connections, self.graph(), model, spec)
        return execute_units(self.connections, self.graph(), model, prepared.units, spec)

    def sql(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True, options="-c timezone=UTC") as conn:
            cursor = conn.execute(query, parameters or None)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def states(self, model: Model, columns: str = "status") -> list[Any]:
        rows = self.sql(f'SELECT {columns} FROM z_bollhav."{model.state_table}" ORDER BY since NULLS FIRST')  # noqa: S608
        return [row[0] if len(row) == 1 else row for row in rows]


#: How long the claims of killed workers last.
KILLED = dt.timedelta(seconds=2)
ROWS = 40


def killed_model(dsn_env_var: str | None = None, hours: int = 240) -> Model:
    """An hourly model that appends its rows, so that every row written twice would be seen."""
    model = Model(
        target=Target(
            schema="shop",
            name="clicks",
            write_mode=WriteMode.APPEND,
            dsn_env_var=dsn_env_var,
            columns=[Column("at", "timestamptz", nullable=False), Column("number", "integer")],
        ),
        contract=Contract(begin=BEGIN, end=BEGIN + dt.timedelta(hours=hours)),
        batching=Batch(time=TimeChunking(chunk="@hourly")),
        state=State(),
    )

    @model.execute
    def clicks(unit: Unit) -> pl.DataFrame:
        return pl.DataFrame(
            {"at": [unit.since] * ROWS, "number": range(ROWS)}, schema_overrides={"number": pl.Int32}
        )

    return model


def hours(first: int, count: int) -> list[Unit]:
    """``count`` hourly units from hour ``first`` of 2024."""
    hour = dt.timedelta(hours=1)
    return [Unit(Interval(BEGIN + i * hour, BEGIN + (i + 1) * hour)) for i in range(first, first + count)]
