"""Whatever is given for whatever argument: a definition is made, or refused in words, and nothing else happens."""

from __future__ import annotations

import copy
import itertools
import pickle
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import bollhav_provider.model as language
from bollhav_provider import (
    AcceptedValues,
    Batch,
    ChunkFlex,
    Column,
    Contract,
    Curfew,
    DefinitionError,
    Freshness,
    InRange,
    Model,
    NotNull,
    Source,
    SourceFile,
    SourceHardcoded,
    SourceModel,
    State,
    Tags,
    Target,
    TimeChunking,
    UpstreamContract,
    WriteMode,
)
from bollhav_provider.model.base import Definition


class Unshowable:
    """A value that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Lengthy:
    """A value that is shown at length."""

    def __repr__(self) -> str:
        return "x" * 100_000


ITSELF: list[Any] = []
ITSELF.append(ITSELF)
ROUND: dict[str, Any] = {}
ROUND["again"] = ROUND

#: Values that somebody might give, by mistake or on purpose.
ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 10**400, 1.5, float("nan"), float("inf"), complex(1, 2), Decimal("1e9999"), ...),
    *("", " ", "a", "\x00", "a\x00b", "a.b", "\ud800", "é" * 100, "x" * 100_000, "{", "{a}", "%", "'", "a;b", "🚚"),
    *("2024-01-01", "0001-01-01T00:00Z", "9999-12-31T23:59Z", "9" * 30 + "d", "1e400", "P9999999D", "-1d"),
    *("@once", "@daily", "Mars/Olympus", "None", "z_bollhav", "pg_catalog", "xmin"),
    *(b"x", bytearray(b"x"), (), [], {}, set(), [None], ["a"], ["a", "a"], [[]], [["a"]], {"a": 1}, {1: 2}, [{1: 2}]),
    *({"name": "x"}, {"kind": "x"}, {"kind": None}, {"kind": []}, ITSELF, ROUND, range(3), frozenset([1])),
    *(object(), object, type, print, lambda x: x, Unshowable(), Lengthy(), Exception("x"), Path("x"), Path("a\x00")),
    *(datetime.max, datetime.min.replace(tzinfo=UTC), date.max, time(1), timedelta.max, timedelta.min, timedelta(1)),
]

#: What a piece cannot do without.
NEEDED: dict[str, dict[str, Any]] = {
    "Target": {"schema": "shop", "name": "orders"},
    "Column": {"name": "a", "type": "text"},
    "Index": {"columns": ["a"]},
    "Source": {"name": "raw.x"},
    "SourceFile": {"path": "x.csv"},
    "SourceHardcoded": {"rows": [{"a": 1}]},
    "TimeChunking": {"chunk": "@daily"},
    "Freshness": {"within": "1d"},
    "Curfew": {"ranges": [("01:00", "02:00")]},
    "NotNull": {"columns": ["a"]},
    "Unique": {"columns": ["a"]},
    "AcceptedValues": {"column": "a", "values": [1]},
    "InRange": {"column": "a", "min": 1},
    "Relationship": {"column": "a", "to": "ref.b"},
    "RowCount": {"min": 1},
    "ColumnFreshness": {"column": "a", "within": "1d"},
    "Expression": {"sql": "a > 1"},
    "Model": {"target": Target(schema="shop", name="orders")},
}


def model(**fields: Any) -> Model:
    return Model(**{"target": Target(schema="shop", name="orders"), **fields})


def in_target(**fields: Any) -> Model:
    return model(target=Target(schema="shop", name="orders", **{"columns": [Column("a", "text")], **fields}))


def as_type(piece: Any) -> Model:
    return model(upstream=[Source("raw.x", type=piece)])


def as_check(piece: Any) -> Model:
    return Model(target=Target(schema="shop", name="orders", columns=[Column("a", "text")]), checks=[piece])


#: The model that a piece becomes part of, so that the rules see it.
AROUND: dict[str, Callable[[Any], Model]] = {
    "Target": lambda piece: Model(target=piece),
    "Column": lambda piece: in_target(columns=[piece]),
    "Index": lambda piece: in_target(indexes=[piece]),
    "Staging": lambda piece: in_target(staging=piece),
    "Source": lambda piece: model(upstream=[piece], state=State()),
    "Freshness": lambda piece: model(upstream=[Source("raw.x", contract="whole", freshness=piece)], state=State()),
    "Contract": lambda piece: model(contract=piece, batching=Batch(time=TimeChunking("@daily"))),
    "Batch": lambda piece: model(batching=piece),
    "TimeChunking": lambda piece: model(contract=Contract(begin="2024-01-01T00:00Z"), batching=Batch(time=piece)),
    "ChunkFix": lambda piece: model(batching=Batch(time=TimeChunking("@daily", flexibility=piece))),
    "ChunkFlex": lambda piece: model(batching=Batch(time=TimeChunking("@daily", flexibility=piece))),
    "State": lambda piece: model(state=piece),
    "People": lambda piece: model(people=piece),
    "Curfew": lambda piece: model(curfew=piece),
    "AirflowOptions": lambda piece: model(airflow=piece),
    "Model": lambda piece: piece,
    **dict.fromkeys(("SourceModel", "SourceFile", "SourceApi", "SourceHardcoded"), as_type),
    **dict.fromkeys(
        (
            "NotNull",
            "Unique",
            "AcceptedValues",
            "InRange",
            "Relationship",
            "RowCount",
            "ColumnFreshness",
            "Expression",
        ),
        as_check,
    ),
}


def test_every_piece_of_the_language_is_tried() -> None:
    pieces = {name for name in language.__all__ if isinstance(getattr(language, name), type)}
    pieces = {name for name in pieces if issubclass(getattr(language, name), Definition)}
    assert pieces - {"Check", "Definition"} == set(AROUND)


def assert_readable(error: DefinitionError) -> None:
    assert error.problems
    assert all(problem.message.strip() for problem in error.problems)
    assert "\x00" not in error.problems[0].model
    assert len(str(error)) < 8000


def odd_pieces(name: str) -> Iterator[dict[str, Any]]:
    for field, value in itertools.product(getattr(language, name).model_fields, ODD):
        yield {**NEEDED.get(name, {}), field: value}


@pytest.mark.parametrize("name", AROUND)
def test_an_odd_value_is_taken_or_refused_in_words(name: str) -> None:
    for arguments in odd_pieces(name):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = AROUND[name](getattr(language, name)(**arguments))
                again = made.replace()
        except DefinitionError as error:
            assert_readable(error)
        else:
            # What is taken can be compared, stored, shown and registered.
            assert made == again
            assert len({made, again}) == 1
            assert made.fingerprint == again.fingerprint
            assert made.state_table
            assert made.lineage()
            str(made.full_name).encode()


T = Target(schema="shop", name="orders")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: Model(target=T, state=State), "state: State is a class; write State(...), with parentheses"),
        (lambda: Source("a", type=SourceModel), "type: SourceModel is a class; write SourceModel(...), with"),
        (lambda: Model(target=T, checks=[NotNull]), "checks[0]: NotNull is a class; write NotNull(...), with"),
        (lambda: TimeChunking("@daily", flexibility=ChunkFlex), "flexibility: ChunkFlex is a class"),
        (lambda: Target(schema="a", name="b", write_mode=WriteMode), "write_mode: WriteMode is a class"),
        (
            lambda: Model(target="shop.orders"),
            "Model: target: must be a Target, as in Target(...), or a mapping of its fields, not 'shop.orders'",
        ),
        (
            lambda: Model(target=T, contract=UpstreamContract.EXACT),
            "contract: must be a Contract, as in Contract(...), or a mapping of its fields, not "
            "<UpstreamContract.EXACT: 'exact'>",
        ),
        (lambda: Model(target=T, contract=None), "contract: must be a Contract, as in Contract(...), or a mapping"),
        (lambda: Model(target=T, batching="@daily"), "batching: must be a Batch, as in Batch(...), or a mapping"),
        (
            lambda: Model(target=T, upstream=[Model(target=Target(schema="raw", name="x"))]),
            "upstream[0]: must be a Source, not the model itself; write Source('raw.x')",
        ),
        (lambda: Model(target=T, upstream={"a": 1}), "upstream: must be a list, not {'a': 1}"),
        (lambda: Model(target=T, upstream={"raw.a", "raw.b"}), "upstream: a set has another order in every process"),
        (lambda: Model(target=T, key={"a", "b"}), "key: a set has another order in every process; write a list"),
        (lambda: Model(target=T, tags={"a", "b"}), "tags: a set has another order in every process; write a list"),
        (lambda: Model(target=T, tags=[1]), "tags: must be words, and 1 is none; write for instance tags=['daily']"),
        (lambda: Model(target={1: 2}), "target: the key 1 is no text; write the names of a mapping as texts"),
        (lambda: Target(schema="a", name="b", columns=[{1: 2}]), "columns[0]: the key 1 is no text"),
        (lambda: SourceHardcoded(rows=[{1: 2}]), "rows[0]: the key 1 is no text"),
        (lambda: Target(schema="a", name="b", write_mode="apend"), "not 'apend'; did you mean 'append'?"),
        (lambda: Source(["a", 3]), "more_names[0]: must be a string, not 3"),
        (
            lambda: Freshness("soon"),
            "within: must be a duration: a timedelta, '36h', '7d', 'PT30M' or a number of seconds, not 'soon'",
        ),
        (lambda: Freshness(True), "within: must be a number, not True"),
        (lambda: Freshness("9" * 30 + "d"), "within: 999999999 days, 23:59:59.999999 is longer than a thousand years"),
        (lambda: TimeChunking("@daily", lookback=True), "lookback: must be a number, not True"),
        (lambda: Batch(size=1.5), "size: must be a whole number, not 1.5"),
        (lambda: NotNull([]), "columns: must not be empty"),
        (lambda: InRange("a", min=[1]), "min: must be a number, a text, a date or an instant, not [1]"),
        (lambda: InRange("a", min=float("nan")), "min: NaN is greater than every number to PostgreSQL"),
        (lambda: AcceptedValues("a", [None]), "values[0]: must be a number, a text, a date or an instant, not None"),
        (lambda: Curfew(ranges=[("22:00",)]), "ranges[0][1]: is missing"),
        (lambda: Curfew(ranges=[("22:00", "23:00")], days=["someday"]), "days[0]: must be 'mon', 'tue', 'wed'"),
        (lambda: SourceModel(extra={"a": ROUND}), "extra: it holds itself, or is nested too deeply"),
        (lambda: Contract(begin="x" * 1000), "begin: 'xxx"),
        (lambda: Source("a", contract=Unshowable()), "arguments: cannot be read: no repr"),
    ],
)
def test_a_slip_is_refused_where_it_is_written(write: Callable[[], Any], message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        write()
    assert len(caught.value.problems) == 1
    assert message in str(caught.value)
    assert len(str(caught.value)) < 700


def test_one_piece_needs_no_list_around_it() -> None:
    column = Column("a", "text")
    assert Target(schema="a", name="b", columns=column) == Target(schema="a", name="b", columns=[column])
    assert Curfew(ranges=("22:00", "06:00")) == Curfew(ranges=[("22:00", "06:00")])


@pytest.mark.parametrize(
    ("made", "field", "message"),
    [
        (lambda: model(description="a\x00b"), "description", "it holds a NUL byte"),
        (lambda: model(query="SELECT 'a\x00b'"), "query", "it holds a NUL byte"),
        (lambda: in_target(columns=[Column("a", "text", default="'\x00'")]), "target.columns['a'].default", "a NUL"),
        (lambda: Model(target=Target(schema="a", name="\ud800")), "target.name", "half of a surrogate pair"),
        (lambda: model(upstream=[Source("raw.a\ud800", alias="a")]), "upstream['raw.a\\ud800'].name", "half of a surr"),
        (lambda: model(state=State(dsn_env_var="")), "state.dsn_env_var", "it is empty; write something, or leave"),
        (lambda: in_target(conn_id=" "), "target.conn_id", "it is empty; write something, or leave the argument out"),
        (lambda: as_check(NotNull("a", name="")), "checks[0].name", "it is empty"),
        (lambda: as_type(SourceFile(path="a\x00.csv")), "upstream['raw.x'].type.path", "it holds a NUL byte"),
        (lambda: as_type(SourceFile(path="a.csv", archive_folder="")), "upstream['raw.x'].type.archive_folder", "own"),
        (lambda: as_type(SourceFile(path="a.csv", separator="\n")), "upstream['raw.x'].type.separator", "ends or"),
        (lambda: as_type(SourceFile(path="a.csv", encoding="base64")), "upstream['raw.x'].type.encoding", "Python"),
        (lambda: as_check(NotNull(["a", "a"])), "checks[0].columns", "a column is named twice"),
    ],
)
def test_a_text_that_cannot_be_is_refused_wherever_it_stands(made: Callable[[], Any], field: str, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        made()
    (problem,) = caught.value.problems
    assert problem.field == field
    assert message in problem.message


@pytest.mark.parametrize("schema", ["z_bollhav", "z_bollhav_pr1", "pg_catalog", "pg_mine", "information_schema"])
def test_no_model_is_in_a_schema_of_the_library_or_the_server(schema: str) -> None:
    with pytest.raises(DefinitionError, match="write another schema"):
        Model(target=Target(schema=schema, name="orders"))
    assert Model(target=T, upstream=[f"{schema}.x"]), "they can be read"


def test_no_column_has_the_name_of_a_system_column() -> None:
    with pytest.raises(DefinitionError, match="every table of PostgreSQL has a column 'xmin' of its own"):
        in_target(columns=[Column("xmin", "text")])


def test_no_table_has_more_columns_than_fit() -> None:
    with pytest.raises(DefinitionError, match="at most 1600 columns, not 1601"):
        in_target(columns=[Column(f"c{n}", "text") for n in range(1601)])
    with pytest.raises(DefinitionError, match="an index of PostgreSQL has at most 32 columns"):
        in_target(
            columns=[Column(f"c{n}", "text") for n in range(33)],
            indexes=[{"columns": [f"c{n}" for n in range(33)], "name": "wide"}],
        )


# Ways around the rules


COPIES: list[Callable[[Model, dict[str, Any]], Model]] = [
    lambda model, changes: model.model_copy(update=changes),
    lambda model, changes: model.copy(update=changes),
    lambda model, changes: model.replace(**changes),
    lambda model, changes: Model.model_construct(**{"target": model.target, **changes}),
    lambda model, changes: Model.model_validate({"target": model.target, **changes}),
]
if hasattr(copy, "replace"):
    COPIES.append(lambda model, changes: copy.replace(model, **changes))


@pytest.mark.parametrize("change", COPIES)
@pytest.mark.parametrize(
    "changes", [{"upstream": [Source("raw.x", contract="exact")]}, {"upstreams": ["raw.x"]}, {"target": "shop.orders"}]
)
def test_no_copy_escapes_the_rules(change: Callable[[Model, dict[str, Any]], Model], changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"upstream|target"):
        change(model(), changes)


@pytest.mark.parametrize("options", [{"extra": "allow"}, {"extra": "ignore"}, {"frozen": False}])
def test_no_subclass_loosens_the_rules(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="refuses unknown arguments, so that a misspelt one is never lost"):
        type("Loose", (Model,), {"model_config": options})


def test_a_subclass_may_say_more() -> None:
    class Daily(Model):
        batching: Batch | None = Batch(time=TimeChunking("@daily"))

    daily = Daily(target=T)
    assert daily.grid is not None
    assert daily.replace(enabled=False).grid == daily.grid
    with pytest.raises(DefinitionError, match="did you mean 'upstream'"):
        Daily(target=T, upstreams=[])


def test_a_copy_keeps_the_function_and_its_checks() -> None:
    made = model(upstream=[Source("raw.flights")])
    made.execute(lambda flights: None)
    other = made.replace(description="more")
    assert other.function is made.function
    assert other.parameters == made.parameters
    with pytest.raises(DefinitionError, match="nothing could fill it"):
        made.replace(upstream=["raw.weather"])
    assert copy.deepcopy(made).function is made.function


def test_a_copy_for_another_table_has_its_own_unknown_inputs() -> None:
    one = Model(target=T, upstream=[])
    other = one.replace(target=Target(schema="shop", name="others"))
    assert other.upstream == Model(target=other.target).upstream
    assert other.upstream != one.upstream
    assert Model(**one.model_dump(exclude_unset=True)) == one
    with pytest.raises(DefinitionError, match="it stands for inputs that nobody declared, and others are declared"):
        Model(target=T, upstream=[*one.upstream, "raw.x"])


def test_shared_lists_are_not_shared() -> None:
    shared: list[Any] = [Column("a", "text")]
    nested = {"deep": [1, {"deeper": [2]}]}
    one = Target(schema="a", name="b", columns=shared)
    source = SourceModel(extra=nested)
    shared.clear()
    nested["deep"][1]["deeper"].append(3)  # type: ignore[index]
    assert len(one.columns) == 1
    assert source.extra == {"deep": (1, {"deeper": (2,)})}
    assert pickle.loads(pickle.dumps(source)) == source


def test_tags_by_hand_are_words() -> None:
    with pytest.raises(ValueError, match="must be words, and 1 is none"):
        Tags(1)  # type: ignore[arg-type]
