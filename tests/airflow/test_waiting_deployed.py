"""Gates that wait in a real triggerer: what they ask of the library, and that none is lost with the process.

The deployment is that of ``benchmarks/waiting.py``, which measures the times as well, with a thousand gates.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bollhav_provider.version_compat import AIRFLOW_V_3_3_PLUS

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from waiting import killed, quiet
from waiting_scene import scene

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not AIRFLOW_V_3_3_PLUS, reason="the deployment is one of Airflow 3.3"),
]
FEW, MANY, POLL = 5, 65, 1.0


@pytest.fixture(scope="module")
def made() -> Iterator[Any]:
    """A deployment whose triggerer is taken for dead ten seconds after its last sign of life."""
    patience = {"AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10"}
    with scene(capacity=MANY + 10, poll_interval=POLL, variables=patience) as found:
        yield found


def test_the_library_is_asked_as_often_for_many_gates_as_for_few(made: Any) -> None:
    made.wait_with(FEW, workers=True)
    few = quiet(made, FEW, 12, POLL)
    made.wait_with(MANY, workers=False)
    many = quiet(made, MANY, 12, POLL)
    assert few["connections"] == many["connections"] == 1
    assert 0 < many["statements_a_minute"] < 2 * few["statements_a_minute"]


def test_gates_whose_triggerer_is_killed_all_wake_in_the_one_that_follows(made: Any) -> None:
    """Half of the upstreams commit while nobody listens, the other half after the restart."""
    assert made.gates("deferred") == MANY
    found = killed(made)
    assert found["woke"] == found["gates"] == MANY
