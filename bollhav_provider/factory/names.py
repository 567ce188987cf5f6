"""Ids that Airflow accepts, from names that PostgreSQL accepts."""

from __future__ import annotations

import re
from hashlib import blake2b

#: Airflow stores ids of at most this many characters.
_LONGEST = 250


def dag_id(name: str) -> str:
    """Return a DAG or task id: the name itself where Airflow accepts it, else a readable form with a digest."""
    return _safe(name, re.sub(r"[^\w.-]", "_", name))


def group_id(name: str) -> str:
    """Return a task group's id, in which Airflow allows no dot: ``raw.flights`` becomes ``raw-flights``."""
    readable = re.sub(r"[^\w-]", "-", name)
    if re.fullmatch(r"\w+(\.\w+)*", name):  # no dash in it, so the dots can be told from the dashes
        return _safe(readable, readable)
    return _safe(name, readable) if readable != name else f"{readable}-{_digest(name)}"


def _safe(name: str, readable: str) -> str:
    """Keep the readable form when it says the whole name; else the digest keeps two names apart.

    A pure function of the name, so that ids never change between two parses or two machines.
    """
    if readable == name and len(readable) <= _LONGEST:
        return readable
    digest = _digest(name)
    return f"{readable[: _LONGEST - len(digest) - 1]}-{digest}"


def _digest(name: str) -> str:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
