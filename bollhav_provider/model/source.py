"""A model's inputs: what each is, how it is found, and whether it gates."""

import re
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from bollhav_provider.model.base import Definition, Finding, shown
from bollhav_provider.model.enums import UpstreamContract
from bollhav_provider.model.later import Later
from bollhav_provider.model.names import name_problem
from bollhav_provider.model.source_model import SourceModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bollhav_provider.model.freshness import Freshness
    from bollhav_provider.model.source_types import SourceType
else:
    Freshness = Annotated[Any, Later("freshness:Freshness")]
    SourceType = Annotated[Any, Later("source_types:SourceType", SourceModel)]

#: Names of sources that stand for "nothing was declared".
UNKNOWN_PREFIX = "unknown-"


class Source(Definition):
    """One input: ``Source("raw.flights", contract=UpstreamContract.EXACT)``.

    The name is a key that is looked up among all models: ``orders`` in the model's own schema, ``shop.orders``,
    ``db.shop.orders``, ``*.orders`` in any schema, or a list of these. With a ``contract`` the source gates.
    """

    _positional: ClassVar[tuple[str, ...]] = ("name",)

    name: str = Field(description="The key; of a list of keys, the first.")
    more_names: tuple[str, ...] = Field(default=(), description="The other keys of a list.")
    type: SourceType | None = Field(default_factory=SourceModel, description="What the input is and how it is read.")
    contract: UpstreamContract | None = Field(
        default=None, description="How much of the input must be applied before a unit runs; not given: it never waits."
    )
    freshness: Freshness | None = Field(default=None, description="How recently it must have been loaded.")
    alias: str | None = Field(
        default=None, description="The name in the execute function and the query; not given: the key's last part."
    )
    optional: bool = Field(default=False, description="Whether a key that matches no model is fine.")
    many: bool = Field(default=False, description="Whether the key may match several models.")
    deactivate_for_dev: bool = Field(
        default=False, description="In a run with a schema suffix: read production and do not wait."
    )
    max_lag: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="How many of the input's last windows may be missing; what was missing is recorded with the unit.",
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            name: "str | Sequence[str]",
            *,
            type: "SourceType | str | None" = ...,
            contract: UpstreamContract | str | None = None,
            freshness: "Freshness | None" = None,
            alias: str | None = None,
            optional: bool = False,
            many: bool = False,
            deactivate_for_dev: bool = False,
            max_lag: int = 0,
            more_names: "Sequence[str]" = (),
        ) -> None: ...

    @classmethod
    def _prepare(cls, data: dict[str, Any]) -> dict[str, Any]:
        names, kind = data.get("name"), data.get("type")
        if isinstance(names, list | tuple) and names:
            data = {**data, "name": names[0], "more_names": (*names[1:], *data.get("more_names", ()))}
        if isinstance(kind, str):
            data = {**data, "type": {"kind": kind.strip().lower()}}
        elif isinstance(kind, dict) and "kind" not in kind:
            data = {**data, "type": {"kind": "model", **kind}}
        return data

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys, in order."""
        return (self.name, *self.more_names)

    @property
    def kind(self) -> str:
        """``model``, ``file``, ``api``, ``hardcoded`` or ``unknown``."""
        return self.type.kind if self.type is not None else "unknown"

    @property
    def is_unknown(self) -> bool:
        """Whether it stands for inputs that were not declared."""
        return self.type is None

    @property
    def is_gated(self) -> bool:
        """Whether units wait for it."""
        return self.contract is not None

    @property
    def is_relation(self) -> bool:
        """Whether SQL can name it."""
        return isinstance(self.type, SourceModel)

    @property
    def is_wildcard(self) -> bool:
        """Whether it can match models of any schema, or of several."""
        return bool(self.more_names) or self.name.startswith("*.")

    @property
    def alias_name(self) -> str:
        """The name by which functions and queries know it: the alias, else the last part of the key.

        It is written as Python writes names, so that an accent is found however it was typed.
        """
        return python_name(self._written_alias)

    @property
    def _written_alias(self) -> str:
        if self.alias is not None:
            return self.alias
        if self.kind == "file":
            # A file is often named after itself, and "orders.csv" is orders.
            stem, dot, ending = self.name.rpartition(".")
            if dot and ending.lower() in ("csv", "tsv", "json", "ndjson", "jsonl", "parquet", "txt", "gz", "zip"):
                return stem.split(".")[-1].rpartition("/")[2]
        return self.name.rpartition(".")[2]

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the source by itself."""
        if self.is_unknown:
            if not self.name.startswith(UNKNOWN_PREFIX):
                yield (
                    "type",
                    (
                        "None stands for inputs that nobody declared; write type=SourceModel(), "
                        "SourceFile(...), SourceApi(...) or SourceHardcoded(...)"
                    ),
                )
            return
        if self.is_relation:
            for key in self.keys:
                if problem := key_problem(key):
                    yield "name", problem
            yield from self._place_problems()
        elif not self.name.strip():
            yield "name", "the name is empty; give the source a name"
        yield from self._type_problems()
        yield from self._gate_problems()
        keys_read = not self.is_relation or not any(key_problem(key) for key in self.keys)
        alias = self.alias_name
        if (keys_read or self.alias is not None) and not alias.isidentifier():
            yield (
                "alias",
                (
                    f"{shown(alias)} cannot be the name of a parameter; give the source an alias "
                    f"such as alias={_as_alias(alias)!r}"
                ),
            )

    def _place_problems(self) -> Iterator[Finding]:
        assert isinstance(self.type, SourceModel)
        parts = self.name.split(".")
        for field, given, named in (
            ("schema", self.type.schema, parts[-2] if len(parts) > 1 else None),
            ("catalog", self.type.catalog, parts[-3] if len(parts) > 2 else None),
        ):
            if given is None:
                continue
            if named is not None and named != given:
                yield f"type.{field}", f"{given!r} contradicts the name {self.name!r}; keep one of the two"
            elif problem := name_problem(given, field):
                yield f"type.{field}", problem
        if self.type.dsn_env_var and self.type.conn_id:
            yield "type.conn_id", "dsn_env_var and conn_id both say where the relation is; keep one"

    def _type_problems(self) -> Iterator[Finding]:
        if self.type is not None:
            for field, message in self.type.problems():
                yield f"type.{field}", message

    def _gate_problems(self) -> Iterator[Finding]:
        if self.contract is not None and not self.is_relation:
            yield (
                "contract",
                f"{self.contract.value!r} on a {type(self.type).__name__}: files, APIs and inline "
                "data have no state to wait for; "
                "leave contract out, or load the input with a model of its own and wait for that",
            )
        if self.freshness is not None:
            if self.contract is None:
                yield (
                    "freshness",
                    (
                        "there is no contract, so nothing selects the rows whose age is meant; add "
                        "contract=..., for instance 'whole'"
                    ),
                )
            elif self.contract is UpstreamContract.EXISTS:
                yield (
                    "freshness",
                    "'exists' never looks at rows, so there is no age; use another contract, or leave freshness out",
                )
            for field, message in self.freshness.problems():
                yield f"freshness.{field}", message
        if self.deactivate_for_dev and self.contract is None:
            yield (
                "deactivate_for_dev",
                "a source without contract is read from production in any case; leave it out, or add contract=...",
            )
        if self.max_lag and self.contract in (None, UpstreamContract.EXISTS, UpstreamContract.EXACT):
            yield (
                "max_lag",
                (
                    "lag is what a contract over several windows may miss; it needs contract "
                    "'encapsulate', 'through' or 'whole'"
                ),
            )
        if len(set(self.keys)) < len(self.keys):
            yield "name", "a key is listed twice; list each once"


def key_problem(key: str) -> str | None:
    """Say what is wrong with a key, or None."""
    parts = key.split(".")
    forms = "write 'orders', 'shop.orders', 'db.shop.orders' or '*.orders'"
    if not 1 <= len(parts) <= 3 or not all(part.strip() for part in parts) or key != key.strip():
        return f"{key!r} is no key; {forms}"
    if ("*" in parts[0] and (parts[0] != "*" or len(parts) != 2)) or any("*" in part for part in parts[1:]):
        return f"{key!r} has its star in the wrong place; {forms}"
    return next((problem for part in parts if (problem := name_problem(part, "part of the key"))), None)


def python_name(name: str) -> str:
    """Return a name as Python's parser keeps it (NFKC)."""
    return name if name.isascii() else unicodedata.normalize("NFKC", name)


def _as_alias(text: str) -> str:
    alias = re.sub(r"[^a-zA-Z0-9_]+", "_", text).strip("_")[:40] or "source"
    return f"_{alias}" if alias[0].isdigit() else alias
