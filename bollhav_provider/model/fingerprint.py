"""Fingerprints of definitions: equal for equal definitions, in every process and on every platform."""

from __future__ import annotations

import inspect
import json
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bollhav_provider.model.base import Definition
from bollhav_provider.model.hardcoded import SourceHardcoded, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from bollhav_provider.model.model import Model


def inline_content_hash(model: Model) -> str | None:
    """Return the fingerprint of all inline inputs together, or None without any.

    One inline input alone keeps its own fingerprint.
    """
    found = [
        (source.name, source.type.content_hash) for source in model.upstream if isinstance(source.type, SourceHardcoded)
    ]
    if len(found) == 1:
        return found[0][1]
    return _digest(sorted(found)) if found else None


def definition_fingerprint(model: Model) -> str:
    """Return the fingerprint of what is declared, without defaults, and of the function's text."""
    return _digest([_canonical(model), _function_text(model.function)])


def _digest(content: Any) -> str:
    return sha256(
        json.dumps(content, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode("ascii")
    ).hexdigest()


def _canonical(value: Any) -> Any:
    if isinstance(value, Definition):
        # Leaving out defaults keeps fingerprints when a later version adds a field.
        return {
            name: _canonical(item)
            for name, field in type(value).model_fields.items()
            if (item := getattr(value, name)) != field.get_default(call_default_factory=True) or name == "kind"
        }
    if isinstance(value, tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return value.as_posix()
    return plain(value)


def _function_text(function: Callable[..., Any] | None) -> str | None:
    if function is None:
        return None
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return f"{function.__module__}:{getattr(function, '__qualname__', '')}"
