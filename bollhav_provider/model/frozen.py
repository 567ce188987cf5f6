"""Values that cannot change: what lists and dicts become when they enter a definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema


class FrozenDict(dict[str, Any]):
    """A dict that cannot be changed and can be hashed; it compares equal to any dict with the same items."""

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("definitions are immutable; write a new one")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (dict(self),))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(
            _frozen,
            core_schema.dict_schema(core_schema.str_schema()),
            serialization=core_schema.plain_serializer_function_ser_schema(thaw),
        )


if TYPE_CHECKING:
    #: A mapping that is frozen when the definition is made.
    Bag = Mapping[str, Any]
else:
    Bag = FrozenDict


def _frozen(value: Any) -> Any:
    try:
        return freeze(value)
    except RecursionError:
        raise ValueError("it holds itself, or is nested too deeply; write plain, finite values") from None


def freeze(value: Any) -> Any:
    """Return a value in which no list, set or dict is left, all the way down."""
    if isinstance(value, Mapping):
        return FrozenDict((key, freeze(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    if isinstance(value, set):
        return frozenset(value)
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def thaw(value: Any) -> Any:
    """Undo :func:`freeze`."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    return value
