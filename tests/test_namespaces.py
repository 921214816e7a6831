"""Versions of one's code in one process: their modules, paths and folders never meet."""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from every import every

from advisor.measure import namespaces
from advisor.measure.jobs import Tree
from advisor.measure.namespaces import Namespace, compiled, is_library, is_users, same_folder, users_frame
from advisor.workloads.loading import prepare

WORKLOAD = """\
import numpy as np
from advisor import Buffer, Out, Workload, host, workload
from helpers import WORD

@workload
def told() -> Workload:
    import late
    def write(a: Out) -> None:
        from very_late import NUMBER
        a.fill(NUMBER)
    write.__name__ = WORD + late.WORD
    return Workload({"a": Buffer(1, np.float32)}, frame=[host(write)])
"""


def version(folder: Path, word: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "helpers.py").write_text(f"WORD = {word!r}\n")
    (folder / "late.py").write_text("from helpers import WORD\n")
    (folder / "very_late.py").write_text(f"NUMBER = {len(word)}\n")
    (folder / "w.py").write_text(WORKLOAD)
    return folder / "w.py"


def test_two_versions_of_a_neighbour_do_not_meet(tmp_path: Path) -> None:
    """Nor does what a stage imports when it runs, after the other version imported its own."""
    spaces, made = {word: Namespace() for word in ("old", "newer")}, {}
    before, path = set(sys.modules), list(sys.path)
    for word in (*spaces, *spaces):
        with spaces[word].entered():
            made[word] = prepare(version(tmp_path / word, word), None, {})()
        assert made[word].record.stages[0].name == 2 * word
    for word in ("newer", "old", "newer"):
        with spaces[word].entered():
            made[word].bound.frame[0].stage.function(a=(array := np.zeros(1)))
        assert array == [len(word)]
    old, newer = (space.modules for space in spaces.values())
    assert {"helpers", "late", "very_late"} <= old.keys() & newer.keys()
    assert old["helpers"] is not newer["helpers"]
    assert not {"helpers", "late", "very_late"} & set(sys.modules)
    assert not any(name.startswith("advisor_workload") for name in set(sys.modules) - before)
    assert sys.path == path


def test_libraries_are_shared(tmp_path: Path) -> None:
    space, own = Namespace(), str(tmp_path / "helpers.py")
    with space.entered():
        import colorsys
    assert colorsys.__name__ in sys.modules.keys() - space.modules.keys()
    assert is_library("/opt/ros/lib/python3.10/dist-packages/rclpy/node.py")
    assert (is_library(own), is_users(own)) == (False, True)
    assert not any(map(is_users, ("<string>", np.__file__, os.__file__, namespaces.__file__)))


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A user's checkout with a package on PYTHONPATH, and a worktree of an earlier version of it."""
    for place, word in (("user", "head"), ("base", "base")):
        for name in ("package", "package/inner", "spread/part"):
            (tmp_path / place / "src" / name).mkdir(parents=True)
        for file in ("package/__init__", "package/inner/__init__", "package/deep", "spread/part/there"):
            (tmp_path / place / "src" / f"{file}.py").write_text(f"WORD = {word!r}\n")
        (tmp_path / place / "app").mkdir()
    for new in ("package/new.py", "all_new.py"):
        (tmp_path / "user" / "src" / new).write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "user" / "src"))
    monkeypatch.chdir(tmp_path / "user" / "app")
    folder = same_folder(tmp_path / "user", tmp_path / "base")
    return Tree(user=str(tmp_path / "user"), checkout=str(tmp_path / "base"), folder=str(folder))


NAMES = ("package", "package.inner", "package.deep", "spread.part.there")


def test_installed_code_and_the_working_directory_are_those_of_the_worktree(
    tree: Tree, tmp_path: Path
) -> None:
    base, head = Namespace(tree), Namespace()
    for _ in range(2):
        for space, word in ((head, "head"), (base, "base")):
            with space.entered():
                assert Path.cwd() == tmp_path / ("base" if space is base else "user") / "app"
                assert {importlib.import_module(name).WORD for name in NAMES} == {word}
    assert not any(name in sys.modules for name in NAMES)


def test_what_is_new_in_head_is_not_found_in_base(tree: Tree) -> None:
    for name, message in {"all_new": r"does not contain src/all_new\.py", "package.new": "No module"}.items():
        with Namespace(tree).entered(), pytest.raises(ModuleNotFoundError, match=message):
            importlib.import_module(name)
        with Namespace().entered():
            importlib.import_module(name)


def test_what_was_installed_into_a_folder_of_its_own_is_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As containers have it: pip install --target DIR, with DIR in PYTHONPATH. What lies beside it is not."""
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    listed = ("ranges/__init__.py", f"ranges/_lib{suffix}", "spread/part/one.py", f"fast{suffix}")
    metadata, other = tmp_path / "ranges-1.0.dist-info", tmp_path / "mine.egg-info"
    metadata.mkdir()
    lines = [f"{name},sha256=x,1" for name in (*listed, "../bin/tool")]
    (metadata / "RECORD").write_text("\n".join((*lines, '"ranges-1.0.dist-info/RECORD",,\n')))
    other.mkdir()
    (other / "SOURCES.txt").write_text("mine.py\n")
    others = ("mine.py", "helpers.py", "spread/mine.py", f"own{suffix}", "bin/tool", ".", "../mine.py")
    places = (*listed, "ranges", "spread", "spread/part", *others)
    assert [name for name in places if is_library(str(tmp_path / name))] == [*places[: -len(others)]]

    class Lazy(types.ModuleType):  # libraries have such in sys.modules; asking one imports
        def __getattr__(self, name: str) -> object:
            raise AssertionError(f"asked for {name}")

    monkeypatch.setitem(sys.modules, "lazy_library", Lazy("lazy_library"))
    for name in ("fast", "own"):
        module = type(sys)(name)
        module.__file__ = str(tmp_path / f"{name}{suffix}")
        monkeypatch.setitem(sys.modules, name, module)
    assert compiled() == ("own",)


INSTALLED = "/opt/site-packages/installed.py"


@every(
    ("files", "file"),
    [
        ((np.__file__, INSTALLED, __file__, INSTALLED), __file__),
        ((np.__file__, "<string>", INSTALLED, namespaces.__file__), INSTALLED),
        ((np.__file__, namespaces.__file__), None),
    ],
)
def test_a_line_of_an_installed_workload_is_told_where_no_other_code_of_the_users_runs(
    files: tuple[str, ...], file: str | None
) -> None:
    frame: Any = None
    for name in reversed(files):
        frame = SimpleNamespace(f_code=SimpleNamespace(co_filename=name), f_back=frame)
    found = users_frame(frame)
    assert (found and found.f_code.co_filename) == file
