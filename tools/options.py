"""The tables of ``docs/reference/options.md``, out of the options' own descriptions: ``python -m tools.options``."""

from __future__ import annotations

import re
from pathlib import Path

from bollhav_provider.hooks.options import AIRFLOW_OPTIONS
from bollhav_provider.settings import OPTIONS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "options.md"


def updated(text: str) -> str:
    """Return the page with its tables as they have to be."""
    settings = ["| option | default | per run | environment | |", "|---|---|---|---|---|"]
    for option in OPTIONS:
        default = str(option.default).lower() if isinstance(option.default, bool) else option.default
        shown = f"`{default}`" if default != "" else ""
        variables = ", ".join(f"`{name}`" for name in option.variables)
        per_run = "yes" if option.per_run else ""
        settings.append(f"| `{option.name}` | {shown} | {per_run} | {variables} | {option.description} |")
    airflow = ["| option | |", "|---|---|"]
    airflow += [f"| `{name}` | {description} |" for name, description in AIRFLOW_OPTIONS.items()]
    return _put(_put(text, "options", settings), "airflow", airflow)


def _put(text: str, name: str, lines: list[str]) -> str:
    table = "\n".join(lines)
    pattern = rf"(<!-- {name}: [^\n]*-->\n)(?:.*?\n)?(<!-- end of {name} -->)"
    return re.sub(pattern, lambda found: f"{found[1]}{table}\n{found[2]}", text, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
