"""Memory of an UPSERT out of an iterator: many rows under a limit on the process's address space.

    python benchmarks/memory.py [--rows 5000000] [--limit-mb 600] [--frame-rows 50000] [--dsn DSN]

The limit counts from what the process has mapped after its imports, so that it holds everything that the rows cost:
the frame at hand, the one that is encoded ahead, and the buffers of both libraries. Exit code 1 when the limit was
too low.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import psycopg
from bench_rows import COLUMNS, made

from bollhav_provider import data
from bollhav_provider.intervals import WHOLE
from bollhav_provider.model import Environment, Model, Target
from bollhav_provider.testing.postgres import PostgresServer

ENV = Environment()


def main() -> int:
    """Write, print what it took; exit code 1 when memory ran out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--limit-mb", type=int, default=600)
    parser.add_argument("--frame-rows", type=int, default=50_000)
    parser.add_argument("--dsn", help="an empty database; else a server is started")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bollhav-bench-", ignore_cleanup_errors=True) as name:
        server, dsn = None, options.dsn
        if dsn is None:
            server = PostgresServer(Path(name), settings=("shared_buffers=1GB", "max_wal_size=8GB", "jit=off"))
            dsn = server.start()
        try:
            return measure(dsn, options.rows, options.frame_rows, options.limit_mb)
        finally:
            if server is not None:
                server.destroy()


def measure(dsn: str, rows: int, frame_rows: int, limit_mb: int) -> int:
    """Write the rows under the limit."""
    columns = [column.replace(primary_key=column.name == "id") for column in COLUMNS]
    model = Model(target=Target(schema="bench", name="t", columns=columns, write_mode="upsert"), temporality="timeless")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("SET TimeZone TO 'UTC'")
        data.ensure_target(conn, model, ENV)
        one = made(frame_rows)
        with conn.transaction():  # loads every library that a write of many frames needs
            data.write(conn, model, ENV, WHOLE, iter([one[:1], one[1:2]]))
        before = _status("VmSize")
        resident = _status("VmRSS")
        resource.setrlimit(resource.RLIMIT_AS, ((before + limit_mb * 1024) * 1024,) * 2)
        began = time.perf_counter()
        try:
            with conn.transaction():
                stats = data.write(conn, model, ENV, WHOLE, _frames(one, rows))
        except (MemoryError, OSError) as error:
            print(f"out of memory under {limit_mb} MB: {error}", file=sys.stderr)
            return 1
        seconds = time.perf_counter() - began
    print(
        f"{stats.rows_in:,} rows in {seconds:.1f} s ({stats.rows_in / seconds:,.0f} rows/s), one commit; limit "
        f"{limit_mb} MB of address space beyond the imports, peak {(_status('VmPeak') - before) // 1024} MB, "
        f"resident {(_status('VmHWM') - resident) // 1024} MB"
    )
    return 0


def _frames(one: pl.DataFrame, rows: int) -> Iterator[pl.DataFrame]:
    for first in range(0, rows, one.height):
        ids = pl.int_range(first, min(first + one.height, rows), eager=True).alias("id")
        yield one[: len(ids)].with_columns(ids)


def _status(field: str) -> int:
    """A figure of this process, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field + ":")).split()[1])


if __name__ == "__main__":
    sys.exit(main())
