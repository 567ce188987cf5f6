"""The table or view that a model makes."""

import warnings
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import Field

from bollhav_provider.model.base import Definition, Finding
from bollhav_provider.model.column import MAX_INDEX_COLUMNS, Column, Index
from bollhav_provider.model.enums import OnSchemaChange, WriteMode
from bollhav_provider.model.instants import Duration
from bollhav_provider.model.later import Later
from bollhav_provider.model.names import TableId, constraint_name, length_problem, name_problem, schema_problem

#: Other ways to write a write mode, as older definitions have them.
_MODE_FLAGS = {"truncate_table": WriteMode.TRUNCATE, "recreate_table": WriteMode.RECREATE}


_MAX_COLUMNS = 1600


class Staging(Definition):
    """Keep the rows of each unit in a staging table of the library's schema before they go to the target.

    The staging rows and the target's are committed together with the unit's state. Writing needs no staging;
    it is for those who want to see afterwards what a unit delivered.
    """

    keep: Duration = Field(
        default=timedelta(days=7), ge=timedelta(0), description="How long the rows of a unit are kept after its commit."
    )
    unlogged: bool = Field(
        default=True, description="Whether the staging table is UNLOGGED: faster, but emptied when the server crashes."
    )


class KeyConstraint(NamedTuple):
    """A key that the target table has.

    Attributes:
        name: of the constraint.
        columns: in order.
        primary: whether it is the primary key.
        nulls_not_distinct: whether two NULLs are the same, so that a nullable column can be in the key.
    """

    name: str
    columns: tuple[str, ...]
    primary: bool
    nulls_not_distinct: bool = False


