"""Each model is an asset, named as OpenLineage names tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bollhav_provider.hooks.dsn import asset_uri
from bollhav_provider.version_compat import make_asset

if TYPE_CHECKING:
    from bollhav_provider.model import Environment, Model


@dataclass
class Assets:
    """The assets of a set of models: ``postgres://host/database/schema/table``.

    The host and the database are options, not looked up: a DAG file must be parsed without a connection.
    Their defaults name the deployment's library, so that assets are distinct and stable; set them to the
    server's address to see tables under the names that lineage gives them.

    Args:
        host: host, and port unless it is 5432.
        database: for models that name no catalog.
        env: the environment of the deployment.
    """

    host: str
    database: str
    env: Environment
    _made: dict[str, Any] = field(default_factory=dict)

    def of(self, model: Model) -> Any:
        """Return the asset of a model, the same object each time."""
        table = self.env.table(model.identity)
        if table.full_name not in self._made:
            self._made[table.full_name] = make_asset(table.full_name, asset_uri(table, self.host, self.database))
        return self._made[table.full_name]
