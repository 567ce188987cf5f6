"""Small frozen values that the rest of the room speaks in: which table, which run, which lock."""

from __future__ import annotations

import getpass
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from bollhav_provider.intervals import Unit
    from bollhav_provider.model import Environment, Model

#: A synchronous connection; in autocommit unless a function says otherwise.
Conn = psycopg.Connection[Any]

#: Namespace of run ids: the same Airflow run has the same id at every try, on every worker.
_RUN_NAMESPACE = uuid.UUID("5b1e0b0e-6b0f-5c63-8f0c-0d1c2f0a7e55")


@dataclass(frozen=True, slots=True)
class StateRef:
    """Where one model's state rows live.

    Attributes:
        schema: the library's schema, ``z_bollhav`` or a suffixed one.
        table: the digest-named state table.
        full_name: the library's key: the model's full name with the environment's suffix.
    """

    schema: str
    table: str
    full_name: str

    @classmethod
    def of(cls, model: Model, env: Environment) -> StateRef:
        """Return where ``model`` keeps its state in ``env``; nothing is looked up."""
        return cls(env.state_schema, model.state_table, env.table(model.identity).full_name)

    @property
    def ident(self) -> sql.Identifier:
        """The qualified, quoted name of the state table."""
        return sql.Identifier(self.schema, self.table)

    def unit_key(self, unit: Unit) -> str:
        """Return the advisory lock's key of one unit, as the other implementation writes it."""
        if unit.window is None:
            return f"{self.full_name}|oneshot"
        return f"{self.full_name}|{unit.window.since.isoformat()}|{unit.window.until.isoformat()}"


@dataclass(frozen=True, slots=True)
class RunKey:
    """Who works: one Airflow run (or one call of the command line) and the task and try within it.

    Attributes:
        run_id: equal for every task and every try of one run, so that a retry never resets again.
        dag_id, airflow_run_id, task_id: Airflow's names; empty outside Airflow.
        try_number: Airflow's, from 1; 0 outside Airflow.
        who: the person or account, for the record.
    """

    run_id: uuid.UUID
    dag_id: str = ""
    airflow_run_id: str = ""
    task_id: str = ""
    try_number: int = 0
    who: str = ""

    @classmethod
    def of(
        cls, dag_id: str, airflow_run_id: str, *, task_id: str = "", try_number: int = 0, who: str = ""
    ) -> RunKey:
        """Return the key of an Airflow run; ``run_id`` is a pure function of ``dag_id`` and ``airflow_run_id``."""
        run_id = uuid.uuid5(_RUN_NAMESPACE, f"{dag_id}\n{airflow_run_id}")
        return cls(run_id, dag_id, airflow_run_id, task_id, try_number, who)

    @classmethod
    def ad_hoc(cls, who: str | None = None) -> RunKey:
        """Return a key of its own, for the command line and for tests."""
        return cls(uuid.uuid4(), who=_account() if who is None else who)

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry; :meth:`from_json` reads it back."""
        return {
            "run_id": str(self.run_id), "dag_id": self.dag_id, "airflow_run_id": self.airflow_run_id,
            "task_id": self.task_id, "try_number": self.try_number, "who": self.who,
        }  # fmt: skip

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RunKey:
        """Return the key that :meth:`to_json` wrote."""
        return cls(**{**value, "run_id": uuid.UUID(value["run_id"])})


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a passwd entry
        return ""
