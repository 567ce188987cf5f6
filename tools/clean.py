"""``./run clean``: stop what a demo left behind and delete what the commands made."""

from __future__ import annotations

import contextlib
import shutil

from tools import LOCAL, ROOT, VENV

_CACHES = (".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".import_linter_cache", "dist")


def clean(*, everything: bool = False) -> int:
    """Delete the demo's servers, data and logs and the tools' caches.

    Args:
        everything: delete the virtual environment as well.

    Returns:
        0.
    """
    from bollhav_provider.exceptions import ConfigurationError
    from tools.demo.places import DEMO, E2E

    for places in (DEMO, E2E):
        with contextlib.suppress(ConfigurationError):  # no binaries: nothing of ours can be running
            places.server().destroy()
    for path in (LOCAL, *(ROOT / name for name in _CACHES), *([VENV] if everything else [])):
        if path.exists():
            shutil.rmtree(path)
            print(f"Deleted {path.relative_to(ROOT)}")
    for cache in [*ROOT.glob("*/**/__pycache__"), ROOT / "__pycache__"]:
        if VENV not in cache.parents:
            shutil.rmtree(cache, ignore_errors=True)
    return 0
