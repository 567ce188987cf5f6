"""Build DAGs from loaded definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import DAG, TaskGroup

from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.factory.arguments import dag_arguments, merged
from bollhav_provider.factory.assets import Assets
from bollhav_provider.factory.docs import model_markdown
from bollhav_provider.factory.groups import Group, grouped
from bollhav_provider.factory.names import dag_id, group_id
from bollhav_provider.factory.params import run_params
from bollhav_provider.factory.schedule import NO_BEGIN, Schedule, followed_tables, model_schedule, schedule_bounds
from bollhav_provider.factory.tasks import Options, model_tasks
from bollhav_provider.hooks.settings import airflow_option
from bollhav_provider.version_compat import any_of, cron_intervals

if TYPE_CHECKING:
    from bollhav_provider.factory.load import Loaded
    from bollhav_provider.model import Model

#: Longest description that every supported Airflow shows whole.
_DESCRIPTION = 500


@dataclass(eq=False, repr=False)
class Factory:
    """Builds the DAGs of one ``build_dags`` call; see there for the arguments."""

    loaded: Loaded
    assets: Assets
    options: Options
    group_by: str = "model"
    schedule_by_assets: bool = False
    dag_args: Mapping[str, Any] = field(default_factory=dict)
    tags: Sequence[str] = ()

    @classmethod
    def make(
        cls,
        loaded: Loaded,
        *,
        asset_host: str | None,
        asset_database: str | None,
        bollhav_conn_id: str | None,
        default_args: Mapping[str, Any] | None,
        sensor_args: Mapping[str, Any] | None,
        execute_args: Mapping[str, Any] | None,
        dag_args: Mapping[str, Any] | None,
        **said: Any,
    ) -> Factory:
        """Return a factory with what the deployment configures filled in."""
        assets = Assets.configured(asset_host, asset_database)
        waits = {
            "poke_interval": float(airflow_option("poke_interval", "15")),
            "timeout": float(airflow_option("gate_timeout", "604800")),
        }
        options = Options(
            bollhav_conn_id=bollhav_conn_id,
            default_args=default_args or {},
            sensor_args=merged(waits, sensor_args),
            execute_args=execute_args or {},
        )
        return cls(loaded=loaded, assets=assets, options=options, dag_args=merged(_limits(), dag_args), **said)

    def build(self, wanted: str | None = None) -> dict[str, Any]:
        """Return the DAGs by id.

        Args:
            wanted: the one DAG that a worker needs; None for all.
        """
        dags: dict[str, Any] = {}
        broken = dict(self.loaded.broken)
        groups = grouped(self.loaded.selected, self.group_by)
        ids = {model.full_name: group.dag_id for group in groups for model in group.models}
        self.options = self.options._replace(dag_ids=ids)
        for group in groups:
            # Who stands aside from a group has a DAG of its own name.
            aside = () if group.alone else map(dag_id, (model.full_name for model in group.models))
            if wanted is not None and group.dag_id != wanted and wanted not in aside:
                continue
            if (made := self._sound(group, broken)) is not None and wanted in (None, group.dag_id):
                dags[group.dag_id] = made
        for name in sorted(broken):
            if wanted is None or dag_id(name) == wanted:
                from bollhav_provider.factory.broken import broken_dag

                dags[dag_id(name)] = broken_dag(name, broken[name], list(self.tags))
        return dags

    def _sound(self, group: Group, broken: dict[str, str]) -> Any | None:
        """Return the DAG of those models of a group that Airflow takes the arguments of, and note the others.

        Arguments that Airflow refuses are one model's problem, not its neighbours'.
        """
        try:
            return self._dag(group)
        except Exception as exc:
            why = _why(group.dag_id, exc)
        wrong = {} if group.alone else self._misfits(group)
        rest = tuple(model for model in group.models if model.full_name not in wrong)
        if not wrong or not rest:
            broken[group.dag_id] = why
            return None
        broken.update(wrong)
        return self._sound(group._replace(models=rest), broken)

    def _misfits(self, group: Group) -> dict[str, str]:
        """Return of which models no tasks can be made, and why; tried in DAGs that Airflow never sees."""
        wrong: dict[str, str] = {}
        for model in group.models:
            try:
                with DAG(group.dag_id, schedule=None, start_date=NO_BEGIN, auto_register=False):
                    model_tasks(model, self.loaded.graph, self.assets.of(model), self.options)
            except Exception as exc:
                wrong[model.full_name] = _why(model.full_name, exc)
        return wrong

    def _dag(self, group: Group) -> Any:
        first = group.models[0]
        schedule = self._schedule(group)
        own = dag_arguments(first) if group.alone else {}
        arguments = merged(self.dag_args, own)
        tags = sorted({*self.tags, *arguments.pop("tags", ()), *(tag for m in group.models for tag in m.tags)})
        default_args = merged(self.options.default_args, arguments.pop("default_args", None))
        with DAG(
            group.dag_id,
            schedule=schedule.schedule,
            start_date=schedule.start,
            description=_description(group),
            doc_md="\n\n".join(model_markdown(model, self.loaded.graph) for model in group.models),
            tags=tags,
            default_args=default_args,
            **arguments,
        ) as dag:
            try:
                if group.alone:
                    model_tasks(first, self.loaded.graph, self.assets.of(first), self.options)
                else:
                    joined_tasks(group.models, self)
            except BaseException:
                dag.auto_register = False  # else Airflow takes up what is half made, beside what says why
                raise
        # Given to the tasks by Airflow at run time; given to them here, each would carry a copy of its own.
        dag.params.update(run_params(first if group.alone else None))
        return dag

    def _schedule(self, group: Group) -> Schedule:
        schedules = [
            model_schedule(model, self.loaded.graph, self.assets.of_table, assets=self.schedule_by_assets)
            for model in group.models
        ]
        if group.alone or len(schedules) == 1:
            return schedules[0]
        if all(model.airflow.schedule is None for model in group.models):
            return Schedule(None)
        if group.models[0].run_grid is None:
            return self._said_cron(group) or self._outer_assets(group)
        if self.schedule_by_assets and (outer := self._outer_assets(group)).schedule is not None:
            return outer
        return self._common(group)

    def _said_cron(self, group: Group) -> Schedule | None:
        """Return the schedule of the cron that models without windows name; those that name none go along with it.

        Raises:
            ConfigurationError: they name several.
        """
        said = {(model.airflow.cron, model.airflow.tz): model for model in group.models if model.airflow.cron}
        if len(said) > 1:
            named = ", ".join(f"{cron!r} ({tz}, {said[cron, tz].full_name})" for cron, tz in sorted(said))
            raise ConfigurationError(
                f"one DAG has one schedule, and its models name {len(said)}: {named}. Give them the same, or divide "
                "them by group_by or select."
            )
        return next((model_schedule(model, self.loaded.graph, self.assets.of_table) for model in said.values()), None)

    def _common(self, group: Group) -> Schedule:
        """Return the schedule of models of one grain: from the first begin to the last end."""
        grid = group.models[0].run_grid
        assert grid is not None
        bounds = [schedule_bounds(model, grid) for model in group.models]
        ends = [end for _, end in bounds]
        last = None if None in ends else max(end for end in ends if end is not None)
        return Schedule(cron_intervals(grid.cron, grid.tz, last), min(start for start, _ in bounds))

    def _outer_assets(self, group: Group) -> Schedule:
        """Return the assets of all upstreams that are not in the group itself."""
        inside = {model.full_name for model in group.models}
        outside = {
            upstream.full_name: upstream
            for model in group.models
            for upstream in followed_tables(model, self.loaded.graph)
            if upstream.full_name not in inside
        }
        return Schedule(any_of([self.assets.of_table(outside[name]) for name in sorted(outside)]) if outside else None)


def _limits() -> dict[str, Any]:
    """Return what each DAG would look up in Airflow's configuration for itself."""
    from airflow.providers.common.compat.sdk import conf

    names = ("max_active_tasks", "max_active_runs", "max_consecutive_failed_dag_runs")
    return {"catchup": False} | {name: conf.getint("core", f"{name}_per_dag") for name in names}


