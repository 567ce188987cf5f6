"""``Model``: a declared table or view."""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid5

from pydantic import PrivateAttr

from bollhav_provider.exceptions import DefinitionError, DefinitionWarning, Problem
from bollhav_provider.model import references
from bollhav_provider.model.airflow import AirflowOptions
from bollhav_provider.model.base import Finding
from bollhav_provider.model.enums import EmptyPolicy, Materialization, Temporality
from bollhav_provider.model.environment import Environment
from bollhav_provider.model.fields import ModelFields
from bollhav_provider.model.names import TableId
from bollhav_provider.model.people import Curfew, People
from bollhav_provider.model.signature import Parameter, read_function
from bollhav_provider.model.source import UNKNOWN_PREFIX, Source
from bollhav_provider.model.state import State
from bollhav_provider.model.target import Target
from bollhav_provider.model.timing import Batch, Contract

if TYPE_CHECKING:
    from typing import Self

    from bollhav_provider.model.checks import AnyCheck
    from bollhav_provider.model.lineage import Lineage

Function = TypeVar("Function", bound=Callable[..., Any])

_UNKNOWN_SPACE = UUID("6f0e2a53-9d0b-5c1e-8a41-2f6d1f0f7b8e")


def _outside() -> int:
    """Return how many frames up the definition is written: the first one that is none of this room's."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame, level = frame.f_back, level + 1
    return level


class Model(ModelFields):
    """A declared table or view: where it is, when its windows are, what it needs, and how it is computed.

    A definition is immutable data without connection, clock or I/O. Everything that is wrong with it is
    reported at once.

    Raises:
        DefinitionError: with one problem for each thing that is wrong (Semantics: definitions).
    """

    _function: Callable[..., Any] | None = PrivateAttr(default=None)
    _parameters: tuple[Parameter, ...] = PrivateAttr(default=())
    _inferred: tuple[Source, ...] = PrivateAttr(default=())

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            target: Target,
            temporality: Temporality | str = Temporality.TEMPORAL,
            materialization: Materialization | str = Materialization.TABLE,
            contract: Contract = ...,
            batching: Batch | None = None,
            upstream: Source | str | Sequence[Source | str] = (),
            state: State | None = None,
            query: str | None = None,
            library: bool = False,
            enabled: bool = True,
            tags: str | Sequence[str] = (),
            description: str | None = None,
            people: People = ...,
            curfew: Curfew | None = None,
            checks: "Sequence[AnyCheck]" = (),
            key: str | Sequence[str] = (),
            allow_empty: EmptyPolicy | str | bool = EmptyPolicy.WARN,
            airflow: AirflowOptions = ...,
        ) -> None: ...

    else:

        def __init__(self, *args: Any, **data: Any) -> None:
            from bollhav_provider.model.rules import definition_problems, definition_warnings

            problems: list[Problem] = []
            fields = type(self).model_fields
            known = {name: value for name, value in data.items() if name in fields}
            label = self._label(data)
            try:
                super().__init__(*args, **data)
            except DefinitionError as error:
                problems.extend(error.problems)
                if len(known) == len(data) or args:
                    raise
                # Only arguments that do not exist may stand in the way of seeing the other problems too.
                try:
                    super().__init__(**known)
                except DefinitionError as other:
                    problems = list(dict.fromkeys((*problems, *other.problems)))
                    raise DefinitionError(problems) from None
            self._complete_provenance()
            problems.extend(Problem(label, field, message) for field, message in definition_problems(self))
            if problems:
                raise DefinitionError(problems)
            for message in definition_warnings(self):
                warnings.warn(f"{label}: {message}", DefinitionWarning, stacklevel=_outside())

    @classmethod
    def _prepare(cls, data: dict[str, Any]) -> dict[str, Any]:
        if "temporality" not in data and str(data.get("materialization", "")).strip().lower() == "view":
            data = {**data, "temporality": Temporality.TIMELESS}
        sources = data.get("upstream")
        if isinstance(sources, Source | str):
            sources = (sources,)
        if isinstance(sources, list | tuple):
            data = {**data, "upstream": tuple({"name": item} if isinstance(item, str) else item for item in sources)}
        return data

    def _complete_provenance(self) -> None:
        """Give a model without inputs one that stands for those that nobody declared.

        A copy of another model may bring that one's along, which is of no use: it names the other one.
        """
        if all(source.is_unknown and source.name.startswith(UNKNOWN_PREFIX) for source in self.upstream):
            identity = "\x00".join((self.target.catalog or "", self.target.schema, self.target.name))
            name = uuid5(_UNKNOWN_SPACE, identity.encode("utf-8", "backslashreplace").decode())
            self.__dict__["upstream"] = (Source(f"{UNKNOWN_PREFIX}{name}", type=None),)

    @classmethod
    def _label(cls, data: Mapping[str, Any]) -> str:
        target = data.get("target")
        given: Any = getattr(target, "__dict__", {})
        if not isinstance(target, Target) and isinstance(target, Mapping):
            given = target
        parts = [part for name in ("catalog", "schema", "name") if isinstance(part := given.get(name), str) and part]
        return ".".join(parts).replace("\x00", "\\x00") if parts else "Model"

    def __hash__(self) -> int:
        return hash((self.target.catalog, self.target.schema, self.target.name))

    def __repr__(self) -> str:
        return f"<Model {self.full_name}>"

    __str__ = __repr__

    @property
    def content_hash(self) -> str | None:
        """The fingerprint of all inline inputs together, or None without any."""
        from bollhav_provider.model.fingerprint import inline_content_hash

        return inline_content_hash(self)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the definition and the text of its function; the same in every process."""
        from bollhav_provider.model.fingerprint import definition_fingerprint

        return definition_fingerprint(self)

    # Inputs

    @property
    def sources(self) -> tuple[Source, ...]:
        """The declared inputs, without the stand-in for unknown ones."""
        return tuple(source for source in self.upstream if not source.is_unknown)

    @property
    def gated(self) -> tuple[Source, ...]:
        """The inputs that units wait for."""
        return tuple(source for source in self.upstream if source.is_gated)

    @property
    def inferred(self) -> tuple[Source, ...]:
        """Inputs that only the execute function's parameters name: models of the own schema."""
        return self._inferred

    @property
    def inputs(self) -> tuple[Source, ...]:
        """Declared and inferred inputs."""
        return (*self.sources, *self.inferred)

    @property
    def declared_inputs(self) -> tuple[str, ...]:
        """The names of all declared inputs, gated or not."""
        return tuple(key for source in self.sources for key in source.keys)

    @property
    def inputs_known(self) -> bool:
        """Whether any input is known."""
        return bool(self.sources or self.inferred)

    @property
    def upstream_names(self) -> tuple[str, ...]:
        """The names of the gated inputs, as declared."""
        return tuple(key for source in self.gated for key in source.keys)

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names of the declared inputs that do not gate."""
        return tuple(key for source in self.sources if not source.is_gated for key in source.keys)

    def source(self, name: str) -> Source:
        """Return an input by its alias or key.

        Raises:
            DefinitionError: there is none, with the nearest one that there is.
        """
        return references.find_source(self, name)

    def table_of(self, source: Source, key: str | None = None) -> TableId | None:
        """Return the relation that a key means by itself, without suffix; None for ``*.name`` or no relation.

        Args:
            source: one of the inputs.
            key: one of its keys; not given: its first.
        """
        return references.table_of(self, source, key)

    def place(self, source: Source, table: TableId, env: Environment) -> TableId:
        """Return where a relation is in an environment: a gated one moves with the suffix, others do not."""
        return references.place(source, table, env)

    def ref(self, name: str, env: Environment | None = None, *, table: TableId | None = None) -> str:
        """Return the quoted relation of a declared input, for SQL.

        Args:
            name: the key as declared, or the alias.
            env: not given: the one that the current run has made active, else production.
            table: the relation that the graph bound to the input, without suffix, where it is not the one
                that the key says.

        Raises:
            DefinitionError: the input is not declared, is no relation, or can be several.
        """
        return references.reference(self, name, env or Environment.current(), table)

    def render_query(
        self,
        env: Environment | None = None,
        *,
        tables: Mapping[str, TableId] | None = None,
        for_parameters: bool = True,
    ) -> str:
        """Return the query with its inputs filled in.

        Args:
            env: as in :meth:`ref`.
            tables: relations that the graph bound to aliases, without suffix.
            for_parameters: true: to be executed with a mapping that holds ``since`` and ``until`` (or an
                empty one), percent signs are doubled as psycopg wants it; false: plain SQL.

        Raises:
            DefinitionError: the model has no query.
        """
        return references.rendered_query(
            self, env or Environment.current(), tables or {}, for_parameters=for_parameters
        )

    def lineage(
        self,
        env: Environment | None = None,
        *,
        namespace: str = "postgres",
        database: str | None = None,
        tables: Mapping[str, Sequence[TableId]] | None = None,
    ) -> "Lineage":
        """Return inputs and outputs in the naming of OpenLineage.

        Args:
            env: as in :meth:`ref`.
            namespace: ``postgres://host:port`` of the server, where it is known.
            database: the database of relations that name no catalog.
            tables: relations that the graph bound to aliases, without suffix.
        """
        from bollhav_provider.model.lineage import lineage_of

        return lineage_of(self, env or Environment.current(), namespace, database, tables)

    # The function

    @property
    def function(self) -> Callable[..., Any] | None:
        """The execute function, or None."""
        return self._function

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The execute function's parameters."""
        return self._parameters

    def execute(self, function: Function) -> Function:
        """Register the function that computes a unit's rows; used as a decorator.

        Raises:
            DefinitionError: the model has a query or another function, or a parameter is one that nothing
                could fill.
        """
        self._parameters, self._inferred = read_function(self, function)
        self._function = function
        return function

    def replace(self, **changes: Any) -> "Self":
        """Return a copy with some fields changed, checked like a new definition; it has the same function.

        Raises:
            DefinitionError: what the definition with its changes gets wrong, its function's parameters included.
        """
        copied = super().replace(**changes)
        if self._function is not None:
            copied.execute(self._function)
        return copied

    def check_environment(self, env: Environment) -> None:
        """Check that every name still fits when the suffixes of an environment are added.

        Raises:
            DefinitionError: with one problem for each name that PostgreSQL would cut.
        """
        from bollhav_provider.model.rules import environment_problems

        problems = [Problem(self.full_name, field, message) for field, message in environment_problems(self, env)]
        if problems:
            raise DefinitionError(problems)

    def problems(self) -> Iterator[Finding]:
        """Yield everything that is wrong with the definition; a model that exists has nothing."""
        from bollhav_provider.model.rules import definition_problems

        return definition_problems(self)
