"""What every command works on: models, connections, settings, environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bollhav_provider.exceptions import ConfigurationError, DefinitionError

if TYPE_CHECKING:
    from bollhav_provider.graph import Graph
    from bollhav_provider.intervals import ResolvedWindow
    from bollhav_provider.model import Environment, Model
    from bollhav_provider.run import DsnConnections, RunSpec
    from bollhav_provider.settings import Settings

#: What a run may invalidate before it starts.
MODES = ("discover", "bulldozer", "torch")
#: Where models are looked for when nobody says.
PLACES = ("models", "dags/models")


@dataclass(frozen=True)
class Project:
    """One deployment, as the command line sees it.

    Attributes:
        graph: of all models that fit together.
        connections: to library, targets and sources.
        settings: from environment variables.
        env: the environment, fixed now.
        place: the folder or file whose models these are.
        took: seconds that each file took to read.
        broken: what is wrong with files and models that were set aside.
    """

    graph: Graph
    connections: DsnConnections
    settings: Settings
    env: Environment
    place: Path
    took: dict[Path, float]
    broken: tuple[str, ...] = ()

    def model(self, name: str) -> Model:
        """Return one model.

        Raises:
            ConfigurationError: it is not there.
            DefinitionError: it is and does not fit; with what is wrong.
        """
        from bollhav_provider.model.base import did_you_mean

        rejected = self.graph.rejected
        if name in rejected:
            raise DefinitionError(rejected[name])
        if name not in self.graph:
            known = sorted(one.full_name for one in self.graph.models)
            hint = did_you_mean(name, known).removeprefix("; ")
            if self.broken:
                where = f"it is not among the models in {self.place} that can be read"
                hint = f"{hint} What cannot be:" if hint else "what cannot be:"
                hint += "".join(f"\n{problem}" for problem in self.broken)
            else:
                where = f"there is no such model in {self.place}"
                hint = hint or f"there are {', '.join(known[:20])}{' ...' if len(known) > 20 else ''}"
            raise ConfigurationError(f"{name}: {where}; {hint}")
        return self.graph.model(name)

    def models(self, names: list[str] | None, select: str | None) -> list[Model]:
        """Return models by name and by tags; all of them when neither is given, each after what it reads.

        Raises:
            ConfigurationError: a name or the expression means none.
        """
        chosen = {self.model(name).full_name for name in names or ()}
        if select:
            chosen |= (tagged := {model.full_name for model in self.graph.select(select)})
            if not tagged:
                known = sorted({tag for model in self.graph.models for tag in model.tags})
                some = f"the tags are {', '.join(known)}" if known else "no model has a tag"
                raise ConfigurationError(f"--select {select!r}: no model in {self.place} is meant; {some}.")
        if not names and not select:
            return list(self.graph.order())
        return [model for model in self.graph.order() if model.full_name in chosen]

    def spec(self) -> RunSpec:
        """Return a run of this account as environment variables ask for it; its window is still to be settled."""
        from bollhav_provider.run import RunSpec, run_key
        from bollhav_provider.state import account

        return RunSpec.from_settings(self.settings, run_key(who=account()), self.env, None)

    def now(self) -> datetime:
        """Return the database's clock."""
        from contextlib import closing

        from bollhav_provider.state import db_now

        with closing(self.connections.state()) as conn:
            return db_now(conn)

    def window(
        self, model: Model, since: str | None, until: str | None, now: datetime, *, whole: bool = False
    ) -> ResolvedWindow:
        """Return what a run of a model covers: its dates, else the latest complete window, or with ``whole``
        all of it.

        Raises:
            IntervalError: the dates make no window.
            typer.BadParameter: there are dates, and the whole range is asked for.
        """
        import typer

        from bollhav_provider.intervals import resolve_window

        if whole and (since or until):
            raise typer.BadParameter(
                "--all, and --reconcile, mean the contract's whole range: leave --since and --until out."
            )
        chunking = model.batching.time if model.batching is not None else None
        return resolve_window(
            model.grid,
            now=now,
            since=instant(since, "--since", model.tz),
            until=instant(until, "--until", model.tz),
            begin=model.contract.begin,
            end=model.contract.end,
            lookback=chunking.lookback if chunking is not None and not whole else 0,
            flexible=model.is_flexible,
            run_grid=model.run_grid,
            absent="contract" if whole and model.contract.begin is not None else "latest",
            temporal=model.is_temporal,
        )


