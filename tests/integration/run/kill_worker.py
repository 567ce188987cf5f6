"""A process that makes worker processes and kills them; run by the kill tests, never imported by them.

It imports everything once and then forks one worker for every unit, which is a real process with connections
of its own. A worker kills itself at a named point of its unit's life, or is killed at a given fraction of the
time that a whole unit takes here and now, or is left alive. One line of JSON is printed for each: the unit,
and the points that it reached.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import statistics
import sys
import time
from typing import Any

from run_support import KILLED, House, killed_model

from bollhav_provider.intervals import Unit
from bollhav_provider.run import checkpoints
from bollhav_provider.run.worker import Worker

#: Imported here, once, and only there used: what a worker needs for its first rows.
NEEDED = ("polars", "pyarrow", "pgpq", "bollhav_provider.data.writer", "bollhav_provider.data.checks")


def main() -> None:
    for name in NEEDED:
        importlib.import_module(name)
    job = json.loads(sys.stdin.read())
    model = killed_model(job["target_dsn_env_var"])
    house = House(job["dsn"], [model], job["environ"])
    spec = house.spec(lease=KILLED)
    lives: list[float] = []
    for kill in job["kills"]:
        unit = Unit.from_json(kill["unit"])
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _work(house, model, unit, spec, kill.get("point"), writer)
        os.close(writer)
        os.read(reader, 1)  # the worker has its connection; from here its life is measured
        started = time.monotonic()
        if "fraction" in kill:
            time.sleep(kill["fraction"] * statistics.median(lives))
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if "fraction" not in kill and "point" not in kill:
            lives.append(time.monotonic() - started)
        with os.fdopen(reader, "rb") as told:
            reached = told.read().decode().split()
        print(json.dumps({"unit": kill["unit"], "reached": reached, "status": status}), flush=True)


def _work(house: House, model: Any, unit: Unit, spec: Any, point: str | None, writer: int) -> None:
    def listen(reached: str, _: object) -> None:
        os.write(writer, f"{reached} ".encode())
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        checkpoints.subscribe(listen)
        with Worker(house.connections, house.graph(), model, spec) as worker:
            assert worker._lanes.state is not None  # connected before the clock starts
            os.write(writer, b" ")
            worker.execute(unit)
        os.write(writer, b"done ")
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
