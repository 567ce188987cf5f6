"""Each model is an asset, named as OpenLineage names tables."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bollhav_provider.hooks.dsn import asset_uri
from bollhav_provider.hooks.settings import airflow_option, deployment_settings
from bollhav_provider.operators.run_context import environment
from bollhav_provider.version_compat import make_asset

if TYPE_CHECKING:
    from bollhav_provider.model import Environment, Model, TableId


@dataclass(eq=False, repr=False)
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

    @classmethod
    def configured(cls, host: str | None = None, database: str | None = None) -> Assets:
        """Return the deployment's assets, with another host or database where one is given."""
        return cls(
            host=host or airflow_option("asset_host", "bollhav"),
            database=database or airflow_option("asset_database", "library"),
            # Without the date appendix: an asset's name must not change with the week.
            env=replace(environment(deployment_settings()), appendix=None),
        )

    def of(self, model: Model) -> Any:
        """Return the asset of a model."""
        return self.of_table(model.identity)

    def of_table(self, identity: TableId) -> Any:
        """Return the asset of a table, whether its model is known or not; the same object each time."""
        table = self.env.table(identity)
        if table.full_name not in self._made:
            self._made[table.full_name] = make_asset(table.full_name, asset_uri(table, self.host, self.database))
        return self._made[table.full_name]
