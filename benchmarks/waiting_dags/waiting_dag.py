"""An Airflow DAG file: the waiting benchmark's models, an empty DAG, and one that looks at the triggerer's loop."""

from airflow.sdk import DAG, task
from waiting_models import audit, orders, report
from waiting_probe import LoopProbe

from bollhav_provider import build_dags

build_dags([orders, report, audit], into=globals(), sensor_args={"pool": "gates"}, execute_args={"pool": "after"})

with DAG("empty", schedule=None):

    @task
    def start() -> None:
        """Do nothing: what is measured is when it starts."""

    start()

with DAG("loop", schedule=None):
    LoopProbe(task_id="probe")
