"""The reference page of options names every option and run parameter, as the code has them."""

from __future__ import annotations

from bollhav_provider.settings import OPTIONS
from tools import options


def test_the_tables_of_options_are_up_to_date() -> None:
    text = options.PAGE.read_text()
    assert all(f"| `{option.name}` |" in text for option in OPTIONS)
    assert text == options.updated(text), "python -m tools.options writes them again"


def test_every_parameter_of_a_run_is_described() -> None:
    described = options.PAGE.read_text().split("## The `[bollhav]` section", 1)[0]
    missing = [option.name for option in OPTIONS if option.per_run and f"| `{option.name}` |" not in described]
    assert missing == []
