"""Names by which the tasks of a run, and those who look at it from outside, find each other. Imports nothing."""

from __future__ import annotations

#: Task and group ids of a model's run.
PREFILL, UNIT, EXECUTE = "prefill", "unit", "execute"
#: XCom key under which a prefill leaves the run's specification for the tasks behind it.
RUN_KEY = "bollhav_run"
#: XCom key under which a task without a prefill before it leaves what it works on, for whoever marks it.
WORK_KEY = "bollhav_work"
#: XCom key of the runs that a run with ``cascade`` started.
CASCADE_KEY = "bollhav_cascade"
#: XCom key of a dry run's plan.
PLAN_KEY = "bollhav_plan"


def prefill_of(execute: str) -> str:
    """Return the id of the prefill that a generated execute task has before it; no other task has one of that id."""
    return f"{execute.removesuffix(f'{UNIT}.{EXECUTE}')}{PREFILL}"
