"""What a write of few rows costs a process: not the libraries that pay for themselves with many."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, psycopg, polars as pl
from bollhav_provider import data
from bollhav_provider.intervals import Unit
from bollhav_provider.model import Column, Environment, Model, Target

model = Model(temporality="timeless", target=Target(schema="s", name="t", write_mode="append",
                                                     columns=[Column("n", "bigint"), Column("t", "text")]))
one = pl.DataFrame({"n": [1], "t": ["x"]})
with psycopg.connect(sys.argv[1], autocommit=True) as conn:
    data.ensure_target(conn, model, Environment())
    for payload in (one, [{"n": 2, "t": "y"}], iter([one, one])):
        with conn.transaction():
            data.write(conn, model, Environment(), Unit(None), payload)
        print("pyarrow" in sys.modules, conn.execute("SELECT count(*) FROM s.t").fetchone()[0])
"""


def test_only_a_write_that_may_be_large_loads_pyarrow(db: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, db], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["False 1", "False 2", "True 4"], done.stderr
