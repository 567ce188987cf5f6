"""Fields whose validator is built when the first value for them comes.

pydantic builds a class's validator with those of all its fields in it. Most models give nothing for most of the rarer
fields, and every worker builds the validator of a model anew, before each task.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
    from pydantic_core import CoreSchema

__all__ = ["Later", "build_now"]

_PATHS: set[str] = set()


class Later:
    """Have a field validated as a type that is looked up when the first value comes.

    Args:
        path: ``module:name`` of the type; the module in this package.
        kinds: some of the type's classes, whose instances need no look at the others.
    """

    def __init__(self, path: str, *kinds: type) -> None:
        self.path = path
        self.kinds = kinds
        _PATHS.add(path)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.validate)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        from pydantic_core import core_schema

        # a chain of one, because the handler names what is in what it is given and not that itself
        return handler(core_schema.chain_schema([_adapter(self.path).core_schema]))

    @property
    def kind(self) -> Any:
        """The type."""
        return _type(self.path)

    def validate(self, value: Any) -> Any:
        """Return a value as the field keeps it.

        Raises:
            ValidationError: it cannot be what the type says; pydantic reports it as the field's own.
        """
        if type(value) in self.kinds or type(value) in _classes(self.path):
            return value  # it was validated when it was made
        return _adapter(self.path).validate_python(value)


def build_now() -> None:
    """Build all the validators, in a process that others are forked from."""
    for path in sorted(_PATHS):
        _adapter(path).rebuild()


@cache
def _adapter(path: str) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(_type(path))


@cache
def _classes(path: str) -> tuple[type, ...]:
    """Return the classes of a type that is one class, or an annotated union of several."""
    found = _type(path)
    if get_origin(found) is Annotated:
        return tuple(get_args(get_args(found)[0]))
    return (found,) if isinstance(found, type) and get_origin(found) is None else ()


def _type(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(f"{__package__}.{module}"), name)
