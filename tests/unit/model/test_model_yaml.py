"""Models written in YAML, and the JSON Schema that describes them to editors."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import VERSION

from bollhav_provider import (
    Batch,
    ChunkFlex,
    Column,
    Contract,
    Curfew,
    DefinitionError,
    Freshness,
    Model,
    NotNull,
    Source,
    SourceFile,
    SourceHardcoded,
    State,
    Target,
    TimeChunking,
)
from bollhav_provider.model.documents import read_documents
from bollhav_provider.model.schema import SCHEMA_FILE, schema_text
from bollhav_provider.model.yaml import load_yaml

CARRIER_DAY = """\
description: Flights and delays per carrier and local day.
target:
  schema: mart
  name: carrier_day
  write_mode: upsert
  columns:
    - {name: day, type: date, primary_key: true, partition_on: true}
    - name: carrier
      type: text
      primary_key: true
    - {name: mean_delay, type: "numeric(6,1)"}
contract:
  begin: 2013-01-01T00:00-05:00
batching:
  time: {chunk: "@daily", tz: America/New_York}
upstream:
  - {name: raw.flights, contract: exact}
  - name: ref.airlines
    contract: whole
    freshness: {within: 30d, scope: head}
  - ref.airports
  - {name: [a.routes, "*.routes"], many: true}
  - name: drop.csv
    type: {kind: file, path: in/drop.csv, null_values: NA}
  - {name: ref.regions, type: {kind: hardcoded, rows: [{id: 1, on: yes}]}}
state: {sequential: true}
tags: [daily, marts]
curfew: {ranges: [["22:00", "06:00"], [12:00, 13:00]], days: [mon, tue]}
checks:
  - {kind: not_null, columns: carrier}
  - {kind: in_range, column: mean_delay, min: -100, severity: warn}
