"""Environments: the suffixes that keep a developer's tables apart from production's.

A suffix reaches targets, gates, ``ref()``, staging and lineage alike, because all of them ask here
(Semantics: definitions).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.model.base import did_you_mean
from bollhav_provider.model.names import LIBRARY_SCHEMA, TableId, length_problem, schema_problem

_PART = r"[A-Za-z0-9_]+"


@dataclass(frozen=True)
class Environment:
    """Where a run writes and reads; without any suffix it is production.

    Attributes:
        suffix: added to schemas: ``warehouse`` becomes ``warehouse_pr123``.
        appendix: added after the suffix, for instance a week: ``warehouse_pr123_2401_``. It is text that was
            fixed when the run started, so a week that turns during a run changes nothing.
        target_suffix: added to the names of tables and views.

    Raises:
        ConfigurationError: a part cannot be in the name of a schema, or has no suffix to stand on.
    """

    suffix: str | None = None
    appendix: str | None = None
    target_suffix: str | None = None

    def __post_init__(self) -> None:
        for field in ("suffix", "appendix", "target_suffix"):
            value = getattr(self, field)
            if value is None:
                continue
            if not isinstance(value, str) or not re.fullmatch(_PART, value):
                raise ConfigurationError(
                    f"environment: {field}: {value!r} cannot be part of the name of a schema; "
                    "use letters a to z, digits and underscores, for instance 'pr123', or leave it out"
                )
        if self.suffix is None:
            for field in ("appendix", "target_suffix"):
                if getattr(self, field) is not None:
                    raise ConfigurationError(
                        f"environment: {field}: {getattr(self, field)!r} is given without a suffix, "
                        "so the run would share "
                        "production's library and state; give a suffix too"
                    )
        if problem := length_problem(self.state_schema, "library's schema"):
            raise ConfigurationError(f"environment: suffix: {problem}")

    @classmethod
    def fixed_at(
        cls,
        now: datetime,
        suffix: str | None = None,
        appendix_format: str | None = None,
        target_suffix: str | None = None,
    ) -> Environment:
        """Return the environment of a run that starts now, with its date appendix worked out once.

        Args:
            now: the start of the run, aware; the appendix is worked out in UTC.
            suffix: as in the class.
            appendix_format: for ``strftime``, for instance ``%y%V``; ignored without a suffix, since
                production has no appendix.
            target_suffix: as in the class; ignored without a suffix likewise.
        """
        from bollhav_provider.intervals import as_utc

        suffix = suffix or None
        if suffix is None:
            return cls()
        appendix = as_utc(now, "now").strftime(appendix_format) if appendix_format else None
        return cls(suffix, appendix or None, target_suffix or None)

    @staticmethod
    def current() -> Environment:
        """Return the environment that the running unit has made active, else production."""
        return _current.get() or Environment()

    @contextmanager
    def active(self) -> Iterator[Environment]:
        """Make this the environment of ``model.ref()`` and its like within a ``with`` block."""
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)

    @property
    def is_suffixed(self) -> bool:
        """Whether it is anything but production."""
        return self.suffix is not None

    @property
    def _tail(self) -> str:
        if self.suffix is None:
            return ""
        return f"_{self.suffix}_{self.appendix}_" if self.appendix else f"_{self.suffix}"

    @property
    def state_schema(self) -> str:
        """The schema of the library, the errors, the state tables and the staging tables."""
        return LIBRARY_SCHEMA + self._tail

    def schema(self, name: str) -> str:
        """Return a schema's name in this environment."""
        return name + self._tail

    def table(self, table: TableId) -> TableId:
        """Return a relation's identity in this environment.

        Raises:
            ConfigurationError: the suffix makes a name longer than PostgreSQL can hold.
        """
        if self.suffix is None:
            return table
        name = f"{table.name}_{self.target_suffix}" if self.target_suffix else table.name
        there = TableId(table.catalog, self.schema(table.schema), name)
        for what, text in (("schema", there.schema), ("name", there.name)):
            if problem := length_problem(text, f"{what} with the suffix"):
                raise ConfigurationError(f"{table.full_name}: {what}: {problem}, or use a shorter suffix")
        if problem := schema_problem(there.schema):
            raise ConfigurationError(f"{table.full_name}: schema: with the suffix {problem}, or use another suffix")
        return there

    def to_json(self) -> dict[str, str]:
        """Return the parts that are given, as JSON."""
        parts = {"suffix": self.suffix, "appendix": self.appendix, "target_suffix": self.target_suffix}
        return {key: value for key, value in parts.items() if value is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Environment:
        """Undo :meth:`to_json`.

        Raises:
            ConfigurationError: a key is unknown.
        """
        known = ("suffix", "appendix", "target_suffix")
        for key in data:
            if key not in known:
                raise ConfigurationError(f"environment: {key}: unknown{did_you_mean(key, known)}")
        return cls(**data)


_current: ContextVar[Environment | None] = ContextVar("bollhav_environment", default=None)
