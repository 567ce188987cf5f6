"""The base of all definitions: immutable, closed to unknown arguments, with errors that say the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from bollhav_provider.exceptions import DefinitionError, Problem

if TYPE_CHECKING:
    from typing import Self

    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

#: A field and what is wrong with it; the model's name is added by whoever reports it.
Finding = tuple[str, str]


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
            freeze,
            core_schema.dict_schema(core_schema.str_schema()),
            serialization=core_schema.plain_serializer_function_ser_schema(thaw),
        )


if TYPE_CHECKING:
    #: A mapping that is frozen when the definition is made.
    Bag = Mapping[str, Any]
else:
    Bag = FrozenDict


def freeze(value: Any) -> Any:
    """Return a value in which no list or dict is left, all the way down."""
    if isinstance(value, Mapping):
        return FrozenDict((key, freeze(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    if isinstance(value, set):
        return frozenset(value)
    return value


def thaw(value: Any) -> Any:
    """Undo :func:`freeze`."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    return value


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known word, or an empty string."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def _one_or_several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


#: Several words, or one that needs no list around it.
Words = Annotated[tuple[str, ...], BeforeValidator(_one_or_several, json_schema_input_type=str | list[str])]


class Definition(BaseModel):
    """A piece of a model's definition.

    Raises:
        DefinitionError: an argument is unknown, missing, or cannot be what it is given as. Rules that concern
            several fields are checked, all together, by the model that the piece becomes part of.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    #: The fields that may be given by position, in order.
    _positional: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *args: Any, **data: Any) -> None:
        problems: list[Problem] = []
        cls = type(self)
        if len(args) > len(cls._positional):
            taken = f"by position only {', '.join(cls._positional)}" if cls._positional else "no argument by position"
            problems.append(
                Problem(
                    cls._label(data), "arguments", f"{cls.__name__} takes {taken}; name the others, as in name=value"
                )
            )
        for name, value in zip(cls._positional, args, strict=False):
            if name in data:
                problems.append(Problem(cls._label(data), name, "given twice, by position and by name; keep one"))
            data[name] = value
        if problems:
            raise DefinitionError(problems)
        try:
            super().__init__(**cls._prepare(data))
        except ValidationError as error:
            raise DefinitionError(list(cls._explain(error, cls._label(data)))) from None
        if "kind" in cls.model_fields:
            # What tells one kind of piece from another is written out even where only given fields are.
            self.__pydantic_fields_set__.add("kind")

    @classmethod
    def _prepare(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Turn short ways of writing the arguments into the long ones, before they are validated."""
        return data

    def problems(self) -> Iterator[Finding]:
        """Yield what is wrong with this piece by itself, as (field, message)."""
        return iter(())

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed, checked like a new definition."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**{**given, **changes})

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    @classmethod
    def _label(cls, data: Mapping[str, Any]) -> str:
        """Name the piece in messages, from raw arguments that may all be wrong."""
        name = data.get("name")
        return f"{cls.__name__}({name!r})" if isinstance(name, str) else cls.__name__

    @classmethod
    def _explain(cls, error: ValidationError, label: str) -> Iterator[Problem]:
        items = error.errors(include_url=False)
        for item in items:
            path = _dotted(item["loc"])
            cause = item.get("ctx", {}).get("error")
            if item["type"] == "too_short" and any(_is_inside(other["loc"], item["loc"]) for other in items):
                continue  # only what is wrong with its items makes it short
            if isinstance(cause, DefinitionError):
                for problem in cause.problems:
                    yield Problem(label, f"{path}.{problem.field}" if path else problem.field, problem.message)
            elif item["type"] == "extra_forbidden":
                name = str(item["loc"][-1])
                known = cls._arguments(item["loc"][:-1])
                hint = did_you_mean(name, known) or f"; the arguments are {', '.join(known)}"
                yield Problem(label, path, f"unknown argument{hint}")
            elif item["type"] == "missing":
                yield Problem(label, path, f"missing; write {item['loc'][-1]}=...")
            elif item["type"] == "union_tag_invalid":
                words = [word.strip(" '") for word in item["ctx"]["expected_tags"].split(",")]
                hint = did_you_mean(str(item["ctx"]["tag"]), words)
                yield Problem(label, path, f"{item['ctx']['tag']!r} is none of {', '.join(words)}{hint}")
            elif item["type"] == "union_tag_not_found":
                yield Problem(label, path, "the kind is missing; write kind=...")
            else:
                # What the rule's own message starts with is not said twice.
                message = item["msg"].removeprefix("Value error, ").removeprefix(f"{path.rpartition('.')[2]}: ")
                given = "" if isinstance(cause, Exception) else f", not {item['input']!r}"
                yield Problem(label, path or "arguments", message.replace("Input should be", "must be") + given)

    @classmethod
    def _arguments(cls, path: tuple[int | str, ...]) -> list[str]:
        """The names of the arguments at a path; nested pieces explain themselves, so it is this one's."""
        return list(cls.model_fields)


def _is_inside(path: tuple[int | str, ...], other: tuple[int | str, ...]) -> bool:
    return len(path) > len(other) and path[: len(other)] == other


def _dotted(path: tuple[int | str, ...]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
