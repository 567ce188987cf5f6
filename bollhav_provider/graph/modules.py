"""Importing Python definition files so that they and the user's own imports see the same module objects.

A file is imported under the name that an ``import`` statement would give it, where there is one. That way
``from models.raw import flights`` in one definition file and the discovery of ``models/raw.py`` meet in one
module, and each model exists once.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Set
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pydantic

from bollhav_provider.exceptions import DefinitionError
from bollhav_provider.graph.statements import go_on_behind, module_that_raised
from bollhav_provider.model.loading import FromSource

__all__ = ["import_file", "importable", "modules_by_file", "prepare", "real_file", "refused_in"]


class _Imported(NamedTuple):
    """A file that was imported.

    Attributes:
        name: in ``sys.modules``.
        module: the module, as far as it goes.
        digest: of the text.
        refused: definitions in it that were refused.
    """

    name: str
    module: ModuleType
    digest: bytes
    refused: tuple[DefinitionError, ...] = ()


# What this module has imported.
_imported: dict[Path, _Imported] = {}
# What was discovered, what is being discovered from the outside in, and what was put on sys.path for the last.
_discovered: set[Path] = set()
_roots: list[Path] = []
_appended: list[str] = []
#: Where Python's own modules are, and the packages that are installed.
_LIBRARIES = tuple(str(Path(module.__file__ or os.sep).parents[up]) for module, up in ((os, 0), (pydantic, 1)))
#: Files that are being imported right now; a definition file may itself discover its folder.
_in_progress: set[Path] = set()


@contextmanager
def importable(root: Path) -> Iterator[None]:
    """Have on ``sys.path`` what definition files import from: the folder beside which they lie, and their own.

    Airflow does the same with its DAG folder; here it makes the command line and tests agree with it. What is
    there already stays where it is. What was added stays too, for imports inside of functions, until another
    folder is discovered: a package there would hide a plain folder of the same name here, wherever it stands.
    """
    _roots.append(root)
    _add_to_path(root)
    try:
        yield
    finally:
        _roots.pop()
        if _roots:  # a definition file that discovers a folder itself
            _add_to_path(_roots[-1])


def _add_to_path(root: Path) -> None:
    for entry in _appended:
        if entry in sys.path:
            sys.path.remove(entry)
    have = {_real(entry) for entry in sys.path}
    _appended[:] = [str(entry) for entry in _import_roots(root) if entry not in have]
    sys.path.extend(_appended)


def _import_roots(root: Path) -> list[Path]:
    return list(dict.fromkeys((root.parent, root if root.is_dir() else root.parent)))


def prepare(root: Path) -> None:
    """Forget modules that stand in the way of finding the present definitions below ``root``.

    Those are the ones from below ``root`` if any of them has changed, since a file may have imported another,
    and those that an earlier discovery of another folder left under a name that now means a file here.
    """
    importlib.invalidate_caches()
    _real_folder.cache_clear()
    _real_text.cache_clear()
    below = [path for path in _imported if path == root or root in path.parents]
    # A file with refused definitions is tried again in any case.
    if any(_imported[path].refused or _digest(path) != _imported[path].digest for path in below):
        for path in below:
            _forget(path)
    others = tuple(_discovered - {root})
    for name, module in list(sys.modules.items()) if others else ():
        mine = _places(module)
        if any(_is_below(place, other) for place in mine for other in others):
            here = [entry.joinpath(*name.split(".")) for entry in _import_roots(root)]
            files = [path for entry in here for path in (entry.with_suffix(".py"), entry / "__init__.py", entry)]
            if not any(str(path) in mine for path in files) and any(path.exists() for path in files):
                del sys.modules[name]
    _discovered.add(root)


def _places(module: ModuleType) -> list[str]:
    """Return the file of a module, or the folders of a package without one."""
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return [file]
    try:
        return [str(entry) for entry in getattr(module, "__path__", ())]
    except Exception:  # the path of a namespace package is worked out anew, and its parent may be gone
        return []


def _is_below(place: str, root: Path | str) -> bool:
    return place == str(root) or place.startswith(f"{root}{os.sep}")


def modules_by_file(root: Path, names: Set[str], before: Set[str] = frozenset()) -> dict[Path, list[ModuleType]]:
    """Return the modules that are loaded from certain files below ``root``, whoever imported them.

    Args:
        root: the folder or file, resolved.
        names: of the files, without their folders. Where a module really is would have to be asked of the file system.
        before: names of modules that were loaded before; they are left out.
    """
    found: dict[Path, list[ModuleType]] = {}
    for module in _loaded(root, before):
        file = getattr(module, "__file__", None)
        if not (isinstance(file, str) and file[file.rfind(os.sep) + 1 :] in names and isinstance(module, ModuleType)):
            continue
        if _is_below(str(path := real_file(file)), root):
            found.setdefault(path, []).append(module)
    return found


def _loaded(root: Path, before: Set[str]) -> Iterator[object]:
    """Yield the loaded modules, but for those of packages that are installed elsewhere.

    A process with Airflow in it has modules by the thousand, and each that is only looked at costs a forked one a few
    pages of memory of its own.
    """
    mine = str(root)
    outside = [place for place in _LIBRARIES if not (_is_below(mine, place) or _is_below(mine, _real(place)))]
    libraries = tuple(f"{place}{os.sep}" for place in outside)
    elsewhere: dict[str, bool] = {}
    for name in list(sys.modules):
        if name in before:
            continue
        top = name.partition(".")[0]
        if top not in elsewhere:
            file = getattr(sys.modules.get(top), "__file__", None)
            elsewhere[top] = isinstance(file, str) and file.startswith(libraries)
        if not elsewhere[top] and (module := sys.modules.get(name)) is not None:
            yield module


def real_file(file: str | Path) -> Path:
    """Return the path by which a file is known here: its folder resolved, its own name kept."""
    folder, name = os.path.split(file)
    return _real_folder(folder) / name


@lru_cache(maxsize=4096)
def _real_folder(folder: str) -> Path:
    return Path(_real_text(folder))


@lru_cache(maxsize=8192)
def _real_text(folder: str) -> str:
    """Resolve a folder by way of its parent, so that what many folders share is looked up once."""
    parent, name = os.path.split(folder)
    if not os.path.isabs(folder) or name in ("", os.curdir, os.pardir) or os.path.islink(folder):
        return str(_real(folder))
    return os.path.join(_real_text(parent), name)


def import_file(path: Path, loaded: dict[Path, list[ModuleType]]) -> ModuleType | None:
    """Import a file, once.

    Args:
        path: the file, resolved.
        loaded: what :func:`modules_by_file` returned; a module that is there is not executed again.

    Returns:
        The module, or None while the very same file is being imported further up.

    Raises:
        Exception: whatever the file raises, but for definitions that are refused: see :func:`refused_in`.
    """
    if path in _imported:
        return _imported[path].module
    if path in _in_progress:
        return None
    name = _name_of(path)
    if name is not None and (module := sys.modules.get(name)) is not None and _is_from(module, path):
        if path not in loaded:  # another file of this discovery imported it, so it is as new as that one
            _imported[path] = _Imported(name, module, _digest(path))
        return module
    if others := loaded.get(path):
        return others[0]
    _in_progress.add(path)
    try:
        return _execute(path, name)
    finally:
        _in_progress.discard(path)


def _execute(path: Path, name: str | None) -> ModuleType:
    digest = _digest(path)
    name = _free(path, name)
    locations = [str(path.parent)] if path.name == "__init__.py" else None
    loader = FromSource(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader, submodule_search_locations=locations)
    assert isinstance(spec, ModuleSpec)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        refused = _run(loader, module, path)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    parent, _, last = name.rpartition(".")
    if parent and parent in sys.modules:
        setattr(sys.modules[parent], last, module)
    _imported[path] = _Imported(name, module, digest, tuple(refused))
    return module


def _run(loader: FromSource, module: ModuleType, path: Path) -> list[DefinitionError]:
    """Execute a module, past each definition that is refused; return what was."""
    while True:
        try:
            loader.exec_module(module)
        except DefinitionError as error:
            # Of a file that this one imports: it is imported as far as it goes, and then this one can have it.
            other = module_that_raised(error)
            if other is not None and (file := real_file(other)) not in {path, *_imported, *_in_progress}:
                import_file(file, {})
                continue
            return go_on_behind(error, module, loader.get_data(str(path)), loader.get_code(module.__name__))
        return []


def refused_in(path: Path) -> tuple[DefinitionError, ...]:
    """Return what was refused in a file that was imported nevertheless."""
    return _imported[path].refused if path in _imported else ()


def _forget(path: Path) -> None:
    """Have a file imported again when it is next asked for."""
    known = _imported.pop(path)
    if sys.modules.get(known.name) is known.module:
        del sys.modules[known.name]


def _free(path: Path, name: str | None) -> str:
    """Return the name to import a file under: its own, or a made-up one where that is taken."""
    if name is not None:
        # Of an earlier discovery of another folder; the present one's imports must find the present file.
        for other in [file for file, known in _imported.items() if known.name == name]:
            _forget(other)
        if name not in sys.modules:
            parent = name.rpartition(".")[0]
            if parent:
                importlib.import_module(parent)
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin is not None and real_file(spec.origin) == path:
                return name
    return f"_bollhav_{path.stem}_{blake2b(str(path).encode(), digest_size=8).hexdigest()}"


def _name_of(path: Path) -> str | None:
    """Return the dotted name under which an import statement would find a file, or None."""
    parts = [] if path.name == "__init__.py" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    entries = {entry: position for position, entry in reversed(list(enumerate(map(_real_entry, sys.path))))}
    above = [entry for entry in (folder, *folder.parents) if entry in entries]
    if not above:
        return None
    # The entry that comes first in sys.path is the one by which the user's imports are written.
    entry = min(above, key=lambda candidate: entries[candidate])
    parts = [*folder.relative_to(entry).parts, *parts]
    return ".".join(parts) if parts and all(part.isidentifier() for part in parts) else None


def _is_from(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and real_file(file) == path


def _digest(path: Path) -> bytes:
    try:
        return blake2b(path.read_bytes(), digest_size=16).digest()
    except OSError:
        return b""


def _real_entry(entry: str | Path) -> Path:
    """Resolve an entry of ``sys.path``; a relative one means another folder after a change of the working folder."""
    return _real_folder(os.fspath(entry)) if os.path.isabs(entry) else _real(entry)


def _real(path: str | Path) -> Path:
    try:
        return Path(path).resolve()
    except (OSError, ValueError):
        return Path(path)
