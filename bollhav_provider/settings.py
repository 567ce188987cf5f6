"""The ``[bollhav]`` options: run parameter > Airflow configuration > environment > default.

Pure: the callers hand the mappings in. :data:`OPTIONS` is the one list of what can be set; the provider's
configuration section, the run parameters and the reference documentation are made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from bollhav_provider.exceptions import ConfigurationError

#: How much of a run's window is invalidated first (Semantics: execution is window-scoped).
STATE_MODES = ("discover", "bulldozer", "torch")
#: Whether the session advisory lock of a unit is taken beside its lease.
LOCK_MODES = ("auto", "on", "off")
#: What a unit without rows means.
EMPTY_POLICIES = ("warn", "allow", "block")

_TRUE = frozenset({"true", "1", "yes", "on", "t", "y"})
_FALSE = frozenset({"false", "0", "no", "off", "f", "n", ""})


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError("write true or false")


def _text(value: Any) -> str:
    return str(value).strip()


def _one_of(*choices: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        text = str(value).strip().lower()
        if text not in choices:
            raise ValueError("choose one of " + ", ".join(choices))
        return text

    return parse


def _whole_number(least: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        if isinstance(value, bool):
            raise ValueError(f"write a whole number of at least {least}")
        try:
            number = int(str(value).strip())
        except ValueError:
            raise ValueError(f"write a whole number of at least {least}") from None
        if number < least:
            raise ValueError(f"write a whole number of at least {least}")
        return number

    return parse


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that can be set.

    Attributes:
        name: key in the ``[bollhav]`` section, in a run's parameters, and (upper case, after ``BOLLHAV_``) in
            the environment.
        parse: text or JSON value to the option's value; raises ``ValueError`` with the remedy.
        default: value when nobody says anything.
        description: one sentence for the configuration reference.
        environment: further environment variables, read after ``BOLLHAV_<NAME>``.
        per_run: whether a single run may say something else by parameter.
    """

    name: str
    parse: Callable[[Any], Any]
    default: Any
    description: str
    environment: tuple[str, ...] = ()
    per_run: bool = False

    @property
    def variables(self) -> tuple[str, ...]:
        """Environment variables of this option, the strongest first."""
        return (f"BOLLHAV_{self.name.upper()}", *self.environment)


OPTIONS: tuple[Option, ...] = (
    Option(
        "conn_id",
        _text,
        "bollhav_default",
        "Airflow connection of the database that holds library and state.",
    ),
    Option(
        "dsn", _text, "", "DSN used where no Airflow connection of that id exists, and by the command line."
    ),
    Option(
        "schema_suffix",
        _text,
        "",
        "Suffix of the environment: schemas become name_suffix.",
        ("SCHEMA_SUFFIX",),
    ),
    Option(
        "schema_appendix",
        _text,
        "",
        "strftime pattern appended to the suffix, fixed at a run's start.",
        ("SCHEMA_APPENDIX",),
    ),
    Option("target_suffix", _text, "", "Suffix of target tables' names.", ("TARGET_SUFFIX",)),
    Option(
        "state_mode",
        _one_of(*STATE_MODES),
        "bulldozer",
        "How much of the run's window is invalidated first: discover, bulldozer or torch.",
        ("STATE_MODE",),
        per_run=True,
    ),
    Option(
        "state_disabled",
        _boolean,
        False,
        "Move data without reading or writing state.",
        ("STATE_DISABLED",),
        per_run=True,
    ),
    Option(
        "mark_applied",
        _boolean,
        False,
        "Record the run's own windows as applied without moving data.",
        ("STATE_MARK_APPLIED",),
        per_run=True,
    ),
    Option("dry_state", _boolean, False, "Show the plan and change nothing.", ("DRY_STATE",), per_run=True),
    Option(
        "interval_override",
        _text,
        "",
        "Cron that slices a flexible model's window in this run; ignored with a warning on a fixed one.",
        ("INTERVAL_OVERRIDE",),
        per_run=True,
    ),
    Option(
        "reconcile", _boolean, False, "Work off everything outstanding of the whole contract.", per_run=True
    ),
    Option(
        "cascade", _boolean, False, "Put every window downstream of this run back too, and run it again.", per_run=True
    ),
    Option(
        "lease_seconds",
        _whole_number(0),
        0,
        "How long a unit's claim lasts unrenewed; 0 for what the model says.",
    ),
    Option(
        "busy_timeout",
        _whole_number(0),
        90,
        "Seconds that a retry waits for a unit that its own dead try still holds, before it fails to be retried again.",
    ),
    Option(
        "advisory_locks",
        _one_of(*LOCK_MODES),
        "auto",
        "Hold the session advisory lock beside the lease: auto detects a transaction pooler, on, off.",
    ),
    Option(
        "prepared_statements",
        _boolean,
        True,
        "Let psycopg prepare statements; switch off behind an old transaction pooler.",
    ),
    Option("max_map_length", _whole_number(1), 1024, "Most mapped tasks of one run; more units are batched."),
    Option("connect_timeout", _whole_number(1), 10, "Seconds to wait for a database connection."),
    Option(
        "connect_attempts", _whole_number(1), 5, "Tries, with jitter, when the server has too many clients."
    ),
    Option(
        "statement_timeout",
        _whole_number(0),
        0,
        "Seconds after which the server ends a statement; 0 for never.",
    ),
    Option(
        "lock_timeout",
        _whole_number(0),
        0,
        "Seconds to wait for a lock of the database; 0 for as long as it takes.",
    ),
    Option("error_retention_days", _whole_number(0), 90, "Age at which prune deletes errors; 0 keeps them."),
    Option(
        "history_retention_days",
        _whole_number(0),
        90,
        "Age at which prune deletes a unit's history; 0 keeps it.",
    ),
    Option(
        "fold_after_days", _whole_number(1), 30, "Age at which prune folds touching rows of a flexible model."
    ),
)

