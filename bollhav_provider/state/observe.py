"""Watching gates from outside: sensors and triggers look at units that nobody has claimed, and the state rows follow.

While a unit waits, its row says ``blocked`` and why; when its gates open it says ``pending``. A unit that somebody
works on, that failed or that is applied is never touched. One round trip, and a second one only when a row has to
change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from bollhav_provider.intervals import Unit
from bollhav_provider.model import Environment, Model, TableId
from bollhav_provider.state.beside import beside_the_loop
from bollhav_provider.state.gate_types import GateReport, GateRequests
from bollhav_provider.state.gates import AsyncConn, Exchange, Readers, gate_requests, known_readers
from bollhav_provider.state.reasons import same_reason
from bollhav_provider.state.refs import Conn, StateRef
from bollhav_provider.state.schema import function
from bollhav_provider.state.single import grows


@dataclass(frozen=True, slots=True)
class GateWatch:
    """One unit that waits, in a form that a trigger can carry: no model is needed to look again.

    Attributes:
        state: where its row is.
        unit: which unit.
        requests: what it waits for.
        single: whether the model has one row whose window grows, although its unit is windowless.
    """

    state: StateRef
    unit: Unit
    requests: GateRequests
    single: bool = False

    @classmethod
    def of(
        cls, model: Model, env: Environment, unit: Unit, bound: Mapping[str, Sequence[TableId]] | None = None
    ) -> GateWatch:
        """Return the watch of a model's unit; ``bound`` as in :func:`gate_requests`."""
        return cls(StateRef.of(model, env), unit, gate_requests(model, env, unit, bound), grows(model))

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry; :meth:`from_json` reads it back."""
        return {
            "state": [self.state.schema, self.state.table, self.state.full_name],
            "unit": self.unit.to_json(),
            "gates": self.requests.to_json(),
            "single": self.single,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GateWatch:
        """Return the watch that :meth:`to_json` wrote."""
        return cls(
            StateRef(*value["state"]),
            Unit.from_json(value["unit"]),
            GateRequests.from_json(value["gates"]),
            value["single"],
        )

    def body(self) -> dict[str, Any]:
        """Return how the database finds the unit's row."""
        body: dict[str, Any] = {
            "schema": self.state.schema,
            "table": self.state.table,
            "single": self.single,
        }
        if self.unit.window is not None:
            body["s"] = self.unit.window.since.isoformat()
            body["e"] = self.unit.window.until.isoformat()
        return body


def observe(
    conn: Conn,
    model: Model,
    env: Environment,
    unit: Unit,
    bound: Mapping[str, Sequence[TableId]] | None = None,
) -> GateReport:
    """Check all gates of one unit that nobody has claimed, and make its row pending or blocked accordingly.

    Args:
        conn: in autocommit.
        model, env, unit: the unit.
        bound: as in :func:`gate_requests`.
    """
    return observe_all(conn, [GateWatch.of(model, env, unit, bound)])[0]


async def aobserve(
    conn: AsyncConn,
    model: Model,
    env: Environment,
    unit: Unit,
    bound: Mapping[str, Sequence[TableId]] | None = None,
) -> GateReport:
    """As :func:`observe`, without blocking the event loop."""
    return (await aobserve_all(conn, [GateWatch.of(model, env, unit, bound)]))[0]


def observe_all(conn: Conn, watches: Iterable[GateWatch]) -> list[GateReport]:
    """Check the gates of any number of units of one library together; one report a watch, in their order."""
    look = _Look(list(watches), known_readers(conn))
    while (query := look.query()) is not None:
        try:
            look.answer(conn.execute(query[0], query[1]).fetchall())
        except psycopg.errors.UndefinedFunction:
            look.reader_is_gone()
    return look.reports


async def aobserve_all(conn: AsyncConn, watches: Iterable[GateWatch]) -> list[GateReport]:
    """As :func:`observe_all`, without blocking the event loop."""
    listed, readers = list(watches), known_readers(conn)
    many = len(listed)
    look = await beside_the_loop(many, lambda: _Look(listed, readers))
    while (query := await beside_the_loop(many, look.query)) is not None:
        try:
            cursor = await conn.execute(query[0], query[1])
            rows = await cursor.fetchall()
            await beside_the_loop(many, partial(look.answer, rows))
        except psycopg.errors.UndefinedFunction:
            look.reader_is_gone()
    return look.reports


class _Look:
    """What is asked, answered and then changed, in order: facts and rows together, more facts as a rule not, rows."""

    def __init__(self, watches: list[GateWatch], readers: Readers) -> None:
        self._watches = watches
        self._schema = watches[0].state.schema if watches else ""
        requests = [request for watch in watches for request in watch.requests.requests]
        self._exchange = Exchange(self._schema, requests, readers)
        self._bodies = [watch.body() for watch in watches]
        self._units: list[Any] | None = None if watches else []
        self._changed = False
        self.reports: list[GateReport] = []

    def query(self) -> tuple[bytes, list[Any]] | None:
        """Return the next statement and its parameters, or None when everything is done."""
        query = self._exchange.query()
        if self._units is None:
            facts, parameters = query if query is not None else (b"SELECT 1 WHERE false", [])
            watched = function(self._schema, "watch_rows", "watch.sql").as_bytes()
            # json, unlike jsonb, keeps the columns in their order; as text it is read here, and not by the driver
            # within the event loop
            statement = (
                b"SELECT (SELECT json_agg(f) FROM (%b) f)::text, (SELECT json_agg(w) FROM %b(%%s::jsonb) w)::text"
                % (facts, watched)
            )
            return statement, [*parameters, json.dumps(self._bodies)]
        if query is not None or self._changed:
            return query
        changes = self._judge(self._units)
        self._changed = True
        if not changes:
            return None
        flip = sql.SQL("SELECT {}(%s::jsonb)").format(function(self._schema, "watch_flip", "watch.sql"))
        return flip.as_bytes(), [json.dumps(changes)]

    def answer(self, rows: list[tuple[Any, ...]]) -> None:
        """Take what the last statement returned."""
        if self._units is None:
            facts, self._units = (json.loads(found or "[]") for found in rows[0])
            self._exchange.answer([tuple(values.values()) for values in facts])
        elif not self._changed:
            self._exchange.answer(rows)

    def reader_is_gone(self) -> None:
        """As :meth:`Exchange.reader_is_gone`."""
        self._exchange.reader_is_gone()

    def _judge(self, units: list[Any]) -> list[dict[str, Any]]:
        """Make the reports; return the rows that have to change."""
        results = iter(self._exchange.results())
        self.reports = [
            GateReport(tuple(next(results) for _ in watch.requests.requests), watch.requests.skipped)
            for watch in self._watches
        ]
        return [
            {**body, "r": report.reason or None}
            for body, unit, report in zip(self._bodies, units, self.reports, strict=True)
            if _differs(unit, report)
        ]


def _differs(unit: list[str | None] | None, report: GateReport) -> bool:
    if unit is None:
        return False
    status, reason = unit
    if status == "pending":
        return not report.open
    if status == "blocked":
        return report.open or not same_reason(reason, report.reason)
    return False
