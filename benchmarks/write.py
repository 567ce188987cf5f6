"""Writing and reading a million rows of twelve mixed columns, against what else there is for it.

    python benchmarks/write.py [--rows 1000000] [--rounds 3] [--only NAME,...] [--dsn DSN] [--json FILE]

All in one session, the methods taking turns, medians over the rounds. What each is compared with:

* append: the server's own COPY of a binary file that was made before, the physical limit of loading; target: at least
  0.6 of its rows a second. Beside it polars with ADBC, psycopg's text ``write_row`` and SQLAlchemy's bulk insert.
* upsert: nothing changed, and a tenth changed, of a table that holds the rows already.
* a SQL model: the same INSERT typed into psql; target: under 1.1 times its time.
* reading back: ADBC and ConnectorX.

A method whose library is not installed is left out, and said so: ``pip install 'airflow-provider-bollhav[bench]'``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
from bench_rows import COLUMNS, changed, made
from psycopg.types.json import Jsonb

from bollhav_provider import data
from bollhav_provider.data import copy as copying
from bollhav_provider.data.fetch import fetch
from bollhav_provider.intervals import WHOLE
from bollhav_provider.model import Environment, Model, Source, Target
from bollhav_provider.testing.postgres import PostgresServer, find_binaries

ENV = Environment()
MIN_APPEND, MAX_QUERY = 0.6, 1.1


@dataclass
class Method:
    """One thing that is measured.

    Attributes:
        group: what it is compared within.
        name: what it is called.
        run: does it, once.
        before: prepares the tables, outside the time that counts.
        needs: the library without which it is left out.
    """

    group: str
    name: str
    run: Callable[[], Any]
    before: Callable[[], Any]
    needs: str = ""


class Bench:
    """The tables, the rows, and every method over them."""

    def __init__(self, dsn: str, rows: int, directory: Path) -> None:
        self.dsn, self.rows = dsn, rows
        self.conn = psycopg.connect(dsn, autocommit=True)
        self.conn.execute("SET TimeZone TO 'UTC'")
        self.conn.execute("CREATE SCHEMA bench")
        self.frame = made(rows)
        self.tenth = changed(self.frame)
        self.append = self._model("append_target", "append")
        self.upsert = self._model("upsert_target", "upsert")
        self.file = directory / "rows.binary"
        self._prepare()

    def _model(self, name: str, mode: str, **fields: Any) -> Model:
        columns = [column.replace(primary_key=mode == "upsert" and column.name == "id") for column in COLUMNS]
        target = Target(schema="bench", name=name, columns=columns, write_mode=mode)
        return Model(target=target, temporality="timeless", **fields)

    def _prepare(self) -> None:
        for model in (self.append, self.upsert):
            data.ensure_target(self.conn, model, ENV)
        # Neither an index nor a log: what is compared is the way into the table.
        self.conn.execute("ALTER TABLE bench.append_target SET UNLOGGED")
        self.write(self.upsert, self.frame)
        self.conn.execute("CREATE TABLE bench.source AS SELECT * FROM bench.upsert_target")
        self.conn.execute("CREATE TABLE bench.kept AS SELECT * FROM bench.upsert_target")
        self.conn.execute(f"COPY bench.source TO '{self.file}' (FORMAT BINARY)")
        self.conn.execute("VACUUM ANALYZE")

    def write(self, model: Model, payload: Any) -> data.WriteStats:
        """Write a payload as a unit does, and commit."""
        with self.conn.transaction():
            return data.write(self.conn, model, ENV, WHOLE, payload)

    def empty(self) -> None:
        """Make room in the target of the loads."""
        self.conn.execute("TRUNCATE bench.append_target; CHECKPOINT")

    def reset(self) -> None:
        """Put the original rows back for the next UPSERT."""
        self.conn.execute("TRUNCATE bench.upsert_target; INSERT INTO bench.upsert_target SELECT * FROM bench.kept")
        self.conn.execute("VACUUM ANALYZE bench.upsert_target")
        self.conn.execute("CHECKPOINT")

    # Loads

    def server_file(self) -> None:
        """The physical limit: no client, no parsing."""
        self.conn.execute(f"COPY bench.append_target FROM '{self.file}' (FORMAT BINARY)")

    def append_csv(self) -> None:
        """What is left without the libraries for binary COPY."""
        original = copying.binary_available
        copying.binary_available = lambda: False  # type: ignore[assignment]
        try:
            self.write(self.append, self.frame)
        finally:
            copying.binary_available = original

    def adbc(self) -> None:
        """polars' own way; it makes its own table, in which uuid and json stay text."""
        flat = self.frame.with_columns(pl.col("doc").struct.json_encode())
        flat.write_database("bench.by_adbc", self.dsn, engine="adbc", if_table_exists="replace")

    def write_row(self) -> None:
        """psycopg's text COPY, row by row."""
        place = self.frame.columns.index("doc")
        names = ", ".join(self.frame.columns)
        with self.conn.cursor().copy(f"COPY bench.append_target ({names}) FROM STDIN") as copy:
            for row in self.frame.iter_rows():
                copy.write_row([Jsonb(v) if i == place and v is not None else v for i, v in enumerate(row)])

    def sqlalchemy(self) -> None:
        """SQLAlchemy's bulk insert of dicts."""
        import sqlalchemy as sa

        engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(self.dsn))
        table = sa.Table("append_target", sa.MetaData(), schema="bench", autoload_with=engine)
        with engine.begin() as connection:
            for piece in self.frame.iter_slices(50_000):
                connection.execute(sa.insert(table), piece.to_dicts())

    # SQL models

    QUERY = (
        "SELECT id, i32, f64 * 2 AS f64, upper(txt) AS txt, day, at, amount, flag, numbers, doc, raw, uid FROM {source}"
    )

    def sql_model(self) -> None:
        """The query as a model runs it: described, guarded, counted."""
        model = self._model("append_target", "append", query=self.QUERY, upstream=[Source("bench.source")])
        with self.conn.transaction():
            data.write_query(self.conn, model, ENV, WHOLE)

    def psql(self) -> None:
        """The same statement typed into psql."""
        names = ", ".join(column.name for column in COLUMNS)
        statement = f"INSERT INTO bench.append_target ({names}) {self.QUERY.format(source='bench.source')}"
        binary = shutil.which("psql", path=str(find_binaries())) or "psql"
        subprocess.run([binary, "-qX", "-d", self.dsn, "-c", statement], check=True, stdout=subprocess.DEVNULL)

    # Reads

    def read_ours(self) -> int:
        """Through the reading half, exact types included."""
        return fetch(self.conn, psycopg.sql.SQL(self.FLAT)).height

    #: Columns that all three readers can carry.
    FLAT = "SELECT id, i32, f64, txt, day, at, flag FROM bench.source"

    def read_adbc(self) -> int:
        """polars with ADBC."""
        return pl.read_database_uri(self.FLAT, self.dsn, engine="adbc").height

    def read_connectorx(self) -> int:
        """polars with ConnectorX, over TCP or the socket as the DSN says."""
        return pl.read_database_uri(self.FLAT, _url(self.dsn), engine="connectorx").height

    def methods(self) -> list[Method]:
        """Everything that can be measured, the measure of each group first."""
        return [
            Method("load", "server-side COPY of a binary file", self.server_file, self.empty),
            Method("load", "bollhav append, binary", lambda: self.write(self.append, self.frame), self.empty, "pgpq"),
            Method("load", "bollhav append, CSV", self.append_csv, self.empty),
            Method("load", "polars write_database, ADBC", self.adbc, self.empty, "adbc_driver_postgresql"),
            Method("load", "psycopg COPY, write_row", self.write_row, self.empty),
            Method("load", "SQLAlchemy bulk insert", self.sqlalchemy, self.empty, "sqlalchemy"),
            Method("upsert", "nothing changed", lambda: self.write(self.upsert, self.frame), self.reset),
            Method("upsert", "a tenth changed", lambda: self.write(self.upsert, self.tenth), self.reset),
            Method("query", "INSERT .. SELECT in psql", self.psql, self.empty),
            Method("query", "bollhav SQL model", self.sql_model, self.empty),
            Method("read", "bollhav fetch", self.read_ours, _nothing),
            Method("read", "polars read_database_uri, ADBC", self.read_adbc, _nothing, "adbc_driver_postgresql"),
            Method("read", "polars read_database_uri, ConnectorX", self.read_connectorx, _nothing, "connectorx"),
        ]