def open_project(models: Path | None, dsn: str | None, suffix: str | None) -> Project:
    """Read the models and settle everything else.

    Args:
        models: folder or file of definitions; ``BOLLHAV_MODELS``, else ``models`` or ``dags/models``.
        dsn: of the library; ``BOLLHAV_DSN``.
        suffix: of the environment, instead of what environment variables say.

    Raises:
        ConfigurationError: there are no models, or no DSN.
        typer.Exit: with code 2, for a DSN that is none.
    """
    from bollhav_provider.cli.streams import settle_logging
    from bollhav_provider.graph import build_graph, discover
    from bollhav_provider.model import Environment
    from bollhav_provider.run import ConnectOptions, DsnConnections
    from bollhav_provider.settings import Settings

    settings = Settings.resolve(environ=os.environ)
    place = models or _models_place()
    took: dict[Path, float] = {}
    found = discover(place, took=took)
    settle_logging()
    graph = build_graph(found.models)
    broken = tuple(map(str, found.errors)) + tuple(
        str(problem) for problems in graph.rejected.values() for problem in problems
    )
    if not found.models and found.errors:
        raise ConfigurationError("no model can be read:\n" + "\n".join(broken))
    address = dsn or settings.dsn
    if not address:
        raise ConfigurationError(
            "there is no DSN: give --dsn, or set BOLLHAV_DSN to that of the library's database."
        )
    _check_dsn(address, "--dsn" if dsn else "BOLLHAV_DSN")
    options = ConnectOptions(
        connect_timeout=settings.connect_timeout,
        attempts=settings.connect_attempts,
        prepared=settings.prepared_statements,
        statement_timeout=settings.statement_timeout,
        lock_timeout=settings.lock_timeout,
    )
    if not found.models:
        raise ConfigurationError(f"there are no models in {place}: no file there makes one.")
    env = Environment.fixed_at(
        datetime.now(UTC),
        suffix if suffix is not None else settings.schema_suffix,
        settings.schema_appendix or None,
        settings.target_suffix or None,
    )
    return Project(graph, DsnConnections(address, options=options), settings, env, place, took, broken)


def instant(text: str | None, option: str, tz: str) -> datetime | None:
    """Read an instant; a plain date is midnight in the model's zone.

    Raises:
        IntervalError: it is no instant, or has a clock time and no offset.
    """
    from bollhav_provider.intervals import as_utc_or_day

    return as_utc_or_day(text, option, tz) if text is not None else None


def _check_dsn(dsn: str, where: str) -> None:
    """Refuse what is no connection string in one line, which never quotes it: it may hold a password."""
    import psycopg
    import typer
    from psycopg.conninfo import conninfo_to_dict

    from bollhav_provider.cli import render

    try:
        conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        render.say(
            render.word("error"),
            f": {where} is no connection string: write postgresql://user:password@host:5432/database, with reserved "
            "characters percent-encoded.",
            console=render.err,
        )
        raise typer.Exit(2) from None


def _models_place() -> Path:
    if given := os.environ.get("BOLLHAV_MODELS"):
        return Path(given)
    for place in PLACES:
        if Path(place).exists():
            return Path(place)
    raise ConfigurationError(
        f"there are no models: neither {' nor '.join(PLACES)} exists here. Give --models, or set "
        f"BOLLHAV_MODELS."
    )
