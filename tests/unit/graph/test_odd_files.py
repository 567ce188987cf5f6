"""Definition files as careless and malicious people write them: each is about itself alone."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from graph_models import names

from bollhav_provider.graph import Discovery, build_graph, discover

pytestmark = pytest.mark.usefixtures("own_imports")

HEAD = """\
from bollhav_provider.model import Model, Source, Target

def table(name, *upstream):
    return Model(target=Target(schema="s", name=name), temporality="timeless", upstream=list(upstream))

"""
Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path, request: pytest.FixtureRequest) -> Make:
    """Write definition files, by path below the folder; text that needs no head is given as bytes."""

    def make(files: dict[str, str | bytes]) -> Path:
        folder = tmp_path / re.sub(r"\W+", "_", request.node.name)
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else (HEAD + text).encode())
        return folder

    return make


def said(discovery: Discovery) -> dict[str, str]:
    """What is said of each file, without its folder."""
    found = {}
    for error in discovery.errors:
        place = error.path.name if error.line is None else f"{error.path.name}:{error.line}"
        found[place] = error.message
    return found


def test_models_are_found_in_whatever_holds_them(make: Make) -> None:
    folder = make(
        {
            "a.py": """\
import collections
by_default = collections.defaultdict(list)
by_default["x"].append(table("by_default"))
ordered = collections.OrderedDict(x=table("ordered"))
queue = collections.deque([table("queued")])
some = {table("in_a_set")}
fixed = frozenset([table("in_a_frozen_set")])
Pair = collections.namedtuple("Pair", "one other")
pair = Pair(table("in_a_pair"), 1)
deep = [[[[[[[[{"x": (table("deep"),)}]]]]]]]]
itself = [table("beside_itself")]
itself.append(itself)
many = list(range(100_000))
"""
        }
    )
    discovery = discover(folder)
    assert not discovery.errors
    assert [name.removeprefix("s.") for name in names(discovery.models)] == [
        *("beside_itself", "by_default", "deep", "in_a_frozen_set", "in_a_pair", "in_a_set", "ordered", "queued")
    ]


def test_a_file_may_end_in_any_way(make: Make) -> None:
    folder = make(
        {
            "a.py": b"import sys\nsys.exit('bye')\n",
            "b.py": b"import asyncio\nraise asyncio.CancelledError()\n",
            "c.py": b"class Own(BaseException): pass\n\nraise Own('way')\n",
            "d.py": b"import pytest\npytest.skip('not here', allow_module_level=True)\n",
            "e.py": b"def forever(): forever()\nforever()\n",
            "f.py": b"class Silent(Exception):\n    def __str__(self): raise ValueError\n\nraise Silent\n",
            "good.py": "good = table('good')\n",
        }
    )
    discovery = discover(folder)
    assert names(discovery.models) == ["s.good"]
    found = said(discovery)
    assert list(found) == ["a.py:2", "b.py:2", "c.py:3", "d.py:2", "e.py:1", "f.py:4"]
    assert found["a.py:2"] == "SystemExit: bye"
    assert found["b.py:2"] == "CancelledError"
    assert found["c.py:3"] == "Own: way"
    assert found["d.py:2"].startswith("Skipped: not here")
    assert found["e.py:1"].startswith("RecursionError")
    assert found["f.py:4"] == "Silent"


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "ImportTimeout"])
def test_an_interrupt_and_a_time_limit_are_about_the_caller(make: Make, error: str) -> None:
    folder = make({"a.py": f"class ImportTimeout(BaseException): pass\n\nraise {error}\n"})
    raised = None
    try:
        discover(folder)
    except BaseException as exc:
        raised = type(exc).__name__
    assert raised == error


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (b"x = (\n", 1, "SyntaxError: '(' was never closed"),
        (b"x = 1\n  y = 2\n", 2, "IndentationError: unexpected indent"),
        (b"\tx = 1\n        y = 2\n", 1, "IndentationError: unexpected indent"),
        (b"x = '\xff'\n", 1, "SyntaxError: (unicode error)"),
        (b"x = '\x00'\n", None, "SyntaxError: source code string cannot contain null bytes"),
        (b"# -*- coding: nonsense -*-\n", None, "SyntaxError: unknown encoding: nonsense"),
        (b"from __future__ import magic\n", 1, "SyntaxError: future feature magic is not defined"),
        (b"x = " + b"(" * 500 + b")" * 500, 1, "SyntaxError: too many nested parentheses"),
        (b"return 1\n", 1, "SyntaxError: 'return' outside function"),
    ],
)
def test_text_that_is_no_python_is_reported(make: Make, text: bytes, line: int | None, message: str) -> None:
    discovery = discover(make({"a.py": text, "good.py": "good = table('good')\n"}))
    assert names(discovery.models) == ["s.good"]
    (error,) = discovery.errors
    # Later Pythons say the line of a NUL byte, too.
    assert error.line == line or (line is None and error.line == 1)
    assert error.message.startswith(message)


def test_files_that_import_each_other(make: Make) -> None:
    folder = make({"a.py": "", "b.py": ""})
    package = folder.name
    make(
        {
            "a.py": f"import {package}.b\none = table('one')\n",
            "b.py": f"import {package}.a\nother = table('other', 'one')\n",
            "c.py": f"from {package}.d import y\nx = table('x')\n",
            "d.py": f"from {package}.c import x\ny = table('y')\n",
        }
    )
    discovery = discover(folder)
    assert names(discovery.models) == ["s.one", "s.other"]
    assert list(said(discovery)) == ["c.py:6", "d.py:6"]
    assert all("cannot import name" in text for text in said(discovery).values()), said(discovery)


def test_files_of_one_name_in_several_folders(make: Make) -> None:
    folder = make(
        {
            "a/base.py": "x = table('ax')\n",
            "b/base.py": "x = table('bx')\n",
            "a/user.py": "from .base import x\nuser = table('au', 'ax')\n",
            "b/user.py": "from .base import x\nuser = table('bu', 'bx')\n",
            "b/deeper/user.py": "from ..base import x\nfrom ...a import base\nuser = table('cu', 'bx')\n",
        }
    )
    discovery = discover(folder)
    assert not discovery.errors
    assert names(discovery.models) == ["s.au", "s.ax", "s.bu", "s.bx", "s.cu"]
    assert not build_graph(discovery.models).errors


def test_a_file_that_another_one_imported_is_read_again_when_it_changes(make: Make) -> None:
    folder = make({"a_user.py": "", "z_base.py": "x = table('first')\n"})
    make({"a_user.py": f"import {folder.name}.z_base\n"})
    assert names(discover(folder).models) == ["s.first"]
    make({"z_base.py": "x = table('the_second')\n"})
    assert names(discover(folder).models) == ["s.the_second"]


def test_a_proxy_is_left_alone(make: Make) -> None:
    text = """\
