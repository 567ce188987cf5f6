"""The demo's check knows the data: counts that are facts of the files, and the days on which clocks change."""

from __future__ import annotations

import polars as pl
import pytest

from tools.demo import expected


def test_the_first_seven_days_hold_what_the_files_hold() -> None:
    assert expected.flights(7).height == 6_099
    assert expected.weather(7).height == 498


def test_the_whole_year_is_the_whole_of_the_files() -> None:
    assert expected.flights(365).height == 336_776
    assert expected.weather(365).height == 26_115


@pytest.mark.parametrize(
    ("days", "hours"),
    [(7, 168), (68, 68 * 24), (69, 69 * 24 - 1), (306, 306 * 24 - 1), (307, 307 * 24), (365, 365 * 24)],
)
def test_hours_follow_the_clocks_of_new_york(days: int, hours: int) -> None:
    assert expected.windows(days)["raw.weather"] == hours


def test_every_relation_has_a_key() -> None:
    for name, key, rows in expected.relations(7):
        assert rows.select(key).n_unique() == rows.height, name


def test_means_round_halves_away_from_zero() -> None:
    frame = pl.DataFrame({"delay": [1, -1, 9, None], "departed": [20, 20, 4, 0]})
    assert [None if mean is None else str(mean) for mean in expected._means(frame)["mean_delay"]] == [
        "0.1", "-0.1", "2.3", None,
    ]  # fmt: skip
