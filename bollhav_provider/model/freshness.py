"""How recently an input must have been loaded."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from bollhav_provider.model.base import Definition, Finding
from bollhav_provider.model.enums import FreshnessScope
from bollhav_provider.model.instants import Duration


class Freshness(Definition):
    """How recently the rows that a contract selects must have been loaded, by the database's clock."""

    _positional: ClassVar[tuple[str, ...]] = ("within",)

    within: Duration = Field(description="The greatest age, a timedelta or `36h`, `30d`, or an ISO 8601 duration.")
    scope: FreshnessScope = Field(
        default=FreshnessScope.LATEST,
        description="`latest`: the newest load counts, `all`: the oldest, `head`: that of the last window.",
    )

    if TYPE_CHECKING:

        def __init__(self, within: timedelta | str, *, scope: FreshnessScope | str = FreshnessScope.LATEST) -> None: ...

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with the limit by itself."""
        if self.within <= timedelta(0):
            yield (
                "within",
                f"{self.within} is no age that anything can have; write a positive duration such as timedelta(days=1)",
            )
