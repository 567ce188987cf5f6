"""Leases are renewed in time, and their loss is told once."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import psycopg
import pytest

from bollhav_provider.exceptions import CommitUnknownError, LeaseLostError
from bollhav_provider.run.commit import resolve
from bollhav_provider.run.heartbeat import Heartbeat

LEASE = timedelta(seconds=0.3)


def test_a_short_unit_never_renews() -> None:
    renewals: list[float] = []
    with Heartbeat(renewals.append, LEASE, lambda: None, "m"):
        time.sleep(0.02)
    assert renewals == []


def test_a_long_unit_renews_at_every_third() -> None:
    renewals: list[float] = []
    with Heartbeat(renewals.append, LEASE, lambda: None, "m"):
        time.sleep(0.55)
    assert 3 <= len(renewals) <= 6


def test_a_lost_lease_interrupts_once_and_is_raised_at_the_next_check() -> None:
    told = threading.Event()

    def renew(_: float) -> None:
        raise LeaseLostError("somebody else has it")

    with Heartbeat(renew, LEASE, told.set, "m") as heartbeat:
        assert told.wait(2)
        with pytest.raises(LeaseLostError, match="somebody else"):
            heartbeat.check()


def test_a_renewal_that_fails_is_tried_again_until_the_lease_is_over() -> None:
    told = threading.Event()
    tries: list[float] = []

    def renew(_: float) -> None:
        tries.append(time.monotonic())
        raise psycopg.OperationalError("no server")

    with Heartbeat(renew, LEASE, told.set, "m") as heartbeat:
        assert told.wait(3)
        assert isinstance(heartbeat.lost, LeaseLostError)
    assert len(tries) >= 3


def test_an_unknown_commit_is_looked_up_until_it_can_be_told() -> None:
    answers: list[object] = [
        psycopg.OperationalError("starting up"),
        psycopg.OperationalError("starting up"),
        True,
    ]

    def look() -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    assert resolve(look, "m", OSError("cut"), pause=lambda _: None) is True


def test_an_unknown_commit_that_stays_unknown_says_so() -> None:
    def look() -> bool:
        raise psycopg.OperationalError("gone")

    with pytest.raises(CommitUnknownError, match=r"m: the connection broke during COMMIT \(cut\).*gone"):
        resolve(look, "m", OSError("cut"), patience=0.05, pause=time.sleep)
