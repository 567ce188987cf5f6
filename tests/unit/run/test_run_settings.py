"""Options: run parameter > configuration > environment > default, and what is refused."""

from __future__ import annotations

from dataclasses import fields

import pytest

from bollhav_provider.exceptions import ConfigurationError
from bollhav_provider.settings import OPTIONS, Settings


def test_every_option_is_a_setting_with_the_same_default() -> None:
    assert [f.name for f in fields(Settings)][:-1] == [o.name for o in OPTIONS]
    assert Settings() == Settings.resolve()
    for option in OPTIONS:
        assert getattr(Settings(), option.name) == option.default


def test_the_nearest_word_wins() -> None:
    environ = {"STATE_MODE": "torch"}
    assert Settings.resolve(environ=environ).state_mode == "torch"
    environ["BOLLHAV_STATE_MODE"] = "bulldozer"
    assert Settings.resolve(environ=environ).state_mode == "bulldozer"
    conf = {"state_mode": "Discover"}
    settled = Settings.resolve(conf=conf, environ=environ)
    assert settled.state_mode == "discover"
    assert settled.origins == {"state_mode": "Airflow's configuration, [bollhav] state_mode"}
    assert Settings.resolve({"state_mode": "torch"}, conf, environ).state_mode == "torch"


@pytest.mark.parametrize("nothing", [None, ""])
def test_what_nobody_set_does_not_count(nothing: str | None) -> None:
    settled = Settings.resolve(
        {"dry_state": None}, {"dry_state": nothing}, {"DRY_STATE": "", "BOLLHAV_DRY_STATE": "yes"}
    )
    assert settled.dry_state is True


@pytest.mark.parametrize(
    ("params", "conf", "environ", "says"),
    [
        (
            {"state_mode": "buldozer"},
            {},
            {},
            "'buldozer', set by run parameter state_mode: choose one of discover",
        ),
        ({"state_mod": "torch"}, {}, {}, "did you mean 'state_mode'"),
        ({}, {"dry_state": "perhaps"}, {}, "set by Airflow's configuration.*write true or false"),
        (
            {},
            {},
            {"BOLLHAV_MAX_MAP_LENGTH": "0"},
            "set by environment variable BOLLHAV_MAX_MAP_LENGTH.*at least 1",
        ),
        ({"dsn": "postgresql://u:secret@h/d"}, {}, {}, "cannot be set by run parameter"),
        ({"mark_applied": True}, {}, {"STATE_DISABLED": "1"}, "switch one off"),
    ],
)
def test_values_without_meaning_are_refused_with_their_origin(params, conf, environ, says) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigurationError, match=says):
        Settings.resolve(params, conf, environ)


def test_other_parameters_are_left_to_their_owners() -> None:
    assert Settings.resolve({"since": "2024-01-01", "colour": "red"}) == Settings()
