"""The rules that concern a whole model (Semantics: definitions), all of them checked and reported together.

Rules that concern one piece alone are that piece's own ``problems``; here they get the path at which the
piece stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from bollhav_provider.exceptions import GridError
from bollhav_provider.model.enums import WriteMode
from bollhav_provider.model.grids import cell_problem, grid_problem
from bollhav_provider.model.names import length_problem, schema_problem
from bollhav_provider.model.pgtypes import type_problem
from bollhav_provider.model.query_rules import query_problems
from bollhav_provider.model.signature import RESERVED
from bollhav_provider.model.texts import text_problems

if TYPE_CHECKING:
    from datetime import datetime

    from bollhav_provider.intervals import Grid
    from bollhav_provider.model.base import Finding
    from bollhav_provider.model.environment import Environment
    from bollhav_provider.model.model import Model
    from bollhav_provider.model.timing import TimeChunking


def definition_problems(model: Model) -> Iterator[Finding]:
    """Yield everything that is wrong with a model's definition, in the order of its fields."""
    said: set[str] = set()
    for field, message in _rules(model):
        said.add(field)
        yield field, message
    # What a rule of its own has said better is not said again.
    yield from ((field, message) for field, message in text_problems(model) if field not in said)


def _rules(model: Model) -> Iterator[Finding]:
    yield from _within("target", model.target.problems())
    yield from _name_problems(model)
    yield from _kind_problems(model)
    yield from _write_problems(model)
    yield from _within("contract", model.contract.problems())
    if model.batching is not None:
        yield from _within("batching", model.batching.problems())
    yield from _upstream_problems(model)
    if model.state is not None:
        yield from _within("state", model.state.problems())
    yield from query_problems(model)
    yield from model.tags.problems()
    yield from _within("people", model.people.problems())
    if model.curfew is not None:
        yield from _within("curfew", model.curfew.problems())
    yield from _check_problems(model)
    yield from _airflow_problems(model)


