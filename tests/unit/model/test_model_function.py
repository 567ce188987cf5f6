"""Execute functions: what their parameters may be, and what is inferred from them."""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from bollhav_provider import DefinitionError, Model, Source, Target, Unit

FILE = __file__


class Upstream:
    """Stands for the class of that name; annotations are read by name."""


def model(*sources: Source | str, **fields: Any) -> Model:
    return Model(target=Target(schema="shop", name="orders"), upstream=sources, **fields)


def test_parameters_are_filled_by_name() -> None:
    made = model("raw.flights", Source("raw.weather", optional=True), Source("*.routes", many=True))

    @made.execute
    def rows(
        run: object,
        unit: Unit,
        model: Model,
        conn: Any,
        context: Any,
        flights: Upstream,
        weather: Upstream | None,
        routes: list[Upstream],
    ) -> None: ...

    assert made.function is rows
    kinds = {parameter.name: parameter for parameter in made.parameters}
    assert [name for name, parameter in kinds.items() if parameter.kind == "reserved"] == [
        "run",
        "unit",
        "model",
        "conn",
        "context",
    ]
    assert (kinds["flights"].optional, kinds["flights"].many) == (False, False)
    assert kinds["weather"].optional
    assert kinds["routes"].many
    assert made.inferred == ()


def test_a_source_that_no_parameter_names_is_fine() -> None:
    made = model("raw.flights")

    @made.execute
    def rows(unit: Unit) -> None: ...

    assert [parameter.name for parameter in made.parameters] == ["unit"]


def test_an_upstream_without_a_source_is_one_of_the_own_schema() -> None:
    made = model()

    @made.execute
    def rows(flights: Upstream, weather: Upstream | None, routes: list[Upstream], planes: Upstream = None) -> None: ...  # type: ignore[assignment]

    assert made.inferred == (
        Source("flights"),
        Source("weather", optional=True),
        Source("routes", many=True),
        Source("planes", optional=True),
    )
    assert made.inputs_known
    assert made.declared_inputs == ()
    assert made.ref("flights") == '"shop"."flights"'


def named_elsewhere(flights: somewhere.Upstream, weather: typing.Optional[Upstream]) -> None:  # type: ignore[name-defined]  # noqa: F821, UP045
    """Annotations that cannot be resolved at run time."""


def test_annotations_are_read_even_where_they_cannot_be_resolved() -> None:
    made = model()
    made.execute(named_elsewhere)
    assert [(parameter.name, parameter.optional) for parameter in made.parameters] == [
        ("flights", False),
        ("weather", True),
    ]


def test_a_parameter_without_annotation_is_filled_where_a_source_has_its_name() -> None:
    made = model("raw.flights", Source("*.routes", many=True))
    made.execute(lambda unit, flights, routes: None)
    assert [(parameter.name, parameter.many) for parameter in made.parameters] == [
        ("unit", False),
        ("flights", False),
        ("routes", True),
    ]


# What cannot be filled. Each function is defined on the line that its message names.


def unknown(contex): ...  # type: ignore[no-untyped-def]
def wrong_type(day: int): ...  # type: ignore[no-untyped-def]
def default(limit: int = 5): ...  # type: ignore[no-untyped-def]
def stars(*flights: Upstream): ...  # type: ignore[no-untyped-def]
def more(**flights: Upstream): ...  # type: ignore[no-untyped-def]
def by_position(unit: Unit, /): ...  # type: ignore[no-untyped-def]
def itself(orders: Upstream): ...  # type: ignore[no-untyped-def]
def many_of_one(flights: list[Upstream]): ...  # type: ignore[no-untyped-def]
def one_of_many(routes: Upstream): ...  # type: ignore[no-untyped-def]
def sure_of_optional(weather: Upstream): ...  # type: ignore[no-untyped-def]


@pytest.mark.parametrize(
    ("function", "parameter", "message"),
    [
        (
            unknown,
            "contex",
            "nothing could fill it: it is none of run, unit, model, conn, context, flights, weather, routes; "
            "rename it, or annotate "
            "it as 'Upstream' to read the model 'contex' of the same schema; did you mean 'context'?",
        ),
        (
            wrong_type,
            "day",
            "nothing could fill it: the annotation is 'int', and only Upstream, Upstream | None and "
            "list[Upstream] are filled, "
            "besides run, unit, model, conn, context; annotate it as one of these, or remove it",
        ),
        (
            default,
            "limit",
            "nothing could fill it: the annotation is 'int', and only Upstream, Upstream | None and "
            "list[Upstream] are filled, "
            "besides run, unit, model, conn, context; annotate it as one of these, or remove it",
        ),
        (stars, "flights", "nothing fills *flights; name each upstream that the function reads"),
        (more, "flights", "nothing fills **flights; name each upstream that the function reads"),
        (by_position, "unit", "parameters are filled by name; remove the '/' from the function's parameters"),
        (
            itself,
            "orders",
            "it means the model itself; declare the source that is meant, with this name as its alias",
        ),
        (
            many_of_one,
            "flights",
            "list[Upstream] takes many, but the source 'raw.flights' is single; write Source('raw.flights', "
            "many=True) or annotate Upstream",
        ),
        (one_of_many, "routes", "the source '*.routes' has many=True; annotate the parameter as list[Upstream]"),
        (
            sure_of_optional,
            "weather",
            "the source 'raw.weather' is optional, so None may come; annotate the parameter as Upstream | None",
        ),
    ],
)
def test_a_parameter_that_nothing_can_fill_is_an_error(
    function: Callable[..., Any], parameter: str, message: str
) -> None:
    made = model("raw.flights", Source("raw.weather", optional=True), Source("*.routes", many=True))
    with pytest.raises(DefinitionError) as caught:
        made.execute(function)
    where = f"{function.__name__} ({FILE}:{function.__code__.co_firstlineno})"
    assert str(caught.value) == f"shop.orders: execute: {where}: parameter {parameter!r}: {message}"
    assert made.function is None


