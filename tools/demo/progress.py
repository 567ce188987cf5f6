"""How far the demo is: what the library says about each model, and how that looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tools.demo import expected
from tools.demo.client import Airflow

#: The models in the order in which data flows, with what each is.
MODELS = {
    "ref.airlines": "timeless, from a file",
    "ref.airports": "timeless, from a file",
    "ref.regions": "timeless, inline rows",
    "raw.weather": "hourly, from a file",
    "raw.flights": "daily, from a file",
    "mart.flight_weather": "daily, SQL",
    "mart.carrier_day": "daily, Python",
    "mart.carrier_to_date": "daily, cumulative, SQL",
    "mart.leaderboard": "timeless, SQL",
    "mart.busiest_routes": "view",
}


@dataclass(frozen=True)
class Counts:
    """How many units of a model have which status."""

    pending: int = 0
    running: int = 0
    applied: int = 0
    blocked: int = 0
    error: int = 0


def read_counts(conn: psycopg.Connection[Any]) -> dict[str, Counts]:
    """Return the counts of every registered model; one without state has none of anything."""
    known = conn.execute("SELECT to_regclass('z_bollhav.library')").fetchone()
    if not known or known[0] is None:
        return {}
    library = conn.execute("SELECT full_name, state_schema, state_table FROM z_bollhav.library").fetchall()
    counts: dict[str, Counts] = {}
    for name, schema, table in library:
        if table is None:
            counts[name] = Counts()
            continue
        query = sql.SQL("SELECT status, count(*) FROM {} GROUP BY status").format(sql.Identifier(schema, table))
        counts[name] = Counts(**dict(conn.execute(query).fetchall()))
    return counts


def blocked_reasons(conn: psycopg.Connection[Any], limit: int = 5) -> list[str]:
    """Return reasons of blocked units, each with its model."""
    reasons: list[str] = []
    for name, schema, table in conn.execute(
        "SELECT full_name, state_schema, state_table FROM z_bollhav.library WHERE state_table IS NOT NULL"
    ).fetchall():
        query = sql.SQL("SELECT blocked_reason FROM {} WHERE status = 'blocked' ORDER BY since LIMIT 1")
        row = conn.execute(query.format(sql.Identifier(schema, table))).fetchone()
        if row:
            reasons.append(f"{name}: {row[0]}")
    return reasons[:limit]


def table_of_counts(counts: dict[str, Counts], rows: dict[str, int] | None, days: int) -> Table:
    """Return the table of windows, and of rows when they are known.

    Args:
        counts: by model.
        rows: rows of each relation.
        days: local days that are loaded.
    """
    wanted = expected.windows(days)
    table = Table(title=f"{days} local days from 1 January 2013", title_justify="left", header_style="bold")
    table.add_column("model", no_wrap=True)
    table.add_column("what it is", style="dim")
    for name in ("windows", "applied", "blocked", "error", *(["rows"] if rows is not None else [])):
        table.add_column(name, justify="right")
    for model, kind in MODELS.items():
        mine, all_of_them = counts.get(model, Counts()), wanted[model]
        done = f"[green]{mine.applied}[/]" if mine.applied == all_of_them else str(mine.applied)
        cells = [str(all_of_them), done, str(mine.blocked), f"[red]{mine.error}[/]" if mine.error else "0"]
        table.add_row(model, kind, *cells, *([f"{rows.get(model, 0):,}"] if rows is not None else []))
    return table


def read_rows(conn: psycopg.Connection[Any]) -> dict[str, int]:
    """Return how many rows each relation has; 0 for one that does not exist."""
    rows = {}
    for model in MODELS:
        identifier = sql.Identifier(*model.split("."))
        exists = conn.execute("SELECT to_regclass(%s)", (identifier.as_string(conn),)).fetchone()
        if exists and exists[0] is not None:
            row = conn.execute(sql.SQL("SELECT count(*) FROM {}").format(identifier)).fetchone()
            rows[model] = int(row[0]) if row else 0
    return rows


def table_of_query(conn: psycopg.Connection[Any], title: str, query: LiteralString) -> Table:
    """Return a query's rows as a table."""
    cursor = conn.execute(query)
    table = Table(title=Text(title, no_wrap=True, overflow="ignore"), title_justify="left", header_style="bold")
    rows = cursor.fetchall()
    for number, column in enumerate(cursor.description or ()):
        numeric = bool(rows) and not isinstance(rows[0][number], str)
        table.add_column(column.name, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(
            *("" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value) for value in row)
        )
    return table


def show_failures(console: Console, airflow: Airflow, limit: int = 3) -> None:
    """Print the end of the logs of failed tasks."""
    failed = airflow.tasks(state="failed")
    for task in failed[:limit]:
        where = f"{task['dag_id']} {task['dag_run_id']} {task['task_id']}[{task['map_index']}]"
        console.print(f"[red]failed:[/] {where}", highlight=False)
        console.print("\n".join(airflow.log(task).splitlines()[-25:]), markup=False, highlight=False)
    if len(failed) > limit:
        console.print(f"... and {len(failed) - limit} more failed tasks")
