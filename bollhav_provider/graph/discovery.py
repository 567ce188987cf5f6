"""Finding the models of a folder: Python modules and YAML documents."""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, cast

from bollhav_provider.exceptions import DefinitionError, Problem
from bollhav_provider.graph.modules import import_file, importable, modules_by_file, prepare, real_file, refused_in
from bollhav_provider.graph.origins import remember
from bollhav_provider.model.words import clipped, error_text, is_from_outside

if TYPE_CHECKING:
    from bollhav_provider.model import Model

__all__ = ["Discovery", "DiscoveryError", "discover"]

_PYTHON, _YAML = ".py", (".yaml", ".yml")
_CONTAINERS = (list, tuple, set, frozenset, deque, dict)
#: What a list of very many values is probably made of.
_PLAIN = (int, str, bytes, float, type(None))
_LONGEST_TEXT = 2000
_PACKAGE = str(Path(__file__).parents[1]) + os.sep


class DiscoveryError(NamedTuple):
    """A file, or a definition in it, that cannot be used.

    Attributes:
        path: the file.
        line: where in it, from 1; None when no line is to blame.
        message: what is wrong.
        problems: the same, one by one, where definitions were refused.
    """

    path: Path
    line: int | None
    message: str
    problems: tuple[Problem, ...] = ()

    def __str__(self) -> str:
        place = str(self.path) if self.line is None else f"{self.path}:{self.line}"
        # Problems of YAML documents say their own line.
        return self.message if self.message.startswith(f"{self.path}:") else f"{place}: {self.message}"


class Discovery(NamedTuple):
    """What a folder holds.

    Attributes:
        models: in order of full name, each once.
        errors: one a broken file or definition, in order of path and line.
    """

    models: tuple[Model, ...] = ()
    errors: tuple[DiscoveryError, ...] = ()


def discover(path: str | os.PathLike[str], *, took: dict[Path, float] | None = None) -> Discovery:
    """Find all models below a folder, or in one file.

    In Python every module-level :class:`Model` counts, also in lists, tuples, sets and dicts, each once even when
    other modules import it. In YAML each document is one model. A file that fails breaks only its own models, and a
    definition that Python code is refused breaks only itself and what uses it. The result does not depend on the order
    in which the file system lists files.

    Args:
        path: the folder or file. Hidden files and ``__pycache__`` are left out.
        took: is given the seconds that each file took to read, with what it alone imported.
    """
    root = Path(path)
    if not root.exists():
        return Discovery(errors=(DiscoveryError(root, None, "there is no such file or folder; correct the path"),))
    real_root = root.resolve() if root.is_dir() else real_file(root)
    errors: list[DiscoveryError] = []
    # What files print must not get into the output of the program that discovers them.
    with importable(real_root), redirect_stdout(sys.stderr):
        prepare(real_root)
        models = _read(root, real_root, errors, {} if took is None else took)
    return Discovery(_each_once(models), tuple(sorted(errors, key=lambda error: (str(error.path), error.line or 0))))


def _read(
    root: Path, real_root: Path, errors: list[DiscoveryError], took: dict[Path, float]
) -> list[tuple[Model, Path]]:
    files = _files(root)
    names = {file.name for file in files if file.suffix == _PYTHON}
    before = frozenset(sys.modules)
    loaded = modules_by_file(real_root, names)
    modules: dict[Path, ModuleType] = {}
    models: list[tuple[Model, Path]] = []
    for file in files:
        started = perf_counter()
        if file.suffix == _PYTHON:
            module = _read_python(file, loaded, errors)
            if module is not None:
                modules[file] = module
        else:
            models += ((model, file) for model in _read_yaml(file, errors))
        took[file] = perf_counter() - started
    since = modules_by_file(real_root, names, before)
    everything = {file: [*loaded.get(file, ()), *since.get(file, ())] for file in {*loaded, *since}}
    return [*models, *_module_models(modules, everything)]


def _files(root: Path) -> list[Path]:
    if root.is_file():
        return [root]
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != "__pycache__" and not name.startswith(".")]
        found += [
            path
            for name in names
            if not name.startswith(".")
            and name.endswith((_PYTHON, *_YAML))
            and _can_be_read(path := Path(folder, name))
        ]
    return sorted(found, key=lambda file: file.relative_to(root).parts)


def _can_be_read(path: Path) -> bool:
    """Leave out pipes and sockets, at which a reader would wait; a link to nowhere is to be reported."""
    return path.is_file() or not path.exists()


def _each_once(models: Iterable[tuple[Model, Path]]) -> tuple[Model, ...]:
    found: dict[int, tuple[str, str, int, Model]] = {}
    for position, (model, file) in enumerate(models):
        found.setdefault(id(model), (model.full_name, str(file), position, model))
    return tuple(entry[-1] for entry in sorted(found.values(), key=lambda entry: entry[:-1]))


# Python


