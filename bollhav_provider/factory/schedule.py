"""When a generated DAG runs: a timetable whose data intervals are the model's windows, or its upstreams' assets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from bollhav_provider.version_compat import any_of, cron_intervals

if TYPE_CHECKING:
    from bollhav_provider.graph import Graph
    from bollhav_provider.intervals import Grid
    from bollhav_provider.model import Model, TableId

#: Start of DAGs whose model declares no begin. A constant: a moving start would be a new DAG version at
#: every parse.
NO_BEGIN = datetime(2000, 1, 1, tzinfo=UTC)


class Schedule(NamedTuple):
    """What a DAG is scheduled by.

    Attributes:
        schedule: a timetable, assets or None, as ``DAG(schedule=...)`` takes it.
        start: ``start_date``; Airflow 2 wants one in any case.
    """

    schedule: Any
    start: datetime = NO_BEGIN


def model_schedule(model: Model, graph: Graph, asset: Callable[[TableId], Any], *, assets: bool = False) -> Schedule:
    """Return the schedule of one model's DAG.

    A windowed model follows its run grid, so that every data interval is one run's window. A timeless model or a view
    follows the cron that its ``AirflowOptions.schedule`` names, else the assets of its upstreams, else nothing: it is
    triggered by hand.

    Args:
        model: the model.
        graph: resolves its upstreams.
        asset: the asset of a table.
        assets: schedule windowed models by their upstreams' assets, too.
    """
    options = model.airflow
    said = options.schedule
    if said is None:
        return Schedule(None)
    if options.cron is not None:
        from bollhav_provider.intervals import Grid

        return grid_schedule(Grid(options.cron, options.tz), model)
    run_grid = model.run_grid
    if run_grid is not None and said == "auto" and not assets:
        return grid_schedule(run_grid, model)
    if upstreams := followed_tables(model, graph):
        return Schedule(any_of([asset(table) for table in upstreams]))
    return grid_schedule(run_grid, model) if run_grid is not None else Schedule(None)


def followed_tables(model: Model, graph: Graph) -> list[TableId]:
    """Return the tables that ``model`` is made after, once each, by full name.

    Those are the tables that gate it, also those of models that another call of ``build_dags`` builds, or another
    program. A model without gates, such as a view without state, is made after the models that it reads.
    """
    gated: dict[str, TableId] = {}
    read: dict[str, TableId] = {}
    for inputs in graph.upstreams(model).values():
        for resolved in inputs:
            if resolved.table is not None and resolved.source.contract is not None:
                gated[resolved.table.full_name] = resolved.table
            elif resolved.table is not None and resolved.model is not None and graph.is_enabled(resolved.model):
                read[resolved.table.full_name] = resolved.table
    found = gated or read
    return [found[name] for name in sorted(found)]


def grid_schedule(grid: Grid, model: Model) -> Schedule:
    """Return the timetable of a run grid, bounded by the model's contract."""
    start, end = schedule_bounds(model, grid)
    return Schedule(cron_intervals(grid.cron, grid.tz, end), start)


def schedule_bounds(model: Model, grid: Grid) -> tuple[datetime, datetime | None]:
    """Return from when on a model is scheduled, and the instant from which on no data interval starts."""
    options, begin = model.airflow, model.contract.begin
    start = options.start_date or NO_BEGIN
    if begin is not None and options.start_date is None:
        start = _first_start(grid, model.grid, begin)
    return start, options.end_date or model.contract.end


@lru_cache(maxsize=256)
def _first_start(grid: Grid, chunks: Grid | None, begin: datetime) -> datetime:
    """Return when the first data interval starts, which many models have in common.

    A run that holds the contract's first chunk must exist, also when the contract begins inside of it.
    """
    return grid.floor(chunks.ceil(begin) if chunks is not None else begin)
