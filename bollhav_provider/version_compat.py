"""The only file that knows which Airflow is installed.

Everything that has one name on all supported versions comes from ``airflow.providers.common.compat.sdk`` and
is imported there by its users; what differs beyond a name is decided here, once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import Any


def _version() -> tuple[int, int, int]:
    from airflow import __version__
    from packaging.version import Version

    version = Version(__version__)
    return version.major, version.minor, version.micro


AIRFLOW_V_3_0_PLUS: bool = _version() >= (3, 0, 0)
AIRFLOW_V_3_1_PLUS: bool = _version() >= (3, 1, 0)
AIRFLOW_V_3_2_PLUS: bool = _version() >= (3, 2, 0)
AIRFLOW_V_3_3_PLUS: bool = _version() >= (3, 3, 0)

if AIRFLOW_V_3_0_PLUS:

    class TaskInterrupted(KeyboardInterrupt):
        """Airflow asked the task to stop. A KeyboardInterrupt, so that a query in flight is cancelled on its way."""

else:
    from airflow import exceptions as _exceptions

    class TaskInterrupted(KeyboardInterrupt, _exceptions.AirflowTaskTerminated):  # type: ignore[no-redef, misc]
        """Airflow asked the task to stop, as above.

        Airflow 2 takes it for its own way of stopping a task by the second base. With anything else it would forget
        that a person marked the task meanwhile, and try again what they marked failed, or success.
        """


def make_asset(name: str, uri: str) -> Any:
    """Return an Asset; on 2.11 a Dataset, which has no name beside its URI.

    Args:
        name: the asset's name.
        uri: ``postgres://host[:port]/database/schema/table``.
    """
    from airflow.providers.common.compat.sdk import Asset

    if not AIRFLOW_V_3_0_PLUS:
        return Asset(uri=uri)
    if not _PLAIN_URI.fullmatch(uri):
        return Asset(name=name, uri=uri)
    made = Asset(name=name, uri="table")
    object.__setattr__(made, "uri", _with_port(uri))
    return made


#: What Airflow's sanitiser only adds the port to. To do so it loads part of Airflow's web server, which would be a
#: tenth of what a worker needs to read a DAG file.
_PLAIN_URI = re.compile(r"postgres://[a-z0-9][a-z0-9_.-]*(:[1-9][0-9]{0,3}|:[1-5][0-9]{4})?(/[A-Za-z0-9_.%-]+){3}")


def _with_port(uri: str) -> str:
    """Return a plain URI with the port that the PostgreSQL provider, where it is installed, gives to one without."""
    host, slash, path = uri.removeprefix("postgres://").partition("/")
    port = "" if ":" in host or not _has_postgres_provider() else ":5432"
    return f"postgres://{host}{port}{slash}{path}"


@cache
def _has_postgres_provider() -> bool:
    from importlib.util import find_spec

    try:
        return find_spec("airflow.providers.postgres.assets") is not None
    except ImportError:
        return False


def task_colour(colour: str) -> str:
    """Return the colour of an operator's box; on Airflow 3 that of any operator.

    The pages of Airflow 3 show no such colour, and it would be stored with every task of every version of a DAG.
    """
    return "#fff" if AIRFLOW_V_3_0_PLUS else colour


def any_of(assets: Sequence[Any]) -> Any:
    """Return the schedule that starts a run after an event of any of ``assets``."""
    from airflow.providers.common.compat.sdk import AssetAny

    return AssetAny(*assets)


@lru_cache(maxsize=256)
def cron_intervals(cron: str, tz: str, end: datetime | None = None) -> Any:
    """Return the timetable whose data intervals are the windows of ``cron`` in ``tz`` that start before ``end``.

    A bare cron string would not do: Airflow 3 makes it a trigger timetable, whose intervals have no length.
    """
    from bollhav_provider.timetables.contract import ContractTimetable

    return ContractTimetable(cron, tz, end)


def emit_asset_event(context: Mapping[str, Any], asset: Any, extra: dict[str, Any], partitions: Sequence[str]) -> None:
    """Say that ``asset`` changed: with ``extra``, and where the version has them with one partition key a window.

    An event with a key starts DAGs that are scheduled by partitions and no others, and one without a key the others
    alone. So there is one of each kind.

    Args:
        context: the task's context; without outlet events (a bare ``execute({})``) nothing happens.
        asset: one of the task's outlets.
        extra: JSON values.
        partitions: partition keys.
    """
    events = context.get("outlet_events")
    if events is None:
        return
    event = events[asset]
    event.extra = extra
    if partitions and hasattr(event, "add_partitions"):
        event.add_partitions(list(partitions))
        event.partition_keys.add(None)


def generation(ti: Any, retries: int | None) -> int:
    """Return the number of the first try since the task was last cleared; 1 for a task that never was.

    A clear sets ``max_tries`` to the tries done so far plus the task's retries, a retry leaves it alone:
    that is the one difference between the two that a task can see.
    """
    most = getattr(ti, "max_tries", None)
    if most is None or retries is None:
        return 1
    return max(1, int(most) - int(retries) + 1)


def start_once_expanded(task: Any) -> None:
    """Have a task of a mapped group started only once it is expanded, by whatever starts it.

    Every scheduler sees to that by itself. The backfill of Airflow 2 asks the task's own conditions, where it is only
    for mapped tasks, not for those of mapped groups: it starts one without an index, which fails, and never ends.
    """
    if AIRFLOW_V_3_0_PLUS:
        return
    from importlib import import_module

    condition = import_module("airflow.ti_deps.deps.mapped_task_expanded").MappedTaskIsExpanded()
    task.deps = frozenset({*task.deps, condition})


def xcom_access() -> tuple[Any, Any]:
    """Return the class of the metadata's XCom rows, and the function that gives the value of one.

    A deployment's own XCom backend may keep only a reference in the row, and knows what it stands for.
    """
    from airflow.models import xcom

    if AIRFLOW_V_3_0_PLUS:
        from airflow.sdk.bases.xcom import BaseXCom
        from airflow.sdk.execution_time.xcom import XCom

        return xcom.XComModel, xcom.XComModel.deserialize_value if XCom is BaseXCom else XCom.deserialize_value
    return xcom.BaseXCom, xcom.XCom.deserialize_value


def airflow_time_outs() -> tuple[type[BaseException], ...]:
    """Return the exceptions by which Airflow ends a task from outside."""
    from airflow.providers.common.compat.sdk import AirflowTaskTimeout

    return (AirflowTaskTimeout,)


def dag_page(dag_id: str) -> str:
    """Return the address of a DAG's page, as the UI follows it: on Airflow 3 from its own root, wherever that is."""
    return f"dags/{dag_id}" if AIRFLOW_V_3_0_PLUS else f"/dags/{dag_id}/grid"


def mask_secret(secret: str) -> None:
    """Have ``secret`` shown as ``***`` in the logs of tasks; older common-compat packages have no name for it."""
    if AIRFLOW_V_3_0_PLUS:
        from airflow.sdk.log import mask_secret as mask

        mask(secret)
        return
    from importlib import import_module

    import_module("airflow.utils.log.secrets_masker").mask_secret(secret)


async def get_connection_async(conn_id: str) -> Any:
    """Look an Airflow connection up without blocking the event loop."""
    from airflow.providers.common.compat.sdk import BaseHook

    if hasattr(BaseHook, "aget_connection"):
        return await BaseHook.aget_connection(conn_id)
    from asgiref.sync import sync_to_async

    return await sync_to_async(BaseHook.get_connection)(conn_id)


def task_success_event() -> type[Any] | None:
    """Return the trigger event that ends a task in the triggerer, without a worker slot; None where there is none."""
    try:
        from airflow.triggers.base import TaskSuccessEvent
    except ImportError:
        return None
    return TaskSuccessEvent


def seconds(value: float | timedelta) -> float:
    """Return a duration in seconds; operators take either on the newer versions."""
    return value.total_seconds() if isinstance(value, timedelta) else float(value)
