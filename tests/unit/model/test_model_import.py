"""Importing the definition language costs neither Airflow nor polars nor a database driver."""

from __future__ import annotations

import subprocess
import sys

import pytest

import bollhav_provider

HEAVY = (
    "airflow",
    "polars",
    "psycopg",
    "sqlglot",
    "croniter",
    "yaml",
    "rich",
    "typer",
    "sqlalchemy",
    "pyarrow",
    "pandas",
)


def modules_after(code: str) -> set[str]:
    show = "import sys; print(' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{show}"], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import bollhav_provider",
        "import bollhav_provider.model",
        "from bollhav_provider import Model, Source, Target, Unit, Contract, NotNull",
    ],
)
def test_nothing_heavy_is_imported(code: str) -> None:
    assert not modules_after(code) & set(HEAVY)


def test_the_package_itself_does_not_even_import_pydantic() -> None:
    assert "pydantic" not in modules_after("import bollhav_provider")


def test_writing_a_definition_imports_nothing_heavy() -> None:
    code = """
from bollhav_provider import Batch, Column, Contract, Model, Source, State, Target, TimeChunking
model = Model(
    target=Target(schema="a", name="b", columns=[Column("day", "date", partition_on=True)]),
    contract=Contract(begin="2024-01-01T00:00Z"),
    batching=Batch(time=TimeChunking("@daily")),
    upstream=[Source("a.c", contract="exact")],
    state=State(),
)
model.execute(lambda unit, c: None)
model.state_table, model.lineage()
"""
    assert not modules_after(code) & {*HEAVY} - {"croniter"}


def test_all_public_names_are_there() -> None:
    for name in bollhav_provider.__all__:
        if name not in ("Upstream", "build_dags"):
            assert getattr(bollhav_provider, name).__name__ == name
    assert set(bollhav_provider.__all__) <= set(dir(bollhav_provider))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Modle'"):
        _ = bollhav_provider.Modle  # type: ignore[attr-defined]
