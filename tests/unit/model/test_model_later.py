"""Fields that few models give: validated like all others, by what is imported and built when one is given."""

from __future__ import annotations

import subprocess
import sys
from typing import Literal

import pytest

from bollhav_provider.exceptions import DefinitionError
from bollhav_provider.model import AirflowOptions, Contract, Model, NotNull, People, Source, SourceFile, Target
from bollhav_provider.model.base import Definition
from bollhav_provider.model.later import build_now

ORDINARY = """
import sys
from bollhav_provider.model import Batch, Column, Contract, Model, Source, SourceModel, State, Target, TimeChunking
Model(
    target=Target(schema="a", name="b", columns=[Column("day", "date", partition_on=True)]),
    contract=Contract(begin="2024-01-01T00:00Z"),
    batching=Batch(time=TimeChunking("@daily")),
    upstream=[Source("a.c", type=SourceModel(), contract="exact")],
    state=State(),
)
print(*sorted(name.rpartition(".")[2] for name in sys.modules if name.startswith("bollhav_provider.model.")))
"""


def test_a_model_without_them_imports_none_of_their_modules() -> None:
    done = subprocess.run([sys.executable, "-c", ORDINARY], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "source_model" in imported
    assert not imported & {"checks", "freshness", "hardcoded", "source_types"}


@pytest.mark.parametrize("kind", [AirflowOptions, People, Contract])
def test_what_nothing_is_given_for_is_one_object_and_equal_to_an_empty_one(kind: type[Definition]) -> None:
    assert kind.of_nothing() is kind.of_nothing()
    assert kind.of_nothing() == kind()
    assert hash(kind.of_nothing()) == hash(kind())
    assert kind.of_nothing().model_fields_set == set()


def test_a_mapping_and_an_object_make_the_same_definition() -> None:
    target = Target(schema="a", name="b")
    written = Model(target=target, people=People(owner="ada"), checks=[NotNull("day")])
    read = Model(target=target, people={"owner": "ada"}, checks=[{"kind": "not_null", "columns": "day"}])  # type: ignore[arg-type, list-item]
    assert written == read
    assert Source("a", type=SourceFile(path="x.csv")) == Source("a", type={"kind": "file", "path": "x.csv"})  # type: ignore[arg-type]


def test_what_is_wrong_with_them_is_said_at_their_place() -> None:
    with pytest.raises(DefinitionError) as refused:
        Model(target=Target(schema="a", name="b"), checks=[{"kind": "not_null", "colums": "day"}], people={"owner": 3})  # type: ignore[arg-type, list-item]
    assert refused.value.problems[0].field == "people.owner"
    assert any(problem.field.startswith("checks[0]") for problem in refused.value.problems)


def test_their_validators_can_be_built_ahead() -> None:
    build_now()
    assert AirflowOptions.__pydantic_complete__
    assert SourceFile.__pydantic_complete__


@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_the_schema_of_a_model_shows_them_whole(mode: Literal["validation", "serialization"]) -> None:
    schema = Model.model_json_schema(mode=mode)
    assert schema["properties"]["people"]["$ref"] == "#/$defs/People"
    assert set(schema["$defs"]["People"]["properties"]) == set(People.model_fields)
    assert {"NotNull", "SourceFile", "ChunkFlex", "Freshness", "Staging", "Curfew"} <= set(schema["$defs"])
