"""Write one unit's rows into the target, inside the caller's transaction (Semantics: writing).

Modes that replace the window delete it and copy straight into the target; UPSERT goes through a temporary table that
ends with the transaction. Beyond the COPY itself a write takes one round trip, an UPSERT two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from psycopg import sql

from bollhav_provider.data import ddl
from bollhav_provider.data.bounds import Bounds, bounds_of, partition_in
from bollhav_provider.data.catalog import Relation
from bollhav_provider.data.copy import copy_frames
from bollhav_provider.data.errors import translated
from bollhav_provider.data.merge import check_key, merge
from bollhav_provider.data.payload import frames_of
from bollhav_provider.data.plan import Plan, plan_frame
from bollhav_provider.data.session import (
    Connection,
    Cursor,
    Statement,
    escaped,
    look_after,
    name_of,
    names,
    require_transaction,
    stage_of,
)
from bollhav_provider.data.staging import keep_rows
from bollhav_provider.data.stats import WriteStats
from bollhav_provider.exceptions import DataError, RowCountError, SchemaMismatchError
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Environment, Model, TableId, WriteMode

if TYPE_CHECKING:
    import polars as pl


def write(conn: Connection, model: Model, env: Environment, unit: Unit, payload: Any) -> WriteStats:
    """Write one unit's rows.

    Args:
        conn: the target's connection, in a transaction that the caller opened and will commit. Its TimeZone is UTC.
        model: the declaration.
        env: the environment, whose suffix the target has.
        unit: the window; rows outside it are refused where the target has a partition column.
        payload: a DataFrame, a LazyFrame, an iterator of frames (one at a time is held), an Arrow table or reader, a
            list of dicts, or None for no rows. No rows are a valid result and clear the window.

    Raises:
        RowsRefusedError: a value cannot be stored exactly as it is.
        RowsOutsideWindowError: rows lie outside the window.
        SchemaMismatchError: the columns of rows and target do not match.
        DuplicateKeyError: several rows of an UPSERT share a key.
        DataError: PostgreSQL refused the rows for another reason.
    """
    require_transaction(conn, model)
    table = env.table(model.identity)
    bounds = bounds_of(model, unit)
    with translated(model, "writing"):
        relation, deleted, _ = prepare(conn, model, env, table, bounds)
        frames = (frame for frame in frames_of(model, relation, payload) if frame.width)
        sent, columns = copy_frames(conn, model, landing(model, table), frames, _planner(model, relation, bounds))
        return finish(conn, model, env, unit, relation, columns, sent, deleted)


def landing(model: Model, table: TableId) -> sql.Identifier:
    """Where rows go first: the target itself, or the temporary table for what has to be done with them before."""
    return stage_of(table) if is_staged(model) else name_of(table)


def is_staged(model: Model) -> bool:
    """Whether rows go through the temporary table."""
    return model.target.write_mode is WriteMode.UPSERT or model.target.staging is not None


def finish(
    conn: Connection,
    model: Model,
    env: Environment,
    unit: Unit,
    relation: Relation,
    columns: Sequence[str],
    sent: int,
    deleted: int,
) -> WriteStats:
    """Bring rows from where they landed into the target.

    Args:
        conn: inside the caller's transaction.
        model: the declaration.
        env: the environment.
        unit: which unit's rows they are.
        relation: the target.
        columns: those that have values.
        sent: how many rows landed.
        deleted: how many rows of the window were removed before.

    Raises:
        DuplicateKeyError: several rows of an UPSERT share a key.
        RowCountError: PostgreSQL took another number of rows.
    """
    keyed = model.target.write_mode is WriteMode.UPSERT
    if model.target.staging is not None and sent:
        keep_rows(conn, model, env, unit, columns)
        if not keyed:
            copy = sql.SQL("INSERT INTO {target} ({columns}) SELECT {columns} FROM {stage}").format(
                target=name_of(relation.table), columns=names(columns), stage=stage_of(relation.table)
            )
            taken = conn.execute(copy, prepare=False).rowcount
            if taken != sent:
                raise RowCountError(model.full_name, sent, taken)
    if not keyed:
        return WriteStats(rows_in=sent, rows_written=sent, rows_changed=sent, rows_deleted=deleted)
    if not sent:
        return WriteStats()
    offered, changed = merge(conn, model, relation, columns)
    return WriteStats(rows_in=sent, rows_written=sent if offered is None else offered, rows_changed=changed)


def prepare(
    conn: Connection,
    model: Model,
    env: Environment,
    table: TableId,
    bounds: Bounds | None,
    also: Sequence[Statement] = (),
) -> tuple[Relation, int, list[Cursor]]:
    """Make room for the rows, as the write mode says, and look the target up: one round trip.

    Args:
        conn: inside the caller's transaction.
        model: the declaration.
        env: the environment.
        table: the target, suffixed.
        bounds: the window, if rows belong to one.
        also: statements to send along, after room was made.

    Returns:
        The target as it is, how many rows of the window were removed, and the cursors of the statements that were
        sent along.
    """
    mode = model.target.write_mode
    if mode is WriteMode.RECREATE:
        ddl.recreate(conn, model, env)
    before = _before(conn, model, table, bounds)
    if model.target.staging is not None and mode is not WriteMode.UPSERT:
        before += make_stage(table)
    relation, cursors = look_after(conn, model, table, [*before, *also])
    if bounds is not None:
        partition_in(model, relation, bounds)
    if mode is WriteMode.UPSERT:
        check_key(model, relation)
    elif relation.row_security and not is_staged(model):
        raise DataError(
            f"{model.full_name}: row-level security of target {table.full_name} applies to this user, who therefore "
            "cannot COPY into it. Remedy: let the table's owner write, grant the user BYPASSRLS, or use "
            "write_mode='upsert'."
        )
    deleted = cursors[0].rowcount if mode is WriteMode.RECREATE_PARTITION else 0
    return relation, deleted, cursors[len(before) :]


def _before(conn: Connection, model: Model, table: TableId, bounds: Bounds | None) -> list[Statement]:
    """What makes room; each of these also keeps others from changing the columns between looking and copying."""
    target = name_of(table)
    match model.target.write_mode:
        case WriteMode.RECREATE_PARTITION:
            if bounds is None:
                raise DataError(
                    f"{model.full_name}: write_mode 'recreate_partition' has no window to replace in a windowless "
                    "unit. Remedy: use write_mode='truncate' to replace the whole table."
                )
            return [delete_window(conn, table, bounds)]
        case WriteMode.TRUNCATE:
            return [(sql.SQL("TRUNCATE {}").format(target), None)]
        case WriteMode.UPSERT:
            return make_stage(table)
        case _:
            return [(sql.SQL("LOCK TABLE {} IN ROW EXCLUSIVE MODE").format(target), None)]


def delete_window(conn: Connection, table: TableId, bounds: Bounds) -> Statement:
    """The statement that clears a window."""
    column = escaped(sql.Identifier(bounds.column), conn)
    statement = sql.SQL("DELETE FROM {target} WHERE {column} >= %(low)s AND {column} < %(high)s").format(
        target=escaped(name_of(table), conn), column=column
    )
    return statement, {"low": bounds.low, "high": bounds.high}


def make_stage(table: TableId) -> list[Statement]:
    """The statements that make the temporary table for a keyed write."""
    stage = stage_of(table)
    # Of the target's own types, but without its constraints: a column that is not given stays out of the way. It can
    # be there already if a unit of this very transaction went before; dropping it would make psycopg forget all
    # prepared statements.
    create = sql.SQL("CREATE TEMP TABLE IF NOT EXISTS {} ON COMMIT DROP AS SELECT * FROM {} WITH NO DATA")
    return [(create.format(stage, name_of(table)), None), (sql.SQL("DELETE FROM {}").format(stage), None)]


def _planner(model: Model, relation: Relation, bounds: Bounds | None) -> Callable[[pl.Schema], Plan]:
    """Plans by schema; all frames of a payload have to bring the same columns."""
    first: list[frozenset[str]] = []

    def plan(schema: pl.Schema) -> Plan:
        planned = plan_frame(model, relation, schema, bounds)
        given = frozenset(planned.names)
        if first and given != first[0]:
            differing = ", ".join(sorted(given ^ first[0]))
            raise SchemaMismatchError(
                f"{model.full_name}: frames of one unit differ in their columns: {differing}. Remedy: give all "
                "frames the same columns, with nulls where there is no value."
            )
        first.append(given)
        return planned

    return plan
