"""What gets installed beside other people's packages."""

from __future__ import annotations

import tomllib
from pathlib import Path


def test_the_wheel_holds_the_package_alone() -> None:
    """A top-level ``tools`` of ours in site-packages would hide a ``tools`` in somebody's DAGs folder."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["bollhav_provider"]
