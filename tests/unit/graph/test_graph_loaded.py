"""Which loaded modules can be of definition files."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from bollhav_provider.graph import modules


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, ModuleType]:
    """A folder, and a module that somebody loaded from it as part of a package that is installed beside it."""
    folder = tmp_path / "site" / "definitions"
    folder.mkdir(parents=True)
    package, module = ModuleType("site_package"), ModuleType("site_package.orders")
    package.__file__, module.__file__ = str(tmp_path / "site" / "__init__.py"), str(folder / "orders.py")
    monkeypatch.setitem(sys.modules, "site_package", package)
    monkeypatch.setitem(sys.modules, "site_package.orders", module)
    return folder.resolve(), module


def test_a_module_is_found_by_its_file_whatever_it_is_called(loaded: tuple[Path, ModuleType]) -> None:
    folder, module = loaded
    assert modules.modules_by_file(folder, {"orders.py"}) == {folder / "orders.py": [module]}
    assert modules.modules_by_file(folder, {"other.py"}) == {}
    assert modules.modules_by_file(folder, {"orders.py"}, frozenset(sys.modules)) == {}


def test_installed_packages_are_looked_at_when_the_definitions_are_among_them(
    loaded: tuple[Path, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, module = loaded
    monkeypatch.setattr(modules, "_LIBRARIES", (str(folder.parent),))
    assert modules.modules_by_file(folder, {"orders.py"}) == {folder / "orders.py": [module]}
    assert modules.modules_by_file(folder.parent.parent / "elsewhere", {"orders.py"}) == {}
