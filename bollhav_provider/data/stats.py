"""What a write did, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WriteStats:
    """The counts of one unit's write.

    Attributes:
        rows_in: rows that the function or the query gave.
        rows_written: rows that were put into the target or, for UPSERT, offered to it: one for each key.
        rows_changed: rows of the target that were inserted or really updated; an UPSERT of what is there already
            changes none.
        rows_deleted: rows of the window that were removed first. Those that TRUNCATE and RECREATE remove are not
            counted.
    """

    rows_in: int = 0
    rows_written: int = 0
    rows_changed: int = 0
    rows_deleted: int = 0
