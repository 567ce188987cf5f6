"""An input that is a relation."""

import warnings
from typing import Literal

from pydantic import Field

from bollhav_provider.model.base import Bag, Definition, FrozenDict

with warnings.catch_warnings():
    # A field may be called "schema" although pydantic once had a method of that name.
    warnings.simplefilter("ignore", UserWarning)

    class SourceModel(Definition):
        """A relation: another model, or any table or view. Only it can gate, and only it has a name in SQL."""

        kind: Literal["model"] = "model"
        schema: str | None = Field(default=None, description="The relation's schema, where the source's name has none.")  # type: ignore[assignment]
        catalog: str | None = Field(
            default=None, description="The relation's database, where the source's name has none."
        )
        external: bool = Field(
            default=False, description="It is made elsewhere: no model of this project is meant, whatever the names."
        )
        dsn_env_var: str | None = Field(default=None, description="Environment variable with the DSN to read it with.")
        conn_id: str | None = Field(default=None, description="Airflow connection to read it with.")
        read_query: str | None = Field(
            default=None,
            description=(
                "A SELECT for your own execute function to read the relation with; it is recorded, "
                "never executed for you."
            ),
        )
        partitioned_by: str | None = Field(
            default=None, description="The relation's partition column, for a relation that is no model."
        )
        infer_schema_length: int | None = Field(
            default=None, ge=1, le=2**31 - 1, description="Rows that polars looks at for types; not given: all."
        )
        extra: Bag = Field(default_factory=FrozenDict, description="Anything your own code wants to know.")
