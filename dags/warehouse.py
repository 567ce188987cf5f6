"""An Airflow DAG file: one DAG for each model under models/."""

from bollhav_provider import build_dags

build_dags("models", into=globals())
