"""What the scheduler and the DAG processor import for the processes that they fork."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

#: Prints what is loaded after a task's start and after that of a process which forks tasks, and that one's threads.
PROGRAM = """
import json, sys
from airflow.jobs.job import Job
from airflow.listeners.listener import get_listener_manager
from bollhav_provider.model import Model

class TaskRunnerMarker:
    pass

def loaded():
    return "psycopg" in sys.modules, "polars" in sys.modules, Model.__pydantic_complete__

get_listener_manager().hook.on_starting(component=TaskRunnerMarker())
after_task = loaded()
Job()
threads = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("Threads"))
print(json.dumps([after_task, loaded(), int(threads)]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a process's threads are read from /proc")
def test_a_process_that_forks_tasks_has_loaded_what_they_need_and_started_no_thread(airflow_db: None) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    after_task, after_job, threads = json.loads(done.stdout.splitlines()[-1])
    assert after_task == [False, False, False]
    assert after_job == [True, False, True], done.stderr
    assert threads == 1
