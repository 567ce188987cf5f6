"""Watching gates from outside: sensors and triggers look at units that nobody has claimed, and the state rows follow.

While a unit waits, its row says ``blocked`` and why; when its gates open it says ``pending``. A unit that somebody
works on, that failed or that is applied is never touched. One round trip, and a second one only when a row has to
change.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from bollhav_provider.intervals import Unit
from bollhav_provider.model import Environment, Model, TableId
from bollhav_provider.state.gate_types import GateReport, GateRequests
from bollhav_provider.state.gates import AsyncConn, decide, gate_requests, request_bodies
from bollhav_provider.state.reasons import same_reason
from bollhav_provider.state.refs import Conn, StateRef
from bollhav_provider.state.schema import function
from bollhav_provider.state.single import grows

_Rows = list[tuple[Any, ...]]
_Steps = Generator[tuple[str, list[Any]], _Rows, list[GateReport]]


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

    def _body(self) -> dict[str, Any]:
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
    steps = _steps(list(watches))
    try:
        statement, parameters = next(steps)
        while True:
            rows = conn.execute(statement.encode(), parameters).fetchall()
            statement, parameters = steps.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def aobserve_all(conn: AsyncConn, watches: Iterable[GateWatch]) -> list[GateReport]:
    """As :func:`observe_all`, without blocking the event loop."""
    steps = _steps(list(watches))
    try:
        statement, parameters = next(steps)
        while True:
            cursor = await conn.execute(statement.encode(), parameters)
            statement, parameters = steps.send(await cursor.fetchall())
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _steps(watches: list[GateWatch]) -> _Steps:
    if not watches:
        return []
    schema = watches[0].state.schema
    requests = [request for watch in watches for request in watch.requests.requests]
    order, bodies = request_bodies(requests)
    statement = sql.SQL("SELECT ARRAY(SELECT {}(%s::jsonb)), ARRAY(SELECT {}(%s::jsonb))").format(
        function(schema, "gate_facts", "gates.sql"), function(schema, "gate_rows", "gates.sql")
    )
    watched = [watch._body() for watch in watches]
    rows = yield statement.as_string(), [json.dumps(bodies), json.dumps(watched)]
    facts, units = rows[0]
    results = iter((yield from decide(schema, requests, order, bodies, facts)))
    reports = [
        GateReport(tuple(next(results) for _ in watch.requests.requests), watch.requests.skipped)
        for watch in watches
    ]
    changes = [
        {**body, "r": report.reason or None}
        for body, unit, report in zip(watched, units, reports, strict=True)
        if _differs(unit, report)
    ]
    if changes:
        flip = sql.SQL("SELECT {}(%s::jsonb)").format(function(schema, "gate_flip", "gates.sql"))
        yield flip.as_string(), [json.dumps(changes)]
    return reports


def _differs(unit: list[str | None] | None, report: GateReport) -> bool:
    if unit is None:
        return False
    status, reason = unit
    if status == "pending":
        return not report.open
    if status == "blocked":
        return report.open or not same_reason(reason, report.reason)
    return False
