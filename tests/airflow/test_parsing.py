"""What building DAGs leaves alone in the process that parses them."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from airflow_models import windowed

from bollhav_provider.dag_factory import build_dags
from bollhav_provider.exceptions import ConfigurationError


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
