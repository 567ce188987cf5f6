"""What one task waits for, as JSON that a trigger can carry, and how it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

    from bollhav_provider.model import Environment
    from bollhav_provider.state import GateReport, GateRequest, GateResult, GateWatch


@dataclass(frozen=True)
class Answers:
    """What the library said.

    Attributes:
        results: one for each gate that this task waits for.
        reasons: why units wait, all of their gates included.
        doomed: why a unit can never run, whatever becomes of the gates that this task waits for: the reasons of its
            other gates that can never open.
    """

    results: tuple[GateResult, ...]
    reasons: tuple[str, ...] = ()
    doomed: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether the wait is over."""
        return all(result.satisfied for result in self.results)

    @property
    def hard(self) -> tuple[str, ...]:
        """The reasons for which waiting is pointless."""
        return tuple(dict.fromkeys(result.reason for result in self.results if result.hard))

    @property
    def settled(self) -> bool:
        """Whether there is nothing left to wait for."""
        return self.open or bool(self.hard or self.doomed)


@dataclass(frozen=True)
class Questions:
    """Gates of a model's units, whose state rows follow what is seen; or gates by themselves.

    Attributes:
        env: the environment whose library is asked.
        watches: the units that wait.
        source: the one upstream of ``watches`` that is waited for, by its name without suffix; None for all.
        requests: gates of nobody's units.
    """

    env: Environment
    watches: tuple[GateWatch, ...] = ()
    source: str | None = None
    requests: tuple[GateRequest, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return keyword arguments of a trigger; :meth:`from_json` reads them back."""
        return {
            "env": self.env.to_json(),
            "watches": [watch.to_json() for watch in self.watches],
            "source": self.source,
            "requests": [request.to_json() for request in self.requests],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Questions:
        """Return the questions that :meth:`to_json` wrote."""
        from bollhav_provider.model import Environment
        from bollhav_provider.state import GateRequest, GateWatch

        return cls(
            Environment.from_json(value["env"]),
            tuple(map(GateWatch.from_json, value["watches"])),
            value["source"],
            tuple(map(GateRequest.from_json, value["requests"])),
        )

    @property
    def upstreams(self) -> tuple[str, ...]:
        """Full names of what is waited for."""
        watched = [r for watch in self.watches for r in watch.requests if self.source in (None, r.source)]
        return tuple(sorted({request.upstream for request in (*watched, *self.requests)}))

    def ask(self, conn: psycopg.Connection[Any]) -> Answers:
        """Ask once."""
        from bollhav_provider.state import check_gates, observe_all

        reports = observe_all(conn, self.watches) if self.watches else []
        results = check_gates(conn, self.env, self.requests) if self.requests else []
        return self.answers(reports, results)

    def answers(self, reports: Sequence[GateReport], results: Sequence[GateResult]) -> Answers:
        """Put together what was asked for, from one report a watch and one result a request."""
        mine = [r for report in reports for r in report.results if self.source in (None, r.request.source)]
        doomed = [
            r.reason
            for report in reports
            for r in report.results
            if r.hard and self.source is not None and r.request.source != self.source
        ]
        reasons = [
            f"{watch.state.full_name} {watch.unit.label}: {report.reason}"
            for watch, report in zip(self.watches, reports, strict=True)
            if not report.open
        ]
        reasons += [result.reason for result in results if not result.satisfied]
        return Answers((*mine, *results), tuple(dict.fromkeys(reasons)), tuple(dict.fromkeys(doomed)))


@dataclass
class Batch:
    """Many tasks' questions, each distinct one asked once: one statement for the units, one for the other gates."""

    asked: Sequence[Questions]
    _reports: dict[GateWatch, GateReport] = field(default_factory=dict)
    _results: dict[GateRequest, GateResult] = field(default_factory=dict)

    async def ask(self, conn: psycopg.AsyncConnection[Any], env: Environment) -> list[Answers]:
        """Ask everything; one answer for each of ``asked``, in their order."""
        from bollhav_provider.state import acheck_gates, aobserve_all
        from bollhav_provider.state.beside import beside_the_loop

        many = len(self.asked)
        watches, requests = await beside_the_loop(many, self._distinct)
        if watches:
            reports = await aobserve_all(conn, watches)
            self._reports = await beside_the_loop(many, lambda: dict(zip(watches, reports, strict=True)))
        if requests:
            results = await acheck_gates(conn, env, requests)
            self._results = await beside_the_loop(many, lambda: dict(zip(requests, results, strict=True)))
        return await beside_the_loop(many, self._answers)

    def _distinct(self) -> tuple[list[GateWatch], list[GateRequest]]:
        watches = dict.fromkeys(watch for questions in self.asked for watch in questions.watches)
        requests = dict.fromkeys(request for questions in self.asked for request in questions.requests)
        return list(watches), list(requests)

    def _answers(self) -> list[Answers]:
        return [
            questions.answers(
                [self._reports[watch] for watch in questions.watches],
                [self._results[request] for request in questions.requests],
            )
            for questions in self.asked
        ]