def _within(path: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    for field, message in findings:
        yield f"{path}.{field}", message


def _name_problems(model: Model) -> Iterator[Finding]:
    derived = (("state table's name", model.state_table), ("staging table's name", model.staging_table))
    for what, name in derived:
        if problem := length_problem(name, what):
            yield (
                "target.name",
                f"{problem} (it is made of the model's full name; letters beyond ASCII take several bytes each)",
            )
            return
    names = {model.target.name: "the table"}
    keys = model.keys
    for key in () if model.is_view else keys:
        if key.name in names:
            yield (
                "key" if model.key and key.columns == model.key else "target.columns",
                f"the key on ({', '.join(key.columns)}) would be called {key.name!r}, as {names[key.name]} is; "
                "rename a column",
            )
        names[key.name] = f"the key on ({', '.join(key.columns)})"
    for key in keys[len(model.target.keys()) :] if model.key else ():
        if problem := length_problem(key.name, "unique constraint's name"):
            yield "key", f"{problem} (it is made of the table's and the key's names)"


def _kind_problems(model: Model) -> Iterator[Finding]:
    if not model.is_temporal:
        what = "a view" if model.is_view else "a timeless model"
        otherwise = "" if model.is_view else ", or write temporality='temporal'"
        if model.batching is not None:
            yield "batching", f"{what} has no windows to cut; leave batching out{otherwise}"
        for bound in ("begin", "end"):
            if getattr(model.contract, bound) is not None:
                yield f"contract.{bound}", f"{what} has no range in time; leave it out{otherwise}"
    elif model.is_view and model.batching is not None:
        yield "batching", "a view is computed when it is read and has no units; leave batching out"
    if model.is_view:
        yield from _view_problems(model)


def _view_problems(model: Model) -> Iterator[Finding]:
    target = model.target
    if model.query is None:
        yield "query", "a view is its query; write query='SELECT ...', or materialization='table'"
    if target.staging is not None:
        yield "target.staging", "a view holds no rows to stage; leave it out"
    for flag in ("recreate_table", "truncate_table"):
        if getattr(target, flag):
            yield f"target.{flag}", "a view holds no rows; leave it out"
    if "write_mode" in target.model_fields_set and not (target.recreate_table or target.truncate_table):
        yield "target.write_mode", "a view is never written; leave it out"
    if target.indexes:
        yield (
            "target.indexes",
            "PostgreSQL has no indexes on views; leave them out, or put them on the tables that the view reads",
        )
    if model.checks:
        yield "checks", "a view writes no rows that could be checked; put the checks on the models that it reads"
    if model.key:
        yield "key", "a view has no key; leave it out"
    if "allow_empty" in model.model_fields_set:
        yield "allow_empty", "a view writes no rows that could be missing; leave it out"


def _write_problems(model: Model) -> Iterator[Finding]:
    target = model.target
    known = {column.name for column in target.columns}
    for name in model.key:
        if name not in known:
            declared = f"; declared are {', '.join(sorted(known))}" if known else "; the target declares no columns"
            yield (
                "key",
                (
                    f"column {name!r} is not declared{declared}; add Column({name!r}, ...) to "
                    "target.columns or correct the name"
                ),
            )
    if len(set(model.key)) < len(model.key):
        yield "key", "a column is named twice; name each once"
    mode = target.write_mode
    if mode is WriteMode.UPSERT and not model.key and not model.key_columns:
        yield (
            "target.write_mode",
            "upsert needs a key to find rows again by; write primary_key=True on the columns that identify a row, "
            "or key=[...] on the model, or write_mode='recreate_partition'",
        )
    if mode is WriteMode.UPSERT or model.key or target.primary_key:
        yield from _nullable_key_problems(model)
    if mode is WriteMode.RECREATE_PARTITION:
        if not target.partition_columns:
            yield (
                "target.write_mode",
                "recreate_partition deletes the rows of a window and needs the column that says which they are; "
                "write partition_on=True on one column of type date, timestamp or timestamptz",
            )
        if model.is_windowless:
            yield (
                "target.write_mode",
                "recreate_partition deletes a window, and a model without time chunks has none; "
                "write batching=Batch(time=TimeChunking(...)), "
                "or write_mode='truncate'",
            )
    yield from _partition_problems(model)


def _nullable_key_problems(model: Model) -> Iterator[Finding]:
    for column in model.key_columns:
        if column.nullable and not column.nulls_not_distinct:
            yield (
                f"target.columns[{column.name!r}].nullable",
                "the column is part of the key, and a row with NULL in it would be added again by "
                "every run; write nullable=False, "
                "or nulls_not_distinct=True so that NULLs are the same (PostgreSQL 15 and later)",
            )


def _partition_problems(model: Model) -> Iterator[Finding]:
    """A date cannot tell windows apart that do not begin at local midnight."""
    column, time = model.partition_column, _chunking(model)
    if column is None or time is None or type_problem(column.type) is not None or column.pg_type.name != "date":
        return
    if grid_problem(time.chunk, time.tz) is None and cell_problem(time.chunk, "@daily", time.tz) is not None:
        yield (
            f"target.columns[{column.name!r}].partition_on",
            f"a date cannot tell the windows of {time.chunk!r} apart, which do not all begin at midnight in {time.tz}; "
            "write a column of type timestamptz, or a chunk of whole days",
        )


def _chunking(model: Model) -> TimeChunking | None:
    return model.batching.time if model.is_temporal and model.batching is not None else None


def _upstream_problems(model: Model) -> Iterator[Finding]:
    aliases: dict[str, str] = {}
    for source in model.upstream:
        where = f"upstream[{source.name!r}]"
        yield from _within(where, source.problems())
        if source.is_unknown:
            if len(model.upstream) > 1:
                yield where, "it stands for inputs that nobody declared, and others are declared; remove it"
            continue
        alias = source.alias_name
        if alias in RESERVED:
            yield (
                f"{where}.alias",
                f"{alias!r} is a parameter with a meaning of its own ({', '.join(RESERVED)}); give "
                "the source another alias, "
                f"such as alias={alias + '_rows'!r}",
            )
        elif alias in aliases:
            yield (
                f"{where}.alias",
                (
                    f"{alias!r} is the alias of {aliases[alias]!r} too, so a function or query could "
                    "not tell them apart; give one of them an alias"
                ),
            )
        aliases.setdefault(alias, source.name)
        if source.is_gated and source.is_relation and model.state is None:
            yield (
                f"{where}.contract",
                (
                    f"{source.contract} would never be enforced, because gates are part of the state; "
                    "write state=State(), or leave contract out"
                ),
            )
        if any(model.table_of(source, key) == model.identity for key in source.keys):
            yield (
                f"{where}.name",
                (
                    "the model depends on itself; remove the source (a running total that reads its "
                    "own past needs state=State(sequential=True))"
                ),
            )


def _check_problems(model: Model) -> Iterator[Finding]:
    known = {column.name for column in model.target.columns}
    labels: set[str] = set()
    for position, check in enumerate(model.checks):
        where = f"checks[{position}]"
        yield from _within(where, check.problems())
        if len(set(check.column_names)) < len(check.column_names):
            yield f"{where}.columns", "a column is named twice; name each once"
        for name in check.column_names:
            if known and name not in known:
                yield where, f"column {name!r} is not declared; declared are {', '.join(sorted(known))}"
        if check.label in labels:
            yield f"{where}.name", f"{check.label!r} is the name of another check; give one of them a name"
        labels.add(check.label)


def _airflow_problems(model: Model) -> Iterator[Finding]:
    yield from _within("airflow", model.airflow.problems())
    if model.airflow.cron is not None and _chunking(model) is not None:
        yield (
            "airflow.schedule",
            f"{model.airflow.cron!r}: a model with time chunks is scheduled by its own windows; leave it out, "
            "or say with TimeChunking(window=...) what one scheduled run covers",
        )


def environment_problems(model: Model, env: Environment) -> Iterator[Finding]:
    """Yield the names that an environment's suffixes make longer than PostgreSQL can hold."""
    if not env.is_suffixed:
        return
    schema = env.schema(model.target.schema)
    if problem := schema_problem(schema):
        yield "target.schema", f"with the suffix {problem}, or use another suffix"
    table = f"{model.target.name}_{env.target_suffix}" if env.target_suffix else model.target.name
    names = [("target.schema", "schema with the suffix", schema), ("target.name", "name with the suffix", table)]
    names += [
        ("target.columns", "constraint's name with the suffix", key.name) for key in model.target.keys(model.key, table)
    ]
    names += [
        ("target.indexes", "index's name with the suffix", str(index.name)) for index in model.target.index_list(table)
    ]
    for source in model.gated:
        found = [model.table_of(source, key) for key in source.keys]
        names += [
            (f"upstream[{source.name!r}]", "schema with the suffix", env.schema(item.schema)) for item in found if item
        ]
    for field, what, name in names:
        if problem := length_problem(name, what):
            yield field, f"{problem}, or use a shorter suffix"


def definition_warnings(model: Model) -> Iterator[str]:
    """Yield what is legal and probably not meant, for a model without problems."""
    time = _chunking(model)
    if time is None:
        return
    yield from (f"batching.time.{text}" for text in time.grid.warnings)
    if time.window is not None and time.run_grid.expression != time.grid.expression:
        yield from (f"batching.time.{text.replace('chunk:', 'window:', 1)}" for text in time.run_grid.warnings)
    yield from _contract_warnings(model, time)
    if model.target.write_mode in (WriteMode.TRUNCATE, WriteMode.RECREATE):
        yield (
            f"target.write_mode: {model.target.write_mode.value!r} empties the table before every "
            "window, so that only the rows of the last "
            "one remain; write 'recreate_partition' to keep the others, or leave batching out"
        )


def _contract_warnings(model: Model, time: TimeChunking) -> Iterator[str]:
    begin, end = model.contract.begin, model.contract.end
    if begin is None:
        return
    try:
        first, until = _first_window(time.grid, begin)
    except GridError:
        yield f"contract.begin: the chunk {time.chunk!r} has no window after {_show(begin)}"
        return
    if end is not None and until > end:
        yield (
            f"contract.end: no whole window of {time.chunk!r} lies between begin and end; the first one would be "
            f"[{_show(first)}, {_show(until)})"
        )
    elif first != begin:
        yield (
            f"contract.begin: {_show(begin)} is no tick of {time.chunk!r} in {time.tz}; the first "
            f"window is [{_show(first)}, {_show(until)})"
        )


@lru_cache(maxsize=256)
def _first_window(grid: Grid, begin: datetime) -> tuple[datetime, datetime]:
    """Return the first whole window; many models of a deployment begin at the same instant."""
    first = grid.ceil(begin)
    return first, grid.next(first)


def _show(instant: object) -> str:
    from bollhav_provider.intervals import instant_text

    return instant_text(instant)  # type: ignore[arg-type]
