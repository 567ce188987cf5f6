"""Small frozen values that the rest of the room speaks in: which table, which run, which lock."""

from __future__ import annotations

import getpass
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from bollhav_provider.intervals import Unit
    from bollhav_provider.model import Environment, Model

#: A synchronous connection; in autocommit unless a function says otherwise.
Conn = psycopg.Connection[Any]


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
        dag_id, airflow_run_id, task_id, try_number: Airflow's; None outside Airflow.
        who: the person or account, for the record.
    """

    run_id: uuid.UUID
    dag_id: str | None = None
    airflow_run_id: str | None = None
    task_id: str | None = None
    try_number: int | None = None
    who: str | None = None

    @classmethod
    def ad_hoc(cls, who: str | None = None) -> RunKey:
        """Return a key of its own: a call that no other call belongs to."""
        return cls(uuid.uuid4(), who=account() if who is None else who)

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry; :meth:`from_json` reads it back."""
        return {
            "run_id": str(self.run_id), "dag_id": self.dag_id, "airflow_run_id": self.airflow_run_id,
            "task_id": self.task_id, "try_number": self.try_number, "who": self.who,
        }  # fmt: skip

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunKey:
        """Return the key that :meth:`to_json` wrote; keys that a newer writer added are ignored."""
        names = ("dag_id", "airflow_run_id", "task_id", "try_number", "who")
        return cls(uuid.UUID(str(value["run_id"])), **{name: value.get(name) for name in names})


def channel(env: Environment) -> str:
    """Return the channel that LISTEN takes to hear of commits; a notification's payload is the state table's name."""
    return env.state_schema


def account() -> str | None:
    """Return the name of the account that this process runs as, or None where it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a passwd entry
        return None
