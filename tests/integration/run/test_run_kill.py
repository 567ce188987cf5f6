"""A worker that is killed at any instant leaves all of its unit or none of it, and another worker finishes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from run_support import BEGIN, KILLED, ROWS, House, hours, killed_model

from bollhav_provider.exceptions import LeaseLostError
from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.model import Model
from bollhav_provider.run import checkpoints, execute_unit, execute_units

#: Processes that make workers at a time.
_AT_A_TIME = 3
HERE = Path(__file__).parent
TOGETHER = (
    checkpoints.AFTER_CLAIM,
    checkpoints.DURING_WRITE,
    checkpoints.AFTER_WRITE,
    checkpoints.AFTER_COMMIT,
)
APART = (*TOGETHER, checkpoints.BETWEEN_COMMITS)


@pytest.fixture
def other_db(pg_dsn: str) -> Iterator[str]:
    """DSN of a second empty database."""
    name = f"t_{uuid4().hex}"
    with psycopg.connect(pg_dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {} STRATEGY FILE_COPY").format(sql.Identifier(name)))
        yield psycopg.conninfo.make_conninfo(pg_dsn, dbname=name)
        conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def kill(
    house: House, model: Model, kills: list[dict[str, Any]], lives: list[dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Let workers be killed as ``kills`` says; return what each had reached.

    Workers wait for the server most of their short lives, so that several processes make them at a time; each of
    those first measures some of ``lives``.
    """
    parts = min(len(lives or ()), _AT_A_TIME) or 1
    jobs = [(lives or [])[part::parts] + kills[part::parts] for part in range(parts)]
    started = [_start(house, model, job) for job in jobs]
    told: list[list[dict[str, Any]]] = []
    for process in started:
        output, error = process.communicate(timeout=240)
        assert process.returncode == 0, error
        told.append([json.loads(line) for line in output.splitlines()])
    found = [line for lines in told for line in lines]
    asked = [json.dumps(one["unit"]) for one in kills]
    return sorted(
        (one for one in found if json.dumps(one["unit"]) in set(asked)),
        key=lambda one: asked.index(json.dumps(one["unit"])),
    )


