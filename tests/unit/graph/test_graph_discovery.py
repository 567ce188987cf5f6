"""Finding models in files."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest
from graph_models import names

from bollhav_provider.graph import Discovery, build_graph, discover

HEAD = "from bollhav_provider.model import Model, Source, Target, Temporality\n"


pytestmark = pytest.mark.usefixtures("own_imports")


def define(name: str, *upstream: str, variable: str | None = None) -> str:
    schema, _, table = name.rpartition(".")
    sources = ", ".join(f"Source({source!r})" for source in upstream)
    return (
        f"{variable or table} = Model(target=Target(schema={schema!r}, name={table!r}), "
        f"temporality=Temporality.TIMELESS, upstream=[{sources}])\n"
    )


def write(folder: Path, **files: str) -> Path:
    """Write files: ``a__b_py`` is ``a/b.py``, ``init_py`` is ``__init__.py``."""
    for name, text in files.items():
        stem, _, ending = name.replace("__", "/").rpartition("_")
        path = folder / f"{'__init__' if stem == 'init' else stem}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return folder


def found(discovery: Discovery) -> list[str]:
    assert not discovery.errors, [str(error) for error in discovery.errors]
    return names(discovery.models)


def test_models_are_found_in_modules_lists_and_dicts(tmp_path: Path) -> None:
    text = (
        HEAD
        + define("s.plain")
        + define("s.one", variable="_one")
        + define("s.two", variable="_two")
        + "several = [_one]\n"
        + "by_name = {'two': _two, 'nested': {'more': ["
        + "Model(target=Target(schema='s', name='deep'), temporality=Temporality.TIMELESS)]}}\n"
        + "pair = (Model(target=Target(schema='s', name='paired'), temporality=Temporality.TIMELESS), 1)\n"
    )
    write(tmp_path / "models", shop_py=text)
    assert found(discover(tmp_path / "models")) == ["s.deep", "s.one", "s.paired", "s.plain", "s.two"]
    assert found(discover(tmp_path / "models" / "shop.py")) == ["s.deep", "s.one", "s.paired", "s.plain", "s.two"]


def test_folders_are_searched_and_hidden_files_left_out(tmp_path: Path) -> None:
    write(
        tmp_path / "models",
        a__b__deep_py=HEAD + define("s.deep"),
        top_py=HEAD + define("s.top"),
        doc_yaml="target: {schema: s, name: doc}\ntemporality: timeless\n---\ntarget: {schema: s, name: doc2}\n",
        other_yml="target: {schema: s, name: other}\n",
    )
    (tmp_path / "models" / ".hidden.py").write_text("raise RuntimeError('never')")
    (tmp_path / "models" / ".git").mkdir()
    (tmp_path / "models" / ".git" / "hook.py").write_text("raise RuntimeError('never')")
    (tmp_path / "models" / "notes.txt").write_text("no model")
    assert found(discover(tmp_path / "models")) == ["s.deep", "s.doc", "s.doc2", "s.other", "s.top"]


def test_each_model_is_found_once_even_when_re_exported(tmp_path: Path) -> None:
    write(
        tmp_path / "models",
        base_py=HEAD + define("s.base"),
        user_py=HEAD + "from models.base import base\nimport models.base\n" + define("s.user", "s.base"),
        init_py="from models.base import base\nfrom models.user import user\neverything = [base, user]\n",
    )
    discovery = discover(tmp_path / "models")
    assert found(discovery) == ["s.base", "s.user"]
    assert not build_graph(discovery.models).errors


@pytest.mark.parametrize("style", ["from models.base import base", "from base import base"])
def test_files_may_import_each_other_by_folder_or_by_name(tmp_path: Path, style: str) -> None:
    write(
        tmp_path / "models",
        base_py=HEAD + define("s.base"),
        a_user_py=HEAD + style + "\n" + define("s.user", "s.base"),
        z_user_py=HEAD + style + "\n" + define("s.other", "s.base"),
    )
    discovery = discover(tmp_path / "models")
    assert found(discovery) == ["s.base", "s.other", "s.user"]
    assert not build_graph(discovery.models).errors


def test_packages_may_import_relatively(tmp_path: Path) -> None:
    write(
        tmp_path / "project_models",
        base_py=HEAD + define("s.base"),
        user_py=HEAD + "from .base import base\nfrom . import base as module\n" + define("s.user", "s.base"),
    )
    assert found(discover(tmp_path / "project_models")) == ["s.base", "s.user"]


def test_two_folders_with_the_same_names_do_not_meet(tmp_path: Path) -> None:
    one = write(
        tmp_path / "one" / "models", base_py=HEAD + define("one.base"), user_py=HEAD + "from base import base\n"
    )
    two = write(
        tmp_path / "two" / "models", base_py=HEAD + define("two.base"), user_py=HEAD + "from base import base\n"
    )
    assert found(discover(one)) == ["one.base"]
    assert found(discover(two)) == ["two.base"]
    assert found(discover(one)) == ["one.base"]


def test_a_file_named_like_a_standard_module_is_no_trouble(tmp_path: Path) -> None:
    import json

    write(tmp_path / "models", json_py=HEAD + define("s.json_table"), calendar_py=HEAD + define("s.calendar"))
    assert found(discover(tmp_path / "models")) == ["s.calendar", "s.json_table"]
    assert sys.modules["json"] is json


def test_a_refused_definition_takes_no_other_of_its_file_with_it(tmp_path: Path) -> None:
    def text(kind: str) -> str:
        return (
            "from bollhav_provider.model import Column\n"
            + HEAD
            + define("s.first")
            + f"\nbad = Model(target=Target(schema='s', name='bad', columns=[Column('a', '{kind}')]))\n"
            + "\n@bad.execute\ndef rows(unit): ...\n\nmore = [bad, rows]\n"
            + "worse = Model(target=Target(schema='s', name='worse', columns=[]), upstreams=[])\n"
            + define("s.last")
        )

    other = HEAD + "from models.shop import last\n" + define("s.other")
    folder = write(tmp_path / "models", shop_py=text("integr"), other_py=other)
    for _ in range(2):  # what is refused is refused again
        discovery = discover(folder)
        assert names(discovery.models) == ["s.first", "s.last", "s.other"]
        assert [{problem.model for problem in error.problems} for error in discovery.errors] == [{"s.bad"}, {"s.worse"}]
        lines = text("integr").splitlines()
        for error, start in zip(discovery.errors, ("bad =", "worse ="), strict=True):
            assert error.line is not None
            assert lines[error.line - 1].startswith(start)
            assert str(error).startswith(f"{folder / 'shop.py'}:{error.line}: ")

    write(folder, shop_py=text("integer"))
    discovery = discover(folder)
    assert names(discovery.models) == ["s.bad", "s.first", "s.last", "s.other"]
    assert len(discovery.errors) == 1


def test_what_was_refused_is_forgotten_with_its_module(tmp_path: Path) -> None:
    def bad(name: str) -> str:
        return HEAD + f"{name} = Model(target=Target(schema='s', name='{name}', columns=[]), upstreams=[])\n"

    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = write(tmp_path / "one" / "models", shop_py=bad("first"))
    two = write(tmp_path / "two" / "models", shop_py=HEAD + define("s.second"))
    assert len(discover(one).errors) == 1
    assert found(discover(two)) == ["s.second"]  # takes the module's name
    write(one, shop_py=HEAD + define("s.first"))
    assert found(discover(one)) == ["s.first"]


def test_behind_a_refused_definition_any_other_error_is_the_files(tmp_path: Path) -> None:
    bad = "bad = Model(target=Target(schema='s', name=''))\n"
    folder = write(tmp_path / "models", shop_py=HEAD + define("s.first") + bad + "print(no_such_name)\n")
    discovery = discover(folder)
    assert not discovery.models
    assert [str(error).rpartition(": ")[2] for error in discovery.errors] == ["name 'no_such_name' is not defined"]


def test_a_broken_file_breaks_only_its_own_models(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "models",
        good_py=HEAD + define("s.good"),
        import_py="import no_such_module_anywhere\n",
        syntax_py=HEAD + "orders = Model(\n",
        value_py=HEAD + "\n\nraise ValueError('the file is empty')\n",
        exit_py="import sys\nsys.exit(3)\n",
        definition_py=HEAD + "\norders = Model(target=Target(schema='s', name=''), upstreams=[])\n",
        uses_py=HEAD + "\nfrom models.value import orders\n",
        good_yaml="target: {schema: s, name: document}\n",
        bad_yaml="target: {schema: s, name: broken}\nqueery: select 1\n",
        worse_yaml="target: [\n",
    )
    discovery = discover(folder)
    assert names(discovery.models) == ["s.document", "s.good"]
    assert [(error.path.name, error.line) for error in discovery.errors] == [
        ("bad.yaml", 2),
        ("definition.py", 3),
        ("exit.py", 2),
        ("import.py", 1),
        ("syntax.py", 2),
        ("uses.py", 3),
        ("value.py", 4),
        ("worse.yaml", 2),
    ]
    text = {error.path.name: str(error) for error in discovery.errors}
    assert text["import.py"] == (
        f"{folder / 'import.py'}:1: ModuleNotFoundError: No module named 'no_such_module_anywhere'"
    )
    assert text["syntax.py"] == f"{folder / 'syntax.py'}:2: SyntaxError: '(' was never closed"
    assert text["value.py"] == f"{folder / 'value.py'}:4: ValueError: the file is empty"
    assert text["exit.py"] == f"{folder / 'exit.py'}:2: SystemExit: 3"
    assert text["uses.py"].startswith(
        f"{folder / 'uses.py'}:3: ValueError: the file is empty ({folder / 'value.py'}:4)"
    )
    assert "upstreams: unknown argument; did you mean 'upstream'?" in text["definition.py"]
    assert text["bad.yaml"].startswith(
        f"{folder / 'bad.yaml'}:2: s.broken: queery: unknown argument; did you mean 'query'?"
    )
    assert {problem.field for problem in discovery.errors[1].problems} >= {"upstreams"}


def test_a_missing_path_is_reported(tmp_path: Path) -> None:
    discovery = discover(tmp_path / "modles")
    assert not discovery.models
    (error,) = discovery.errors
    assert str(error) == f"{tmp_path / 'modles'}: there is no such file or folder; correct the path"


def test_discovering_again_finds_the_same_objects_until_a_file_changes(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "models",
        base_py=HEAD + define("s.base"),
        user_py=HEAD + "import models.base\n",
    )
    first, second = discover(folder), discover(folder)
    assert [id(model) for model in first.models] == [id(model) for model in second.models]
    assert build_graph(first.models) == build_graph(second.models)
    # Same size, same second: only the text is different.
    (folder / "base.py").write_text(HEAD + define("s.bass"))
    assert found(discover(folder)) == ["s.bass"]
    (folder / "base.py").unlink()
    (folder / "user.py").unlink()
    assert found(discover(folder)) == []


def test_what_the_user_imported_is_not_imported_again(tmp_path: Path) -> None:
    folder = write(tmp_path / "my_definitions", base_py=HEAD + define("s.base"))
    sys.path.insert(0, str(tmp_path))
    from my_definitions.base import base  # type: ignore[import-not-found]

    (model,) = discover(folder).models
    assert model is base


def test_two_builds_of_the_same_files_are_equal_in_any_order(tmp_path: Path) -> None:
    files = {
        "a": HEAD + define("s.a", "s.b"),
        "b": HEAD + define("s.b", "s.c"),
        "c": HEAD + define("s.c"),
    }
    graphs = []
    for turn, order in enumerate(("abc", "cab", "bca")):
        folder = tmp_path / str(turn) / "models"
        folder.mkdir(parents=True)
        for position, name in enumerate(order):
            (folder / f"{position}_{name}.py").write_text(files[name])
        graphs.append(build_graph(discover(folder).models))
    assert graphs[0] == graphs[1] == graphs[2]
    assert names(graphs[0].order()) == ["s.c", "s.b", "s.a"]


def test_problems_of_the_graph_name_file_and_line(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "models",
        one_py=HEAD + "\n" + define("s.twin") + define("s.left", "s.right"),
        two_py=HEAD + define("s.twin") + define("s.right", "s.left"),
        three_yaml="# a comment\ntarget: {schema: s, name: reader}\nupstream: [{name: '*.nothing'}]\n",
    )
    graph = build_graph(discover(folder).models)
    text = {problem.model: problem.message for problem in graph.errors}
    assert text["s.twin"] == (
        f"2 models have this target: {folder / 'one.py'}:3 and {folder / 'two.py'}:2; one table is made by one model: "
        "rename or remove"
    )
    assert text["s.left"] == (
        "a cycle, each reads the next: s.left -> s.right -> s.left; remove one of these sources "
        f"({folder / 'one.py'}:4)"
    )
    assert text["s.right"].endswith(f"({folder / 'two.py'}:3)")
    assert text["s.reader"].endswith(f"({folder / 'three.yaml'}:2)")
    assert graph.models == ()


def test_a_dag_file_may_discover_its_own_folder(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "dags",
        factory_py=HEAD
        + define("s.before")
        + "from pathlib import Path\n"
        + "from bollhav_provider.graph import discover\n"
        + "found = [m.full_name for m in discover(Path(__file__).parent).models]\n",
        models_py=HEAD + define("s.orders"),
    )
    assert found(discover(folder)) == ["s.before", "s.orders"]
    module = next(
        module for module in sys.modules.values() if getattr(module, "__file__", None) == str(folder / "factory.py")
    )
    assert module.found == ["s.orders"]


def test_execute_functions_of_yaml_live_beside_it(tmp_path: Path) -> None:
    write(
        tmp_path / "models",
        doc_yaml="target: {schema: s, name: doc}\nupstream: [orders]\nexecute: functions.py:make\n",
        functions_py="def make(orders, unit):\n    return None\n",
    )
    discovery = discover(tmp_path / "models")
    assert found(discovery) == ["s.doc"]
    assert list(build_graph(discovery.models).injection("s.doc")) == ["orders", "unit"]
