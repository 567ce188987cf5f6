"""A model whose body is SQL: its rows go from tables to table inside PostgreSQL and none passes through Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from bollhav_provider.data.bounds import Bounds, bounds_of
from bollhav_provider.data.catalog import Relation, TargetColumn
from bollhav_provider.data.errors import translated
from bollhav_provider.data.lossless import assignment, lossy_value
from bollhav_provider.data.plan import match_columns, rule_of
from bollhav_provider.data.session import Connection, escaped, names, require_transaction, run_all
from bollhav_provider.data.stats import WriteStats
from bollhav_provider.data.writer import finish, landing, prepare
from bollhav_provider.exceptions import DataError, RowsOutsideWindowError, RowsRefusedError, SchemaMismatchError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Environment, Model, TableId

_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class _Output:
    """A column that the query gives: its name, type and type modifier."""

    name: str
    oid: int
    modifier: int


def write_query(
    conn: Connection, model: Model, env: Environment, unit: Unit, *, tables: Mapping[str, TableId] | None = None
) -> WriteStats:
    """Write one unit's rows with the model's query, as the write mode says.

    The query runs once. Its columns are matched with the target's by name, and a value that an assignment would
    change without a word (a scale lost, a time of day cut off) is refused; an explicit cast in the query is never
    questioned.

    Args:
        conn: the target's connection, in a transaction that the caller opened and will commit.
        model: the declaration, with a query.
        env: the environment.
        unit: the window, in the query as ``%(since)s`` and ``%(until)s``.
        tables: relations that the graph bound to aliases, without suffix.

    Raises:
        RowsRefusedError: an assignment would change a value.
        RowsOutsideWindowError: rows lie outside the window.
        SchemaMismatchError: the columns of query and target do not match.
        DuplicateKeyError: several rows of an UPSERT share a key.
        DataError: PostgreSQL refused the query or its rows.
    """
    require_transaction(conn, model)
    table = env.table(model.identity)
    bounds = bounds_of(model, unit)
    body = _body(model.render_query(env, tables=tables))
    window: dict[str, Any] = {"since": unit.since, "until": unit.until}
    with translated(model, "running the query"):
        # LIMIT 0 plans the query and tells what it gives, without running it.
        describe = sql.SQL("SELECT * FROM (\n{}\n) AS bollhav_query LIMIT 0").format(body)
        relation, deleted, (described,) = prepare(conn, model, env, table, bounds, [(describe, window)])
        outputs = _outputs(described)
        columns = match_columns(model, relation, [output.name for output in outputs], "query's rows")
        select, guarded = _assignments(model, columns, {output.name: output for output in outputs})
        insert = sql.SQL("INSERT INTO {into} ({columns}) SELECT {select} FROM (\n{body}\n) AS bollhav_query").format(
            into=escaped(landing(model, table), conn),
            columns=escaped(names([column.name for column in columns]), conn),
            select=escaped(select, conn),
            body=body,
        )
        written = _insert(conn, model, relation, bounds, insert, window, guarded)
        return finish(conn, model, env, unit, relation, [column.name for column in columns], written, deleted)


def _insert(
    conn: Connection,
    model: Model,
    relation: Relation,
    bounds: Bounds | None,
    insert: sql.Composed,
    window: dict[str, Any],
    guarded: Sequence[str],
) -> int:
    """Run the statement; return the number of rows.

    Raises:
        RowsRefusedError: a guard found a value that would change.
        RowsOutsideWindowError: rows lie outside the window.
    """
    statement: sql.Composed = insert
    parameters = dict(window)
    if bounds is not None:
        parameters |= {"bollhav_low": bounds.low, "bollhav_high": bounds.high}
        statement = sql.SQL(
            "WITH bollhav_rows AS ({insert} RETURNING {column} AS at) SELECT count(*), count(*) FILTER (WHERE "
            "{out}), (array_agg(at::text ORDER BY at) FILTER (WHERE {out}))[1:{samples}] FROM bollhav_rows"
        ).format(
            insert=insert,
            column=escaped(sql.Identifier(bounds.column), conn),
            out=sql.SQL("at < %(bollhav_low)s OR at >= %(bollhav_high)s OR at IS NULL"),
            samples=sql.Literal(_SAMPLES),
        )
    try:
        (cursor,) = run_all(conn, [(statement, parameters)])
    except psycopg.DataError as error:
        if (found := lossy_value(error, guarded)) is None:
            raise
        column, value = found
        kind = relation.by_name[column].type
        raise RowsRefusedError(
            model.full_name,
            column,
            f"({kind}) would get a value that it cannot hold as it is",
            remedy=f"say in the query how to change it, as in round(...)::{kind}, declare a wider type, or "
            "Column(..., allow='round')",
            samples=(value,),
        ) from error
    if bounds is None:
        return cursor.rowcount
    row = cursor.fetchone()
    assert row is not None
    count, out, samples = row
    if out:
        raise RowsOutsideWindowError(
            model.full_name,
            bounds.column,
            f"lies outside the window {bounds.window}",
            remedy="select only rows of the window, as in WHERE ... >= %(since)s AND ... < %(until)s",
            count=out,
            samples=tuple(str(sample) for sample in samples),
        )
    return int(count)


def _body(query: str) -> sql.SQL:
    """The query as part of a statement: without the semicolon that may end it."""
    return sql.SQL(query.strip().rstrip(";").rstrip())


def _outputs(described: psycopg.Cursor[Any]) -> list[_Output]:
    result = described.pgresult
    assert result is not None
    return [
        _Output(column.name, column.type_code, result.fmod(number))
        for number, column in enumerate(described.description or ())
    ]


def _assignments(
    model: Model, columns: Sequence[TargetColumn], outputs: Mapping[str, _Output]
) -> tuple[sql.Composed, list[str]]:
    """The select list, and the columns in it whose values are guarded.

    Raises:
        DataError: two columns of the query share a name.
        SchemaMismatchError: the assignment of a type to another would change every value.
    """
    seen = [column.name for column in columns]
    if twice := sorted({name for name in seen if seen.count(name) > 1}):
        raise DataError(
            f"{model.full_name}: the query gives {', '.join(map(repr, twice))} twice. Remedy: name each column "
            "once, with AS."
        )
    parts: list[sql.Composable] = []
    guarded: list[str] = []
    problems: list[str] = []
    for column in columns:
        output = outputs[column.name]
        source = sql.Identifier("bollhav_query", column.name)
        made = assignment(source, output.oid, output.modifier, column, rule_of(model, column.name), len(guarded))
        if isinstance(made, str):
            problems.append(f"column {column.name!r} ({column.type}) {made}")
            continue
        expression, guards = made
        parts.append(expression)
        if guards:
            guarded.append(column.name)
    if problems:
        raise SchemaMismatchError(f"{model.full_name}: running the query: " + "; ".join(problems) + ".")
    return sql.SQL(", ").join(parts), guarded
