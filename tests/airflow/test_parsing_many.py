"""A deployment of hundreds of models, as the DAG processor meets it: cold, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

#: Seconds of the processor's own time, which other processes on the machine do not make much longer.
LONGEST = 2.0
MODELS = 500

ONE = """
{name} = Model(
    target=Target(schema="shop_{file}", name="{name}", columns=[Column("at", "timestamptz", nullable=False,
                  partition_on=True), Column("n", "integer")], write_mode="recreate_partition"),
    contract=Contract(begin="2024-01-01T00:00Z"), batching=Batch(time=TimeChunking(chunk="@daily")), state=State(),
    upstream=[{upstream}], query="SELECT at, n FROM {table} WHERE at >= %(since)s AND at < %(until)s")
"""

BUILD = """
import json, logging, sys, time
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
import airflow.sdk  # what the processor has loaded before it reads a file
from airflow.sdk.bases.operator import BaseOperator
started = time.process_time()
from bollhav_provider import build_dags
dags = build_dags({folder!r})
took = time.process_time() - started
with open({answer!r}, "w") as file:
    json.dump({{"took": took, "dags": len(dags)}}, file)
"""


def write_models(folder: Path) -> None:
    folder.mkdir()
    for file in range(50):
        text = "from bollhav_provider import *\n"
        for number in range(MODELS // 50):
            behind = number > 0
            source = f"Source('shop_{file}.m0', type=SourceModel(), contract=UpstreamContract.EXACT)" if behind else ""
            table = "{m0}" if behind else "(SELECT now() AS at, 1 AS n) x"
            text += ONE.format(name=f"m{number}", file=file, upstream=source, table=table)
        (folder / f"models_{file}.py").write_text(text)


def test_five_hundred_models_are_read_cold_in_time_and_in_silence(tmp_path: Path) -> None:
    write_models(tmp_path / "models")
    answer = tmp_path / "answer.json"
    script = textwrap.dedent(BUILD).format(folder=str(tmp_path / "models"), answer=str(answer))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(answer.read_text())
    assert found["dags"] == MODELS
    assert found["took"] < LONGEST
    assert "bollhav_provider" not in done.stdout + done.stderr


def test_one_file_that_cannot_be_read_costs_its_own_models_alone(tmp_path: Path) -> None:
    from bollhav_provider.dag_factory import build_dags

    write_models(tmp_path / "models")
    (tmp_path / "models" / "models_7.py").write_text("import no_such_module_anywhere\n")
    dags = build_dags(tmp_path / "models")
    assert len([name for name in dags if name.startswith("shop_")]) == MODELS - MODELS // 50
