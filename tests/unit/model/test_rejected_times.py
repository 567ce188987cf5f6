"""Rejected ranges, chunks and promises of flexibility."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bollhav_provider import Batch, ChunkFlex, Column, Contract, Model, Target, TimeChunking

DAY = Column("day", "date", primary_key=True, partition_on=True)


def table(schema: str = "shop", name: str = "orders", **fields: Any) -> Target:
    return Target(schema=schema, name=name, **fields)


#: The definition, the field that is wrong, and what is said about it.
REJECTED: dict[str, tuple[Callable[[], Model], str, str]] = {
    "date_on_hourly_windows": (
        lambda: Model(target=table(columns=[DAY]), batching=Batch(time=TimeChunking("@hourly"))),
        "target.columns['day'].partition_on",
        "a date cannot tell the windows of '@hourly' apart, which do not all begin at midnight in UTC; write "
        "a column of type timestamptz, or a chunk of whole days",
    ),
    "begin_after_end": (
        lambda: Model(target=table(), contract=Contract(begin="2024-01-02T00:00Z", end="2024-01-01T00:00Z")),
        "contract.end",
        "begin 2024-01-02T00:00Z is after the end 2024-01-01T00:00Z; a range has begin < end",
    ),
    "begin_equal_to_end": (
        lambda: Model(target=table(), contract=Contract(begin="2024-01-01T00:00Z", end="2024-01-01T01:00+01:00")),
        "contract.end",
        "begin 2024-01-01T00:00Z is equal to end 2024-01-01T00:00Z; a range has begin < end",
    ),
    "six_fields": (
        lambda: Model(target=table(), batching=Batch(time=TimeChunking("0 0 * * * *"))),
        "batching.time.chunk",
        "'0 0 * * * *' has 6 fields instead of five; seconds and years are not part of a chunk; write five "
        "fields: minute hour day-of-month month day-of-week",
    ),
    "never_fires": (
        lambda: Model(target=table(), batching=Batch(time=TimeChunking("0 0 30 2 *"))),
        "batching.time.chunk",
        "'0 0 30 2 *' never fires: no month has such a day; write a day that exists, or 'L' for a month's last day",
    ),
    "unknown_alias": (
        lambda: Model(target=table(), batching=Batch(time=TimeChunking("@dayly"))),
        "batching.time.chunk",
        "'@dayly' is not an alias; the aliases are @hourly, @daily, @weekly, @monthly, @quarterly, @yearly",
    ),
    "unknown_zone": (
        lambda: Model(target=table(), batching=Batch(time=TimeChunking("@daily", tz="Europe/Stokholm"))),
        "batching.time.tz",
        "'Europe/Stokholm' is not a known time zone; did you mean 'Europe/Stockholm'?",
    ),
    "window_off_the_chunk": (
        lambda: Model(target=table(), batching=Batch(time=TimeChunking("@hourly", window="30 0 * * *"))),
        "batching.time.window",
        "window '30 0 * * *' has a tick at 2023-12-01T00:30Z that is no tick of the chunk '@hourly' in UTC, "
        "so a chunk would be cut in two; write a window whose ticks are all ticks of the chunk",
    ),
    "window_no_cron": (
        lambda: Model(target=table(), batching=Batch(time=TimeChunking("@hourly", window="daily"))),
        "batching.time.window",
        "'daily' has 1 fields instead of five; write five fields: minute hour day-of-month month day-of-week",
    ),
    "units_per_task_without_chunks": (
        lambda: Model(target=table(), batching=Batch(units_per_task=3)),
        "batching.units_per_task",
        "there is one unit only without time chunks; leave it out, or give time=TimeChunking(...)",
    ),
    "floor_coarser_than_chunk": (
        lambda: Model(
            target=table(),
            batching=Batch(
                time=TimeChunking("@hourly", flexibility=ChunkFlex(floor_chunk="@daily", attest="rows are kept"))
            ),
        ),
        "batching.time.flexibility.floor_chunk",
        "chunk '@hourly' has a tick at 2023-12-01T01:00Z that is no tick of the floor_chunk '@daily' in UTC, "
        "so a floor_chunk would be cut in two; write a chunk whose ticks are all ticks of the floor_chunk",
    ),
    "attest_empty": (
        lambda: Model(target=table(), batching=Batch(time=TimeChunking("@hourly", flexibility=ChunkFlex(attest=" ")))),
        "batching.time.flexibility.attest",
        "the reason is empty; say why splitting a window gives the same rows, or leave it out",
    ),
    "flexible_append": (
        lambda: Model(target=table(), batching=Batch(time=TimeChunking("@hourly", flexibility="flex"))),
        "batching.time.flexibility",
        "a flexible model covers ranges again, and append would add their rows twice; use another "
        "write_mode, or ChunkFlex(attest='why splitting a window gives the same rows')",
    ),
    "flexible_upsert_without_order": (
        lambda: Model(
            target=table(write_mode="upsert", columns=[Column("id", "integer", primary_key=True)]),
            batching=Batch(time=TimeChunking("@hourly", flexibility="flex")),
        ),
        "batching.time.flexibility",
        "upsert keeps the row that was written last, which depends on how the range is cut; write "
        "order_by=True on the column whose greatest value wins, use write_mode='recreate_partition', or "
        "ChunkFlex(attest='why splitting a window gives the same rows')",
    ),
}


@pytest.mark.parametrize("name", REJECTED)
def test_it_is_rejected_with_its_remedy(name: str, assert_rejected: Callable[..., None]) -> None:
    assert_rejected(*REJECTED[name])
