"""YAML as careless and malicious people write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bollhav_provider import Column, DefinitionError
from bollhav_provider.model.yaml import load_yaml

TARGET = "target: {schema: s, name: t}\n"


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "m.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def laughs(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("target:\n\tschema: s\n", 2, "yaml: found character '\\t' that cannot start any token"),
        ("target: *nobody\n", 1, "yaml: found undefined alias 'nobody'"),
        (f"{TARGET}tags: &t\n  - *t\n", 1, "yaml: the anchor of line 2 holds itself; write values that end"),
        ("&a\ntarget: *a\n", 1, "yaml: the anchor of line 1 holds itself; write values that end"),
        (laughs(9), 1, "yaml: its aliases make it more than 1000000 values; write them out, or fewer"),
        ("a: " + "[" * 5000 + "]" * 5000, None, "yaml: it is nested too deeply; write it flatter"),
        ("target: !!python/object/apply:os.system ['true']\n", 1, "yaml: could not determine a constructor"),
        ("target: !Mine {}\n", 1, "yaml: could not determine a constructor"),
        ("target: {schema: s, name: !!timestamp 2024-13-45}\n", 1, "yaml: month must be in 1..12; correct"),
        (f"{TARGET}batching: {{size: {'9' * 5000}}}\n", 1, "yaml: a number of 5000 digits is more than anything"),
        (f"{TARGET}? [a, b]\n: 1\n", 2, "yaml: found unhashable key; correct the document"),
        ("target: {schema: s, 1: t}\n", 1, "s: target: the key 1 is no text; write the names of a mapping as texts"),
        (f"{TARGET}key: !!set {{a, b}}\n", 2, "s.t: key: a set has another order in every process; write a list"),
        (f"{TARGET}description: one\ndescription: two\n", 3, "description: written twice, first on line 2; keep one"),
        (f"{TARGET}tags: [012]\n", 2, "s.t: tags: must be words, and 12 is none; write for instance tags=['daily']"),
        ("hello\n", 1, "document: a model is a mapping of fields, not str; write target: and the rest"),
        ("a: \x07\n", None, "yaml: unacceptable character #x0007"),
        ("target: {}".encode("utf-16"), None, "file: byte 0 is no UTF-8; save the file as UTF-8"),
        (f'{TARGET}query: "a\\0.sql"\n', 2, "query: {folder}/a\\x00.sql: No such file"),
        (f"{TARGET}query: folder.sql\n", 2, "query: {folder}/folder.sql: Is a directory"),
        (f"{TARGET}execute: .relative:rows\n", 2, "s.t: execute: '.relative' cannot be imported: TypeError"),
        (f"{TARGET}execute: [a, b]\n", 2, "s.t: execute: ['a', 'b'] is no import path"),
    ],
)
def test_it_is_refused_with_path_and_line(tmp_path: Path, text: str | bytes, line: int | None, message: str) -> None:
    (tmp_path / "folder.sql").mkdir()
    path = write(tmp_path, text)
    with pytest.raises(DefinitionError) as caught:
        load_yaml(path)
    place = str(path) if line is None else f"{path}:{line}"
    assert str(caught.value).startswith(f"{place}: {message.format(folder=tmp_path)}")
    assert "\x00" not in str(caught.value)


def test_anchors_aliases_and_merge_keys_save_writing(tmp_path: Path) -> None:
    text = """\
target:
  schema: s
  name: t
  columns:
    - &amount {name: gross, type: "numeric(12,2)", nullable: false}
    - {<<: *amount, name: net}
    - <<: [*amount]
      name: tax
      nullable: true
tags: &tags [daily, finance]
people: {stewards: *tags}
"""
    (model,) = load_yaml(write(tmp_path, text))
    kind = "numeric(12,2)"
    assert model.target.columns == (
        Column("gross", kind, nullable=False),
        Column("net", kind, nullable=False),
        Column("tax", kind),
    )
    assert model.people.stewards == ("daily", "finance") == model.tags


def test_a_mistake_behind_an_alias_is_reported_where_it_is_used(tmp_path: Path) -> None:
    text = """\
target:
  schema: s
  name: t
  columns:
    - &a {name: a, type: text}
    - <<: *a
      name: b
      typ: text
"""
    path = write(tmp_path, text)
    with pytest.raises(DefinitionError) as caught:
        load_yaml(path)
    assert str(caught.value) == f"{path}:8: s.t: target.columns[1].typ: unknown argument; did you mean 'type'?"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("\ufefftarget: {schema: s, name: marked}\n", "s.marked"),
        ("target: {schema: s,\r\n  name: from_windows}\r\n", "s.from_windows"),
        ("%YAML 1.1\n---\ntarget: {schema: s, name: directed}\n...\n", "s.directed"),
        ("target: {schema: no, name: on}\n", "no.on"),
        ("target: {schema: s, name: !!str 2024}\n", "s.2024"),
        ("target: {schema: s, name: 'größer als'}\n", "s.größer als"),
        ('target: {schema: s, name: "\\U0001F69A"}\n', "s.🚚"),
    ],
)
def test_what_yaml_allows_is_taken(tmp_path: Path, text: str, name: str) -> None:
    (model,) = load_yaml(write(tmp_path, text))
    assert model.full_name == name


def test_a_query_file_may_be_marked_as_utf8(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_bytes("\ufeffSELECT 1".encode())
    (model,) = load_yaml(write(tmp_path, f"{TARGET}query: q.sql\n"))
    assert model.query == "SELECT 1"
