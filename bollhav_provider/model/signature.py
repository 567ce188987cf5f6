"""What the parameters of an execute function ask for (Semantics: dependencies between models).

Parameters are filled by name: ``run``, ``unit``, ``model``, ``conn`` and ``context`` by what they say, all
others by the upstream of that alias. A parameter that nothing could ever fill is an error where the function
is registered.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from bollhav_provider.exceptions import DefinitionError, Problem
from bollhav_provider.model.base import Finding, did_you_mean, shown
from bollhav_provider.model.source import Source

if TYPE_CHECKING:
    from bollhav_provider.model.model import Model

RESERVED = ("run", "unit", "model", "conn", "context")

_UPSTREAM = r"(?:[\w.]+\.)?Upstream"
_NONE = r"(?:None|NoneType)"
_FORMS = {
    "one": rf"^{_UPSTREAM}$",
    "optional": rf"^(?:{_UPSTREAM}\|{_NONE}|{_NONE}\|{_UPSTREAM}|(?:[\w.]+\.)?Optional\[{_UPSTREAM}\])$",
    "many": rf"^(?:[\w.]+\.)?(?:list|List|Sequence)\[{_UPSTREAM}\]$",
}


#: A decorated function is the wrapper, as far as Python can tell.
_DECORATED = " (where a decorator hides them, write @functools.wraps(function) in it)"
_MOST_WRAPPINGS = 100


class Parameter(NamedTuple):
    """One parameter of an execute function.

    Attributes:
        name: as written; for an upstream, its alias.
        kind: ``reserved`` or ``upstream``.
        optional: whether None may come (``Upstream | None``).
        many: whether a list is expected (``list[Upstream]``).
        inferred: whether no declared source has the alias, so that a model of that name in the own schema is
            meant.
    """

    name: str
    kind: str
    optional: bool = False
    many: bool = False
    inferred: bool = False


def plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that stands behind decorators, ``functools.partial`` and objects that can be called."""
    for _ in range(_MOST_WRAPPINGS):
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.isroutine(function) or inspect.isclass(function):
            return function
        else:
            function = type(function).__call__
    return function


def location(function: Callable[..., Any]) -> str:
    """Return ``name (file:line)`` of a function, for messages."""
    plain = plain_function(function)
    code = getattr(plain, "__code__", None)
    name = getattr(plain, "__qualname__", None) or shown(function)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else name


def read_function(model: Model, function: Any) -> tuple[tuple[Parameter, ...], tuple[Source, ...]]:
    """Read a model's execute function.

    Returns:
        Its parameters, and the sources that only they name: models of the own schema.

    Raises:
        DefinitionError: the model has a query or another function, or a parameter is one that nothing could fill.
    """
    if not callable(function) or inspect.isclass(function):
        message = f"{shown(function)} is no function; write @model.execute above a def"
        raise DefinitionError([Problem(model.full_name, "execute", message)])
    field = f"execute: {location(function)}"
    problems: list[Finding] = []
    if model.query is not None:
        problems.append((field, "the model has a query, which computes its rows; remove the query or the function"))
    elif model.is_view:
        problems.append((field, "a view is its query and has no function; write query=..., or materialization='table'"))
    if model.function is not None and location(model.function) != location(function):
        problems.append((field, f"the model already has the function {location(model.function)}; keep one"))
    if any(map(_is_async, (function, plain_function(function)))):
        problems.append((field, "it is async, and nothing awaits it; write a plain def, or a generator"))
    parameters, found = read_parameters(function, {source.alias_name: source for source in model.sources})
    problems.extend(found)
    for parameter in parameters:
        if parameter.inferred and parameter.name == model.target.name:
            itself = "it means the model itself; declare the source that is meant, with this name as its alias"
            problems.append((f"{field}: parameter {parameter.name!r}", itself))
    if problems:
        raise DefinitionError([Problem(model.full_name, where, message) for where, message in problems])
    inferred = (
        Source(parameter.name, optional=parameter.optional, many=parameter.many)
        for parameter in parameters
        if parameter.inferred
    )
    return parameters, tuple(inferred)


