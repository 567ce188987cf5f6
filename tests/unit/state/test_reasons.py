"""The sentences that say why a unit may not run."""

from __future__ import annotations

from bollhav_provider.state import reasons


def test_an_error_says_what_helps_once_for_each_code() -> None:
    reason = "STATE_001: upstream 'a.b' not registered; STATE_001: upstream 'a.c' not registered"
    assert reasons.with_remedies(reason) == (
        f"{reason}. No model of that name was ever registered in this library. Run the upstream once, or correct its "
        "name in the model's upstream list. A run in the mode discover looks again."
    )
