"""What a task of a sequential model does when an earlier window of the model is not applied.

Later windows never run before earlier ones. A task that waits keeps its run active, and active runs are counted: the
run that has to do the earlier window may get no place while later ones wait for it. So a task waits only for what is
being done, or is its own run's to do; else it ends, to be tried again as often as its retries say, and the run with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bollhav_provider.exceptions import GateClosedError

if TYPE_CHECKING:
    from bollhav_provider.intervals import Interval, Unit
    from bollhav_provider.model import Model, TableId
    from bollhav_provider.run import Connections, RunSpec

#: Seconds after which a task that waits for an earlier window looks whether that is still being done.
LOOK_AGAIN = 300.0


def waits_for_own_past(
    connections: Connections,
    model: Model,
    spec: RunSpec,
    closed: Sequence[Unit],
    bound: Mapping[str, Sequence[TableId]],
) -> bool:
    """Whether the first unit that met a closed gate waits for an earlier window of its own model.

    Args:
        connections: lead to the library.
        model: whose units they are.
        spec: the run.
        closed: the units, in order of time.
        bound: the tables that each alias of a gated source stands for.

    Raises:
        GateClosedError: it does, and nobody works on the earlier window: not another run, and not this one, whose
            window does not hold it or where it failed.
    """
    if model.state is None or not model.state.sequential or not closed:
        return False
    from bollhav_provider.state import units, working
    from bollhav_provider.state.gate_types import OWN_PAST
    from bollhav_provider.state.gates import check_unit, gate_requests

    unit = closed[0]
    with connections.state(model) as conn:
        report = check_unit(conn, spec.env, gate_requests(model, spec.env, unit, bound))
        past = next((r for r in report.results if r.request.level == OWN_PAST and not r.satisfied), None)
        if past is None or past.missing is None:
            return False
        if working(conn, model, spec.env, past.missing):
            return True
        earlier = next((row for row in units(conn, model, spec.env, past.missing, limit=1)), None)
    window = past.missing if earlier is None or earlier.unit.window is None else earlier.unit.window
    failed = earlier is not None and earlier.status == "error"
    if _holds(spec.window, window) and not failed:
        return True
    what = "failed" if failed else "is not applied"
    raise GateClosedError(
        f"{model.full_name} {unit.label}: {past.reason}: it {what}, and nobody works on it. The model is sequential: "
        f"no window runs before the earlier ones. Remedy: run or clear the window {window} first, then this one."
    )


def _holds(mine: Interval | None, window: Interval) -> bool:
    return mine is not None and mine.contains(window)