# A field may be called "schema" although pydantic once had a method of that name.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)

    class Target(Definition):
        """The table or view that a model makes, and how rows are written to it."""

        _positional: ClassVar[tuple[str, ...]] = ()

        schema: str = Field(description="The schema, without any suffix.")  # type: ignore[assignment]
        name: str = Field(description="The table's or view's name, without any suffix.")
        catalog: str | None = Field(default=None, description="The database, as part of the model's identity.")
        write_mode: WriteMode = Field(
            default=WriteMode.APPEND, description="What happens to the rows that are already in the target."
        )
        columns: tuple[Column, ...] = Field(default=(), description="The columns, in order.")
        indexes: Annotated[tuple[Index, ...], Later("column:Indexes")] = Field(
            default=(), description="Indexes beyond those that keys bring along."
        )
        dsn_env_var: str | None = Field(default=None, description="Environment variable that holds the target's DSN.")
        conn_id: str | None = Field(default=None, description="Airflow connection of the target's database.")
        on_schema_change: OnSchemaChange = Field(
            default=OnSchemaChange.FAIL, description="What to do when the table and the declaration differ."
        )
        staging: Annotated[Staging, Later("target:Staging")] | None = Field(
            default=None, description="Keep the staged rows of each unit."
        )
        truncate_table: bool = Field(default=False, description="Another way to write `write_mode: truncate`.")
        recreate_table: bool = Field(default=False, description="Another way to write `write_mode: recreate`.")

        if TYPE_CHECKING:

            def __init__(
                self,
                *,
                schema: str,
                name: str,
                catalog: str | None = None,
                write_mode: WriteMode | str = WriteMode.APPEND,
                columns: Sequence[Column] = (),
                indexes: Sequence[Index] = (),
                dsn_env_var: str | None = None,
                conn_id: str | None = None,
                on_schema_change: OnSchemaChange | str = OnSchemaChange.FAIL,
                staging: Staging | None = None,
                truncate_table: bool = False,
                recreate_table: bool = False,
            ) -> None: ...

        @classmethod
        def _prepare(cls, data: dict[str, Any]) -> dict[str, Any]:
            if "write_mode" not in data:
                for flag, mode in _MODE_FLAGS.items():
                    if data.get(flag) is True:
                        return {**data, "write_mode": mode}
            return data

        @property
        def identity(self) -> TableId:
            """(catalog, schema, name), without suffixes."""
            return TableId(self.catalog, self.schema, self.name)

        @property
        def full_name(self) -> str:
            """``[catalog.]schema.name``, without suffixes."""
            return self.identity.full_name

        @property
        def primary_key(self) -> tuple[Column, ...]:
            """The columns of the primary key, in order."""
            return tuple(column for column in self.columns if column.primary_key)

        @property
        def partition_columns(self) -> tuple[Column, ...]:
            """The columns with ``partition_on``; a valid target has at most one."""
            return tuple(column for column in self.columns if column.partition_on)

        @property
        def order_columns(self) -> tuple[Column, ...]:
            """The columns whose greatest value wins among rows of one key, in order of importance."""
            return tuple(column for column in self.columns if column.order_by)

        def column(self, name: str) -> Column | None:
            """Return a column by its name, or None."""
            return next((column for column in self.columns if column.name == name), None)

        def keys(self, key: tuple[str, ...] = (), table: str | None = None) -> tuple[KeyConstraint, ...]:
            """Return the keys that the table has: primary key, unique columns, and the model's own key.

            Args:
                key: the columns of the model's ``key``, if it has one.
                table: the table's name with the environment's suffix, which the names are made of.
            """
            table = table or self.name
            found: list[KeyConstraint] = []
            primary = self.primary_key
            if primary:
                loose = any(column.nullable for column in primary)
                names = tuple(column.name for column in primary)
                # PostgreSQL makes primary key columns NOT NULL, so a key with a nullable one is a unique
                # constraint.
                name = constraint_name(table, names, "key") if loose else constraint_name(table, (), "pkey")
                found.append(KeyConstraint(name, names, not loose, loose))
            for column in self.columns:
                if column.unique:
                    name = constraint_name(table, (column.name,), "key")
                    found.append(KeyConstraint(name, (column.name,), False, column.nulls_not_distinct))
            if key and set(key) not in [set(known.columns) for known in found]:
                loose = any(item.nullable for name in key if (item := self.column(name)))
                found.append(KeyConstraint(constraint_name(table, key, "key"), key, False, loose))
            return tuple(found)

        def index_list(self, table: str | None = None) -> tuple[Index, ...]:
            """Return the declared indexes, all named, and one on the partition column unless something leads
            with it.

            Args:
                table: the table's name with the environment's suffix, which the names are made of.
            """
            table = table or self.name
            named = [
                index if index.name else index.replace(name=constraint_name(table, index.columns, "idx"))
                for index in self.indexes
            ]
            leading = {key.columns[0] for key in self.keys()} | {
                index.columns[0] for index in self.indexes if not index.where
            }
            for column in self.partition_columns:
                if column.name not in leading:
                    named.append(Index(column.name, name=constraint_name(table, (column.name,), "idx")))
            return tuple(named)

        def problems(self) -> Iterator[Finding]:
            """Yield what is wrong with the target by itself, its columns and indexes included."""
            for field in ("schema", "name", "catalog"):
                value = getattr(self, field)
                if value is not None and (problem := name_problem(value, f"target's {field}")):
                    yield field, problem
            if problem := schema_problem(self.schema):
                yield "schema", problem
            yield from self._column_problems()
            yield from self._index_problems()
            flags = [flag for flag in _MODE_FLAGS if getattr(self, flag)]
            if len(flags) > 1:
                yield flags[1], f"{' and '.join(flags)} exclude each other; keep one, or write write_mode"
            elif flags and self.write_mode is not _MODE_FLAGS[flags[0]]:
                yield (
                    flags[0],
                    (
                        f"means write_mode={_MODE_FLAGS[flags[0]].value!r}, but write_mode is "
                        f"{self.write_mode.value!r}; keep one of the two"
                    ),
                )
            if self.dsn_env_var and self.conn_id:
                yield "conn_id", "dsn_env_var and conn_id both say where the target is; keep one"

        def _column_problems(self) -> Iterator[Finding]:
            seen: set[str] = set()
            for position, column in enumerate(self.columns):
                where = f"columns[{column.name!r}]" if column.name else f"columns[{position}]"
                for field, message in column.problems():
                    yield f"{where}.{field}", message
                if column.name in seen:
                    yield where, "the column is declared twice; keep one"
                seen.add(column.name)
            if len(self.columns) > _MAX_COLUMNS:
                yield "columns", f"a table of PostgreSQL has at most {_MAX_COLUMNS} columns, not {len(self.columns)}"
            if len(self.partition_columns) > 1:
                names = ", ".join(repr(column.name) for column in self.partition_columns)
                yield (
                    "columns",
                    f"{names} all have partition_on=True; a row belongs to one window, so keep it on one column",
                )
            for key in self.keys():
                if len(key.columns) > MAX_INDEX_COLUMNS:
                    yield "columns", f"a key of PostgreSQL has at most {MAX_INDEX_COLUMNS} columns"
                what = "primary key's name" if key.primary else "unique constraint's name"
                if problem := length_problem(key.name, what):
                    yield "columns", problem + " (it is made of the table's and the columns' names)"

        def _index_problems(self) -> Iterator[Finding]:
            known = {column.name for column in self.columns}
            names: set[str] = {self.name, *(key.name for key in self.keys())}
            for position, index in enumerate(self.index_list()):
                where = f"indexes[{position}]" if position < len(self.indexes) else "columns"
                for field, message in index.problems():
                    remedy = " (it is made of the table's and the columns' names; or give the Index a name)"
                    given = position < len(self.indexes) and self.indexes[position].name
                    yield (
                        f"{where}.{field}" if where != "columns" else where,
                        message + ("" if given or field != "name" else remedy),
                    )
                for name in index.columns:
                    if known and name not in known:
                        yield (
                            where,
                            f"column {name!r} is not declared; declare it, or index one of {', '.join(sorted(known))}",
                        )
                if index.name in names:
                    yield (
                        where,
                        f"the name {index.name!r} is taken by another index, a constraint or the table; "
                        "give the Index another name",
                    )
                names.add(str(index.name))