def read_parameters(
    function: Callable[..., Any], sources: Mapping[str, Source]
) -> tuple[tuple[Parameter, ...], list[Finding]]:
    """Read the parameters of an execute function.

    Args:
        function: the function.
        sources: the declared sources by alias.

    Returns:
        The parameters, and what is wrong with them as (field, message).
    """
    found: list[Parameter] = []
    problems: list[Finding] = []
    where = location(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return (), [(f"execute: {where}", "its parameters cannot be read; write a def that calls it")]
    hints = _hints(function)
    given = function.keywords if isinstance(function, functools.partial) else {}
    for parameter in signature.parameters.values():
        if parameter.name in given:
            continue  # functools.partial fills it
        field = f"execute: {where}: parameter {parameter.name!r}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            problems.append(
                (
                    field,
                    f"nothing fills {stars}{parameter.name}; name each upstream that the function reads"
                    f"{_DECORATED if parameter.name in ('args', 'kwargs', 'kw') else ''}",
                )
            )
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            problems.append((field, "parameters are filled by name; remove the '/' from the function's parameters"))
            continue
        if parameter.name in RESERVED:
            if _form(hints.get(parameter.name, parameter.annotation)) in _FORMS:
                problems.append(
                    (
                        field,
                        f"it is reserved ({', '.join(RESERVED)}) and never an Upstream; give the source another alias",
                    )
                )
            found.append(Parameter(parameter.name, "reserved"))
            continue
        source = sources.get(parameter.name)
        form = _form(hints.get(parameter.name, parameter.annotation))
        if form == "none" and source is not None:
            form = "many" if source.many else "optional" if source.optional else "one"
        if form in ("none", "other"):
            problems.append((field, _unknown(parameter, form, sources)))
            continue
        optional = form == "optional" or (form == "one" and parameter.default is None)
        found.append(Parameter(parameter.name, "upstream", optional, form == "many", source is None))
        problems.extend((field, message) for message in _mismatch(source, optional=optional, many=form == "many"))
    return tuple(found), problems


def _unknown(parameter: inspect.Parameter, form: str, sources: Mapping[str, Source]) -> str:
    known = [*RESERVED, *sources]
    hint = did_you_mean(parameter.name, known)
    if form == "none":
        return (
            f"nothing could fill it: it is none of {', '.join(known)}; "
            f"rename it, or annotate it as 'Upstream' to read the model {parameter.name!r} of the same schema{hint}"
        )
    return (
        f"nothing could fill it: the annotation is {_text(parameter.annotation)!r}, and only "
        "Upstream, Upstream | None and list[Upstream] "
        f"are filled, besides {', '.join(RESERVED)}; annotate it as one of these, or remove it{hint}"
    )


def _mismatch(source: Source | None, *, optional: bool, many: bool) -> Iterator[str]:
    if source is None:
        return
    if many and not source.many:
        yield (
            f"list[Upstream] takes many, but the source {source.name!r} is single; write "
            f"Source({source.name!r}, many=True) or annotate Upstream"
        )
    elif source.many and not many:
        yield f"the source {source.name!r} has many=True; annotate the parameter as list[Upstream]"
    elif source.optional and not optional and not many:
        yield f"the source {source.name!r} is optional, so None may come; annotate the parameter as Upstream | None"


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations, resolved where that is possible; text where a name is only known to type
    checkers."""
    plain = plain_function(function)
    try:
        return typing.get_type_hints(plain)
    except Exception:  # any annotation may refer to what is not imported at run time
        return dict(getattr(plain, "__annotations__", {}))


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _form(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return "none"
    text = re.sub(r"[\s'\"]", "", _text(annotation))
    return next((form for form, pattern in _FORMS.items() if re.match(pattern, text)), "other")


def _text(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation
    origin = typing.get_origin(annotation)
    if origin is typing.Union or isinstance(annotation, types.UnionType):
        return " | ".join(_text(part) for part in typing.get_args(annotation))
    if origin is not None:
        return (
            f"{getattr(origin, '__name__', origin)}[{', '.join(_text(part) for part in typing.get_args(annotation))}]"
        )
    if isinstance(annotation, typing.ForwardRef):
        return annotation.__forward_arg__
    return getattr(annotation, "__name__", None) or str(annotation)
