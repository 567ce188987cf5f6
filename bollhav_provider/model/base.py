"""The base of all definitions: immutable, closed to unknown arguments, with errors that say the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from bollhav_provider.exceptions import DefinitionError, Problem
from bollhav_provider.model.arguments import looked_at
from bollhav_provider.model.explain import explain
from bollhav_provider.model.frozen import Bag, FrozenDict, freeze, thaw
from bollhav_provider.model.words import did_you_mean, shown

if TYPE_CHECKING:
    from typing import Self

    from pydantic.fields import FieldInfo

__all__ = ["Bag", "Definition", "Finding", "FrozenDict", "Words", "did_you_mean", "freeze", "shown", "thaw"]

#: A field and what is wrong with it; the model's name is added by whoever reports it.
Finding = tuple[str, str]


def _one_or_several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


#: Several words, or one that needs no list around it.
Words = Annotated[tuple[str, ...], BeforeValidator(_one_or_several, json_schema_input_type=str | list[str])]


def default_of(field: FieldInfo) -> Any:
    """Return a field's default, without pydantic's look at what its factory would take."""
    factory: Any = field.default_factory
    return field.default if factory is None else factory()


class Definition(BaseModel):
    """A piece of a model's definition.

    Raises:
        DefinitionError: an argument is unknown, missing, or cannot be what it is given as. Rules that concern
            several fields are checked, all together, by the model that the piece becomes part of.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    #: The fields that may be given by position, in order.
    _positional: ClassVar[tuple[str, ...]] = ()
    #: The fields whose values are brought into an order of their own, so that a set is as good as a list.
    _unordered: ClassVar[frozenset[str]] = frozenset()
    #: The text fields that may be empty or blank.
    _may_be_blank: ClassVar[frozenset[str]] = frozenset({"description"})
    _nothing_given: ClassVar[Any] = None

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        if cls.model_config.get("extra") != "forbid" or not cls.model_config.get("frozen"):
            raise TypeError(
                f"{cls.__name__}: a definition is frozen and refuses unknown arguments, so that a misspelt one is "
                "never lost; leave 'extra' and 'frozen' of its configuration as they are"
            )

    def __init__(self, *args: Any, **data: Any) -> None:
        cls = type(self)
        if args:
            data = cls._named(args, data)
        data, found = looked_at(cls, data)
        if found:
            raise DefinitionError([Problem(cls._label(data), field, message) for field, message in found])
        try:
            super().__init__(**cls._prepare(data))
        except ValidationError as error:
            raise DefinitionError(list(explain(error, cls._label(data), list(cls.model_fields)))) from None
        except Exception as error:  # a value of the user's own that fails while it is looked at
            raise DefinitionError([Problem(cls._label(data), "arguments", f"cannot be read: {error}")]) from error
        if "kind" in cls.model_fields:
            # What tells one kind of piece from another is written out even where only given fields are.
            self.__pydantic_fields_set__.add("kind")

    @classmethod
    def _named(cls, args: tuple[Any, ...], data: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with those that were given by position under their names."""
        problems: list[Problem] = []
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
        return data

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

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy; one with changes is checked like a new definition, as by :meth:`replace`."""
        return self.replace(**update) if update else super().model_copy(deep=deep)

    def copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False, **_: Any) -> Self:
        """Return a copy, as :meth:`model_copy` does."""
        return self.model_copy(update=update, deep=deep)

    @classmethod
    def model_construct(  # type: ignore[override]  # the plugin reads the fields into it
        cls, _fields_set: set[str] | None = None, **values: Any
    ) -> Self:
        """Return a new definition, checked like every other one."""
        return cls(**values)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    @classmethod
    def of_nothing(cls) -> Self:
        """Return the definition that nothing is given for, the same one each time: it cannot be changed.

        It needs no validator, which would have to be built for it.
        """
        made = cls.__dict__.get("_nothing_given")
        if made is None:
            made = super().model_construct(set(), **{name: default_of(of) for name, of in cls.model_fields.items()})
            cls._nothing_given = made
        return cast("Self", made)

    @classmethod
    def _label(cls, data: Mapping[str, Any]) -> str:
        """Name the piece in messages, from raw arguments that may all be wrong."""
        name = data.get("name")
        return f"{cls.__name__}({name!r})" if isinstance(name, str) else cls.__name__


def pieces() -> Iterator[type[Definition]]:
    """Yield all classes of definitions that are imported."""
    todo: list[type[Definition]] = [Definition]
    while todo:
        piece = todo.pop(0)
        todo += piece.__subclasses__()
        yield piece
