# ruff: noqa: S608
"""Queries: what is a placeholder and what only looks like one, and the statement that comes out."""

from __future__ import annotations

from typing import Any

import pytest

from bollhav_provider import (
    Batch,
    ChunkFlex,
    Column,
    DefinitionError,
    Environment,
    Model,
    Source,
    State,
    Target,
    TimeChunking,
)
from bollhav_provider.model.sqltext import aliases, has_several_statements, parameters, render

PLACEHOLDERS = [
    ("SELECT * FROM {a} JOIN {b_2} USING (id)", ("a", "b_2"), ()),
    ("SELECT '{a}', '{\"x\": 1}'::jsonb FROM {b}", ("b",), ()),
    ("SELECT E'it\\'s {a}' FROM {b}", ("b",), ()),
    ("SELECT 'it''s {a}' FROM {b}", ("b",), ()),
    ("SELECT $${a}$$, $x$ $$ {a} $x$ FROM {b}", ("b",), ()),
    ('SELECT "{a}" FROM {b}', ("b",), ()),
    ("SELECT 1 -- from {a}\nFROM {b}", ("b",), ()),
    ("SELECT 1 /* {a} /* {a} */ {a} */ FROM {b}", ("b",), ()),
    ("SELECT %(since)s, '%(until)s' FROM {b}", ("b",), ("since",)),
    ("SELECT 5 % 2, x LIKE '%a%' FROM {b} WHERE t < %(until)s", ("b",), ("until",)),
    ("SELECT '{}'::int[], ARRAY[1] FROM {b}", ("b",), ()),
    ("SELECT $1 FROM {b}", ("b",), ()),
    ("SELECT 'unfinished {a}", ("a",), ()),
    ("SELECT /* unfinished {a}", (), ()),
    ("SELECT $$unfinished {a}", (), ()),
]


@pytest.mark.parametrize(("query", "named", "given"), PLACEHOLDERS)
def test_only_code_holds_placeholders(query: str, named: tuple[str, ...], given: tuple[str, ...]) -> None:
    assert aliases(query) == named
    assert parameters(query) == given


@pytest.mark.parametrize(
    ("query", "for_parameters", "plain"),
    [
        ("SELECT 'a%' FROM {t}", "SELECT 'a%%' FROM <t>", "SELECT 'a%' FROM <t>"),
        ("SELECT 'a%%' FROM {t}", "SELECT 'a%%' FROM <t>", "SELECT 'a%' FROM <t>"),
        ("SELECT 5 % 2, %(since)s", "SELECT 5 %% 2, %(since)s", "SELECT 5 % 2, %(since)s"),
        ("SELECT 1 -- 50%\n", "SELECT 1 -- 50%%\n", "SELECT 1 -- 50%\n"),
        ("SELECT ';' ; -- end\n", "SELECT ';'  -- end\n", "SELECT ';'  -- end\n"),
    ],
)
def test_percent_signs_are_safe(query: str, for_parameters: str, plain: str) -> None:
    assert render(query, lambda alias: f"<{alias}>") == for_parameters
    assert render(query, lambda alias: f"<{alias}>", for_parameters=False) == plain


@pytest.mark.parametrize(
    ("query", "several"),
    [
        ("SELECT 1", False),
        ("SELECT 1;", False),
        ("SELECT 1 ;; -- end\n /* end */", False),
        ("SELECT ';a'", False),
        ("SELECT 1; SELECT 2", True),
        ("SELECT 1; -- c\n SELECT 2", True),
        ("SELECT 1; 'x'", True),
    ],
)
def test_a_query_is_one_statement(query: str, several: bool) -> None:
    assert has_several_statements(query) is several


def model(query: str, *sources: Source | str, **fields: Any) -> Model:
    target = fields.pop("target", Target(schema="mart", name="t"))
    return Model(target=target, upstream=sources, query=query, state=State(), **fields)


def test_a_query_is_rendered_for_its_environment() -> None:
    made = model(
        """
        SELECT f.time_hour, f.carrier, w.wind_speed, 'x%' AS mark
        FROM {flights} f LEFT JOIN {weather} w USING (origin, time_hour)
        WHERE f.time_hour >= %(since)s AND f.time_hour < %(until)s;
        """,
        Source("raw.flights", contract="encapsulate"),
        Source("raw.50%", alias="weather"),
        batching=Batch(time=TimeChunking("@daily")),
    )
    rendered = made.render_query(Environment("pr1"))
    assert 'FROM "raw_pr1"."flights" f LEFT JOIN "raw"."50%%" w' in rendered
    assert "'x%%'" in rendered
    assert "f.time_hour < %(until)s" in rendered
    assert ";" not in rendered
    assert '"raw"."50%" w' in made.render_query(for_parameters=False)


def test_an_input_that_only_orders_need_not_be_read() -> None:
    made = model("SELECT 1", Source("ref.config", contract="exists"))
    assert made.render_query() == "SELECT 1"


