"""What a unit's inputs are, and what the library and the upstreams' states say of them."""

from __future__ import annotations

from datetime import datetime

from bollhav_provider import state
from bollhav_provider.data.scope import scope_of
from bollhav_provider.intervals import Interval, Unit
from bollhav_provider.model import Environment, Model, TableId, UpstreamContract
from bollhav_provider.run.inputs import Bindings, Inputs, Registered
from bollhav_provider.run.lanes import Lanes
from bollhav_provider.state.loads import loads


def inputs_of(graph: Bindings, model: Model, env: Environment, lanes: Lanes) -> Inputs:
    """Return what opens the upstreams of a model's units.

    Args:
        graph: binds them.
        model: whose.
        env: where relations are.
        lanes: the connections that look-ups use.
    """

    def library(place: TableId) -> Registered | None:
        if not model.is_tracked:
            return None
        entry = state.get_entry(lanes.state, env, place.full_name)
        if entry is None:
            return None
        column = entry.metadata.get("partitioned_by")
        return Registered(
            entry.temporality == "temporal", column if isinstance(column, str) else None, _zone(entry)
        )

    def applied(
        upstream: Model | None, table: TableId, unit: Unit, contract: UpstreamContract | None
    ) -> tuple[tuple[Interval | None, datetime], ...]:
        if upstream is None or not upstream.is_tracked:
            return ()
        scope = scope_of(contract, unit, upstream_temporal=upstream.is_temporal)
        return loads(lanes.state, state.StateRef.of(upstream, env), scope.since, scope.until)

    return Inputs(model, graph.upstreams(model), env, library, applied)


def _zone(entry: state.LibraryEntry) -> str:
    zone = entry.metadata.get("tz")
    return zone if isinstance(zone, str) and zone else "UTC"
