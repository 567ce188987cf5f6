"""The options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bollhav_provider.cli.project import MODES


def _mode(said: str | None) -> str | None:
    if said is not None and said not in MODES:
        raise typer.BadParameter(f"{said!r} is none of {', '.join(MODES)}.")
    return said


ModelName = Annotated[str, typer.Argument(help="Full name of the model, schema.name.", show_default=False)]
ModelNames = Annotated[
    list[str] | None,
    typer.Argument(help="Full names of models; all of them when none is given.", show_default=False),
]
RunNames = Annotated[
    list[str] | None,
    typer.Argument(help="Full names of models; or --select some by their tags.", show_default=False),
]
Models = Annotated[
    Path | None,
    typer.Option(
        "--models", help="Folder or file of definitions; BOLLHAV_MODELS, else models or dags/models."
    ),
]
Dsn = Annotated[
    str | None, typer.Option("--dsn", help="DSN of the library's database; BOLLHAV_DSN.", show_default=False)
]
Suffix = Annotated[str | None, typer.Option("--suffix", help="Suffix of the environment; SCHEMA_SUFFIX.")]
Select = Annotated[
    str | None, typer.Option("--select", "-s", help="Models by their tags, for instance 'mart & not:slow'.")
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        help="Start of the window, included: a date in the model's zone, or an instant with offset.",
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until", help="End of the window, excluded: 2024-01-31 is the instant at which that day starts."
    ),
]
Whole = Annotated[
    bool, typer.Option("--all", help="The contract's whole range instead of the latest window.")
]
Mode = Annotated[
    str | None,
    typer.Option(
        "--mode",
        help="What is invalidated first: nothing (discover), the window (bulldozer), everything (torch); STATE_MODE.",
        metavar="|".join(MODES),
        callback=_mode,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why; kept with the units.")]
Who = Annotated[
    str | None, typer.Option("--who", help="Who says so; the account by default.", show_default=False)
]