class Proxy:
    @property
    def __class__(self):
        raise RuntimeError("outside of any context")

proxy, good = Proxy(), table("good")
"""
    assert names(discover(make({"a.py": text})).models) == ["s.good"]


def test_what_files_print_does_not_reach_the_output(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    discover(make({"a.py": "print('{\"models\": []}')\n"}))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "models" in captured.err


def test_a_file_that_leaves_the_working_folder_takes_nobody_along(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make({"a.py": "import os\nos.chdir('/')\n", "b.py": "good = table('good')\n"})
    monkeypatch.chdir(folder.parent)
    discovery = discover(folder.name)
    assert names(discovery.models) == ["s.good"]
    assert Path.cwd() == folder.parent


@pytest.mark.skipif(sys.platform == "win32", reason="has neither pipes nor links of this kind")
def test_what_is_no_file_is_left_out_and_links_to_nowhere_are_reported(make: Make) -> None:
    folder = make({"good.py": "good = table('good')\n"})
    os.mkfifo(folder / "pipe.py")
    os.mkfifo(folder / "pipe.yaml")
    (folder / "folder.py").mkdir()
    (folder / "nowhere.py").symlink_to(folder / "gone.py")
    (folder / "loop.yaml").symlink_to(folder / "loop.yaml")
    (folder / "again").symlink_to(folder, target_is_directory=True)
    discovery = discover(folder)
    assert names(discovery.models) == ["s.good"]
    assert [error.path.name for error in discovery.errors] == ["loop.yaml", "nowhere.py"]


def test_a_definition_that_is_changed_behind_its_back_breaks_only_itself(make: Make) -> None:
    folder = make(
        {
            "a.py": "model = table('a')\nmodel.target.name = 'b'\n",
            "b.py": "model = table('b')\nmodel.enabled = False\n",
            "c.py": "class Loose(Model, extra='allow'): pass\n",
            "good.py": "good = table('good')\n",
        }
    )
    discovery = discover(folder)
    assert names(discovery.models) == ["s.good"]
    assert list(said(discovery)) == ["a.py:7", "b.py:7", "c.py:6"]


def test_a_broken_function_is_reported_on_its_line(make: Make) -> None:
    folder = make(
        {"a.py": "model = table('a')\n\n@model.execute\nasync def rows(unit, day: int): ...\n", "b.yaml": b"x: [}\n"}
    )
    discovery = discover(folder)
    assert not discovery.models
    found = said(discovery)
    assert "it is async" in found["a.py:8"]
    assert "parameter 'day': nothing could fill it" in found["a.py:8"]
    assert {problem.model for problem in discovery.errors[0].problems} == {"s.a"}


def test_the_execute_file_of_a_document_may_end_in_any_way(make: Make) -> None:
    folder = make(
        {
            "a.yaml": b"target: {schema: s, name: a}\nexecute: functions/exits.py:rows\n",
            "b.yaml": b"target: {schema: s, name: b}\nexecute: functions/good.py:rows\n",
            "functions/exits.py": b"import sys\nsys.exit(1)\n",
            "functions/good.py": b"def rows(unit): return 1\n",
        }
    )
    discovery = discover(folder)
    assert names(discovery.models) == ["s.b"]
    assert "'functions/exits.py' cannot be imported: SystemExit: 1" in said(discovery)["a.yaml:2"]
    # A changed file of functions is read again, as any other.
    (folder / "functions" / "good.py").write_bytes(b"def rows(unit): return 2\n")
    (model,) = discover(folder).models
    assert model.function is not None
    assert model.function(None) == 2