airflow: {retries: 3, retry_delay: 5m, executor_config: {cpu: 2}}
"""


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(text: str, name: str = "models.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_yaml_means_what_the_same_words_mean_in_python(write: Any) -> None:
    (model,) = load_yaml(write(CARRIER_DAY))
    assert model.target == Target(
        schema="mart",
        name="carrier_day",
        write_mode="upsert",
        columns=[
            Column("day", "date", primary_key=True, partition_on=True),
            Column("carrier", "text", primary_key=True),
            Column("mean_delay", "numeric(6,1)"),
        ],
    )
    assert model.contract == Contract(begin=datetime(2013, 1, 1, 5, tzinfo=UTC))
    assert model.batching == Batch(time=TimeChunking("@daily", tz="America/New_York"))
    assert model.upstream == (
        Source("raw.flights", contract="exact"),
        Source("ref.airlines", contract="whole", freshness=Freshness(timedelta(days=30), scope="head")),
        Source("ref.airports"),
        Source(["a.routes", "*.routes"], many=True),
        Source("drop.csv", type=SourceFile(path="in/drop.csv", null_values="NA")),
        Source("ref.regions", type=SourceHardcoded(rows=[{"id": 1, "on": "yes"}])),
    )
    assert model.state == State(sequential=True)
    assert model.tags == ("daily", "marts")
    assert model.curfew == Curfew(ranges=[("22:00", "06:00"), (time(12), time(13))], days=["mon", "tue"])
    assert model.checks[0] == NotNull("carrier")
    assert (model.airflow.retries, model.airflow.retry_delay) == (3, timedelta(minutes=5))


def test_a_file_may_hold_several_documents_in_both_notations(write: Any) -> None:
    path = write(
        "---\ntarget: {schema: a, name: one}\n---\n# nothing\n---\ntarget: {schema: a, name: two}\n"
        "batching: {time: {chunk: '@daily', flexibility: {kind: flex, attest: rows are kept}}}\n"
    )
    one, two = load_yaml(path)
    assert (one.full_name, two.full_name) == ("a.one", "a.two")
    assert two.batching is not None
    assert two.batching.time is not None
    assert two.batching.time.flexibility == ChunkFlex(attest="rows are kept")
    assert load_yaml(write("", "empty.yaml")) == []


def test_a_query_may_be_a_file_beside_the_document(write: Any) -> None:
    write("SELECT * FROM {flights}", "busy.sql")
    (model,) = load_yaml(write("target: {schema: a, name: b}\nupstream: [raw.flights]\nquery: busy.sql\n"))
    assert model.query == "SELECT * FROM {flights}"
    (model,) = load_yaml(write("target: {schema: a, name: b}\nquery: SELECT 'x.sql'\n", "inline.yml"))
    assert model.query == "SELECT 'x.sql'"


def test_a_function_is_named_by_its_import_path(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("def rows(unit): ...\nclass More:\n    @staticmethod\n    def rows(unit): ...\n", "yaml_functions.py")
    monkeypatch.syspath_prepend(tmp_path)
    document = "target: {{schema: a, name: b}}\nexecute: {}\n"
    (model,) = load_yaml(write(document.format("yaml_functions:rows")))
    assert model.function is not None
    assert model.function.__module__ == "yaml_functions"
    (model,) = load_yaml(write(document.format("yaml_functions:More.rows")))
    assert model.function.__qualname__ == "More.rows"  # type: ignore[union-attr]
    (beside,) = load_yaml(write(document.format("yaml_functions.py:rows")))
    (again,) = load_yaml(write(document.format("yaml_functions.py:rows")))
    assert beside.function is again.function


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            "target:\n  schema: a\n  name: b\n  columns:\n    - {name: x, type: text}\n    - {name: y, typ: text}\n",
            6,
            "a.b: target.columns[1].type: missing; write type=...",
        ),
        (
            "target: {schema: a, name: b}\n\nupstreams: [raw.x]\n",
            3,
            "a.b: upstreams: unknown argument; did you mean 'upstream'?",
        ),
        (
            "target:\n  schema: a\n  name: b\n  columns:\n    - name: x\n      type: serial\n",
            6,
            "a.b: target.columns['x'].type: 'serial' is no type but a way to make a default; write 'integer' "
            "with identity=True",
        ),
        (
            "target: {schema: a, name: b}\nupstream:\n  - raw.x\n  - name: raw.y\n    contract: exact\n",
            5,
            "a.b: upstream['raw.y'].contract: exact would never be enforced, because gates are part of the "
            "state; write state=State(), or leave contract out",
        ),
        (
            "target: {schema: a, name: b}\nupstream:\n  - raw.x\n  - a.b\n",
            4,
            "a.b: upstream['a.b'].name: the model depends on itself; remove the source (a running total that "
            "reads its own past needs state=State(sequential=True))",
        ),
        (
            "target: {schema: a, name: b}\ncontract:\n  begin: 2024-01-01\n",
            3,
            "a.b: contract.begin: 2024-01-01T00:00:00 has no time zone; write it with a zone, for instance "
            "'2024-01-01T00:00:00+01:00' or '2024-01-01T00:00Z'",
        ),
        (
            "target: {schema: a, name: b}\nbatching:\n  time:\n    chunk: '* * * * * *'\n",
            4,
            "a.b: batching.time.chunk: '* * * * * *' has 6 fields instead of five; seconds and years are not "
            "part of a chunk; write five fields: minute hour day-of-month month day-of-week",
        ),
        ("\n\ntarget: {schema: a}\n", 3, "a: target.name: missing; write name=..."),
        (
            "target: {schema: a, name: b}\nlibrary: true\nlibrary: false\n",
            3,
            "library: written twice, first on line 2; keep one",
        ),
        (
            "target: {schema: a, name: b}\nquery: gone.sql\n",
            2,
            "query: {folder}/gone.sql: No such file or directory; the path is taken from the document's folder",
        ),
        (
            "target: {schema: a, name: b}\nexecute: rows\n",
            2,
            "a.b: execute: 'rows' is no import path; write 'package.module:function', or "
            "'functions.py:function' for a file beside the document",
        ),
        (
            "target: {schema: a, name: b}\nexecute: os:nothing\n",
            2,
            "a.b: execute: 'os' has no function 'nothing'; write 'package.module:function', or "
            "'functions.py:function' for a file beside the document",
        ),
        (
            "target: {schema: a, name: b}\nexecute: gone.py:rows\n",
            2,
            "a.b: execute: 'gone.py' cannot be imported: FileNotFoundError: there is no file {folder}/gone.py",
        ),
        (
            "target: {schema: a, name: b}\nexecute: broken.py:rows\n",
            2,
            "a.b: execute: 'broken.py' cannot be imported: ZeroDivisionError: division by zero ({folder}/broken.py:2)",
        ),
        (
            "target: {schema: a, name: b}\nexecute: broken.py:rows\nquery: SELECT 1\n",
            2,
            "a.b: execute: 'broken.py' cannot be imported",
        ),
        ("target: {schema: a, name: b}\nexecute: os.path:join\n", 2, "a.b: execute: join ("),
        ("- target\n", 1, "document: a model is a mapping of fields, not list; write target: and the rest"),
        ("target: {schema: a\n", 2, "yaml: "),
        ("target: [\n  b: }\n", 2, "yaml: "),
    ],
)
def test_a_mistake_is_reported_with_path_and_line(
    write: Any, tmp_path: Path, text: str, line: int, message: str
) -> None:
    write("1\n1 / 0\n", "broken.py")
    path = write(text)
    with pytest.raises(DefinitionError) as caught:
        load_yaml(path)
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"{path}:{line}: {message.replace('{folder}', str(tmp_path))}")


def test_the_mistakes_of_all_documents_come_in_one_error(write: Any) -> None:
    path = write("target: {schema: a, name: b}\nlibary: true\n---\ntarget: {schema: a, name: c}\nstat: {}\n")
    with pytest.raises(DefinitionError) as caught:
        load_yaml(path)
    assert [problem.model for problem in caught.value.problems] == [f"{path}:2: a.b", f"{path}:5: a.c"]


def test_what_is_no_utf8_is_said(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_bytes(b"target: \xff")
    with pytest.raises(DefinitionError, match="byte 8 is no UTF-8; save the file as UTF-8"):
        load_yaml(tmp_path / "m.yaml")


# The schema


def test_the_published_schema_is_that_of_the_classes() -> None:
    published = SCHEMA_FILE.read_text(encoding="utf-8")
    written_with = json.loads(published)["$comment"].rpartition(" ")[2]
    if [int(part) for part in VERSION.split(".")[:2]] < [int(part) for part in written_with.split(".")]:
        pytest.skip(f"pydantic {VERSION} writes the same schema in other words than {written_with}")
    made = re.sub(r"Written with pydantic [\d.]+", f"Written with pydantic {written_with}", schema_text())
    assert published == made, "write it anew: python -m bollhav_provider.model.schema"


def schema() -> Any:
    return jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def data_of(path: Path) -> Any:
    (document,) = read_documents(path)
    return document.data


def test_the_schema_takes_what_the_loader_takes(write: Any) -> None:
    schema().check_schema(schema().schema)
    schema().validate(data_of(write(CARRIER_DAY)))


@pytest.mark.parametrize(
    "text",
    [
        "target: {schema: a}",
        "target: {schema: a, name: b}\nupstreams: []",
        "target: {schema: a, name: b, write_mode: merge}",
        "target: {schema: a, name: b, columns: [{name: x}]}",
        "target: {schema: a, name: b}\nupstream: [{name: x, contract: window}]",
        "target: {schema: a, name: b}\nbatching: {time: {chunk: '@daily', lookback: -1}}",
        "target: {schema: a, name: b}\nchecks: [{kind: nothing}]",
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(text: str, write: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        schema().validate(data_of(write(text)))
    with pytest.raises(DefinitionError):
        load_yaml(write(text))


def test_every_field_of_the_schema_is_described() -> None:
    document = schema().schema
    for name, definition in [("Model", document), *document["$defs"].items()]:
        for field, value in definition.get("properties", {}).items():
            assert field == "kind" or value.get("description"), f"{name}.{field}"


def test_a_model_from_yaml_is_a_model(write: Any) -> None:
    assert all(isinstance(model, Model) for model in load_yaml(write(CARRIER_DAY)))
