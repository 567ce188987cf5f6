"""Which grains may be joined, directly and through views."""

from __future__ import annotations

import pytest
from graph_models import model, names, only_problem, timeless, view

from bollhav_provider.graph import build_graph
from bollhav_provider.model import Model, Source, UpstreamContract

EXISTS, EXACT, ENCAPSULATE, THROUGH, WHOLE = UpstreamContract
DAILY, HOURLY, MONTHLY = "@daily", "@hourly", "@monthly"


def up(contract: UpstreamContract | None, name: str = "raw.source") -> Source:
    return Source(name, contract=contract)


@pytest.mark.parametrize("contract", [None, EXISTS, EXACT, ENCAPSULATE, THROUGH, WHOLE])
@pytest.mark.parametrize(
    ("mine", "theirs", "tz", "equal"),
    [
        (DAILY, DAILY, "UTC", True),
        (DAILY, "0 0 * * *", "UTC", True),
        (HOURLY, HOURLY, "Europe/Stockholm", True),
        (DAILY, HOURLY, "UTC", False),
        (HOURLY, DAILY, "UTC", False),
        (DAILY, DAILY, "Europe/Stockholm", False),
        (MONTHLY, DAILY, "UTC", False),
    ],
)
def test_between_models_with_windows(
    contract: UpstreamContract | None, mine: str, theirs: str, tz: str, equal: bool
) -> None:
    graph = build_graph([model("mart.reader", up(contract), chunk=mine), model("raw.source", chunk=theirs, tz=tz)])
    assert (not graph.errors) == (equal or contract in (EXISTS, ENCAPSULATE, THROUGH, WHOLE))


@pytest.mark.parametrize(
    ("reader", "source", "message"),
    [
        (
            model("mart.reader", up(EXACT), chunk=DAILY),
            model("raw.source", chunk=HOURLY),
            "'raw.source' has windows of @hourly in UTC and this model windows of @daily in UTC; with 'exact' "
            "both must be "
            "equal: write contract='encapsulate' to wait until the window is covered in whatever grain",
        ),
        (
            model("mart.reader", up(None), chunk=DAILY),
            model("raw.source", chunk=HOURLY),
            "'raw.source' has windows of @hourly in UTC and this model windows of @daily in UTC; without a "
            "contract both "
            "must be equal: write contract='encapsulate' to wait until the window is covered in whatever grain",
        ),
        (
            timeless("mart.reader", up(None)),
            model("raw.source", chunk=DAILY),
            "a timeless model reads 'raw.source', which has windows, without a contract; write contract='whole' "
            "to wait for "
            "all of them, or 'exists' to take what is there",
        ),
        (
            timeless("mart.reader", up(ENCAPSULATE)),
            model("raw.source", chunk=DAILY),
            "a timeless model reads 'raw.source', which has windows, with 'encapsulate'; write contract='whole' "
            "to wait for "
            "all of them, or 'exists' to take what is there",
        ),
        (
            model("mart.reader", up(THROUGH), chunk=DAILY),
            timeless("raw.source"),
            "'through' asks for windows of 'raw.source', which is timeless and has none; write contract='whole' "
            "or 'exists'",
        ),
        (
            model("mart.reader", up(EXACT), chunk=DAILY),
            model("raw.source", chunk=DAILY, flexible=True),
            "'exact' asks 'raw.source' for a grain that it does not keep, because it is flexible and its rows "
            "are joined; "
            "write contract='encapsulate'",
        ),
    ],
)
def test_a_mismatch_says_what_to_write(reader: Model, source: Model, message: str) -> None:
    graph = build_graph([reader, source])
    assert only_problem(graph) == ("mart.reader", "upstream['raw.source']", message)
    assert names(graph.models) == ["raw.source"]


@pytest.mark.parametrize("contract", [None, WHOLE, EXISTS])
def test_a_timeless_upstream_suits_every_grain(contract: UpstreamContract | None) -> None:
    for reader in (model("mart.reader", up(contract), chunk=DAILY), timeless("mart.reader", up(contract))):
        assert not build_graph([reader, timeless("raw.source")]).errors


def test_a_flexible_upstream_is_read_by_coverage() -> None:
    source = model("raw.source", chunk=HOURLY, flexible=True)
    for contract in (None, ENCAPSULATE, THROUGH, WHOLE):
        assert not build_graph([model("mart.reader", up(contract), chunk=DAILY), source]).errors


def test_an_inferred_upstream_needs_an_equal_grid() -> None:
    reader = model("mart.reader", chunk=DAILY)

    @reader.execute
    def make(source: "Upstream") -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037

    assert not build_graph([reader, model("mart.source", chunk=DAILY)]).errors
    assert (
        "without a contract both must be equal"
        in only_problem(build_graph([reader, model("mart.source", chunk=HOURLY)]))[2]
    )


def test_views_do_not_hide_a_mismatch() -> None:
    models = [
        model("mart.reader", up(None, "mart.outer"), chunk=DAILY),
        view("mart.outer", "mart.inner"),
        view("mart.inner", "raw.source", "ref.names"),
        timeless("ref.names"),
    ]
    assert not build_graph([*models, model("raw.source", chunk=DAILY)]).errors
    graph = build_graph([*models, model("raw.source", chunk=HOURLY)])
    assert only_problem(graph) == (
        "mart.reader",
        "upstream['mart.outer']",
        "the view 'mart.outer' (alias 'outer') reads 'raw.source': 'raw.source' has windows of @hourly in UTC and this "
        "model windows of @daily in UTC; without a contract both must be equal: write contract='encapsulate' "
        "to wait until "
        "the window is covered in whatever grain, for instance beside the view: "
        "Source('raw.source', contract='encapsulate')",
    )
    timeless_reader = build_graph(
        [timeless("mart.reader", "mart.outer"), *models[1:], model("raw.source", chunk=DAILY)]
    )
    assert (
        "a timeless model reads 'raw.source', which has windows, without a contract" in only_problem(timeless_reader)[2]
    )


def test_a_source_of_its_own_says_how_what_is_behind_a_view_is_waited_for() -> None:
    graph = build_graph(
        [
            model("mart.reader", up(None, "mart.view"), up(ENCAPSULATE), chunk=DAILY),
            view("mart.view", "raw.source"),
            model("raw.source", chunk=HOURLY),
        ]
    )
    assert not graph.errors


def test_a_view_may_read_any_grains() -> None:
    graph = build_graph(
        [
            view("mart.view", "raw.source", "raw.other"),
            model("raw.source", chunk=HOURLY),
            model("raw.other", chunk=DAILY),
        ]
    )
    assert not graph.errors


def test_a_relation_of_another_pipeline_is_not_judged() -> None:
    assert not build_graph([timeless("mart.reader", up(EXACT, "other.thing"))]).errors


def test_a_long_chain_of_views_is_linear() -> None:
    models = [model("raw.source", chunk=HOURLY), view("s.v0000", "raw.source")]
    models += [view(f"s.v{n:04}", f"s.v{n - 1:04}") for n in range(1, 1000)]
    models += [model("s.reader", "s.v0999", chunk=DAILY)]
    graph = build_graph(models)
    assert "reads 'raw.source'" in only_problem(graph)[2]
