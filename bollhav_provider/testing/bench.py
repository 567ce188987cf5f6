"""Runs one model on frames: real PostgreSQL, real writing and checks, no state and no waiting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import psycopg
from psycopg import sql

from bollhav_provider import data
from bollhav_provider.data.fetch import fetch
from bollhav_provider.exceptions import IntervalError
from bollhav_provider.intervals import Interval, Unit, as_utc
from bollhav_provider.model import Environment, Model, Target, Temporality, WriteMode
from bollhav_provider.run import DsnConnections, RunSpec, UnitOutcome, Worker, connect, run_key
from bollhav_provider.testing.given import give
from bollhav_provider.testing.scratch import lasting_server, scratch_database

if TYPE_CHECKING:
    import polars as pl

#: What names a unit in a test: a local date, an instant in it, its two ends, or the thing itself.
Window = str | date | datetime | Interval | Unit | tuple[Any, Any] | None


class ModelBench:
    """A scratch database in which models are run on given frames; a context manager.

    Args:
        dsn: a server on which a database is made for this bench, and dropped at its end.
        models: definitions of upstreams that are known to every run.

    Attributes:
        outcome: how the last run ended, with its counts and warnings.
    """

    def __init__(self, dsn: str, models: Iterable[Model] = ()) -> None:
        self._server = dsn
        self._known = list(models)
        self._stack = ExitStack()
        self._dsn: str | None = None
        self.outcome: UnitOutcome | None = None

    def __enter__(self) -> ModelBench:
        return self

    def __exit__(self, *_: object) -> None:
        self._dsn = None
        self._stack.close()

    @property
    def dsn(self) -> str:
        """DSN of the scratch database, which is made when it is first asked for."""
        if self._dsn is None:
            self._dsn = self._stack.enter_context(scratch_database(self._server))
        return self._dsn

    def know(self, *models: Model) -> ModelBench:
        """Add definitions of upstreams: they say types, and by which column an upstream's window is read."""
        self._known.extend(models)
        return self

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection to the scratch database, for looking around; the caller closes it."""
        return connect(self.dsn, "bollhav test")

    def run(
        self,
        model: Model,
        window: Window = None,
        /,
        *,
        upstreams: Mapping[str, Any] | None = None,
        existing: Any = None,
        context: Mapping[str, Any] | None = None,
        **frames: Any,
    ) -> pl.DataFrame:
        """Run one unit of a model and return all rows of its target.

        Rows of earlier runs on the same bench stay in the target, as they would.

        Args:
            model: with an execute function or a query.
            window: ``"2013-01-01"`` is the unit that the local date lies in; an aware instant the one that it
                lies in; an ``Interval`` or ``(since, until)`` is taken as it is. None for a model without
                windows.
            upstreams: frames by alias or name of the input, where they cannot be keyword arguments.
            existing: rows that are in the target already.
            context: given to functions that ask for ``context``.
            **frames: frames by alias: a polars frame, a list of dicts, or None for a relation that does not
            exist.

        Raises:
            ConfigurationError: a frame is given for what is no input.
            IntervalError: the window names no unit of the model.
            Exception: whatever the function, the writing or the checks raise.
        """
        unit = unit_of(model, window)
        env = Environment()
        connections = DsnConnections(self.dsn, application_name="bollhav test")
        with self.connect() as conn:
            graph = give(conn, model, {**(upstreams or {}), **frames}, self._known)
            if not model.is_view:
                data.ensure_target(conn, model, env)
            if existing is not None:
                with conn.transaction():
                    data.write(conn, _appending(model), env, Unit(None), existing)
            spec = RunSpec(run=run_key(who="test"), env=env, window=unit.window, state_disabled=True)
            with Worker(connections, graph, _any_time(model), spec, context=context) as worker:
                self.outcome = worker.execute(unit)
            return self.rows(model, conn=conn)

    def rows(self, model: Model, *, conn: psycopg.Connection[Any] | None = None) -> pl.DataFrame:
        """Return all rows of a model's target, ordered by its key, else by all columns that can be ordered."""
        table = model.identity
        keys = [
            column.name for column in model.key_columns or (model.partition_column,) if column is not None
        ]
        order = sql.SQL(", ").join(map(sql.Identifier, keys)) if keys else sql.SQL("t::text")
        query = sql.SQL("SELECT * FROM {} AS t ORDER BY {}, t::text").format(
            sql.Identifier(table.schema, table.name), order
        )
        if conn is not None:
            return fetch(conn, query, what=model.full_name)
        with self.connect() as own:
            return fetch(own, query, what=model.full_name)


def run_model(
    model: Model,
    window: Window = None,
    upstreams: Mapping[str, Any] | None = None,
    *,
    models: Iterable[Model] = (),
    existing: Any = None,
    dsn: str | None = None,
) -> pl.DataFrame:
    """Run one unit of a model in an empty scratch database and return its target's rows.

    Args:
        model: with an execute function or a query.
        window: as in :meth:`ModelBench.run`.
        upstreams: frames by alias or name of the input.
        models: definitions of upstreams, where their types or partition columns matter.
        existing: rows that are in the target already.
        dsn: a server to make the database on; by default ``BOLLHAV_TEST_DSN``, or one that is started once a
            process.
    """
    with ModelBench(dsn or lasting_server(), models) as bench:
        return bench.run(model, window, upstreams=upstreams, existing=existing)


def unit_of(model: Model, window: Window) -> Unit:
    """Return the unit of a model that a test means.

    Raises:
        IntervalError: it names none; the text says what would.
    """
    if isinstance(window, Unit):
        return window
    if isinstance(window, Interval):
        return Unit(window)
    if isinstance(window, tuple):
        since, until = window
        return Unit(Interval(as_utc(since, "since"), as_utc(until, "until")))
    grid = model.grid
    if window is None:
        if grid is not None:
            raise IntervalError(
                f"{model.full_name}: window: the model has windows of {grid}, so a run needs one: write for "
                f"instance "
                f"run(model, '2024-01-31')."
            )
        return Unit(None)
    if grid is None:
        raise IntervalError(
            f"{model.full_name}: window: {window!r} is given, and the model has one unit without window."
        )
    return Unit(grid.cell(_instant(window, ZoneInfo(model.tz))))


def _instant(window: str | date | datetime, zone: ZoneInfo) -> datetime:
    if isinstance(window, str):
        try:
            window = date.fromisoformat(window)
        except ValueError:
            return as_utc(window, "window")
    if isinstance(window, datetime):
        return as_utc(window, "window")
    return as_utc(datetime.combine(window, time(), zone), "window")


def _appending(model: Model) -> Model:
    """The same target, to be filled with rows of any window."""
    columns = [column.replace(partition_on=False) for column in model.target.columns]
    target = Target(
        schema=model.target.schema, name=model.target.name, columns=columns, write_mode=WriteMode.APPEND
    )
    return Model(target=target, temporality=Temporality.TIMELESS)


def _any_time(model: Model) -> Model:
    """A test runs a model whatever its curfew says."""
    if model.curfew is None:
        return model
    other = model.replace(curfew=None)
    if model.function is not None:
        other.execute(model.function)
    return other
