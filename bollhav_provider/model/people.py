"""Who is behind a model, how it is tagged, and when it must not run."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from bollhav_provider.model.base import Definition, Finding, Words, shown
from bollhav_provider.model.grids import grid_problem

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

_TAG = r"[^\s&|(),:\"'\[\]]+"
_MAX_TAG_LENGTH = 100

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class Tags(tuple[str, ...]):
    """A model's tags, in order, each once: ``Tags("daily", "finance")``; a list of strings will do as well."""

    __slots__ = ()

    def __new__(cls, *tags: str | Iterable[str]) -> "Tags":
        flat: list[str] = []
        for tag in tags:
            flat.extend([tag] if isinstance(tag, str) or not isinstance(tag, Iterable) else tag)
        for tag in flat:
            if not isinstance(tag, str):
                raise ValueError(f"must be words, and {shown(tag)} is none; write for instance tags=['daily']")
        return super().__new__(cls, dict.fromkeys(flat))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        words = core_schema.list_schema(core_schema.str_schema())
        either = core_schema.union_schema([core_schema.str_schema(), words])
        return core_schema.json_or_python_schema(
            json_schema=core_schema.no_info_after_validator_function(cls, either),
            python_schema=core_schema.no_info_plain_validator_function(cls),
            serialization=core_schema.plain_serializer_function_ser_schema(list, return_schema=words),
        )

    def problems(self) -> Iterator[Finding]:
        """Yield the tags that a selection could not name."""
        for tag in self:
            if not re.fullmatch(_TAG, tag) or len(tag) > _MAX_TAG_LENGTH:
                yield (
                    "tags",
                    f"{tag!r} is no tag: up to {_MAX_TAG_LENGTH} characters without spaces, quotes and & | ( ) [ ] , : "
                    "which selections are written with; write for instance 'finance-daily'",
                )


class People(Definition):
    """Who answers for a model."""

    owner: str | None = Field(
        default=None, description="The person or team that answers for the model; shown as Airflow's owner."
    )
    email: Words = Field(default=(), description="Addresses to write to.")
    team: str | None = Field(default=None, description="The team.")
    stewards: Words = Field(default=(), description="People who know what the data mean.")
    slack: str | None = Field(default=None, description="The channel in which to ask.")

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            owner: str | None = None,
            email: str | Sequence[str] = (),
            team: str | None = None,
            stewards: str | Sequence[str] = (),
            slack: str | None = None,
        ) -> None: ...

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the people by themselves."""
        if self.owner is not None and not self.owner.strip():
            yield "owner", "the owner is empty; name one or leave it out"
        for address in self.email:
            if "@" not in address.strip("@"):
                yield "email", f"{address!r} is no address; write name@example.org"


def _days(value: Any) -> Any:
    """Bring days into the order of the week, and ``Monday`` into the form ``mon``."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple | set | frozenset):
        return value
    short = {_short_day(day) for day in value if isinstance(day, str)}
    return tuple(day for day in DAYS if day in short) + tuple(
        day for day in value if not isinstance(day, str) or _short_day(day) not in DAYS
    )


def _short_day(day: str) -> str:
    """Return ``mon`` for ``Monday``, and a word that is no day as it is."""
    word = day.strip().lower()
    days = zip(DAYS, _DAY_NAMES, strict=True)
    return next((short for short, name in days if len(word) >= len(short) and name.startswith(word)), word)


def _range(value: Any) -> Any:
    """Put a list around one range that stands alone."""
    if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(item, str | time) for item in value):
        return (value,)
    return value


class Curfew(Definition):
    """Times of day at which no unit starts: ``Curfew(ranges=[("22:00", "06:00")], tz="Europe/Paris")``."""

    _unordered: ClassVar[frozenset[str]] = frozenset({"days"})
    _may_be_blank: ClassVar[frozenset[str]] = frozenset({"reason"})

    ranges: Annotated[tuple[tuple[time, time], ...], BeforeValidator(_range)] = Field(
        min_length=1,
        description=(
            "From, up to but not including, to; a range may pass midnight and then belongs to the day it starts on."
        ),
    )
    tz: str = Field(default="UTC", description="IANA zone of the times.")
    days: Annotated[tuple[Day, ...], BeforeValidator(_days)] = Field(
        default=DAYS, min_length=1, description="Days on which the ranges start."
    )
    reason: str | None = Field(default=None, description="Why; it is part of the message with which a run skips.")

    _positional: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            ranges: Sequence[tuple[time | str, time | str]],
            tz: str = "UTC",
            days: str | Sequence[str] = DAYS,
            reason: str | None = None,
        ) -> None: ...

    def closed_at(self, instant: datetime) -> str | None:
        """Return why nothing may start at an instant, or None.

        Args:
            instant: aware.
        """
        from zoneinfo import ZoneInfo

        local = instant.astimezone(ZoneInfo(self.tz))
        today, yesterday = DAYS[local.weekday()], DAYS[(local - timedelta(days=1)).weekday()]
        clock = local.time()
        for start, stop in self.ranges:
            if start < stop:
                closed = today in self.days and start <= clock < stop
            else:
                closed = (today in self.days and clock >= start) or (yesterday in self.days and clock < stop)
            if closed:
                why = f": {self.reason}" if self.reason else ""
                return f"curfew from {start:%H:%M} to {stop:%H:%M} ({self.tz}), and it is {local:%a %H:%M}{why}"
        return None

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the curfew by itself."""
        if problem := grid_problem("@daily", self.tz):
            yield "tz", problem[1]
        for start, stop in self.ranges:
            if start == stop:
                yield (
                    "ranges",
                    (
                        f"from {start:%H:%M} to {stop:%H:%M} is no time at all; write two different "
                        "times or enabled=False to stop the model altogether"
                    ),
                )
            if start.tzinfo or stop.tzinfo:
                yield (
                    "ranges",
                    f"{start.isoformat()} to {stop.isoformat()} hold an offset; write plain times, their zone is tz",
                )
