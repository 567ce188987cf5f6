"""What a run with ``cascade`` must not ask for: runs of its own DAG that stand in line behind whoever waits for them.

A DAG that allows one run at a time starts what a cascade asks for when the run that asked has ended. That is fine
unless a model of the DAG waits for one of those windows: the run would wait for a run that waits for it, until its
patience is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bollhav_provider.graph import Graph
    from bollhav_provider.intervals import Interval
    from bollhav_provider.model import Environment
    from bollhav_provider.operators.cascade import Again
    from bollhav_provider.state.refs import Conn


class Gate(NamedTuple):
    """One model waits for another, at a level. Names are the library's."""

    upstream: str
    downstream: str
    level: str


class Stuck(NamedTuple):
    """A model of the DAG, and the run in the queue that it would wait for."""

    waiting: str
    again: Again


def gates(conn: Conn, graph: Graph, env: Environment) -> list[Gate]:
    """Return which model waits for which: of the whole library, and of this deployment's models that never ran.

    Args:
        conn: to the library.
        graph: the models of this deployment.
        env: names the library.
    """
    from bollhav_provider.state import entries
    from bollhav_provider.state.gate_types import OWN_PAST
    from bollhav_provider.state.restatement import edges

    found = {Gate(edge.upstream, edge.downstream, edge.level) for edge in edges(entries(conn, env), env)}
    for model in graph.models:
        mine, inputs = env.table(model.identity).full_name, graph.upstreams(model)
        for source in model.gated:
            level = source.contract.value if source.contract is not None else ""
            tables = [resolved.table for resolved in inputs.get(source.alias_name, ()) if resolved.table is not None]
            found.update(Gate(env.table(table).full_name, mine, level) for table in tables)
        if model.state is not None and model.state.sequential:
            found.add(Gate(mine, mine, OWN_PAST))
    return sorted(found)


def stuck(
    queued: Sequence[Again],
    elsewhere: Iterable[Again],
    links: Sequence[Gate],
    held: Collection[str],
    mine: Mapping[str, tuple[bool, Interval | None]],
) -> Stuck | None:
    """Return what would wait for a run in its own DAG's queue; None where nothing would.

    Args:
        queued: the runs that the DAG itself is asked for.
        elsewhere: those that other DAGs are asked for. What follows from one in the queue waits for it.
        links: who waits for whom; all names here are the library's.
        held: the DAG's models.
        mine: what the asking run itself does of them: whether wholly, else in which window.
    """
    behind = {again.model for again in queued}
    late = list(queued)
    for again in elsewhere:  # in an order in which they can run
        if any(link.upstream in behind and link.downstream == again.model for link in links):
            behind.add(again.model)
            late.append(again)
    for again in late:
        for link in links:
            if link.upstream == again.model and link.downstream in held and _waits(link, again, mine):
                return Stuck(link.downstream, again)
    return None


def _waits(link: Gate, again: Again, mine: Mapping[str, tuple[bool, Interval | None]]) -> bool:
    """Whether a run of the DAG may wait for these windows.

    EXACT and ENCAPSULATE ask for what lies in the waiting window, which was put back and is in the queue as well,
    unless this run does it. All else asks for more: of every later run, too.
    """
    from bollhav_provider.model import UpstreamContract

    whole, window = mine.get(link.downstream, (False, None))
    if link.level == UpstreamContract.EXISTS.value:
        return False
    if link.level not in (UpstreamContract.EXACT.value, UpstreamContract.ENCAPSULATE.value):
        return True
    return again.window is None or whole or (window is not None and window.overlaps(again.window))
