"""Where a model's rows come from and go to, in the naming of OpenLineage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bollhav_provider.model.environment import Environment
from bollhav_provider.model.names import TableId
from bollhav_provider.model.source import Source
from bollhav_provider.model.source_types import SourceApi, SourceFile

if TYPE_CHECKING:
    from bollhav_provider.model.model import Model

#: Namespace of what exists only in definitions.
INLINE_NAMESPACE = "bollhav"
#: Namespace of relations whose server is not known.
POSTGRES_NAMESPACE = "postgres"


@dataclass(frozen=True, slots=True)
class Dataset:
    """One end of a lineage edge.

    Attributes:
        namespace: ``postgres://host:port``, ``file``, the address of an API, or ``bollhav`` for what is only
            in the code.
        name: ``database.schema.table``, a path, or a name.
        kind: ``model``, ``file``, ``api``, ``hardcoded`` or ``unknown``.
        contract: the level at which it gates, or None.
    """

    namespace: str
    name: str
    kind: str
    contract: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the dataset as JSON."""
        return {"namespace": self.namespace, "name": self.name, "kind": self.kind, "contract": self.contract}


@dataclass(frozen=True, slots=True)
class Lineage:
    """The inputs and outputs of a model."""

    inputs: tuple[Dataset, ...]
    outputs: tuple[Dataset, ...]

    def to_json(self) -> dict[str, Any]:
        """Return both ends as JSON."""
        return {
            "inputs": [item.to_json() for item in self.inputs],
            "outputs": [item.to_json() for item in self.outputs],
        }


def dataset_name(table: TableId, database: str | None = None) -> str:
    """Return ``database.schema.table``; the one function that names a relation in lineage and assets.

    Args:
        table: the relation, with suffixes.
        database: the database it is in, where the identity names no catalog.
    """
    return ".".join(part for part in (table.catalog or database, table.schema, table.name) if part)


def lineage_of(
    model: Model,
    env: Environment,
    namespace: str = POSTGRES_NAMESPACE,
    database: str | None = None,
    tables: Mapping[str, Sequence[TableId]] | None = None,
    elsewhere: Mapping[str, tuple[str, str]] | None = None,
) -> Lineage:
    """Return a model's inputs and outputs.

    Args:
        model: the model.
        env: its suffixes reach the output and the gated inputs.
        namespace: ``postgres://host:port`` of the server, where it is known.
        database: the database of relations that name no catalog.
        tables: relations that the graph bound to aliases, without suffix.
        elsewhere: namespace and database by the alias of sources that are not in the model's own.
    """
    places = elsewhere or {}
    output = Dataset(namespace, dataset_name(env.table(model.identity), database), "model")
    inputs = [
        dataset
        for source in (*model.upstream, *model.inferred)
        for dataset in _inputs(
            model,
            source,
            env,
            *places.get(source.alias_name, (namespace, database)),
            (tables or {}).get(source.alias_name),
        )
    ]
    return Lineage(tuple(dict.fromkeys(inputs)), (output,))


def _inputs(
    model: Model,
    source: Source,
    env: Environment,
    namespace: str,
    database: str | None,
    bound: Sequence[TableId] | None,
) -> list[Dataset]:
    contract = source.contract.value if source.contract else None
    if isinstance(source.type, SourceFile):
        return [Dataset("file", source.type.path.as_posix(), "file")]
    if isinstance(source.type, SourceApi):
        return [_api(source, source.type)]
    if source.is_unknown:
        return [Dataset(INLINE_NAMESPACE, source.name, "unknown")]
    if not source.is_relation:
        return [Dataset(INLINE_NAMESPACE, f"{model.full_name}/{source.name}", "hardcoded")]
    found = []
    # Of a pattern that the graph has not resolved, the pattern itself is all that is known.
    for key, table in (
        [(key, model.table_of(source, key)) for key in source.keys]
        if bound is None
        else ((table.full_name, table) for table in bound)
    ):
        name = key if table is None else dataset_name(model.place(source, table, env), database)
        found.append(Dataset(namespace, name, "model", contract))
    return found


def _api(source: Source, api: SourceApi) -> Dataset:
    if api.base_url is None:
        return Dataset(
            f"airflow://{api.conn_id}" if api.conn_id else INLINE_NAMESPACE, api.endpoint or source.name, "api"
        )
    scheme, _, rest = api.base_url.partition("://")
    host, _, path = rest.partition("/")
    # A user name or password in the address is nobody's business.
    host = host.rpartition("@")[2]
    whole = "/".join(part.strip("/") for part in (path, api.endpoint or "") if part.strip("/"))
    return Dataset(f"{scheme}://{host}", f"/{whole}", "api")