def joined_tasks(models: Sequence[Model], factory: Factory) -> dict[str, Any]:
    """Make a task group for each model in the DAG that is open, with task edges between them; returns the
    groups.

    Args:
        models: of one DAG.
        factory: graph, assets and options.
    """
    graph = factory.loaded.graph
    inside = {model.full_name: model for model in models}
    groups: dict[str, Any] = {}
    feeds: dict[str, list[str]] = {}
    for name in sorted(inside):
        model = inside[name]
        feeds[name] = [
            resolved.table.full_name
            for inputs in graph.upstreams(model).values()
            for resolved in inputs
            if resolved.table is not None and resolved.table.full_name in inside and resolved.table.full_name != name
        ]
        with TaskGroup(group_id(name), tooltip=(model.description or name)[:_DESCRIPTION]) as made:
            model_tasks(model, graph, factory.assets.of(model), factory.options, joined=frozenset(feeds[name]))
        groups[name] = made
    for name in sorted(feeds):
        for upstream in sorted(set(feeds[name])):
            groups[upstream] >> groups[name]
    return groups


def _why(name: str, exc: Exception) -> str:
    return f"{name}: {type(exc).__name__}: {exc}"


def _description(group: Group) -> str:
    if group.alone:
        return (group.models[0].description or group.dag_id).strip().splitlines()[0][:_DESCRIPTION]
    return ", ".join(model.full_name for model in group.models)[:_DESCRIPTION]
