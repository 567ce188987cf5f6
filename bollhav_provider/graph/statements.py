"""Going on behind a definition that is refused, so that it takes no other of its file with it."""

from __future__ import annotations
import __future__

import ast
import traceback
from collections.abc import Iterator
from types import CodeType, ModuleType

from bollhav_provider.exceptions import DefinitionError

__all__ = ["go_on_behind", "module_that_raised"]

_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag


def go_on_behind(refused: DefinitionError, module: ModuleType, text: bytes, code: CodeType) -> list[DefinitionError]:
    """Execute what stands behind the statement of a module in which a definition was refused.

    A statement that uses a name which the refused one would have given, such as the decorator of the model's function,
    is left out with it.

    Args:
        refused: what executing the module raised.
        module: as far as it got.
        text: its file's.
        code: the text compiled.

    Returns:
        What was refused, the first included; each error's traceback leads to its line.

    Raises:
        Exception: whatever else a statement raises.
    """
    path = code.co_filename
    line = _line(refused, path)
    statements = ast.parse(text, path).body
    at = next((n for n, found in enumerate(statements) if line is not None and _holds(found, line)), None)
    if at is None:
        raise refused
    errors, missing = [refused], set(_names(statements[at]))
    for statement in statements[at + 1 :]:
        part = compile(
            ast.Module([statement], type_ignores=[]), path, "exec", code.co_flags & _FUTURES, dont_inherit=True
        )
        try:
            exec(part, module.__dict__)
        except DefinitionError as error:
            # Two statements of one line cannot be told apart: the second is met again.
            if str(error) != str(refused):
                errors.append(error)
            missing |= set(_names(statement))
        except NameError as error:
            if error.name not in missing:
                raise
            missing |= set(_names(statement))
    return errors


def module_that_raised(error: BaseException) -> str | None:
    """Return the file of the module whose statement raised; not of one that merely imported it."""
    return next((frame.filename for frame in reversed(_module_frames(error))), None)


def _line(error: BaseException, path: str) -> int | None:
    """Return the line of the module's own statement that raised."""
    return next((frame.lineno for frame in _module_frames(error) if frame.filename == path), None)


def _module_frames(error: BaseException) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name == "<module>"]


def _holds(statement: ast.stmt, line: int) -> bool:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    first: int = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return first <= line <= (statement.end_lineno or statement.lineno)


def _names(statement: ast.stmt) -> Iterator[str]:
    """Return the names that a statement gives."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