def test_a_window_may_be_bounded_on_one_side() -> None:
    model("SELECT * FROM {a} WHERE t < %(until)s", "s.a", batching=Batch(time=TimeChunking("@daily")))


def test_a_model_without_query_has_none_to_render() -> None:
    with pytest.raises(
        DefinitionError, match=r"mart\.t: query: the model has none; its rows come from an execute function"
    ):
        Model(target=Target(schema="mart", name="t")).render_query()


# What makes the rows of a query depend on how its window is cut

FLEX = Batch(time=TimeChunking("@hourly", flexibility="flex"))
WINDOW = "t >= %(since)s AND t < %(until)s"
PARTITIONED = Target(
    schema="mart", name="t", write_mode="recreate_partition", columns=[Column("t", "timestamptz", partition_on=True)]
)


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT * FROM {{a}} WHERE {WINDOW}",
        f"SELECT *, coalesce(x, 0), lower(y), x IS DISTINCT FROM y FROM {{a}} WHERE {WINDOW}",
        f"SELECT * FROM {{a}} WHERE {WINDOW} UNION ALL SELECT * FROM {{a}} WHERE {WINDOW}",
        f"WITH c AS (SELECT * FROM {{a}}) SELECT * FROM c WHERE {WINDOW}",
    ],
)
def test_what_keeps_rows_apart_may_be_flexible(query: str) -> None:
    assert model(query, "s.a", batching=FLEX, target=PARTITIONED).is_flexible


@pytest.mark.parametrize(
    ("query", "reasons"),
    [
        (f"SELECT c, sum(x) FROM {{a}} WHERE {WINDOW} GROUP BY c", ["aggregates"]),
        (f"SELECT count(*) FROM {{a}} WHERE {WINDOW}", ["aggregates"]),
        (f"SELECT bool_or(x), jsonb_agg(y) FROM {{a}} WHERE {WINDOW}", ["aggregates"]),
        (f"SELECT * FROM {{a}} WHERE x = (SELECT max(x) FROM {{a}}) AND {WINDOW}", ["aggregates"]),
        (f"SELECT DISTINCT x FROM {{a}} WHERE {WINDOW}", ["uses DISTINCT"]),
        (f"SELECT DISTINCT ON (x) x, y FROM {{a}} WHERE {WINDOW} ORDER BY x, y", ["uses DISTINCT"]),
        (f"SELECT * FROM {{a}} WHERE {WINDOW} LIMIT 5", ["uses LIMIT"]),
        (f"SELECT * FROM {{a}} WHERE {WINDOW} FETCH FIRST 5 ROWS ONLY", ["uses LIMIT"]),
        (
            f"SELECT *, row_number() OVER (PARTITION BY x ORDER BY y) FROM {{a}} WHERE {WINDOW}",
            ["uses a window function"],
        ),
        (f"SELECT *, sum(x) OVER (ORDER BY t) FROM {{a}} WHERE {WINDOW}", ["uses a window function"]),
        (
            f"SELECT * FROM {{a}} WHERE {WINDOW} UNION SELECT * FROM {{a}} WHERE {WINDOW}",
            ["removes duplicates (UNION, INTERSECT or EXCEPT without ALL)"],
        ),
        (f"SELECT DISTINCT count(*) FROM {{a}} WHERE {WINDOW} LIMIT 1", ["aggregates", "uses DISTINCT", "uses LIMIT"]),
        (f"SELECT FROM WHERE )( {{a}} {WINDOW}", ["cannot be read here"]),
    ],
)
def test_what_depends_on_the_cut_is_refused_unless_attested(query: str, reasons: list[str]) -> None:
    with pytest.raises(DefinitionError) as caught:
        model(query, "s.a", batching=FLEX, target=PARTITIONED)
    assert [(problem.field, problem.message) for problem in caught.value.problems] == [
        (
            "batching.time.flexibility",
            f"the query {reason}, so its result depends on how the range is cut; use ChunkFix, "
            "or ChunkFlex(attest='why splitting a window gives the same rows')",
        )
        for reason in reasons
    ]
    attested = Batch(time=TimeChunking("@hourly", flexibility=ChunkFlex(attest="one row a key and hour")))
    assert model(query, "s.a", batching=attested, target=PARTITIONED).is_flexible


def test_a_flexible_upsert_needs_an_order() -> None:
    def target(*, order: bool) -> Target:
        columns = [Column("id", "integer", primary_key=True), Column("version", "integer", order_by=order)]
        return Target(schema="mart", name="t", write_mode="upsert", columns=columns)

    assert Model(target=target(order=True), batching=FLEX).target.order_columns[0].name == "version"
    with pytest.raises(DefinitionError, match="write order_by=True on the column whose greatest value wins"):
        Model(target=target(order=False), batching=FLEX)
