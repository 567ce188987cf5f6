"""Gates: may these units run as far as their upstreams are concerned?

One statement, one snapshot, one round trip for any number of units and upstreams. The statement returns facts
(``sql/gates.sql``), :mod:`bollhav_provider.state.gate_rules` decides on them, for synchronous and asynchronous callers
alike. Rule: Semantics, gates.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import sql

from bollhav_provider.exceptions import StateError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Environment, Model, Source, TableId, UpstreamContract
from bollhav_provider.state.gate_rules import Facts, judge, start_to_ask_for
from bollhav_provider.state.gate_types import OWN_PAST, GateReport, GateRequest, GateRequests, GateResult
from bollhav_provider.state.refs import Conn
from bollhav_provider.state.schema import function

AsyncConn = psycopg.AsyncConnection[Any]
#: One exchange with the database: a statement and its parameters go out, rows come back.
Exchange = Generator[tuple[str, list[Any]], list[tuple[Any, ...]], list[GateResult]]


def gate_requests(
    model: Model,
    env: Environment,
    unit: Unit,
    bound: Mapping[str, Sequence[TableId]] | None = None,
) -> GateRequests:
    """Return the questions to ask before ``unit`` may run; nothing is asked yet.

    Args:
        model: the downstream.
        env: names the copies of the upstreams that belong to this run.
        unit: what is to run.
        bound: the unsuffixed tables that each alias stands for, as the graph resolved them. Without it a source's name
            must say its table by itself.

    Raises:
        StateError: a source's name is a pattern and ``bound`` does not say what it stands for.
    """
    downstream = env.table(model.identity).full_name
    found: list[GateRequest] = []
    skipped: list[str] = []
    for source in model.gated:
        tables = (bound or {}).get(source.alias_name)
        for table in _tables(model, source) if tables is None else tables:
            if source.deactivate_for_dev and env.is_suffixed:
                skipped.append(table.full_name)
                continue
            assert source.contract is not None
            found.append(
                GateRequest.of(
                    model.place(source, table, env).full_name, source.contract, unit.window, source.freshness,
                    max_lag=source.max_lag, downstream=downstream, source=table.full_name,
                )
            )  # fmt: skip
    if model.state is not None and model.state.sequential and unit.window is not None:
        found.append(
            GateRequest(downstream, OWN_PAST, unit.window, downstream=downstream, source=model.full_name)
        )
    return GateRequests(tuple(found), tuple(skipped))


def check_gates(conn: Conn, where: Environment | str, requests: Iterable[GateRequest]) -> list[GateResult]:
    """Answer any number of requests in one statement.

    Args:
        conn: to the library's database.
        where: the environment, or the library's schema.
        requests: of one unit or of many.

    Returns:
        One result a request, in their order.
    """
    exchange = _exchange(_schema(where), list(requests))
    try:
        statement, parameters = next(exchange)
        while True:
            rows = conn.execute(statement.encode(), parameters).fetchall()
            statement, parameters = exchange.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def acheck_gates(
    conn: AsyncConn, where: Environment | str, requests: Iterable[GateRequest]
) -> list[GateResult]:
    """Answer any number of requests in one statement, without blocking the event loop. As :func:`check_gates`."""
    exchange = _exchange(_schema(where), list(requests))
    try:
        statement, parameters = next(exchange)
        while True:
            cursor = await conn.execute(statement.encode(), parameters)
            statement, parameters = exchange.send(await cursor.fetchall())
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def check_unit(conn: Conn, where: Environment | str, requests: GateRequests) -> GateReport:
    """Answer the requests of one unit. As :func:`check_gates`."""
    return GateReport(tuple(check_gates(conn, where, requests)), requests.skipped)


async def acheck_unit(conn: AsyncConn, where: Environment | str, requests: GateRequests) -> GateReport:
    """Answer the requests of one unit, without blocking the event loop."""
    return GateReport(tuple(await acheck_gates(conn, where, requests)), requests.skipped)


def request_bodies(requests: Sequence[GateRequest]) -> tuple[list[int], list[dict[str, Any]]]:
    """Return the requests as the statement takes them, one upstream after the other, and which request each one is."""
    order = sorted(range(len(requests)), key=lambda i: requests[i].upstream)
    return order, [_body(requests[i]) for i in order]


def decide(
    schema: str,
    requests: Sequence[GateRequest],
    order: Sequence[int],
    bodies: Sequence[dict[str, Any]],
    answers: Sequence[Any],
) -> Exchange:
    """Decide on the answers to ``bodies``, asking again for the few that need it. Returns a result for each request."""
    results: dict[int, GateResult] = {}
    while True:
        again: list[tuple[int, dict[str, Any]]] = []
        for index, body, answer in zip(order, bodies, answers, strict=True):
            facts = Facts.from_json(answer)
            start = None if "b" in body else start_to_ask_for(requests[index], facts)
            if start is None:
                results[index] = judge(requests[index], facts)
            else:
                again.append((index, {**body, "b": start.isoformat()}))
        if not again:
            return [results[i] for i in range(len(requests))]
        order, bodies = [i for i, _ in again], [body for _, body in again]
        rows = yield facts_statement(schema), [json.dumps(bodies)]
        answers = [value for (value,) in rows]


def _exchange(schema: str, requests: list[GateRequest]) -> Exchange:
    """Yield statements, take rows, return results: the order of things, for either kind of connection."""
    if not requests:
        return []
    order, bodies = request_bodies(requests)
    rows = yield facts_statement(schema), [json.dumps(bodies)]
    return (yield from decide(schema, requests, order, bodies, [value for (value,) in rows]))


@lru_cache(maxsize=64)
def facts_statement(schema: str) -> str:
    """Return the statement that gates are one round trip of; its one parameter is a JSON array of requests."""
    return (
        sql.SQL("SELECT * FROM {}(%s::jsonb)").format(function(schema, "gate_facts", "gates.sql")).as_string()
    )


def _body(request: GateRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"u": request.upstream, "l": request.effective_level}
    if request.window is not None:
        body["s"] = request.window.since.isoformat()
        body["e"] = request.window.until.isoformat()
    if request.within is not None and request.effective_level != UpstreamContract.EXISTS.value:
        body["f"] = request.scope
    return body


def _schema(where: Environment | str) -> str:
    return where if isinstance(where, str) else where.state_schema


def _tables(model: Model, source: Source) -> list[TableId]:
    found = []
    for key in source.keys:
        table = model.table_of(source, key)
        if table is None:
            raise StateError(
                f"{model.full_name}: upstream {key!r} is a pattern that the graph resolves: give its tables "
                f"as bound={{{source.alias_name!r}: [...]}}."
            )
        found.append(table)
    return found
