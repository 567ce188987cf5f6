"""An Airflow DAG file of somebody else's, which follows a model's asset."""

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, PartitionedAssetTimetable

ASSET = Asset("shop.fails", uri="postgres://bollhav/library/shop/fails")

with DAG("follow.commits", schedule=[ASSET]):
    EmptyOperator(task_id="nothing")

with DAG("follow.windows", schedule=PartitionedAssetTimetable(assets=ASSET)):
    EmptyOperator(task_id="nothing")
