"""What runs do now and then beside their work, so that nobody has to remember it: deleting old errors and history."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from bollhav_provider.state.history import Retention, purge
from bollhav_provider.state.refs import Conn

if TYPE_CHECKING:
    from bollhav_provider.model import Environment

log = logging.getLogger(__name__)

_EVERY = timedelta(days=1)
#: Rows of one table at a time; when there were more, the next run goes on.
_AT_MOST = 20_000
_TASK = "purge"


def keep_up(conn: Conn, env: Environment, retention: Retention, every: timedelta = _EVERY) -> dict[str, int] | None:
    """Delete what is past its retention when nobody did so lately: one look, and seldom a bounded purge.

    A failure is logged and disturbs nobody: the run has other things to do.

    Args:
        conn: in autocommit.
        env: names the schema.
        retention: how long is kept.
        every: how long after one purge the next is due.

    Returns:
        Deleted rows by table; None when nothing was due.
    """
    table = sql.Identifier(env.state_schema, "upkeep")
    due = sql.SQL("u.done_at <= clock_timestamp() - %(every)s")
    values = {"task": _TASK, "every": every}
    try:
        look = sql.SQL("SELECT 1 FROM {} u WHERE u.task = %(task)s AND NOT ({})").format(table, due)
        if conn.execute(look, values).fetchone() is not None:
            return None
        mine = sql.SQL(
            "INSERT INTO {} AS u (task, done_at) VALUES (%(task)s, clock_timestamp()) "
            "ON CONFLICT (task) DO UPDATE SET done_at = excluded.done_at WHERE {}"
        ).format(table, due)
        if conn.execute(mine, values).rowcount == 0:
            return None  # another run was quicker
        gone = purge(conn, env, retention, at_most=_AT_MOST)
        if any(count >= _AT_MOST for count in gone.values()):
            again = sql.SQL("UPDATE {} SET done_at = '-infinity' WHERE task = %(task)s").format(table)
            conn.execute(again, values)
    except psycopg.Error as exc:
        if conn.closed or conn.broken:
            raise
        log.warning("%s: old errors and history were not deleted: %s", env.state_schema, str(exc).strip())
        return None
    if any(gone.values()):
        log.info("%s: deleted past their retention: %s", env.state_schema, gone)
    return gone