def test_all_wrong_parameters_come_in_one_error() -> None:
    with pytest.raises(DefinitionError) as caught:
        model().execute(lambda a, b, *c: None)
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (model(query="SELECT 1"), "the model has a query, which computes its rows; remove the query or the function"),
        (
            model(query="SELECT 1", materialization="view"),
            "the model has a query, which computes its rows; remove the query or the function",
        ),
    ],
)
def test_a_model_with_a_query_takes_no_function(made: Model, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        made.execute(by_hand)


def by_hand(unit: Unit) -> None: ...
def by_other_hand(unit: Unit) -> None: ...


def test_a_model_has_one_function() -> None:
    made = model()
    made.execute(by_hand)
    made.execute(by_hand)
    with pytest.raises(DefinitionError, match=r"the model already has the function by_hand \(.*\); keep one"):
        made.execute(by_other_hand)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"'rows' is no function; write @model\.execute above a def"):
        model().execute("rows")  # type: ignore[type-var]


# Functions of all kinds


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def hidden(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def rows(unit: Unit, flights: Upstream) -> None: ...
def batches(unit: Unit, flights: Upstream) -> Any:
    yield None


def with_option(flights: Upstream, limit: int) -> None: ...
def only_by_name(*, flights: Upstream) -> None: ...
def more_said(flights: typing.Annotated[Upstream, "all of them"]) -> None: ...
async def later(unit: Unit) -> None: ...
async def later_batches(unit: Unit) -> AsyncIterator[None]:
    yield None


class Loader:
    def rows(self, unit: Unit, flights: Upstream) -> None: ...
    @classmethod
    def of_class(cls, unit: Unit, flights: Upstream) -> None: ...
    @staticmethod
    def static(unit: Unit, flights: Upstream) -> None: ...
    def __call__(self, unit: Unit, flights: Upstream) -> None: ...


class LaterLoader:
    async def __call__(self, unit: Unit) -> None: ...


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (batches, ["unit", "flights"]),
        (decorated(rows), ["unit", "flights"]),
        (functools.lru_cache(rows), ["unit", "flights"]),
        (functools.partial(with_option, limit=5), ["flights"]),
        (functools.partial(decorated(rows)), ["unit", "flights"]),
        (only_by_name, ["flights"]),
        (more_said, ["flights"]),
        (Loader().rows, ["unit", "flights"]),
        (Loader.of_class, ["unit", "flights"]),
        (Loader.static, ["unit", "flights"]),
        (Loader(), ["unit", "flights"]),
        (lambda unit, flights: None, ["unit", "flights"]),
    ],
)
def test_functions_of_all_kinds_are_taken(function: Callable[..., Any], names: list[str]) -> None:
    made = model("raw.flights")
    assert made.execute(function) is function
    assert [parameter.name for parameter in made.parameters] == names
    assert made.fingerprint


def endless(unit: Unit) -> None: ...


endless.__wrapped__ = endless  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (later, "later ({file}:*): it is async, and nothing awaits it; write a plain def, or a generator"),
        (later_batches, "later_batches ({file}:*): it is async, and nothing awaits it"),
        (functools.partial(later), "later ({file}:*): it is async, and nothing awaits it"),
        (LaterLoader(), "LaterLoader.__call__ ({file}:*): it is async, and nothing awaits it"),
        (
            hidden(rows),
            "hidden.<locals>.wrapper ({file}:*): parameter 'args': nothing fills *args; name each upstream that the "
            "function reads (where a decorator hides them, write @functools.wraps(function) in it)",
        ),
        (Loader, "Loader is no function; write @model.execute above a def"),
        (dict, "dict is no function; write @model.execute above a def"),
        (classmethod(rows), "is no function; write @model.execute above a def"),
        (None, "None is no function; write @model.execute above a def"),
        (Loader.rows, "Loader.rows ({file}:*): parameter 'self': nothing could fill it"),
        (functools.partial(with_option), "with_option ({file}:*): parameter 'limit': nothing could fill it"),
        (max, "max: its parameters cannot be read; write a def that calls it"),
        (endless, "endless ({file}:*): its parameters cannot be read; write a def that calls it"),
        (len, "len: parameter 'obj': parameters are filled by name; remove the '/'"),
    ],
)
def test_what_nothing_could_call_is_refused(function: Any, message: str) -> None:
    made = model("raw.flights")
    with pytest.raises(DefinitionError) as caught:
        made.execute(function)
    said = re.sub(r"(test_model_function\.py):\d+", r"\1:*", str(caught.value))
    assert message.format(file=FILE) in said
    assert made.function is None


def swapped(unit: Upstream) -> None: ...


def test_a_reserved_parameter_is_never_an_upstream() -> None:
    with pytest.raises(DefinitionError, match=r"parameter 'unit': it is reserved \(run, unit, model, conn, context\)"):
        model().execute(swapped)


def test_a_name_is_found_however_its_accents_are_typed() -> None:
    apart, together = "re\u0301sume\u0301", "r\u00e9sum\u00e9"
    made = model(f"raw.{apart}")
    made.execute(lambda résumé: None)
    assert [(parameter.name, parameter.inferred) for parameter in made.parameters] == [(together, False)]
    quoted = f'"raw"."{apart}"'
    assert made.ref(together) == made.ref(apart) == quoted
    assert model(f"raw.{apart}", query=f"TABLE {{{together}}}").render_query() == f"TABLE {quoted}"
