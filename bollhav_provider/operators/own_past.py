"""What a task of a sequential model does when an earlier window of the model is not applied.

It waits until that is done. But a task that waits keeps its run active, and active runs are counted: where nobody is
going to do the earlier window, because it failed or because its run cannot start beside this one, the task ends
instead, to be tried again as often as its retries say, and gives the place to the run that has to do it.
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
    *,
    one_at_a_time: bool,
) -> bool:
    """Whether the first unit that met a closed gate waits for an earlier window of its own model.

    Args:
        connections: lead to the library.
        model: whose units they are.
        spec: the run.
        closed: the units, in order of time.
        bound: the tables that each alias of a gated source stands for.
        one_at_a_time: no other run of the DAG can be active beside this one.

    Raises:
        GateClosedError: it does, and nobody works on the earlier window or is about to: it failed, or there is one run
            at a time and this one is not to do it.
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
    if earlier is not None and earlier.status == "error":
        why = "it failed"
    elif one_at_a_time and not _holds(spec.window, window):
        why = "its run cannot start while this one, the only one at a time (max_active_runs=1), waits"
    else:
        return True
    raise GateClosedError(
        f"{model.full_name} {unit.label}: {past.reason}: {why}. The model is sequential: no window runs before the "
        f"earlier ones. Remedy: run or clear the window {window} first, then this one."
    )


def _holds(mine: Interval | None, window: Interval) -> bool:
    return mine is not None and mine.contains(window)
