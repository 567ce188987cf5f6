"""Data written inline: its fingerprint, and the frame that it becomes."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import polars as pl
import pytest

from bollhav_provider import Model, Source, SourceHardcoded, Target
from bollhav_provider.exceptions import DataError

ROWS: list[dict[str, Any]] = [
    {"id": 1, "code": "SE", "name": "Sverige — å", "since": date(1523, 6, 6), "share": 0.1, "tags": ["a", "b"]},
    {"id": 2, "code": "NO", "name": None, "at": datetime(2024, 1, 1, tzinfo=UTC), "price": Decimal("1.10")},
    {"id": 3, "key": UUID(int=7), "raw": b"\x00\xff", "wait": timedelta(seconds=1.5), "doc": {"b": 1, "a": [True]}},
]
HASH = "26be0b299b941afc3b18e429288ece68ca42fa654868b67873f1b383bb47508a"


def test_the_content_hash_is_the_same_for_ever() -> None:
    assert SourceHardcoded(rows=ROWS).content_hash == HASH


@pytest.mark.parametrize("seed", ["0", "4711"])
def test_the_content_hash_is_the_same_in_every_process(seed: str) -> None:
    code = (
        "from tests_rows import ROWS; from bollhav_provider import SourceHardcoded;"
        "print(SourceHardcoded(rows=ROWS).content_hash)"
    )
    code = code.replace(
        "from tests_rows import ROWS",
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); from {__name__} import ROWS",
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == HASH


@pytest.mark.parametrize(
    "change",
    [
        {"id": 2},
        {"id": 1.0},
        {"id": "1"},
        {"id": True},
        {"id": Decimal(1)},
        {"id": None},
        {"ID": 1},
        {"id": 1, "x": None},
        {"id": [1]},
    ],
)
def test_any_change_of_the_content_changes_the_hash(change: dict[str, Any]) -> None:
    assert SourceHardcoded(rows=[change]).content_hash != SourceHardcoded(rows=[{"id": 1}]).content_hash


def test_the_same_instant_in_another_zone_is_the_same_content() -> None:
    instant = datetime(2024, 1, 1, 12, tzinfo=UTC)
    elsewhere = instant.astimezone(timezone(timedelta(hours=9)))
    assert (
        SourceHardcoded(rows=[{"at": instant}]).content_hash == SourceHardcoded(rows=[{"at": elsewhere}]).content_hash
    )


def test_sql_and_rows_have_hashes_of_their_own() -> None:
    assert SourceHardcoded(sql="VALUES (1)").content_hash != SourceHardcoded(sql="VALUES (2)").content_hash
    assert SourceHardcoded(rows=[]).content_hash != SourceHardcoded(sql="").content_hash


def test_a_model_has_the_hash_of_its_inline_inputs() -> None:
    one, two = SourceHardcoded(rows=[{"id": 1}]), SourceHardcoded(sql="VALUES (2)")

    def content(*sources: Source | str) -> str | None:
        return Model(target=Target(schema="ref", name="regions"), upstream=sources).content_hash

    assert content("raw.x") is None
    assert content(Source("a", type=one)) == one.content_hash
    assert content(Source("a", type=one), Source("b", type=two)) == content(
        Source("b", type=two), Source("a", type=one)
    )
    assert content(Source("a", type=one), Source("b", type=two)) != one.content_hash


def test_rows_become_a_frame_with_the_columns_of_all_rows() -> None:
    frame = SourceHardcoded(rows=[{"id": 1, "tags": ["a"]}, {"id": 2, "name": "x", "doc": {"a": 1}}]).to_dataframe()
    assert frame.columns == ["id", "tags", "name", "doc"]
    assert frame.rows() == [(1, ["a"], None, None), (2, None, "x", {"a": 1})]
    assert SourceHardcoded(rows=[]).to_dataframe().is_empty()


def test_late_values_decide_the_type_too() -> None:
    frame = SourceHardcoded(rows=[{"x": None}] * 200 + [{"x": 1.5}]).to_dataframe()
    assert frame["x"].dtype == pl.Float64
    assert frame["x"][-1] == 1.5


@pytest.mark.parametrize(
    ("values", "row", "value"),
    [
        ([1, "a"], 2, "'a'"),
        ([True, 2], 2, "2"),
        ([[1], [1.5]], 2, "[1.5]"),
        ([{"a": 1}, {"a": 1.5}], 1, "{'a': 1}"),
        ([1.5, 2**53 + 1], 2, "9007199254740993"),
        ([2**200], 1, str(2**200)),
    ],
)
def test_a_value_that_would_be_changed_is_an_error(values: list[Any], row: int, value: str) -> None:
    with pytest.raises(DataError) as caught:
        SourceHardcoded(rows=[{"x": item} for item in values]).to_dataframe()
    assert str(caught.value).startswith(f"SourceHardcoded: column 'x', row {row}: {value} cannot be held beside")


def test_values_of_all_kinds_come_back_as_written() -> None:
    frame = SourceHardcoded(rows=ROWS).to_dataframe()
    assert frame["key"][2] == str(UUID(int=7))
    for name in ("id", "code", "since", "share", "at", "price", "raw", "wait"):
        assert frame[name].to_list() == [row.get(name) for row in ROWS]


def test_whole_numbers_beside_fractions_are_fractions() -> None:
    assert SourceHardcoded(rows=[{"x": 1}, {"x": 1.5}, {"x": None}]).to_dataframe()["x"].to_list() == [1.0, 1.5, None]


def test_sql_needs_a_connection() -> None:
    with pytest.raises(ValueError, match=r"pass an open connection, as in to_dataframe\(conn\)"):
        SourceHardcoded(sql="VALUES (1)").to_dataframe()
