"""Defer the gates of a deployment without a worker process each, for a benchmark that needs a thousand of them.

    python benchmarks/waiting_defer.py DAG_FILE DAG_ID TASK_ID

A worker process costs a second and more of its start, whatever its task does: half an hour for a thousand gates before
anything can be measured. This takes the task instances that are ``scheduled`` and whose pool gives them no slot, calls
each one's own ``execute`` (a gate's with its units from the run's XCom), and writes to the metadata what Airflow's API
writes when a worker says that its task defers. Triggerer and scheduler do not know the difference.
"""

from __future__ import annotations

import copy
import json
import runpy
import sys
from typing import Any


def main(dag_file: str, dag_id: str, task_id: str) -> int:
    """Defer what is scheduled; returns the exit code. Prints how many there were."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.trigger import Trigger
    from airflow.sdk.serde import serialize
    from airflow.sdk.timezone import utcnow
    from airflow.utils.session import create_session
    from airflow.utils.state import TaskInstanceState
    from sqlalchemy import select

    task = loaded(dag_file)[dag_id].get_task(task_id)
    mine = select(TaskInstance).where(
        TaskInstance.dag_id == dag_id,
        TaskInstance.task_id == task_id,
        TaskInstance.state == TaskInstanceState.SCHEDULED,
    )
    with create_session() as session:
        found = list(session.scalars(mine))
        is_gate = hasattr(task, "units")
        runs = {ti.run_id for ti in found} if is_gate else ()
        units = {run_id: units_of_run(session, dag_id, run_id) for run_id in runs}
        for ti in found:
            gate = copy.copy(task)
            if is_gate:
                gate.units = units[ti.run_id][ti.map_index]
            deferred = deferral(gate)
            path, arguments = deferred.trigger.serialize()
            trigger = Trigger(classpath=path, kwargs={})
            trigger.encrypted_kwargs = json.dumps(serialize(arguments))
            session.add(trigger)
            session.flush()
            ti.state, ti.trigger_id = TaskInstanceState.DEFERRED, trigger.id
            ti.next_method, ti.next_kwargs = deferred.method_name, serialize(deferred.kwargs or {})
            ti.start_date = utcnow()
            if is_gate:
                ti.trigger_timeout = ti.start_date + deferred.timeout
                ti._rendered_map_index = gate.label
            session.commit()
    print(len(found))
    return 0


def deferral(gate: Any) -> Any:
    """Return how a gate defers."""
    from airflow.providers.common.compat.sdk import TaskDeferred

    try:
        gate.execute({})
    except TaskDeferred as deferred:
        return deferred
    raise AssertionError(f"{gate.task_id} {gate.label}: the gate is open")


def units_of_run(session: Any, dag_id: str, run_id: str) -> list[Any]:
    """Return what the run's ``prefill`` returned: the units of each gate."""
    from airflow.models.xcom import XComModel

    query = XComModel.get_many(run_id=run_id, key="return_value", task_ids="prefill", dag_ids=dag_id)
    found: list[Any] = XComModel.deserialize_value(session.scalars(query).one())
    return found


def loaded(dag_file: str) -> dict[str, Any]:
    """Return the DAGs of a file by id."""
    from airflow.sdk import DAG

    return {value.dag_id: value for value in runpy.run_path(dag_file).values() if isinstance(value, DAG)}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