def _nothing() -> None:
    """What reads need before them."""


def _url(dsn: str) -> str:
    """ConnectorX takes URLs with a host only, so a socket's directory goes into the host, encoded."""
    from urllib.parse import quote

    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    host = quote(str(parts.get("host", "localhost")), safe="")
    user, port, database = parts.get("user", "postgres"), parts.get("port", 5432), parts.get("dbname", "postgres")
    return f"postgresql://{user}@{host}:{port}/{database}"


def main() -> int:
    """Prepare, measure, print; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="words, one of which a method's group or name must hold")
    parser.add_argument("--dsn", help="an empty database of a server on this machine; else one is started")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bollhav-bench-", ignore_cleanup_errors=True) as name:
        os.chmod(name, 0o777)
        directory, server, dsn = Path(name), None, options.dsn
        if dsn is None:
            server = PostgresServer(directory / "pg", settings=("shared_buffers=2GB", "max_wal_size=8GB", "jit=off"))
            dsn = server.start()
        try:
            figures = run(
                Bench(dsn, options.rows, directory), options.rounds, [w for w in options.only.split(",") if w]
            )
        finally:
            if server is not None:
                server.destroy()
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2))
    return report(figures)


def run(bench: Bench, rounds: int, words: list[str]) -> dict[str, Any]:
    """Let the methods take turns; return rows a second and the ratio to the first of each group."""
    methods, skipped = [], []
    for method in bench.methods():
        if words and not any(word in method.name or word == method.group for word in words):
            continue
        if method.needs and importlib.util.find_spec(method.needs) is None:
            skipped.append(f"{method.name}: {method.needs} is not installed")
        else:
            methods.append(method)
    times: dict[str, list[float]] = {method.name: [] for method in methods}
    failed: set[str] = set()
    for number in range(rounds):
        for method in methods:
            if method.name in failed:
                continue
            method.before()
            began = time.perf_counter()
            try:
                method.run()
            except Exception as error:  # a baseline that cannot do it is left out, with its reason
                failed.add(method.name)
                skipped.append(f"{method.name}: {type(error).__name__}: {str(error).splitlines()[0][:120]}")
                continue
            times[method.name].append(time.perf_counter() - began)
            print(f"  round {number + 1}: {method.name}: {times[method.name][-1]:.2f} s", file=sys.stderr, flush=True)
    figures: dict[str, Any] = {"rows": bench.rows, "rounds": rounds, "skipped": skipped, "methods": []}
    first: dict[str, float] = {}
    for method in methods:
        if times[method.name]:
            seconds = statistics.median(times[method.name])
            base = first.setdefault(method.group, seconds)
            figures["methods"].append(
                {
                    "group": method.group,
                    "name": method.name,
                    "seconds": round(seconds, 3),
                    "rows_per_second": round(bench.rows / seconds),
                    "speed": round(base / seconds, 3),
                }
            )
    return figures


def report(figures: dict[str, Any]) -> int:
    """Print the figures; return 1 when a target is missed."""
    print(
        f"{figures['rows']:,} rows, medians of {figures['rounds']} rounds; speed is relative to the first of its group"
    )
    group = None
    for figure in figures["methods"]:
        if figure["group"] != group:
            group = figure["group"]
            print(f"\n{group}")
        print(
            f"  {figure['name']:<40} {figure['seconds']:>8.2f} s {figure['rows_per_second']:>10,} rows/s "
            f"{figure['speed']:>6.2f}"
        )
    for line in figures["skipped"]:
        print(f"\nleft out: {line}")
    speeds = {figure["name"]: figure["speed"] for figure in figures["methods"]}
    missed = []
    if speeds.get("bollhav append, binary", 1.0) < MIN_APPEND:
        missed.append(f"append: under {MIN_APPEND} of the server's own COPY")
    if speeds.get("bollhav SQL model", 1.0) < 1 / MAX_QUERY:
        missed.append(f"SQL model: over {MAX_QUERY} times psql")
    for line in missed:
        print(f"\nmissed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
