"""What of an exception goes into a table: bounded, storable, and without credentials."""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Iterable

#: Characters kept of a message and of a traceback.
MESSAGE_LIMIT = 4_000
TRACEBACK_LIMIT = 20_000
#: Characters of a message that are shown where it stands among others.
SHOWN_LIMIT = 2_000
_MASK = "***"
#: Characters from which on a text that was found is masked wherever it stands, not only where it was found.
_SHORTEST = 6

_WORD = (
    r"[\w.-]*(?:passwords?|passwd|passphrase|pwd|secrets?|tokens?|api[_-]?keys?|access[_-]?keys?|private[_-]?keys?"
    r"|credentials?|authorization|sslpassword|pgpassword)"
)
#: ``scheme://user:secret@host``; the secret may hold anything but white space, a slash or an @ that ends it.
_URI = re.compile(r"(?P<head>\b[a-zA-Z][\w+.-]*://[^\s:/@'\"]*:)(?P<secret>[^\s/'\"]+)(?=@)")
#: ``password=secret``, ``'token': 'secret'``, ``API_KEY: secret``.
_PAIR = re.compile(
    rf"(?P<head>\b{_WORD}['\"]?\s*(?:=>|[=:])\s*)"
    r"(?P<secret>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|(?:bearer|basic)\s+[^\s,;'\")}\]]+|[^\s,;&'\")}\]]+)",
    re.IGNORECASE,
)
_HEADER = re.compile(r"(?P<head>\b(?:bearer|basic)\s+)(?P<secret>[A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE)
#: Well-known shapes of keys.
_SHAPES = re.compile(
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,}\b|\bxox[abprs]-[A-Za-z0-9-]{10,}\b"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
)


def mask(text: str, secrets: Iterable[str | None] = ()) -> str:
    """Return a text with everything that looks like a credential replaced by ``***``.

    Args:
        text: a message or a traceback.
        secrets: values known to be secret, such as the connection's password; those under three characters are ignored,
            for masking them would riddle every text.
    """
    for secret in secrets:
        if secret and len(secret) >= 3:
            text = text.replace(secret, _MASK)
    text = _URI.sub(rf"\g<head>{_MASK}", text)
    text = _PAIR.sub(_masked_pair, text)
    text = _HEADER.sub(rf"\g<head>{_MASK}", text)
    return _SHAPES.sub(_MASK, text)


def secrets_in(exc: BaseException) -> list[str]:
    """Return what looks like a credential in the messages of an exception and of those behind it, once each.

    Args:
        exc: any, also one whose ``str`` fails.
    """
    found: dict[str, None] = {}
    seen: set[int] = set()
    link: BaseException | None = exc
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        with contextlib.suppress(Exception):
            text = str(link)
            for pattern in (_URI, _PAIR, _HEADER, _SHAPES):
                for match in pattern.finditer(text):
                    found[match.groupdict().get("secret", match[0]).strip("'\"")] = None
        link = link.__cause__ or link.__context__
    return [secret for secret in found if len(secret) >= _SHORTEST]


def _masked_pair(match: re.Match[str]) -> str:
    secret = match["secret"]
    quote = secret[0] if secret[0] in "'\"" else ""
    return f"{match['head']}{quote}{_MASK}{quote}"


def shown(exc: BaseException, secrets: Iterable[str | None] = ()) -> str:
    """Return an exception's message as people may see it on a screen or in a log: masked and bounded."""
    return _bounded(describe(exc, secrets)[1], SHOWN_LIMIT)


def describe(exc: BaseException, secrets: Iterable[str | None] = ()) -> tuple[str, str, str]:
    """Return (type, message, traceback) of an exception as they may be stored.

    Args:
        exc: any, also one whose ``str`` fails.
        secrets: as in :func:`mask`.
    """
    secrets = tuple(secrets)
    kind = type(exc)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(exc)
    except Exception as broken:
        message = f"<{name} whose message cannot be shown: {type(broken).__name__}>"
    try:
        trace = "".join(traceback.format_exception(exc))
    except Exception:
        trace = f"{name}: {message}"
    return (
        _storable(name),
        _bounded(_storable(mask(message, secrets)), MESSAGE_LIMIT),
        _bounded(_storable(mask(trace, secrets)), TRACEBACK_LIMIT),
    )


def _storable(text: str) -> str:
    """PostgreSQL stores no NUL, and UTF-8 no lone surrogate."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def _bounded(text: str, limit: int) -> str:
    """Keep the start, which says what was done, and more of the end, which says what went wrong."""
    if len(text) <= limit:
        return text
    note = f"\n... {len(text) - limit} characters left out ...\n"
    head = limit // 3
    return text[:head] + note + text[len(text) - (limit - head) :]
