"""The work of one unit between its gates and its commit: read, compute, write, check."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from bollhav_provider import data
from bollhav_provider.data.archive import archive_files
from bollhav_provider.data.upstream import Upstream
from bollhav_provider.exceptions import DataError, EmptyUnitError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import EmptyPolicy, Model
from bollhav_provider.model.signature import plain_function
from bollhav_provider.run import checkpoints
from bollhav_provider.run.inputs import Inputs
from bollhav_provider.run.lanes import Lanes
from bollhav_provider.run.spec import RunSpec
from bollhav_provider.state import reasons

logger = logging.getLogger(__name__)

_IDLE = TransactionStatus.IDLE


@dataclass(frozen=True, slots=True)
class Written:
    """What a unit wrote.

    Attributes:
        rows_in: rows that the function or query gave.
        rows_written: rows put into the target.
        rows_changed: rows that differ from before.
        warnings: failed checks of severity ``warn``.
    """

    rows_in: int = 0
    rows_written: int = 0
    rows_changed: int = 0
    warnings: tuple[str, ...] = ()


class Work:
    """Computes and writes one unit.

    Args:
        model: what is run.
        spec: how.
        unit: which piece.
        lanes: the worker's connections.
        inputs: opens upstreams.
        context: for functions that ask for it.
    """

    def __init__(
        self,
        model: Model,
        spec: RunSpec,
        unit: Unit,
        lanes: Lanes,
        inputs: Inputs,
        context: Mapping[str, Any],
    ) -> None:
        self.model = model
        self.unit = unit
        self._spec = spec
        self._lanes = lanes
        self._inputs = inputs
        self._context = context
        self._upstreams: list[Upstream] = []
        #: How the checks of the rows went, once they were run.
        self.report: data.CheckReport | None = None

    @property
    def label(self) -> str:
        """Model and unit, for messages."""
        return f"{self.model.full_name} {self.unit.label}"

    def compute(self) -> Any:
        """Call the execute function and return what it gives; a generator is not consumed yet.

        Raises:
            DataError: the model has neither query nor function, or the function left a transaction open.
        """
        if self.model.is_view or self.model.query is not None:
            return None
        function = self.model.function
        if function is None:
            raise DataError(
                f"{self.model.full_name}: nothing computes its rows: write query=..., or a function under "
                "@model.execute, in the file that defines the model."
            )
        generates = inspect.isgeneratorfunction(plain_function(function))
        asks_conn = any(parameter.name == "conn" for parameter in self.model.parameters)
        lent = self._lanes.lend() if asks_conn else None
        reserved = {
            "run": self._spec,
            "unit": self.unit,
            "model": self.model,
            "context": self._context,
            "conn": lent,
        }
        arguments, self._upstreams = self._inputs.arguments(self.unit, self._lanes, reserved)
        payload = function(**arguments)
        if inspect.iscoroutine(payload):
            payload.close()
            raise DataError(
                f"{self.model.full_name}: the execute function is async: write a plain def, or a generator."
            )
        if lent is not None and not generates and not lent.closed and lent.info.transaction_status != _IDLE:
            raise DataError(
                f"{self.model.full_name}: the execute function left a transaction open on conn: end it, with "
                f"conn.transaction() as "
                "a context manager for instance. The unit's rows are written in a transaction of their own."
            )
        return payload

    def store(self, conn: psycopg.Connection[Any], payload: Any) -> Written:
        """Write the rows and run the checks, in the transaction that is open on ``conn``.

        Raises:
            DataError: rows that cannot be written exactly as they are.
            CheckFailedError: a check of severity ``error`` failed.
        """
        model, env = self.model, self._spec.env
        self._lanes.writing = True
        try:
            if model.is_view:
                data.create_view(conn, model, env, tables=self._inputs.tables())
                return Written()
            if model.query is not None:
                checkpoints.reach(checkpoints.DURING_WRITE, self.unit)
                stats = data.write_query(conn, model, env, self.unit, tables=self._inputs.tables())
            else:
                stats = data.write(conn, model, env, self.unit, self._watched(payload))
            empty = self._judge_empty(stats.rows_in)
            self.report = data.run_checks(conn, model, env, self.unit, tables=self._inputs.tables())
            report = self.report
            report.require_passed()
        finally:
            self._lanes.writing = False
        warnings = (*empty, *(str(w) for w in report.warnings))
        return Written(stats.rows_in, stats.rows_written, stats.rows_changed, warnings)

    def _judge_empty(self, rows_in: int) -> tuple[str, ...]:
        """Return what is to be said of a unit without rows, if anything.

        Raises:
            EmptyUnitError: the model takes it for a source that has not arrived yet.
        """
        if rows_in or self.model.allow_empty is EmptyPolicy.ALLOW:
            return ()
        if self.model.allow_empty is EmptyPolicy.BLOCK:
            raise EmptyUnitError(reasons.no_rows(self.model.full_name, self.unit.label))
        text = f"{self.label} gave no rows; say with allow_empty whether that is right"
        logger.warning("%s", text)
        return (text,)

    def archive(self) -> None:
        """Move the files that were read into their archives; call it after the commit.

        Raises:
            DataError: a file cannot be moved.
        """
        archive_files(self._inputs.files_of(self._upstreams))

    def _watched(self, payload: Any) -> Any:
        """Split a frame, so that a listener can stop in the middle of its rows; leave it as it is for nobody."""
        import polars as pl

        if not checkpoints.listened() or not isinstance(payload, pl.DataFrame):
            return payload

        def halves() -> Iterator[pl.DataFrame]:
            middle = payload.height // 2
            yield payload[:middle]
            checkpoints.reach(checkpoints.DURING_WRITE, self.unit)
            yield payload[middle:]

        return halves()