def _read_python(file: Path, loaded: dict[Path, list[ModuleType]], errors: list[DiscoveryError]) -> ModuleType | None:
    path = real_file(file)
    try:
        with _working_folder_kept():
            module = import_file(path, loaded)
    except BaseException as error:  # whatever a definition file raises is about that file alone
        if is_from_outside(error):
            raise
        errors.append(_python_error(file, path, error))
        return None
    errors += [_python_error(file, path, error) for error in refused_in(path)]
    return module


def _refused_names(path: Path) -> set[str]:
    """Return the models that were refused in a file, such as by the decorator of their function."""
    return {problem.model for error in refused_in(path) for problem in error.problems}


@contextmanager
def _working_folder_kept() -> Iterator[None]:
    """Go back to the working folder, by which the paths of other files may be meant, if a file leaves it."""
    try:
        folder = os.getcwd()
    except OSError:  # it was removed, and there is nothing to go back to
        yield
        return
    try:
        yield
    finally:
        os.chdir(folder)


def _python_error(file: Path, path: Path, error: BaseException) -> DiscoveryError:
    if isinstance(error, SyntaxError) and (not error.filename or real_file(error.filename) == path):
        return DiscoveryError(file, error.lineno or None, f"{type(error).__name__}: {error.msg}")
    import traceback

    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<frozen importlib", _PACKAGE))
    ]
    own = [frame.lineno for frame in frames if real_file(frame.filename) == path]
    line = own[-1] if own else None
    if isinstance(error, DefinitionError):
        return DiscoveryError(file, line, str(error), error.problems)
    text = clipped(error_text(error), _LONGEST_TEXT)
    if isinstance(error, SyntaxError):
        text = f"{type(error).__name__}: {error.msg} ({error.filename}:{error.lineno})"
    elif frames and real_file(frames[-1].filename) != path:
        text += f" ({frames[-1].filename}:{frames[-1].lineno})"
    return DiscoveryError(file, line, text)


def _module_models(
    modules: Mapping[Path, ModuleType], everything: Mapping[Path, list[ModuleType]]
) -> Iterator[tuple[Model, Path]]:
    """Yield the models of modules; one that a module merely imports belongs to the file that it is from.

    Args:
        modules: the modules of the files.
        everything: all modules that are loaded from the files, under whatever name.
    """
    own = {file: dict(_named_models(module)) for file, module in modules.items()}
    # The same file imported under a second name made the same models a second time.
    copies: dict[int, Model] = {}
    for file, found in own.items():
        for other in everything.get(real_file(file), ()):
            if other is not modules[file]:
                for name, model in _named_models(other):
                    if name in found:
                        copies[id(model)] = found[name]
    for file in sorted(own, key=lambda file: _depends_on(modules[file], modules)):
        refused = _refused_names(real_file(file))
        for name, model in own[file].items():
            if id(model) not in copies and model.full_name not in refused:
                remember(model, file, name=re.split(r"[\[.]", name, maxsplit=1)[0])
                yield model, file


def _depends_on(module: ModuleType, modules: Mapping[Path, ModuleType]) -> tuple[bool, str]:
    """Sort packages' ``__init__`` last: they re-export what their modules define."""
    return Path(module.__file__ or "").name == "__init__.py", module.__name__


def _named_models(module: ModuleType) -> Iterator[tuple[str, Model]]:
    for name, value in list(vars(module).items()):
        if name.startswith("__"):
            continue
        for position, model in enumerate(_models_in(value)):
            yield (f"{name}[{position}]" if position or model is not value else name), model


def _models_in(value: object) -> Iterator[Model]:
    """Yield a model, and the models in lists, tuples, sets, queues and dicts, however deep, each once."""
    from bollhav_provider.model import Model

    todo, seen = [value], set()
    while todo:
        value = todo.pop()
        # Asked of the type, since a proxy may fail at anything that is asked of itself.
        kind = type(value)
        if issubclass(kind, Model):
            yield cast("Model", value)
        elif issubclass(kind, _CONTAINERS) and id(value) not in seen:
            seen.add(id(value))
            items: Iterable[object]
            items = dict.values(value) if isinstance(value, dict) else list(cast("list[object]", value))
            todo += [item for item in items if not isinstance(item, _PLAIN)]


# YAML


def _read_yaml(file: Path, errors: list[DiscoveryError]) -> list[Model]:
    from bollhav_provider.model.yaml import load_yaml

    try:
        models = load_yaml(file)
    except DefinitionError as error:
        match = re.match(rf"{re.escape(str(file))}:(\d+)", str(error))
        errors.append(DiscoveryError(file, int(match[1]) if match else None, str(error), error.problems))
        return []
    except OSError as error:
        errors.append(DiscoveryError(file, None, f"{error.strerror or error}; make the file readable"))
        return []
    except Exception as error:  # one document must never take the others down
        errors.append(DiscoveryError(file, None, f"cannot be read: {clipped(error_text(error), _LONGEST_TEXT)}"))
        return []
    for position, model in enumerate(models):
        remember(model, file, document=position)
    return models
