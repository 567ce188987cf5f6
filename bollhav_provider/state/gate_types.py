"""What a gate is asked and what it answers: small frozen values that JSON can carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from bollhav_provider.exceptions import GateClosedError, HardGateError
from bollhav_provider.intervals import Interval
from bollhav_provider.model import Freshness, FreshnessScope, UpstreamContract
from bollhav_provider.state.reasons import with_remedies

#: The level of a gate on the model's own past, for ``State(sequential=True)``; nobody declares it.
OWN_PAST = "past"


@dataclass(frozen=True, slots=True)
class GateRequest:
    """One question: is this upstream ready for that window?

    Attributes:
        upstream: full name as the library knows it, with the environment's suffix.
        level: the declared level's word, or :data:`OWN_PAST`.
        window: the asking unit's window; None when the unit is windowless.
        within: how old the rows that ``scope`` chooses may be; None for any age.
        scope: which of the rows that the level selects is aged.
        max_lag: how many of the upstream's last windows before the end of what the level asks for may be missing.
        downstream: full name of the asking model, for messages.
        source: the upstream's name as declared; ``upstream`` when the caller gave none.
    """

    upstream: str
    level: str
    window: Interval | None = None
    within: timedelta | None = None
    scope: str = FreshnessScope.LATEST.value
    max_lag: int = 0
    downstream: str = ""
    source: str = ""

    @classmethod
    def of(
        cls,
        upstream: str,
        level: UpstreamContract,
        window: Interval | None = None,
        freshness: Freshness | None = None,
        *,
        max_lag: int = 0,
        downstream: str = "",
        source: str = "",
    ) -> GateRequest:
        """Return the request of a declared gate."""
        within = freshness.within if freshness else None
        scope = freshness.scope.value if freshness else FreshnessScope.LATEST.value
        return cls(upstream, level.value, window, within, scope, max_lag, downstream, source or upstream)

    @property
    def effective_level(self) -> str:
        """The level that is checked: a windowless unit reads everything, so a window's levels mean WHOLE for it."""
        windowed = (UpstreamContract.EXACT, UpstreamContract.ENCAPSULATE, UpstreamContract.THROUGH)
        if self.window is None and self.level in windowed:
            return UpstreamContract.WHOLE.value
        return self.level

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry; :meth:`from_json` reads it back."""
        return {
            "upstream": self.upstream,
            "level": self.level,
            "window": self.window.to_json() if self.window else None,
            "within_seconds": self.within.total_seconds() if self.within is not None else None,
            "scope": self.scope,
            "max_lag": self.max_lag,
            "downstream": self.downstream,
            "source": self.source,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GateRequest:
        """Return the request that :meth:`to_json` wrote."""
        within = value.get("within_seconds")
        return cls(
            value["upstream"],
            value["level"],
            Interval.from_json(value["window"]) if value.get("window") else None,
            timedelta(seconds=within) if within is not None else None,
            value.get("scope", FreshnessScope.LATEST.value),
            value.get("max_lag", 0),
            value.get("downstream", ""),
            value.get("source", ""),
        )


@dataclass(frozen=True, slots=True)
class GateRequests(Sequence[GateRequest]):
    """The requests of one unit.

    Attributes:
        requests: one a gated upstream, in the order of declaration.
        skipped: the upstreams that are trusted unchecked in a suffixed run (``deactivate_for_dev``).
    """

    requests: tuple[GateRequest, ...] = ()
    skipped: tuple[str, ...] = ()

    def __getitem__(self, index: Any) -> Any:
        return self.requests[index]

    def __len__(self) -> int:
        return len(self.requests)

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry; :meth:`from_json` reads it back."""
        return {"requests": [r.to_json() for r in self.requests], "skipped": list(self.skipped)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GateRequests:
        """Return the requests that :meth:`to_json` wrote."""
        return cls(tuple(map(GateRequest.from_json, value["requests"])), tuple(value["skipped"]))


@dataclass(frozen=True, slots=True)
class GateResult:
    """One answer.

    Attributes:
        request: the question.
        satisfied: whether the unit may run as far as this upstream is concerned.
        hard: whether waiting cannot help.
        code: the permanent code of ``reason``; empty when satisfied.
        reason: one sentence that starts with ``code``; empty when satisfied.
        missing: the first sub-range that is not applied, where the lack is one of time.
        stale: whether only the age is wrong.
        applied_at: when the row was applied that the freshness is judged by.
        age: how old that was on the database's clock; negative for one dated in the future.
        lag: how many of the upstream's windows the relaxation ``max_lag`` forgave.
    """

    request: GateRequest
    satisfied: bool
    hard: bool = False
    code: str = ""
    reason: str = ""
    missing: Interval | None = None
    stale: bool = False
    applied_at: datetime | None = None
    age: timedelta | None = None
    lag: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return what a plan or a task's log shows of it."""
        return {
            "upstream": self.request.upstream,
            "level": self.request.level,
            "satisfied": self.satisfied,
            "hard": self.hard,
            "code": self.code or None,
            "reason": self.reason or None,
            "missing": self.missing.to_json() if self.missing else None,
            "stale": self.stale,
            "age_seconds": self.age.total_seconds() if self.age is not None else None,
            "lag": self.lag,
        }


@dataclass(frozen=True, slots=True)
class GateReport:
    """All answers for one unit.

    Attributes:
        results: one a gated upstream, in the order of declaration.
        skipped: the upstreams that were trusted unchecked.
    """

    results: tuple[GateResult, ...] = ()
    skipped: tuple[str, ...] = field(default=())

    @property
    def open(self) -> bool:
        """Whether the unit may run."""
        return all(r.satisfied for r in self.results)

    @property
    def hard(self) -> bool:
        """Whether some upstream makes waiting pointless."""
        return any(r.hard for r in self.results)

    @property
    def unsatisfied(self) -> tuple[GateResult, ...]:
        """Every answer that keeps the gate shut; those that waiting cannot change come first."""
        return tuple(sorted((r for r in self.results if not r.satisfied), key=lambda r: not r.hard))

    @property
    def reason(self) -> str:
        """The text for ``blocked_reason``: every unsatisfied upstream, each with its code; empty when open."""
        return "; ".join(r.reason for r in self.unsatisfied)

    @property
    def lagging(self) -> tuple[GateResult, ...]:
        """The answers that only ``max_lag`` made good."""
        return tuple(r for r in self.results if r.satisfied and r.lag)

    def require_open(self) -> None:
        """Raise unless the gate is open.

        Raises:
            HardGateError: some upstream can never be ready as things are declared, or is not registered.
            GateClosedError: some upstream is not ready yet.
        """
        if self.hard:
            raise HardGateError(with_remedies(self.reason))
        if not self.open:
            raise GateClosedError(self.reason)
