"""A definition as a user writes it: what it knows about itself, and that it cannot change."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

import bollhav_provider.model as language
from bollhav_provider import (
    AirflowOptions,
    Batch,
    ChunkFlex,
    Column,
    Contract,
    Curfew,
    DefinitionError,
    Freshness,
    FreshnessScope,
    Index,
    Materialization,
    Model,
    NotNull,
    People,
    Source,
    SourceHardcoded,
    SourceModel,
    State,
    Tags,
    Target,
    Temporality,
    TimeChunking,
    UpstreamContract,
    WriteMode,
)
from bollhav_provider.model.base import Definition

PACKAGE = Path(language.__file__).parent


def carrier_day() -> Model:
    return Model(
        description="Flights and delays per carrier and local day.",
        target=Target(
            schema="mart",
            name="carrier_day",
            write_mode=WriteMode.UPSERT,
            columns=[
                Column("day", "date", primary_key=True, partition_on=True),
                Column("carrier", "text", primary_key=True),
                Column("carrier_name", "text"),
                Column("flights", "integer", nullable=False),
                Column("mean_delay", "numeric(6,1)", description="minutes, departures that left"),
            ],
        ),
        contract=Contract(begin="2013-01-01T00:00-05:00"),
        batching=Batch(time=TimeChunking(chunk="@daily", tz="America/New_York")),
        upstream=[
            Source("raw.flights", type=SourceModel(), contract=UpstreamContract.EXACT),
            Source(
                "ref.airlines",
                type=SourceModel(),
                contract=UpstreamContract.WHOLE,
                freshness=Freshness(within=timedelta(days=30)),
            ),
        ],
        state=State(),
    )


def test_a_model_knows_what_follows_from_its_definition() -> None:
    model = carrier_day()

    assert model.full_name == "mart.carrier_day"
    assert model.identity == (None, "mart", "carrier_day")
    assert model.temporality is Temporality.TEMPORAL
    assert model.materialization is Materialization.TABLE
    assert (model.is_temporal, model.is_windowless, model.is_view, model.is_flexible) == (True, False, False, False)
    assert model.is_tracked
    assert model.grid is not None
    assert model.grid == model.run_grid
    assert model.contract.begin == datetime(2013, 1, 1, 5, tzinfo=UTC)
    assert [column.name for column in model.key_columns] == ["day", "carrier"]
    assert model.partition_column is model.target.columns[0]
    assert model.upstream_names == ("raw.flights", "ref.airlines")
    assert model.source_names == ()
    assert model.upstream[1].freshness == Freshness("30d", scope=FreshnessScope.LATEST)


def test_a_primary_key_column_is_not_null_without_saying_so() -> None:
    assert [column.nullable for column in carrier_day().target.columns] == [False, False, True, False, True]
    assert not Column("id", "bigint", identity=True).nullable


def test_a_run_can_cover_several_chunks() -> None:
    model = Model(
        target=Target(schema="raw", name="weather"),
        batching=Batch(time=TimeChunking("@hourly", tz="America/New_York", window="@daily"), units_per_task=24),
    )
    assert model.grid is not None
    assert model.run_grid is not None
    assert model.run_grid.expression == "0 0 * * *"
    assert model.run_grid != model.grid


@pytest.mark.parametrize(
    ("fields", "windowless", "temporal"),
    [
        ({}, True, True),
        ({"batching": Batch(size=1000)}, True, True),
        ({"batching": Batch(time=TimeChunking("@daily"))}, False, True),
        ({"temporality": "timeless"}, True, False),
        ({"materialization": "view", "query": "SELECT 1"}, True, False),
        ({"materialization": "view", "temporality": "temporal", "query": "SELECT 1"}, True, True),
    ],
)
def test_what_has_windows(fields: dict[str, object], windowless: bool, temporal: bool) -> None:
    model = Model(target=Target(schema="a", name="b"), **fields)  # type: ignore[arg-type]
    assert (model.is_windowless, model.is_temporal) == (windowless, temporal)
    assert (model.grid is None) == windowless


def test_words_may_be_written_in_any_case_or_as_members() -> None:
    written = Model(target=Target(schema="a", name="b", write_mode="Append"), temporality="TIMELESS")
    assert written == Model(
        target=Target(schema="a", name="b", write_mode=WriteMode.APPEND), temporality=Temporality.TIMELESS
    )


def test_older_ways_to_write_a_write_mode_mean_the_same() -> None:
    assert Target(schema="a", name="b", truncate_table=True).write_mode is WriteMode.TRUNCATE
    assert Target(schema="a", name="b", recreate_table=True).write_mode is WriteMode.RECREATE


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_instants_are_utc_whatever_zone_they_are_written_in(zone: str) -> None:
    instant = datetime(2024, 1, 1, 12, tzinfo=UTC)
    contract = Contract(begin=instant.astimezone(ZoneInfo(zone)))
    assert contract == Contract(begin=instant) == Contract(begin=instant.isoformat())
    assert contract.begin is not None
    assert contract.begin.tzinfo is UTC


@pytest.mark.parametrize("year", [1, 9999])
def test_a_contract_reaches_from_year_1_to_9999(year: int) -> None:
    assert Contract(begin=datetime(year, 1, 1, tzinfo=UTC)).begin == datetime(year, 1, 1, tzinfo=UTC)


def test_definitions_are_immutable() -> None:
    model = carrier_day()
    with pytest.raises(ValueError, match="frozen"):
        model.description = "other"  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        model.target.name = "other"  # type: ignore[misc]
    rows = SourceHardcoded(rows=[{"id": 1, "tags": ["a"]}]).rows
    assert rows is not None
    with pytest.raises(TypeError, match="immutable"):
        rows[0]["id"] = 2  # type: ignore[index]
    with pytest.raises(TypeError, match="immutable"):
        rows[0].update(id=2)
    with pytest.raises(AttributeError):
        rows[0]["tags"].append("b")


def test_what_a_user_changes_afterwards_does_not_reach_the_definition() -> None:
    columns, row = [Column("a", "text")], {"id": 1}
    target = Target(schema="a", name="b", columns=columns)
    source = SourceHardcoded(rows=[row])
    columns.append(Column("b", "text"))
    row["id"] = 2
    assert [column.name for column in target.columns] == ["a"]
    assert source.rows is not None
    assert source.rows[0]["id"] == 1


def test_equal_definitions_are_equal_and_hash_alike() -> None:
    one, other = carrier_day(), carrier_day()
    assert one == other
    assert hash(one) == hash(other)
    assert one != other.replace(enabled=False)
    assert len({one, other}) == 1
    source = Source("a.b", type=SourceHardcoded(rows=[{"a": [1, {"b": 2}]}], extra={"k": {"n": [1]}}))
    assert len({source, source.replace()}) == 1


def test_the_function_is_no_part_of_equality_but_of_the_fingerprint() -> None:
    one, other = carrier_day(), carrier_day()

    @one.execute
    def summarise(unit: object) -> None: ...

    assert one == other
    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_definitions_survive_copying_and_pickling(clone: object) -> None:
    model = carrier_day().replace(
        checks=[NotNull("carrier")],
        tags=["a", "b"],
        curfew=Curfew(ranges=[("22:00", "06:00")]),
        people=People(owner="ann"),
        airflow=AirflowOptions(executor_config={"a": {"b": [1]}}),
    )
    assert clone(model) == model  # type: ignore[operator]
    assert clone(model).fingerprint == model.fingerprint  # type: ignore[operator]


def test_a_definition_survives_its_own_dump() -> None:
    model = carrier_day().replace(checks=[NotNull("carrier")], tags=Tags("a"))
    assert Model(**model.model_dump(exclude_unset=True)) == model
    assert Model.model_validate_json(model.model_dump_json(exclude_unset=True)) == model


def test_replace_checks_like_a_new_definition() -> None:
    with pytest.raises(DefinitionError, match="never be enforced"):
        carrier_day().replace(state=None)


def test_a_right_definition_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        carrier_day()


@pytest.mark.parametrize(
    ("written", "policy"), [(True, "allow"), (False, "block"), ("Block", "block"), ("warn", "warn")]
)
def test_no_rows_may_be_nothing_special_or_not_yet(written: bool | str, policy: str) -> None:
    assert Model(target=Target(schema="a", name="b"), allow_empty=written).allow_empty == policy
    assert Model(target=Target(schema="a", name="b")).allow_empty == "warn"


def test_flexibility_is_a_word_or_a_promise() -> None:
    assert TimeChunking("@daily", flexibility="flex") == TimeChunking("@daily", flexibility=ChunkFlex())
    assert TimeChunking("@daily", flexibility=ChunkFlex(attest="x")).is_flexible
    assert not TimeChunking("@daily").is_flexible


def test_keys_and_indexes_get_the_names_that_postgresql_would_give_them() -> None:
    target = Target(
        schema="shop",
        name="orders",
        columns=[
            Column("id", "bigint", primary_key=True),
            Column("number", "text", unique=True),
            Column("day", "date", nullable=False, partition_on=True),
            Column("customer", "integer", nullable=False),
        ],
        indexes=[Index(["customer", "day"]), Index("number", method="hash", name="by_number")],
    )
    model = Model(target=target, key=["day", "customer"])
    assert model.keys == (
        ("orders_pkey", ("id",), True, False),
        ("orders_number_key", ("number",), False, False),
        ("orders_day_customer_key", ("day", "customer"), False, False),
    )
    assert [(index.name, index.columns) for index in target.index_list()] == [
        ("orders_customer_day_idx", ("customer", "day")),
        ("by_number", ("number",)),
        ("orders_day_idx", ("day",)),
    ]
    assert next(key.name for key in target.keys(model.key, "orders_x")) == "orders_x_pkey"


def test_a_nullable_key_that_opts_in_is_a_unique_constraint() -> None:
    columns = [Column("id", "integer", primary_key=True, nullable=True, nulls_not_distinct=True)]
    model = Model(target=Target(schema="a", name="b", columns=columns, write_mode="upsert"))
    assert model.keys == (("b_id_key", ("id",), False, True),)


def test_the_partition_column_needs_no_index_where_one_begins_with_it() -> None:
    day = Column("day", "date", primary_key=True, partition_on=True)
    assert Target(schema="a", name="b", columns=[day]).index_list() == ()


@pytest.mark.parametrize("name", [name for name in language.__all__ if inspect.isclass(getattr(language, name))])
def test_what_type_checkers_see_is_what_runs(name: str) -> None:
    """A constructor that is written out for editors names the class's fields, all of them, and nothing else."""
    cls = getattr(language, name)
    if not issubclass(cls, Definition):
        return
    path = PACKAGE / f"{cls.__module__.rpartition('.')[2]}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (node,) = [item for item in ast.walk(tree) if isinstance(item, ast.ClassDef) and item.name == name]
    guarded = [item for part in node.body if isinstance(part, ast.If) for item in part.body]
    written = [item for item in guarded if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    if not written:
        assert not cls._positional, "an argument by position needs a constructor that editors see"
        return
    arguments = written[0].args
    assert [item.arg for item in arguments.args[1:]] == list(cls._positional)
    named = {item.arg for item in (*arguments.args[1:], *arguments.kwonlyargs)}
    assert named | {"kind"} == set(cls.model_fields) | {"kind"}


@pytest.mark.parametrize("name", [name for name in language.__all__ if inspect.isclass(getattr(language, name))])
def test_every_field_says_what_it_is(name: str) -> None:
    cls = getattr(language, name)
    if issubclass(cls, Definition):
        for field, info in cls.model_fields.items():
            assert field == "kind" or info.description, f"{name}.{field} has no description"
