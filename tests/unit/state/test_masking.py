"""What of an exception is stored: without credentials, bounded, and such that PostgreSQL can hold it."""

from __future__ import annotations

import pytest

from bollhav_provider.state.masking import MESSAGE_LIMIT, TRACEBACK_LIMIT, describe, mask, secrets_in


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgresql://etl:s3cr3t@db:5432/wh failed", "postgresql://etl:***@db:5432/wh failed"),
        ("mssql+pyodbc://sa:p%40ss@h/d", "mssql+pyodbc://sa:***@h/d"),
        ("redis://:hunter22@cache/0", "redis://:***@cache/0"),
        ("host=db user=etl password=s3cr3t dbname=wh", "host=db user=etl password=*** dbname=wh"),
        ("host=db password='two words' user=x", "host=db password='***' user=x"),
        ("PGPASSWORD=abc123 psql", "PGPASSWORD=*** psql"),
        ("{'user': 'a', 'password': 'b\\'c', 'n': 1}", "{'user': 'a', 'password': '***', 'n': 1}"),
        ('{"api_key": "AbC-123", "x": 2}', '{"api_key": "***", "x": 2}'),
        ("DB_PASSWORD: swordfish, next", "DB_PASSWORD: ***, next"),
        ("client_secret => xyz", "client_secret => ***"),
        ("https://api/x?token=abc123&page=2", "https://api/x?token=***&page=2"),
        ("Authorization: Bearer abc.def-123", "Authorization: ***"),
        ("sent bearer abcdefgh12345", "sent bearer ***"),
        ("key AKIAIOSFODNN7EXAMPLE used", "key *** used"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_9 rejected", "*** rejected"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nx", "***\nx"),
    ],
)
def test_credentials_are_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "column password_hash does not exist",
        "relation wh.tokens is empty",
        "https://example.org/path@v2",
        "invalid input syntax for type integer: 'x'",
        "[2024-01-01T00:00Z, 2024-01-02T00:00Z)",
        "basic types only",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert mask(text) == text


def test_known_secrets_are_masked_wherever_they_stand() -> None:
    assert (
        mask("connect to db with tr0ub4dor failed", ["tr0ub4dor", None, "", "db"])
        == "connect to db with *** failed"
    )


def test_the_cause_and_the_locals_of_a_failure_are_masked_too() -> None:
    try:
        try:
            raise ConnectionError("postgresql://u:pw123@h/d")
        except ConnectionError as cause:
            raise ValueError("outer password=pw123") from cause
    except ValueError as exc:
        kind, message, trace = describe(exc, ["pw123"])
    assert (kind, message) == ("ValueError", "outer password=***")
    assert "pw123" not in trace
    assert "ConnectionError: postgresql://u:***@h/d" in trace
    assert "test_masking.py" in trace


def test_messages_and_tracebacks_are_bounded_with_both_ends_kept() -> None:
    _, message, trace = describe(ValueError("start" + "x" * 100_000 + "end"))
    assert len(message) < MESSAGE_LIMIT + 100
    assert message.startswith("start")
    assert message.endswith("end")
    assert "characters left out" in message
    assert len(trace) < TRACEBACK_LIMIT + 100


def test_a_secret_that_the_cut_would_halve_is_masked_first() -> None:
    secret = "S" * 60
    _, message, _ = describe(ValueError("x" * (MESSAGE_LIMIT // 3 - 30) + secret + "y" * 10_000), [secret])
    assert "SSSS" not in message


def test_what_postgresql_cannot_store_is_written_out() -> None:
    kind, message, _ = describe(ValueError("a\x00b\ud800c"))
    assert message == "a\\x00b\\ud800c"
    assert kind == "ValueError"


def test_an_exception_that_cannot_be_shown_is_recorded_all_the_same() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    kind, message, trace = describe(Broken())
    assert kind.endswith("Broken")
    assert "cannot be shown" in message
    assert trace


def test_the_type_is_named_with_its_module() -> None:
    import psycopg

    assert describe(psycopg.errors.UniqueViolation("x"))[0] == "psycopg.errors.UniqueViolation"


def test_what_looks_like_a_credential_is_found_in_an_exception_and_in_those_behind_it() -> None:
    driver = OSError("cannot reach postgresql://etl:s3cr3tpass@db:5432/wh")
    vendor = ValueError("refused api_key='AbC-12345' and password=x")
    vendor.__cause__ = driver
    driver.__context__ = vendor  # a ring
    assert secrets_in(vendor) == ["AbC-12345", "s3cr3tpass"]  # a single letter would riddle every line

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert secrets_in(Mute()) == []
