"""An Airflow DAG file: the models that the test of what people do in Airflow 2 works with."""

from datetime import UTC, datetime, timedelta

from airflow_models import windowed

from bollhav_provider import AirflowOptions, Source, build_dags

ONE = "SELECT %(since)s::timestamptz AS at, {n} AS n {source} WHERE %(since)s < %(until)s"
SECONDS = "(SELECT coalesce(max(seconds), 0) FROM control.sleep WHERE day = %(since)s::timestamptz)"
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)

orders = windowed("shop.orders")
report = windowed("mart.report", upstream=(Source("shop.orders", contract="exact"),))
# Three windows a task; sleeps in those that the table names.
slow = windowed("shop.slow", units_per_task=3).replace(query=ONE.format(n=1, source=f"FROM pg_sleep({SECONDS})"))
fails = windowed("shop.fails", airflow=AirflowOptions(retries=0)).replace(
    query=ONE.format(n="1 / (SELECT n FROM control.divisor)", source="")
)
# The schedule has a window of this one to do: yesterday's.
recent = windowed("shop.recent", begin=(TODAY - timedelta(days=3)).isoformat(), end=None).replace(
    query=ONE.format(n="control.load(%(since)s)", source="")
)

build_dags(
    [orders, report, slow, fails, recent],
    into=globals(),
    default_args={"retries": 2, "retry_delay": timedelta(seconds=1)},
)
