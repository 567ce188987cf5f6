"""Gates: may these units run as far as their upstreams are concerned?

One statement, one snapshot, one round trip for any number of units and upstreams. The statement returns facts
(``sql/gates.sql``), :mod:`bollhav_provider.state.gate_rules` decides on them, for synchronous and asynchronous callers
alike. Rule: Semantics, gates.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from bollhav_provider.exceptions import LibraryOutdatedError, StateError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Environment, Model, Source, TableId
from bollhav_provider.state.beside import beside_the_loop
from bollhav_provider.state.gate_rules import Facts, judge, start_to_ask_for
from bollhav_provider.state.gate_types import OWN_PAST, GateReport, GateRequest, GateRequests, GateResult
from bollhav_provider.state.refs import Conn
from bollhav_provider.state.schema import function
from bollhav_provider.state.shapes import raw

AsyncConn = psycopg.AsyncConnection[Any]
#: Up to as many requests are parameters of their own, so that the statement can be prepared; more go as one document.
_SPELLED_OUT = 8
_SIGNATURE = "(%s::text, %s::text, %s::timestamptz, %s::timestamptz, %s::text, %s::timestamptz)"


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
        found.append(GateRequest(downstream, OWN_PAST, unit.window, downstream=downstream, source=model.full_name))
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
    exchange = Exchange(_schema(where), list(requests), known_readers(conn))
    while (query := exchange.query()) is not None:
        try:
            exchange.answer(conn.execute(query[0], query[1]).fetchall())
        except psycopg.errors.UndefinedFunction:
            exchange.reader_is_gone()
    return exchange.results()


async def acheck_gates(conn: AsyncConn, where: Environment | str, requests: Iterable[GateRequest]) -> list[GateResult]:
    """Answer any number of requests in one statement, without blocking the event loop. As :func:`check_gates`."""
    asked = list(requests)
    many, exchange = len(asked), Exchange(_schema(where), asked, known_readers(conn))
    while (query := await beside_the_loop(many, exchange.query)) is not None:
        try:
            cursor = await conn.execute(query[0], query[1])
            rows = await cursor.fetchall()
            await beside_the_loop(many, partial(exchange.answer, rows))
        except psycopg.errors.UndefinedFunction:
            exchange.reader_is_gone()
    return exchange.results()


def check_unit(conn: Conn, where: Environment | str, requests: GateRequests) -> GateReport:
    """Answer the requests of one unit. As :func:`check_gates`."""
    return GateReport(tuple(check_gates(conn, where, requests)), requests.skipped)


async def acheck_unit(conn: AsyncConn, where: Environment | str, requests: GateRequests) -> GateReport:
    """Answer the requests of one unit, without blocking the event loop."""
    return GateReport(tuple(await acheck_gates(conn, where, requests)), requests.skipped)


#: The readers that a connection has met: functions that answer for one upstream, by schema and full name.
Readers = dict[tuple[str, str], str]
_readers: WeakKeyDictionary[Any, Readers] = WeakKeyDictionary()


def known_readers(conn: Conn | AsyncConn) -> Readers:
    """Return what the connection may ask directly. Nothing inside a transaction: a reader that is gone would end it."""
    if conn.info.transaction_status is not TransactionStatus.IDLE:
        return {}
    found = _readers.get(conn)
    if found is None:
        found = _readers[conn] = {}
    return found


class Exchange:
    """What is asked and answered, in order, whatever kind of connection carries it.

    One statement as a rule. A second one asks again for requests whose declared range starts off the grid amid rows off
    the grid, and for an upstream whose state table was moved since this connection last asked.

    Args:
        schema: the library's.
        requests: what is asked.
        readers: what the connection knows; learned from the answers.
    """

    def __init__(self, schema: str, requests: Sequence[GateRequest], readers: Readers) -> None:
        self._schema = schema
        self._requests = requests
        self._readers = readers
        self._found: list[GateResult | None] = [None] * len(requests)
        # what is asked next: index of the request, start of the range when it is not the declared begin, reader
        self._asked: list[tuple[int, Any, str | None]] = [
            (i, None, readers.get((schema, r.upstream))) for i, r in enumerate(requests)
        ]

    def query(self) -> tuple[bytes, list[Any]] | None:
        """Return the next statement and its parameters, or None when everything is answered."""
        asked = self._asked
        if not asked:
            return None
        arguments = [_arguments(self._requests[i], start) for i, start, _ in asked]
        if len(asked) > _SPELLED_OUT:
            bodies = [dict(zip("ulsefb", values, strict=True)) for values in arguments]
            return _facts_of_many(self._schema), [json.dumps(bodies, default=datetime.isoformat)]
        statement = _facts_of_few(self._schema, tuple(reader for _, _, reader in asked))
        return statement, [value for values in arguments for value in values]

    def answer(self, rows: Sequence[Sequence[Any]]) -> None:
        """Take the rows of facts that the last statement returned."""
        asked, self._asked = self._asked, []
        direct = len(asked) <= _SPELLED_OUT
        for (index, given, reader), row in zip(asked, rows, strict=True):
            request = self._requests[index]
            if direct and reader is not None and row[0] is None:
                self._readers.pop((self._schema, request.upstream), None)
                self._asked.append((index, given, None))
                continue
            if reader is None and row[-1] is not None:
                self._readers[self._schema, request.upstream] = row[-1]
            facts = Facts.from_row(row)
            start = None if given is not None else start_to_ask_for(request, facts)
            if start is None:
                self._found[index] = judge(request, facts)
            else:
                self._asked.append((index, start, reader))

    def reader_is_gone(self) -> None:
        """Take that the last statement named a reader that does not exist any more.

        Raises:
            LibraryOutdatedError: it named none, so that the library's own functions are missing.
        """
        if not any(reader for _, _, reader in self._asked):
            raise LibraryOutdatedError(
                f"{self._schema}: the library lacks the functions of this version: run bootstrap (any run of a model "
                "does)."
            )
        self._readers.clear()
        self._asked = [(index, start, None) for index, start, _ in self._asked]

    def results(self) -> list[GateResult]:
        """Return a result for each request, in their order."""
        return [result for result in self._found if result is not None]


@lru_cache(maxsize=1024)
def _facts_of_few(schema: str, readers: tuple[str | None, ...]) -> bytes:
    """Return the statement that calls, for each request, its upstream's reader or the function for any upstream."""
    general = function(schema, "gate_facts", "gates.sql").as_string()
    # a reader's name is the library's own, quoted where it was made
    calls = [sql.SQL("SELECT * FROM {}{}").format(raw(reader or general), raw(_SIGNATURE)) for reader in readers]
    return sql.SQL(" UNION ALL ").join(calls).as_bytes()


@lru_cache(maxsize=64)
def _facts_of_many(schema: str) -> bytes:
    query = sql.SQL(
        "SELECT f.* FROM jsonb_array_elements(%s::jsonb) WITH ORDINALITY r(v, o), LATERAL {}(v->>'u', v->>'l', "
        "(v->>'s')::timestamptz, (v->>'e')::timestamptz, v->>'f', (v->>'b')::timestamptz) f ORDER BY r.o"
    )
    return query.format(function(schema, "gate_facts", "gates.sql")).as_bytes()


def _arguments(request: GateRequest, start: Any) -> tuple[Any, ...]:
    level, window = request.effective_level, request.window
    scope = None if request.within is None else request.scope
    if window is None:
        return (request.upstream, level, None, None, scope, start)
    return (request.upstream, level, window.since, window.until, scope, start)


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
