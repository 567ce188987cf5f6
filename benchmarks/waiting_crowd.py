"""Many tasks that a triggerer wakes in one instant: gates, and for comparison as many triggers that are not gates.

Whatever they are, Airflow writes lines about each trigger that ends into a pipe, and its supervisor reads that pipe
between the database work that it does for each of them. What of it stops the event loop is the question here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from waiting_scene import CROWD, MOMENT, Scene

#: Alarms by DAG, and the last part of their triggers' name.
ALARMS = {"plain_alarms": "waiting_probe.Alarm", "airflows_alarms": "DateTimeTrigger"}
_ALARM = "each.alarm"
#: Seconds in which the supervisor reads what is left of the lines.
_QUIET = 10.0


def crowds(made: Scene) -> dict[str, Any]:
    """Wake a crowd of each kind in one instant; returns for each how long it took and how late the loop was."""
    found: dict[str, Any] = {"size": CROWD}
    for dag_id, kind in ALARMS.items():
        moment = alarmed(made, dag_id, kind)
        found[dag_id] = seen_off(made, moment, lambda dag_id=dag_id: ended(made, dag_id))
    days, before = made.waiting()[-CROWD:], made.gates("success")
    found["gates"] = seen_off(made, made.open_at_once(days), lambda: made.gates("success") - before)
    return found


def alarmed(made: Scene, dag_id: str, kind: str) -> float:
    """Set all alarms of a DAG to one moment, which is returned once all are in the triggerer.

    Raises:
        AssertionError: the moment has come before that.
    """
    made.slots("gates", 0)
    made.running.airflow.trigger(dag_id)
    query = "SELECT count(*) FROM task_instance WHERE dag_id = %s AND task_id = %s AND state = 'scheduled'"
    made.until(lambda: made.one(query, dag_id, _ALARM) >= CROWD, f"the alarms of {dag_id} are scheduled")
    moment = time.time() + 45 + CROWD / 10
    made.defer(dag_id, _ALARM, **{MOMENT: str(moment)})
    made.until(lambda: made.triggers(kind) >= CROWD, "the triggerer has the alarms")
    assert time.time() < moment, "the alarms were to ring before they were set"
    return moment


def ended(made: Scene, dag_id: str) -> int:
    """Return how many alarms of a DAG have ended their tasks."""
    query = "SELECT count(*) FROM task_instance WHERE dag_id = %s AND task_id = %s AND state = 'success'"
    found: int = made.one(query, dag_id, _ALARM)
    return found


def seen_off(made: Scene, moment: float, count: Callable[[], int]) -> dict[str, Any]:
    """Return the seconds from a moment until a crowd's tasks have ended, and how late the loop was from then on."""
    time.sleep(max(0.0, moment - time.time()))
    made.until(lambda: count() >= CROWD, "the crowd has ended", 300)
    took = time.time() - moment
    time.sleep(_QUIET)
    return {
        "seconds": took,
        "worst_lag": max(made.lag(moment)),
        "idle_worst_lag": max(made.lag(moment, idle=True)),
    }
