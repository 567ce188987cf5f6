"""When a model's windows are: contract, chunks and batches."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from bollhav_provider.model.base import Definition, Finding
from bollhav_provider.model.grids import cell_problem, grid_of, grid_problem
from bollhav_provider.model.instants import Instant
from bollhav_provider.model.later import Later

if TYPE_CHECKING:
    from bollhav_provider.intervals import Grid


class Contract(Definition):
    """The range that a model promises to hold: from ``begin`` up to, not including, ``end``.

    Without ``begin`` a run makes only its own window; without ``end`` the range grows with the clock.
    """

    begin: Instant | None = Field(
        default=None, description="First instant, an ISO 8601 string with an offset or an aware datetime."
    )
    end: Instant | None = Field(default=None, description="The instant at which the range stops; not given: open.")

    if TYPE_CHECKING:

        def __init__(self, *, begin: datetime | str | None = None, end: datetime | str | None = None) -> None: ...

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the range by itself."""
        if self.begin and self.end and self.begin >= self.end:
            how = "equal" if self.begin == self.end else "after"
            yield (
                "end",
                (
                    f"begin {_show(self.begin)} is {how} {'to' if how == 'equal' else 'the'} end "
                    f"{_show(self.end)}; a range has begin < end"
                ),
            )


class ChunkFix(Definition):
    """The chunk is the identity of the state: a grid of windows at one grain (the default)."""

    kind: Literal["fix"] = "fix"


class ChunkFlex(Definition):
    """The chunk only slices work; the state is what is covered, and any re-slicing gives the same rows.

    That promise cannot be proven from outside. What can be seen to break it is refused, unless ``attest``
    says why it holds.
    """

    kind: Literal["flex"] = "flex"
    floor_chunk: str | None = Field(default=None, description="The finest chunk that an override may re-slice to.")
    attest: str | None = Field(
        default=None,
        description=(
            "Why splitting a window gives the same rows although the definition looks otherwise. "
            "Recorded in the library."
        ),
    )

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the promise by itself."""
        if self.attest is not None and not self.attest.strip():
            yield "attest", "the reason is empty; say why splitting a window gives the same rows, or leave it out"


Flexibility = Annotated[ChunkFix | ChunkFlex, Field(discriminator="kind")]


class TimeChunking(Definition):
    """How a temporal model's range is cut into units: ``TimeChunking("@daily", tz="America/New_York")``."""

    _positional: ClassVar[tuple[str, ...]] = ("chunk",)

    chunk: str = Field(
        description=(
            "Five-field cron or an alias (@hourly @daily @weekly @monthly @quarterly @yearly) whose "
            "ticks bound the units."
        )
    )
    tz: str = Field(default="UTC", description="IANA zone in which the cron is read.")
    window: str | None = Field(
        default=None,
        description=(
            "Cron of what one scheduled run covers; each of its ticks is a tick of the chunk. Not given: the chunk."
        ),
    )
    lookback: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="How many ticks of the grid a scheduled run reaches back, for data that come late.",
    )
    flexibility: Annotated[ChunkFix | ChunkFlex, Later("timing:Flexibility")] = Field(
        default_factory=ChunkFix, description="`fix` (default) or `flex`."
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            chunk: str,
            *,
            tz: str = "UTC",
            window: str | None = None,
            lookback: int = 0,
            flexibility: ChunkFix | ChunkFlex | Literal["fix", "flex"] = ...,
        ) -> None: ...

    @classmethod
    def _prepare(cls, data: dict[str, Any]) -> dict[str, Any]:
        word = data.get("flexibility")
        return {**data, "flexibility": {"kind": word.strip().lower()}} if isinstance(word, str) else data

    @property
    def is_flexible(self) -> bool:
        """Whether the state is a coverage instead of a grid."""
        return isinstance(self.flexibility, ChunkFlex)

    @property
    def grid(self) -> "Grid":
        """The units' grid."""
        return grid_of(self.chunk, self.tz)

    @property
    def run_grid(self) -> "Grid":
        """The grid of what one scheduled run covers."""
        return grid_of(self.window or self.chunk, self.tz)

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the chunking by itself."""
        broken = grid_problem(self.chunk, self.tz)
        if broken:
            yield broken[0] if broken[0] == "tz" else "chunk", broken[1]
            return
        if self.window is not None:
            if problem := grid_problem(self.window, self.tz):
                yield "window", problem[1]
            elif problem_text := cell_problem(self.window, self.chunk, self.tz):
                yield "window", problem_text
        if isinstance(self.flexibility, ChunkFlex):
            for field, message in self.flexibility.problems():
                yield f"flexibility.{field}", message
            floor = self.flexibility.floor_chunk
            if floor is not None:
                if problem := grid_problem(floor, self.tz):
                    yield "flexibility.floor_chunk", problem[1]
                elif problem_text := cell_problem(self.chunk, floor, self.tz, outer="chunk", inner="floor_chunk"):
                    yield "flexibility.floor_chunk", problem_text


class Batch(Definition):
    """How a model's work is cut: by time into units, by rows when they are written, and units into tasks."""

    time: TimeChunking | None = Field(
        default=None, description="The units of a temporal model; not given: one unit without bounds."
    )
    size: int | None = Field(default=None, ge=1, le=2**31 - 1, description="Rows that are written or read at a time.")
    units_per_task: int = Field(
        default=1, ge=1, le=1_000_000, description="How many units one Airflow task works through, one after the other."
    )

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the batching by itself."""
        if self.time is not None:
            for field, message in self.time.problems():
                yield f"time.{field}", message
        elif self.units_per_task > 1:
            yield (
                "units_per_task",
                "there is one unit only without time chunks; leave it out, or give time=TimeChunking(...)",
            )


def _show(instant: datetime) -> str:
    from bollhav_provider.intervals import instant_text

    return instant_text(instant)
