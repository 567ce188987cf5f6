"""What waiting costs in a real deployment, and how soon it ends.

    python benchmarks/waiting.py [--gates 10,100,1000] [--seconds 90] [--rounds 15] [--json FILE]

A scheduler, an api-server and one triggerer; a model whose units wait for another model's, a deferred task each. The
first gates are started by Airflow's workers, the rest are deferred by one process as a worker does
(``waiting_defer.py``); the triggerer does not know the difference. The DAG of those beyond the first hundred is paused
once they wait: its gates go on waiting, and the scheduler is not measured. Five questions:

* how many statements a minute the library's server is asked while 10, 100 and 1,000 gates wait and nothing happens, as
  the server counts them: not proportional to the gates;
* how late the triggerer's event loop is meanwhile, seen by a trigger that sleeps (under 200 ms), beside a loop that has
  nothing else to do on the same machine at the same time;
* how long it takes from the upstream's COMMIT to the start of the task behind the gate, beside an empty DAG's own task,
  from its trigger to its start, the two taking turns: medians within 2 s of each other;
* how late the loop is when 300 of the gates open in one commit, beside 300 triggers that do nothing but sleep and wake
  at one moment, and 300 of Airflow's own for a moment (``waiting_crowd.py``): under 200 ms, or no later than with those
  that do nothing;
* whether all wake when the triggerer is killed with SIGKILL, half of the upstreams commit, it is started again, and the
  other half commits.

Exit code 1 where one of these does not hold. How late the loop is after the restart is shown and not judged: Airflow
writes a line about each trigger that starts from within the loop, into a pipe that its supervisor reads between its
work for them, and the loop stands still while the pipe is full, whatever the triggers are.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from waiting_crowd import CROWD, crowds
from waiting_scene import AFTER, Scene, scene

from tools.processes import orderly_end

MAX_LAG, MAX_LATER = 0.2, 2.0
#: Statements a minute with the most gates against the fewest: what chance adds, where nothing depends on them.
MAX_GROWTH = 1.5


def main() -> int:
    """Measure and print; exit code 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gates", default="10,100,1000", help="how many wait, fewest first")
    parser.add_argument("--seconds", type=float, default=90, help="how long statements are counted at each number")
    parser.add_argument("--rounds", type=int, default=15, help="gates that are opened one by one")
    parser.add_argument("--poll-interval", type=float, default=15, help="the provider's default")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    sizes = sorted(int(size) for size in options.gates.split(","))
    with orderly_end(), scene(capacity=sizes[-1] + CROWD + 100, poll_interval=options.poll_interval) as made:
        figures: dict[str, Any] = {"waiting": [], "rounds": options.rounds}
        for n, size in enumerate(sizes):
            took = made.wait_with(size, workers=n == 0)
            say(f"{size} gates wait after {took:.0f} s")
            figures["waiting"].append(quiet(made, size, options.seconds, options.poll_interval))
        figures["wake"] = woken(made, options.rounds)
        if sizes[-1] >= 2 * CROWD:
            figures["crowds"] = crowds(made)
        figures["killed"] = killed(made)
        figures["watchdog"] = blocked(made)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return report(figures)


def quiet(made: Scene, gates: int, seconds: float, poll_interval: float) -> dict[str, Any]:
    """Return what is asked and how late the loop is while gates wait and nothing happens."""
    time.sleep(poll_interval * 1.2)  # the first look changes the rows
    began, before = time.time(), made.statements()
    connections = 0
    while (left := began + seconds - time.time()) > 0:
        time.sleep(min(left, 1.0))
        connections = max(connections, made.connections())
    asked, took = made.statements() - before, time.time() - began
    lags, idle = made.lag(began), made.lag(began, idle=True)
    return {
        "gates": gates,
        "statements_a_minute": asked * 60 / took,
        "connections": connections,
        "worst_lag": max(lags),
        "median_lag": statistics.median(lags),
        "idle_worst_lag": max(idle),
        "idle_median_lag": statistics.median(idle),
    }


def woken(made: Scene, rounds: int) -> dict[str, Any]:
    """Return seconds from commit to start behind a gate, and from trigger to start of an empty DAG, in turns."""
    gate, empty, began = [], [], time.time()
    for at in spread(made, rounds):
        (committed,) = made.commit([at])
        made.until(partial(ended, made, AFTER, *made.where[at]), f"the task of day {at} ends")
        gate.append((made.started(at) or 0.0) - committed)
        run_id = made.running.airflow.trigger("empty")
        made.until(partial(ended, made, "start", "empty", run_id, -1), "the empty task ends")
        query = "SELECT extract(epoch FROM t.start_date - r.queued_at)::float8 FROM task_instance t "
        join = "JOIN dag_run r USING (dag_id, run_id) WHERE dag_id = 'empty' AND run_id = %s"
        empty.append(made.one(query + join, run_id))
    return {
        "gate": gate,
        "empty": empty,
        "worst_lag": max(made.lag(began)),
        "idle_worst_lag": max(made.lag(began, idle=True)),
    }


