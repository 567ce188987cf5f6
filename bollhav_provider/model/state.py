"""That a model's progress is recorded, and how."""

from collections.abc import Iterator

from pydantic import Field

from bollhav_provider.model.base import Definition, Finding


class State(Definition):
    """Track the model's units in the library, so that runs resume, gates hold and others can wait for them."""

    dsn_env_var: str | None = Field(
        default=None, description="Environment variable with the DSN of the library's database."
    )
    conn_id: str | None = Field(default=None, description="Airflow connection of the library's database.")
    allow_concurrent_runs: bool = Field(
        default=True, description="False: one run of the model at a time, by a lock on the model."
    )
    sequential: bool = Field(
        default=False,
        description=(
            "True: a unit waits until every earlier window of its own model is applied. The first one "
            "waits for nothing."
        ),
    )
    lease_seconds: int = Field(
        default=60,
        ge=5,
        le=86_400,
        description="Seconds after which the unit of a worker that stopped renewing its lease may be taken over.",
    )

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the state by itself."""
        if self.dsn_env_var and self.conn_id:
            yield "conn_id", "dsn_env_var and conn_id both say where the library is; keep one"
