"""A model's query: its placeholders, and the statement that it becomes.

Inputs are written ``{alias}``, the window ``%(since)s`` and ``%(until)s``. Strings, quoted names and comments
are left alone, so ``'{"a": 1}'`` and ``LIKE 'x%'`` need no escaping; a percent sign may be written once or,
as psycopg has it, twice.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

PARAMETERS = ("since", "until")

_TOKEN = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*)
  | (?P<estring>\b[eE]'(?:[^'\\]|\\.|'')*')
  | (?P<string>'(?:[^']|'')*')
  | (?P<name>"(?:[^"]|"")*")
  | (?P<dollar>(?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$)
  | (?P<parameter>%\((?P<parameter_name>[^)]*)\)(?P<format>\w?))
  | (?P<alias>\{(?P<alias_name>[^{}\s'"]*)\})
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED_PARAMETER = re.compile(r"%\((since|until)\)s")


class Piece(NamedTuple):
    """A stretch of a query.

    Attributes:
        kind: ``code``, ``literal`` (strings, names, comments), ``alias`` or ``parameter``.
        text: what is written, for an alias or parameter its name.
        format: the letter after a parameter; ``s`` is the right one.
    """

    kind: str
    text: str
    format: str = ""


@lru_cache(maxsize=512)
def pieces(query: str) -> tuple[Piece, ...]:
    """Cut a query into its pieces."""
    return tuple(_pieces(query))


def _pieces(query: str) -> Iterator[Piece]:
    position = 0
    while position < len(query):
        match = _TOKEN.search(query, position)
        if match is None:
            yield Piece("code", query[position:])
            return
        if match.start() > position:
            yield Piece("code", query[position : match.start()])
        position = match.end()
        if match["alias"] is not None:
            yield Piece("alias", unicodedata.normalize("NFKC", match["alias_name"]))
        elif match["parameter"] is not None:
            yield Piece("parameter", match["parameter_name"], match["format"])
        else:
            if match["dollar"] is not None:
                end = query.find(match["dollar"], position)
                position = len(query) if end < 0 else end + len(match["dollar"])
            elif match["comment"] == "/*":
                position = _comment_end(query, position)
            yield Piece("literal", query[match.start() : position])


def _comment_end(query: str, position: int) -> int:
    depth = 1
    for mark in re.compile(r"/\*|\*/").finditer(query, position):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(query)


def aliases(query: str) -> tuple[str, ...]:
    """Return the aliases that a query reads, in order of first appearance."""
    return tuple(dict.fromkeys(piece.text for piece in pieces(query) if piece.kind == "alias"))


def parameters(query: str) -> tuple[str, ...]:
    """Return the names of the parameters of a query, in order of first appearance."""
    return tuple(dict.fromkeys(piece.text for piece in pieces(query) if piece.kind == "parameter"))


def quoted_parameters(query: str) -> tuple[str, ...]:
    """Return the parameters that stand within quotes, where they would be plain text."""
    found = (
        match[0]
        for piece in pieces(query)
        if piece.kind == "literal" and not piece.text.startswith(("--", "/*"))
        for match in _QUOTED_PARAMETER.finditer(piece.text)
    )
    return tuple(dict.fromkeys(found))


def has_several_statements(query: str) -> bool:
    """Whether anything but comments follows a semicolon."""
    ended = False
    for piece in pieces(query):
        if piece.kind == "literal" and piece.text.startswith(("--", "/*")):
            continue
        before, semicolon, after = piece.text.partition(";") if piece.kind == "code" else (piece.text, "", "")
        if ended and before.strip():
            return True
        if semicolon:
            ended = True
            if after.replace(";", "").strip():
                return True
    return False


def render(query: str, resolve: Callable[[str], str], *, for_parameters: bool = True) -> str:
    """Return the statement that a query becomes.

    Args:
        query: with ``{alias}`` and ``%(since)s`` placeholders.
        resolve: gives an alias's quoted relation.
        for_parameters: whether the statement is to be executed with a mapping of parameters (even an empty
            one), which makes psycopg read ``%%`` as a percent sign; otherwise percent signs are single.
    """
    percent = "%%" if for_parameters else "%"

    def plain(text: str) -> str:
        return re.sub("%%?", lambda _: percent, text)

    done: list[str] = []
    for piece in pieces(query):
        if piece.kind == "alias":
            done.append(resolve(piece.text).replace("%", percent))
        elif piece.kind == "parameter":
            done.append(f"%({piece.text})s")
        else:
            # A query becomes part of another statement, where the semicolon at its end would not be wanted.
            text = piece.text.replace(";", "") if piece.kind == "code" else piece.text
            done.append(plain(text))
    return "".join(done)
