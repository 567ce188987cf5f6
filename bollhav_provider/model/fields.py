"""The fields of a model, and what follows from them alone: its names, its kind, its grid, its columns."""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from bollhav_provider.model.airflow import AirflowOptions
from bollhav_provider.model.base import Definition, Words
from bollhav_provider.model.column import Column
from bollhav_provider.model.enums import EmptyPolicy, Materialization, Temporality, WriteMode
from bollhav_provider.model.later import Later
from bollhav_provider.model.names import TableId, staging_table_name, state_table_name
from bollhav_provider.model.people import Curfew, People, Tags
from bollhav_provider.model.source import Source
from bollhav_provider.model.state import State
from bollhav_provider.model.target import KeyConstraint, Target
from bollhav_provider.model.timing import Batch, Contract

if TYPE_CHECKING:
    from bollhav_provider.intervals import Grid
    from bollhav_provider.model.checks import Checks
else:
    Checks = Annotated[tuple[Any, ...], Later("checks:Checks")]


def _yes_or_no(value: Any) -> Any:
    return (EmptyPolicy.ALLOW if value else EmptyPolicy.BLOCK) if isinstance(value, bool) else value


class ModelFields(Definition):
    """What a user declares; :class:`~bollhav_provider.model.Model` is what they write it with."""

    target: Target = Field(description="The table or view that the model makes.")
    temporality: Temporality = Field(
        default=Temporality.TEMPORAL,
        description="Whether rows belong to windows of time. Not given: `temporal`, and `timeless` for a view.",
    )
    materialization: Materialization = Field(default=Materialization.TABLE, description="`table` or `view`.")
    contract: Contract = Field(
        default_factory=Contract.of_nothing, description="The range that the model promises to hold."
    )
    batching: Batch | None = Field(
        default=None, description="How the range is cut into units; not given: one unit without bounds."
    )
    upstream: tuple[Source, ...] = Field(default=(), description="All inputs; those with a contract gate.")
    state: State | None = Field(default=None, description="Track progress in the library. Gates need it.")
    query: str | None = Field(
        default=None,
        description=(
            "The SELECT that computes the rows inside PostgreSQL, with inputs as `{alias}` and the "
            "window as `%(since)s`, `%(until)s`."
        ),
    )
    library: bool = Field(
        default=False, description="Register a view, or a table without state, so that others can wait for it."
    )
    enabled: bool = Field(
        default=True, description="False: stays in the graph as a node that is read and never written."
    )
    tags: Tags = Field(default_factory=Tags, description="Words to select models by.")
    description: str | None = Field(
        default=None, description="What the model is; becomes the table's comment and the DAG's text."
    )
    people: Annotated[People, Later("people:People", People)] = Field(
        default_factory=People.of_nothing, description="Who answers for the model."
    )
    curfew: Annotated[Curfew, Later("people:Curfew")] | None = Field(
        default=None, description="Times of day at which no unit starts."
    )
    checks: Checks = Field(default=(), description="What must hold for new rows before they are published.")
    key: Words = Field(
        default=(), description="The columns by which UPSERT finds a row again; not given: the primary key."
    )
    allow_empty: Annotated[EmptyPolicy, BeforeValidator(_yes_or_no, json_schema_input_type=EmptyPolicy | bool)] = Field(
        default=EmptyPolicy.WARN,
        description=(
            "What becomes of a unit without rows: `warn` applies it with a warning, `allow` (or true) without one, "
            "`block` (or false) does not apply it, since its source has probably not arrived yet."
        ),
    )
    airflow: Annotated[AirflowOptions, Later("airflow:AirflowOptions", AirflowOptions)] = Field(
        default_factory=AirflowOptions.of_nothing, description="Arguments of the model's DAG and tasks."
    )

    # Identity

    @property
    def identity(self) -> TableId:
        """(catalog, schema, name), without suffixes."""
        return self.target.identity

    @property
    def full_name(self) -> str:
        """``[catalog.]schema.name``, without suffixes."""
        return self.target.full_name

    @property
    def state_table(self) -> str:
        """The name of the model's state table: a pure function of its full name."""
        return state_table_name(self.full_name)

    @property
    def staging_table(self) -> str:
        """The name of the model's staging table, in the schema of the state table."""
        return staging_table_name(self.full_name)

    # Kind

    @property
    def is_view(self) -> bool:
        """Whether it is a view."""
        return self.materialization is Materialization.VIEW

    @property
    def is_temporal(self) -> bool:
        """Whether its rows belong to windows of time."""
        return self.temporality is Temporality.TEMPORAL

    @property
    def is_windowless(self) -> bool:
        """Whether its work is one unit: a timeless model, or a temporal one without time chunks."""
        return not self.is_temporal or self.batching is None or self.batching.time is None

    @property
    def is_flexible(self) -> bool:
        """Whether its state is a coverage instead of a grid."""
        return bool(self.batching and self.batching.time and self.batching.time.is_flexible)

    @property
    def is_tracked(self) -> bool:
        """Whether it has state."""
        return self.state is not None

    @property
    def is_registered(self) -> bool:
        """Whether it appears in the library."""
        return self.is_tracked or self.library

    @property
    def grid(self) -> "Grid | None":
        """The grid of its units, or None when it is windowless."""
        return self.batching.time.grid if self.batching and self.batching.time and not self.is_windowless else None

    @property
    def run_grid(self) -> "Grid | None":
        """The grid of what one scheduled run covers, or None when it is windowless."""
        return self.batching.time.run_grid if self.batching and self.batching.time and not self.is_windowless else None

    @property
    def tz(self) -> str:
        """The zone in which its windows are read."""
        return self.batching.time.tz if self.batching and self.batching.time else "UTC"

    # Columns

    @property
    def partition_column(self) -> Column | None:
        """The column that says which window a row belongs to."""
        return next(iter(self.target.partition_columns), None)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns by which UPSERT finds a row again: ``key``, the primary key, or the only unique one."""
        if self.key:
            return tuple(column for name in self.key if (column := self.target.column(name)))
        if self.target.primary_key:
            return self.target.primary_key
        unique = tuple(column for column in self.target.columns if column.unique)
        return unique if len(unique) == 1 else ()

    @property
    def keys(self) -> tuple[KeyConstraint, ...]:
        """The key constraints of the target table, its names without suffix."""
        return self.target.keys(self.key)

    @property
    def replaces_window(self) -> bool:
        """Whether a unit deletes its window before it inserts."""
        return self.target.write_mode is WriteMode.RECREATE_PARTITION
