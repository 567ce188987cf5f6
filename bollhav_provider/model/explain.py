"""What pydantic found wrong with the arguments of a definition, in words that say what to write instead."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bollhav_provider.exceptions import DefinitionError, Problem
from bollhav_provider.model.words import did_you_mean, shown

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

Path = tuple[int | str, ...]

#: What a value must be, by the type of the error; the value itself is added.
_MUST_BE = {
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a whole number with fewer digits",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be True or False",
    "bool_parsing": "must be True or False",
    "path_type": "must be a path",
    "string_unicode": "must be valid Unicode",
    "time_delta_type": "must be a duration: a timedelta, '36h', '7d', 'PT30M' or a number of seconds",
    "time_delta_parsing": "must be a duration: a timedelta, '36h', '7d', 'PT30M' or a number of seconds",
    "date_type": "must be a date",
    "model_attributes_type": "must be one of the kinds, or a mapping with its kind",
}


def explain(error: ValidationError, label: str, arguments: list[str]) -> Iterator[Problem]:
    """Yield each thing that is wrong, in the order of the fields.

    Args:
        error: what pydantic raised.
        label: names the piece in messages.
        arguments: the names of the piece's arguments.
    """
    items = error.errors(include_url=False)
    for item in items:
        path = dotted(item["loc"])
        cause = item.get("ctx", {}).get("error")
        if item["type"] == "too_short" and any(_is_inside(other["loc"], item["loc"]) for other in items):
            continue  # only what is wrong with its items makes it short
        if isinstance(cause, DefinitionError):
            for problem in cause.problems:
                field = f"{path}.{problem.field}" if path else problem.field
                yield Problem(label, field, problem.message)
        else:
            yield Problem(label, path or "arguments", _message(item, path, arguments))


def _message(item: ErrorDetails, path: str, arguments: list[str]) -> str:
    kind, given, last = item["type"], item["input"], item["loc"][-1] if item["loc"] else ""
    context: dict[str, Any] = item.get("ctx", {})
    if kind == "extra_forbidden":
        known = f"; the arguments are {', '.join(arguments)}"
        return f"unknown argument{did_you_mean(str(last), arguments) or known}"
    if kind == "missing":
        return "is missing" if isinstance(last, int) else f"missing; write {last}=..."
    if kind == "union_tag_invalid":
        words = [word.strip(" '") for word in str(context["expected_tags"]).split(",")]
        tag = str(context["tag"])
        return f"{shown(tag)} is none of {', '.join(words)}{did_you_mean(tag, words)}"
    if inspect.isclass(given):
        return f"{given.__name__} is a class; write {given.__name__}(...), with parentheses"
    if kind == "union_tag_not_found":
        return "the kind is missing; write kind=..."
    if kind in ("model_type", "dataclass_type"):
        name = str(context.get("class_name", "one"))
        if name == "Source" and (full_name := getattr(given, "full_name", None)) is not None:
            return f"must be a Source, not the model itself; write Source({full_name!r})"
        return f"must be {_article(name)} {name}, as in {name}(...), or a mapping of its fields, not {shown(given)}"
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    if kind == "too_long":
        return f"must have {context.get('max_length')} items, not {shown(given)}"
    if kind in ("enum", "literal_error"):
        hint = did_you_mean(given.strip().lower(), _quoted(context)) if isinstance(given, str) else ""
        return f"must be {context['expected']}, not {shown(given)}{hint}"
    if kind in _MUST_BE:
        return f"{_MUST_BE[kind]}, not {shown(given)}"
    # What the rule's own message starts with is not said twice.
    message = item["msg"].removeprefix("Value error, ").removeprefix(f"{path.rpartition('.')[2]}: ")
    own = isinstance(context.get("error"), Exception)
    return message.replace("Input should be", "must be") + ("" if own else f", not {shown(given)}")


def _quoted(context: dict[str, Any]) -> list[str]:
    return [word for number, word in enumerate(str(context["expected"]).split("'")) if number % 2]


def _article(word: str) -> str:
    return "an" if word[:1] in "AEIOU" else "a"


def _is_inside(path: Path, other: Path) -> bool:
    return len(path) > len(other) and path[: len(other)] == other


def dotted(path: Path) -> str:
    """Return a path as it is written: ``target.columns[0].type``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
