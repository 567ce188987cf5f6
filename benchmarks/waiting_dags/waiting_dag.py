"""An Airflow DAG file: the waiting benchmark's models, an empty DAG, one that looks at the triggerer's loop, alarms."""

from airflow.sdk import DAG, task, task_group
from waiting_models import audit, orders, report
from waiting_probe import CROWD, AlarmClock, LoopProbe

from bollhav_provider import build_dags

build_dags([orders, report, audit], into=globals(), sensor_args={"pool": "gates"}, execute_args={"pool": "after"})

with DAG("empty", schedule=None):

    @task
    def start() -> None:
        """Do nothing: what is measured is when it starts."""

    start()

with DAG("loop", schedule=None):
    LoopProbe(task_id="probe")


def alarms(dag_id: str, plain: bool) -> DAG:
    """Return a DAG of as many tasks as ring at one moment."""
    with DAG(dag_id, schedule=None) as dag:

        @task_group
        def each(number: int) -> None:
            AlarmClock(task_id="alarm", plain=plain, number=number, pool="gates")

        each.expand(number=list(range(CROWD)))
    return dag


plain_alarms, airflows_alarms = alarms("plain_alarms", plain=True), alarms("airflows_alarms", plain=False)
