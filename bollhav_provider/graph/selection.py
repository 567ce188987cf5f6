"""Selecting models by their tags: ``finance & (daily | hourly) & not:legacy``.

=============  =====================================
written        matches
=============  =====================================
``tag``        models with that tag
``a & b``      both
``a | b``      either; ``&`` binds stronger
``not:a``      not; also ``not:(a | b)``
``( ... )``    grouping
=============  =====================================
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from bollhav_provider.exceptions import DefinitionWarning, SelectionError

if TYPE_CHECKING:
    from bollhav_provider.model import Model

__all__ = ["Selection", "parse_selection", "selected"]

Kind = Literal["tag", "&", "|", "not:", "(", ")", "end"]

_TOKEN = re.compile(r"\s*(?:(not:)|([&|()])|([^\s&|(),:\"'\[\]]+)|(\S))", re.IGNORECASE)
_BINDING = {"|": 1, "&": 2, "not:": 3}


class _Token(NamedTuple):
    kind: Kind
    text: str
    column: int


class Selection(NamedTuple):
    """A parsed expression, as a program for a stack: what it works on comes before each operator."""

    expression: str
    program: tuple[tuple[Kind, str], ...]

    def matches(self, tags: Iterable[str]) -> bool:
        """Say whether a model with these tags is selected."""
        have = set(tags)
        stack: list[bool] = []
        for kind, text in self.program:
            if kind == "tag":
                stack.append(text in have)
            elif kind == "not:":
                stack.append(not stack.pop())
            else:
                right, left = stack.pop(), stack.pop()
                stack.append((left and right) if kind == "&" else (left or right))
        return stack.pop()

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that the expression names, in order, each once."""
        return tuple(dict.fromkeys(text for kind, text in self.program if kind == "tag"))


def selected(models: Iterable[Model], expression: str) -> tuple[Model, ...]:
    """Return the models that an expression selects, in their order. A tag that no model has is a warning.

    Raises:
        SelectionError: the expression cannot be read.
    """
    from bollhav_provider.model.base import did_you_mean

    selection, models = parse_selection(expression), tuple(models)
    known = {tag for model in models for tag in model.tags}
    for tag in selection.tags:
        if tag not in known:
            warnings.warn(
                f"tags: {expression!r}: no model has the tag {tag!r}{did_you_mean(tag, sorted(known))}",
                DefinitionWarning,
                stacklevel=3,
            )
    return tuple(model for model in models if selection.matches(model.tags))


def parse_selection(expression: str) -> Selection:
    """Parse a tag expression.

    Raises:
        SelectionError: with the column, from 1, at which it cannot be read.
    """

    def refuse(token: _Token, expected: str) -> SelectionError:
        found = "the expression ends" if token.kind == "end" else f"found {token.text!r}"
        return SelectionError(expression, token.column, f"{expected} expected, {found}")

    program: list[tuple[Kind, str]] = []
    operators: list[_Token] = []

    def reduce(until: Callable[[_Token], bool]) -> None:
        while operators and not until(operators[-1]):
            operator = operators.pop()
            program.append((operator.kind, operator.text))

    operand_next = True
    for token in _tokens(expression):
        if operand_next:
            if token.kind == "tag":
                program.append(("tag", token.text))
                operand_next = False
            elif token.kind in ("not:", "("):
                operators.append(token)
            else:
                raise refuse(token, "a tag, 'not:' or '('")
        elif token.kind in ("&", "|"):
            binding = _BINDING[token.kind]
            reduce(lambda top, binding=binding: top.kind == "(" or _BINDING[top.kind] < binding)  # type: ignore[misc]
            operators.append(token)
            operand_next = True
        elif token.kind == ")":
            reduce(lambda top: top.kind == "(")
            if not operators:
                raise SelectionError(expression, token.column, "')' has no '(' before it")
            operators.pop()
        elif token.kind == "end":
            reduce(lambda top: top.kind == "(")
            if operators:
                raise SelectionError(expression, operators[-1].column, "'(' is never closed")
        else:
            raise refuse(token, "'&', '|' or the end")
    return Selection(expression, tuple(program))


def _tokens(expression: str) -> Iterator[_Token]:
    at = 0
    end = len(expression.rstrip())
    while at < end:
        match = _TOKEN.match(expression, at)
        assert match is not None  # the last alternative takes any character
        negation, operator, tag, other = match.groups()
        text = match.group(match.lastindex or 0)
        column = match.start(match.lastindex or 0) + 1
        if other is not None:
            raise SelectionError(
                expression,
                column,
                f"{other!r} cannot be part of a tag; write tags with '&', '|', 'not:' and parentheses",
            )
        if negation is not None:
            yield _Token("not:", text, column)
        elif operator is not None:
            yield _Token(operator, text, column)  # type: ignore[arg-type]  # one of & | ( )
        else:
            yield _Token("tag", tag, column)
        at = match.end()
    yield _Token("end", "", end + 1)
