"""``SourceFile.archive_folder``: read files are moved away after the unit's commit, never before."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from bollhav_provider.data.files import FileVersion
from bollhav_provider.exceptions import DataError

logger = logging.getLogger(__name__)


def archive_file(file: FileVersion, folder: Path, *, base: Path | None = None) -> Path | None:
    """Move one file that was read into the archive.

    A file that changed since it was read stays: what is in it now was never loaded. A name that the archive
        holds already
    gets a number. The move is a rename, or a copy that is renamed when complete, so that the archive never
    holds half a file.

    Args:
        file: as it was when it was read.
        folder: made when missing.
        base: directory that a relative folder starts at; the working directory by default.

    Returns:
        Where the file is now; None when it stayed.

    Raises:
        DataError: the archive cannot be written.
    """
    if not file.is_current():
        logger.warning("%s changed, or went away, since it was read: it is not archived.", file.path)
        return None
    folder = folder.expanduser()
    folder = folder if folder.is_absolute() else (base or Path.cwd()) / folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _move(file.path, folder)
    except OSError as exc:
        raise DataError(f"{file.path} cannot be moved to the archive_folder {folder}: {exc}.") from exc


def archive_files(files: Iterable[tuple[FileVersion, Path]], *, base: Path | None = None) -> tuple[Path, ...]:
    """Move several files; each is tried.

    Raises:
        DataError: what went wrong with the first that could not be moved.
    """
    moved, errors = [], []
    for file, folder in files:
        try:
            if target := archive_file(file, folder, base=base):
                moved.append(target)
        except DataError as exc:
            errors.append(exc)
    if errors:
        raise errors[0]
    return tuple(moved)


def _move(path: Path, folder: Path) -> Path:
    for number in range(10_000):
        first, dot, rest = path.name.partition(".")
        target = folder / (f"{first}-{number}{dot}{rest}" if number else path.name)
        try:
            os.link(path, target)  # fails, unlike a rename, when the name is taken
        except FileExistsError:
            continue
        except OSError:  # another file system, or one without hard links
            if target.exists():
                continue
            part = target.with_name(target.name + ".part")
            shutil.copy2(path, part)
            os.replace(part, target)
        os.unlink(path)
        return target
    raise OSError(f"{folder} holds 10,000 files named like {path.name}")
