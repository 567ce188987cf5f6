"""What building DAGs leaves alone in the process that parses them."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from airflow_models import gated, windowed
from test_factory import serialised

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.model import UpstreamContract
from bollhav_provider.version_compat import AIRFLOW_V_3_0_PLUS, make_asset


@pytest.fixture
def collector() -> Iterator[None]:
    yield
    gc.enable()


def test_the_garbage_collector_runs_again_after_a_build(collector: None) -> None:
    build_dags([windowed("shop.orders")])
    assert gc.isenabled()
    with pytest.raises(ConfigurationError):
        build_dags([windowed("shop.orders")], group_by="colour")
    assert gc.isenabled()


def test_a_garbage_collector_that_somebody_stopped_stays_stopped(collector: None) -> None:
    gc.disable()
    build_dags([windowed("shop.orders")])
    assert not gc.isenabled()


def test_what_a_dag_is_stored_as_holds_nothing_of_other_models() -> None:
    orders = windowed("shop.orders")
    report = windowed("mart.report", upstream=(gated("shop.orders", UpstreamContract.EXACT),))
    others = [windowed(f"shop.other_{n}") for n in range(20)]
    alone, among = serialised(build_dags([orders, report])), serialised(build_dags([orders, *others, report]))
    assert alone["mart.report"] == among["mart.report"]
    assert alone["shop.orders"] == among["shop.orders"]
    assert len(alone["mart.report"]) < 6_000


@pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="Airflow 2 knows an asset by its URI alone")
@pytest.mark.parametrize("host", ["bollhav", "db.example.org:5433", "DB", "reader@db", "10.0.0.7:5432", "[::1]:5432"])
@pytest.mark.parametrize("table", ["shop/orders", "Shop/a%2Fb%20c", "shop/%C3%B6l"])
def test_an_asset_has_the_uri_that_airflow_would_give_it(host: str, table: str) -> None:
    from airflow.providers.common.compat.sdk import Asset

    uri = f"postgres://{host}/library/{table}"
    assert make_asset("shop.orders", uri) == Asset(name="shop.orders", uri=uri)


@pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="Airflow 2 knows an asset by its URI alone")
@pytest.mark.parametrize("port", [1, 5433, 59_999, 60_000, 65_535])
def test_a_port_that_there_is_stands_in_an_assets_uri(port: int) -> None:
    uri = f"postgres://db:{port}/library/shop/orders"
    assert make_asset("shop.orders", uri).uri == uri


@pytest.mark.skipif(not AIRFLOW_V_3_0_PLUS, reason="Airflow 2 knows an asset by its URI alone")
@pytest.mark.parametrize("port", [65_536, 99_999, 543_210])
def test_a_port_that_there_is_not_is_refused_as_airflow_refuses_it(port: int) -> None:
    with pytest.raises(ValueError, match="Port out of range"):
        make_asset("shop.orders", f"postgres://db:{port}/library/shop/orders")
