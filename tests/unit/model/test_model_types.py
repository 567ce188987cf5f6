"""The names of PostgreSQL types, read and normalised."""

from __future__ import annotations

import pytest

from bollhav_provider import Column
from bollhav_provider.model import PgType, parse_type
from bollhav_provider.model.pgtypes import TypeNameError


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("int", "integer"),
        ("INT4", "integer"),
        ("int8", "bigint"),
        ("int2", "smallint"),
        ("bool", "boolean"),
        ("float", "double precision"),
        ("float(24)", "real"),
        ("float(25)", "double precision"),
        ("float8", "double precision"),
        ("double  precision", "double precision"),
        ("decimal(6,1)", "numeric(6,1)"),
        ("numeric( 6 , 1 )", "numeric(6,1)"),
        ("numeric(6)", "numeric(6,0)"),
        ("numeric", "numeric"),
        ("numeric(2,-3)", "numeric(2,-3)"),
        ("varchar(20)", "character varying(20)"),
        ("varchar", "character varying"),
        ("char", "character(1)"),
        ("char(3)", "character(3)"),
        ("bpchar", "bpchar"),
        ("character varying (7)", "character varying(7)"),
        ("bit varying(5)", "bit varying(5)"),
        ("bit", "bit(1)"),
        ("timestamptz", "timestamp with time zone"),
        ("timestamptz(3)", "timestamp(3) with time zone"),
        ("timestamp(3) with time zone", "timestamp(3) with time zone"),
        ("timestamp", "timestamp without time zone"),
        ("time", "time without time zone"),
        ("timetz(0)", "time(0) with time zone"),
        ("interval", "interval"),
        ("interval(2)", "interval(2)"),
        ("interval day to second(2)", "interval day to second(2)"),
        ("text[]", "text[]"),
        ("text ARRAY", "text[]"),
        ("int[3]", "integer[]"),
        ("numeric(6,1)[]", "numeric(6,1)[]"),
        ("int[][]", "integer[]"),
        ("jsonb", "jsonb"),
        ("citext", "citext"),
        ("tstzrange", "tstzrange"),
        ("money", "money"),
        ("mood", "mood"),
        ("shop.mood", '"shop".mood'),
        ('"My Type"', '"My Type"'),
        ('shop."My Type"[]', '"shop"."My Type"[]'),
        ("geometry(Point,4326)", "geometry(Point,4326)"),
        ("vector(3)", "vector(3)"),
    ],
)
def test_types_are_normalised_as_the_server_shows_them(written: str, normal: str) -> None:
    assert parse_type(written).sql == normal


def test_modifiers_are_kept_apart() -> None:
    assert parse_type("numeric(6,1)") == PgType("numeric", precision=6, scale=1)
    assert parse_type("varchar(20)[]") == PgType("character varying", length=20, dimensions=1)
    assert parse_type("varchar(20)[]").element == PgType("character varying", length=20)
    assert parse_type("timestamptz(3)").precision == 3
    assert parse_type("shop.Mood") == PgType("mood", "shop", builtin=False)
    assert parse_type("int[][]").dimensions == 2
    assert Column("a", "numeric(6,1)").pg_type.scale == 1


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "the type is empty; write a PostgreSQL type such as 'text', 'integer' or 'numeric(6,1)'"),
        ("[]", "the type is empty; write a PostgreSQL type such as 'text', 'integer' or 'numeric(6,1)'"),
        ("serial", "'serial' is no type but a way to make a default; write 'integer' with identity=True"),
        ("BIGSERIAL", "'BIGSERIAL' is no type but a way to make a default; write 'bigint' with identity=True"),
        ("string", "PostgreSQL has no type 'string'; write 'text'"),
        ("datetime", "PostgreSQL has no type 'datetime'; write 'timestamptz'"),
        (
            "varcharr(3)",
            "PostgreSQL has no type 'varcharr(3)'; a type of your own is written with its schema, as in "
            "'public.varcharr'; did you mean 'varchar'?",
        ),
        ("integer(4)", "integer takes no modifier, not 'integer(4)'; write 'numeric(4,0)' or 'integer'"),
        ("date(3)", "date takes no modifier, not 'date(3)'; write 'date'"),
        ("numeric(1001)", "the precision in 'numeric(1001)' is not a whole number from 1 to 1000; write one"),
        ("numeric(a)", "the precision in 'numeric(a)' is not a whole number from 1 to 1000; write one"),
        ("varchar(0)", "the length in 'varchar(0)' is not a whole number from 1 to 10485760; write one"),
        (
            "timestamp(7)",
            "the number of fractional digits in 'timestamp(7)' is not a whole number from 0 to 6; write one",
        ),
        (
            "interval fortnight",
            "'interval fortnight' names no fields of an interval; write 'interval' or, say, 'interval day to second'",
        ),
        ("record", "'record' is a pseudo-type that no column can have; write the type of its values"),
        (
            "text; drop table x",
            "'text; drop table x' cannot be read as a type; write one name, with its schema if it is your "
            "own: 'shop.mood'",
        ),
        ("a.b.c", "'a.b.c' cannot be read as a type; write one name, with its schema if it is your own: 'shop.mood'"),
    ],
)
def test_a_type_that_cannot_be_is_refused_with_what_to_write(written: str, message: str) -> None:
    with pytest.raises(TypeNameError) as caught:
        parse_type(written)
    assert str(caught.value) == message