def _start(house: House, model: Model, kills: list[dict[str, Any]]) -> subprocess.Popen[str]:
    job = {
        "dsn": house.dsn,
        "environ": house.environ,
        "target_dsn_env_var": model.target.dsn_env_var,
        "kills": kills,
    }
    process = subprocess.Popen(
        [sys.executable, str(HERE / "kill_worker.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])},
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(job))
    process.stdin.close()
    process.stdin = None
    return process


def finish(house: House, model: Model, window: Interval) -> None:
    """Let another worker do what is left, once the leases of the dead have ended."""
    deadline = time.monotonic() + 10 * KILLED.total_seconds()
    while True:
        prepared = house.prepare(model, window)
        execute_units(house.connections, house.graph(), model, prepared.units, house.spec(window))
        waiting = [status for status in house.states(model)[: window_hours(window)] if status != "applied"]
        if not waiting:
            return
        assert time.monotonic() < deadline, Counter(waiting)
        time.sleep(0.2)


def window_hours(window: Interval) -> int:
    return int(window.duration.total_seconds() // 3600)


def rows_by_hour(dsn: str) -> Counter[tuple[int, int]]:
    """How many hours have how many rows and how many different rows."""
    with psycopg.connect(dsn) as conn:
        found = conn.execute(
            "SELECT count(*), count(DISTINCT number) FROM shop.clicks GROUP BY at"
        ).fetchall()
    return Counter((rows, different) for rows, different in found)


def test_killed_at_every_named_point(house: Callable[..., House]) -> None:
    model = killed_model()
    h = house(model)
    units = hours(0, 20)
    window = Interval(BEGIN, units[-1].until)  # type: ignore[arg-type]
    h.prepare(model, window)
    points = [point for point in TOGETHER for _ in range(5)]
    killed = kill(
        h, model, [{"unit": u.to_json(), "point": point} for u, point in zip(units, points, strict=True)]
    )
    assert [one["reached"][-1] for one in killed] == points
    assert {one["status"] for one in killed} == {9}
    assert h.states(model)[:20] == ["running"] * 15 + ["applied"] * 5
    assert rows_by_hour(h.dsn) == Counter({(ROWS, ROWS): 5})
    finish(h, model, window)
    assert rows_by_hour(h.dsn) == Counter({(ROWS, ROWS): 20})
    assert h.states(model, "attempt")[:20] == [2] * 15 + [1] * 5


def test_killed_at_two_hundred_random_instants(house: Callable[..., House]) -> None:
    model = killed_model()
    h = house(model)
    units = hours(0, 200)
    window = Interval(BEGIN, units[-1].until)  # type: ignore[arg-type]
    h.prepare(model, window)
    chance = random.Random(20240101)
    whole = [{"unit": u.to_json()} for u in hours(200, 9)]
    killed = kill(
        h, model, [{"unit": u.to_json(), "fraction": chance.uniform(0, 1.1)} for u in units], whole
    )
    assert len(killed) == 200
    last = Counter(one["reached"][-1] if one["reached"] else "start" for one in killed)
    assert len(last) >= 4, last  # the instants really fall into different parts of a unit's life
    committed = [s == "applied" for s in h.states(model)[:200]]
    present = rows_by_hour(h.dsn)
    assert present == Counter({(ROWS, ROWS): sum(committed) + len(whole)})
    finish(h, model, window)
    assert rows_by_hour(h.dsn) == Counter({(ROWS, ROWS): 200 + len(whole)})
    assert set(h.states(model)[:200]) == {"applied"}


def test_killed_with_target_and_state_in_two_databases(house: Callable[..., House], other_db: str) -> None:
    model = killed_model("WAREHOUSE_DSN")
    h = house(model, WAREHOUSE_DSN=other_db)
    chance = random.Random(7)
    units = hours(0, 40)
    window = Interval(BEGIN, units[-1].until)  # type: ignore[arg-type]
    h.prepare(model, window)
    points = [{"unit": u.to_json(), "point": APART[i % len(APART)]} for i, u in enumerate(units[:15])]
    whole = [{"unit": u.to_json()} for u in units[15:18]]
    instants = [{"unit": u.to_json(), "fraction": chance.uniform(0, 1.1)} for u in units[18:]]
    killed = kill(h, model, points + instants, whole)
    assert len(killed) == 37
    assert all(one["reached"][-1] == asked["point"] for one, asked in zip(killed, points, strict=False))
    finish(h, model, window)
    assert rows_by_hour(other_db) == Counter({(ROWS, ROWS): 40})
    assert set(h.states(model)[:40]) == {"applied"}


def test_between_two_commits_a_run_that_invalidates_writes_again(
    house: Callable[..., House], other_db: str
) -> None:
    model = killed_model("WAREHOUSE_DSN")
    h = house(model, WAREHOUSE_DSN=other_db)
    (unit,) = hours(0, 1)
    h.prepare(model, unit.window)
    kill(h, model, [{"unit": unit.to_json(), "point": checkpoints.BETWEEN_COMMITS}])
    assert rows_by_hour(other_db) == Counter({(ROWS, ROWS): 1})
    time.sleep(KILLED.total_seconds() + 0.1)
    (outcome,) = h.run(model, unit.window, mode="bulldozer")
    assert outcome.applied
    # An APPEND that is asked for a second time appends a second time.
    assert rows_by_hour(other_db) == Counter({(2 * ROWS, ROWS): 1})


def test_a_zombie_commits_nothing_after_its_lease_expired(house: Callable[..., House]) -> None:
    model = killed_model()
    h = house(model)
    unit: Unit = hours(0, 1)[0]
    h.prepare(model, unit.window)
    woken: list[str] = []

    def sleep_once(point: str, _: object) -> None:
        if point == checkpoints.DURING_WRITE and not woken:
            woken.append(point)
            expire = "UPDATE z_bollhav.{} SET lease_until = now() - interval '1s' WHERE status = 'running'"
            # as if this worker had slept past its lease
            with psycopg.connect(h.dsn, autocommit=True) as conn:
                conn.execute(sql.SQL(expire).format(sql.Identifier(model.state_table)))

    end = checkpoints.subscribe(sleep_once)
    try:
        with pytest.raises(LeaseLostError, match="nothing of this attempt is committed"):
            execute_unit(h.connections, h.graph(), model, unit, h.spec())
    finally:
        end()
    assert rows_by_hour(h.dsn) == Counter()
    finish(h, model, unit.window)  # type: ignore[arg-type]
    assert rows_by_hour(h.dsn) == Counter({(ROWS, ROWS): 1})