def spread(made: Scene, rounds: int) -> list[int]:
    """Return days of gates that wait and whose DAG goes on, evenly over all of them."""
    days = [at for at, (dag_id, _, _) in sorted(made.where.items()) if dag_id == "mart.report"]
    return days[:: max(1, len(days) // rounds)][:rounds]


def ended(made: Scene, task_id: str, dag_id: str, run_id: str, index: int) -> bool:
    """Say whether a task has ended."""
    query = "SELECT state FROM task_instance WHERE dag_id = %s AND run_id = %s AND task_id = %s AND map_index = %s"
    return made.one(query, dag_id, run_id, task_id, index) in ("success", "failed")


def killed(made: Scene) -> dict[str, Any]:
    """Kill the triggerer, commit half, start it again, commit the rest; return how many gates woke of how many."""
    open_before = made.gates("success")
    left = made.waiting()
    made.slots("after", 0)  # what comes behind a gate would take the machine from the waking
    made.kill_triggerer()
    say(f"triggerer killed while {made.gates('deferred')} gates wait")
    half = len(left) // 2
    made.commit(left[:half])
    assert made.gates("success") == open_before
    began = time.time()
    made.running.restart("triggerer")
    made.until(lambda: made.gates("success") > open_before, "the first gate wakes after the restart", 240)
    first = time.time() - began
    made.commit(left[half:])
    committed = time.time()
    every = open_before + len(left)
    made.until(lambda: made.gates("success") == every or made.gates("failed"), "all wake", 600)
    return {
        "gates": len(left),
        "woke": made.gates("success") - open_before,
        "seconds_to_the_first": first,
        "seconds_after_the_last_commit": time.time() - committed,
        "worst_lag": max(made.lag(began), default=0.0),
        "idle_worst_lag": max(made.lag(began, idle=True)),
    }


def blocked(made: Scene) -> int:
    """Return how often Airflow's own watchdog found the loop blocked for more than 200 ms."""
    return (made.running.logs / "triggerer.log").read_text(errors="replace").count("async thread was blocked")


def report(figures: dict[str, Any]) -> int:
    """Print the tables; returns 1 when a promise is broken."""
    missed = 0

    def judged(bad: bool) -> str:
        nonlocal missed
        missed += bad
        return "  MISSED" if bad else ""

    levels = figures["waiting"]
    fewest, most = levels[0], levels[-1]
    print(f"{'gates':>8}{'statements/min':>16}{'connections':>13}{'lag: worst':>14}{'median':>10}{'idle worst':>12}"
          f"{'idle median':>13}")  # fmt: skip
    for at in levels:
        lags = (at["worst_lag"], at["median_lag"], at["idle_worst_lag"], at["idle_median_lag"])
        worst, median, idle_worst, idle_median = (f"{lag * 1e3:.0f} ms" for lag in lags)
        print(f"{at['gates']:>8}{at['statements_a_minute']:>16.1f}{at['connections']:>13}{worst:>14}{median:>10}"
              f"{idle_worst:>12}{idle_median:>13}{judged(late(at) or at['connections'] > 1)}")  # fmt: skip
    growth = most["statements_a_minute"] / max(fewest["statements_a_minute"], 1.0)
    print(f"statements a minute with {most['gates']} gates: {growth:.2f}x those with {fewest['gates']}"
          f"{judged(growth > MAX_GROWTH)}")  # fmt: skip
    wake = figures["wake"]
    gate, empty = statistics.median(wake["gate"]), statistics.median(wake["empty"])
    print(f"from commit to the task behind the gate: {gate:.2f} s ({span(wake['gate'])}); an empty DAG's task: "
          f"{empty:.2f} s ({span(wake['empty'])}); later by {gate - empty:.2f} s, {gate / empty:.2f}x"
          f"{judged(gate - empty > MAX_LATER)}")  # fmt: skip
    print(f"  worst lag meanwhile {wake['worst_lag'] * 1e3:.0f} ms, idle loop {wake['idle_worst_lag'] * 1e3:.0f} ms"
          f"{judged(late(wake))}")  # fmt: skip
    if "crowds" in figures:
        report_crowds(figures["crowds"], judged)
    dead = figures["killed"]
    print(f"triggerer killed: {dead['woke']} of {dead['gates']} woke{judged(dead['woke'] != dead['gates'])}, the first "
          f"{dead['seconds_to_the_first']:.0f} s after the restart, the last "
          f"{dead['seconds_after_the_last_commit']:.0f} s after the last commit; worst lag "
          f"{dead['worst_lag'] * 1e3:.0f} ms, idle loop {dead['idle_worst_lag'] * 1e3:.0f} ms")  # fmt: skip
    print(f"Airflow's watchdog (200 ms) in all that time: {figures['watchdog']} times")
    return 1 if missed else 0


def report_crowds(found: dict[str, Any], judged: Callable[[bool], str]) -> None:
    """Print what crowds of each kind did to the loop."""
    plain = found["plain_alarms"]["worst_lag"]
    told = {
        "gates": "gates that one commit opened",
        "plain_alarms": "triggers that only sleep",
        "airflows_alarms": "Airflow's DateTimeTriggers",
    }
    print(f"{found['size']} tasks woken in one instant:")
    for kind, name in told.items():
        at = found[kind]
        bad = kind == "gates" and late(at) and at["worst_lag"] > plain
        print(f"  {name}: all ended after {at['seconds']:.1f} s; worst lag {at['worst_lag'] * 1e3:.0f} ms, "
              f"{at['worst_lag'] / plain:.2f}x that of those that only sleep, idle loop "
              f"{at['idle_worst_lag'] * 1e3:.0f} ms{judged(bad)}")  # fmt: skip


def late(found: dict[str, Any]) -> bool:
    """Say whether the loop was late by more than is allowed, and not because the whole machine was."""
    return bool(found["worst_lag"] > max(MAX_LAG, 2 * found["idle_worst_lag"]))


def span(values: list[float]) -> str:
    """Return the least and the most."""
    return f"{min(values):.2f} to {max(values):.2f}"


def say(text: str) -> None:
    """Tell what is being done."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