_BY_NAME = {option.name: option for option in OPTIONS}


@dataclass(frozen=True, slots=True)
class Settings:
    """What this run works with. Made by :meth:`resolve`; every field is an option of :data:`OPTIONS`.

    Attributes:
        origins: option name to where its value came from (``run parameter``, ``configuration``, an
            environment variable's name); options at their default are absent.
    """

    conn_id: str = "bollhav_default"
    dsn: str = ""
    schema_suffix: str = ""
    schema_appendix: str = ""
    target_suffix: str = ""
    state_mode: str = "bulldozer"
    state_disabled: bool = False
    mark_applied: bool = False
    dry_state: bool = False
    interval_override: str = ""
    reconcile: bool = False
    cascade: bool = False
    lease_seconds: int = 0
    busy_timeout: int = 90
    advisory_locks: str = "auto"
    prepared_statements: bool = True
    max_map_length: int = 1024
    connect_timeout: int = 10
    connect_attempts: int = 5
    statement_timeout: int = 0
    lock_timeout: int = 0
    error_retention_days: int = 90
    history_retention_days: int = 90
    fold_after_days: int = 30
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def lease(self) -> timedelta | None:
        """How long a claim lasts without being renewed; None for what the model says."""
        return timedelta(seconds=self.lease_seconds) if self.lease_seconds else None

    @classmethod
    def resolve(
        cls,
        params: Mapping[str, Any] | None = None,
        conf: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Settings:
        """Settle every option.

        Args:
            params: parameters of this run; ``None`` values count as not said. Names that are no option are
                left to their owners (``since``, ``until`` and the user's own), except close misspellings of
                one.
            conf: the ``[bollhav]`` section of Airflow's configuration; only what the operator of the
                deployment set, empty text counts as not said.
            environ: environment variables.

        Raises:
            ConfigurationError: a value has no meaning, or a parameter is a misspelt option; the text names
                where it was set and what to write instead.
        """
        params, conf, environ = params or {}, conf or {}, environ or {}
        for name in params:
            if name not in _BY_NAME and (close := get_close_matches(name, _BY_NAME, n=1, cutoff=0.85)):
                raise ConfigurationError(f"run parameter {name!r} is no option: did you mean {close[0]!r}?")
        values: dict[str, Any] = {}
        origins: dict[str, str] = {}
        for option in OPTIONS:
            origin, raw = _lookup(option, params, conf, environ)
            if origin is None:
                continue
            try:
                values[option.name] = option.parse(raw)
            except ValueError as exc:
                shown = "***" if option.name == "dsn" else repr(raw)
                raise ConfigurationError(
                    f"option {option.name!r} of [bollhav] is {shown}, set by {origin}: {exc}."
                ) from None
            origins[option.name] = origin
        if values.get("mark_applied") and values.get("state_disabled"):
            raise ConfigurationError(
                "mark_applied records state without data and state_disabled moves data without state: switch "
                "one off "
                f"(mark_applied is set by {origins['mark_applied']}, state_disabled by "
                f"{origins['state_disabled']})."
            )
        return cls(**values, origins=origins)


def _lookup(
    option: Option, params: Mapping[str, Any], conf: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[str | None, Any]:
    if params.get(option.name) is not None:
        if option.per_run:
            return f"run parameter {option.name}", params[option.name]
        raise ConfigurationError(
            f"option {option.name!r} cannot be set by run parameter: set it in the [bollhav] section of "
            f"Airflow's "
            f"configuration or by the environment variable {option.variables[0]}."
        )
    if conf.get(option.name) not in (None, ""):
        return f"Airflow's configuration, [bollhav] {option.name}", conf[option.name]
    for variable in option.variables:
        if environ.get(variable, "") != "":
            return f"environment variable {variable}", environ[variable]
    return None, None
