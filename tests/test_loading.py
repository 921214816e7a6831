"""Loading a user's file with values for its parameters: every way it can be wrong has one clear message."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Literal, Union

import pytest
from every import every
from rendering import Accepted, refusals
from running import asked, missing

from advisor import pipeline
from advisor.errors import WorkloadError
from advisor.measure.processes import WORKERS
from advisor.workloads.definition import Definition, workload
from advisor.workloads.loading import Loaded, load, user_traceback
from advisor.workloads.outline import imported_early, is_script, targets
from advisor.workloads.parameters import parse_assignments, resolve
from advisor.workloads.starters import template

if TYPE_CHECKING:
    from nowhere import Something  # type: ignore[import-not-found]

HEAD = """\
import numpy as np
from advisor import Buffer, In, Out, Workload, device, host, workload

def produce(a: Out): a.fill(1)
"""
RETURN = 'return Workload({"a": Buffer(n, np.float32)}, frame=[host(produce)])'
ONE = f'{HEAD}\n@workload\ndef one(n: int = 4):\n    """The first."""\n    {RETURN}\n'
TWO = f'{ONE}\n@workload\ndef two(n: int = 4):\n    """The second.\n\n    At length."""\n    {RETURN}\n'


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def written(folder: Path, text: str, name: str = "sample.py") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(dedent(text), encoding="utf-8")
    return path


def refused(path: Path, name: str | None = None, **settings: str) -> WorkloadError:
    with pytest.raises(WorkloadError) as raised:
        load(path, name, settings)
    assert raised.value.next_step
    assert "advisor/loading.py" not in raised.value.detail
    return raised.value


def test_a_workload_is_loaded_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, ONE)
    (tmp_path / "elsewhere").mkdir()
    names = {"elsewhere": "sample.py", "..": f"{tmp_path.name}/sample.py", ".": "sample.py"}
    for folder, name in names.items():
        monkeypatch.chdir(tmp_path / folder)
        loaded = load(path, None, {"n": "2**3"})
        assert loaded.record.file == name
    record = loaded.record
    assert (record.name, record.summary) == ("one", "The first.")
    assert record.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert record.parameters == {"n": 8}
    assert record.buffers[0].bytes == 32
    assert [stage.name for stage in record.stages] == ["produce"]
    assert loaded.bound.frame[0].access == {"a": "out"}


def test_the_example_of_the_message_works(tmp_path: Path) -> None:
    path = written(tmp_path, template("minimal.txt"))
    loaded: Loaded = load(path, "double", {})
    assert [stage.side for stage in loaded.bound.frame] == ["host", "device", "host"]


def test_a_syntax_error_shows_its_file_and_line(tmp_path: Path) -> None:
    path = written(tmp_path, "x = 1\ndef f(:\n")
    error = refused(path)
    assert not missing(error.message, str(path), "line 2")
    assert f'File "{path}", line 2' in error.detail
    assert "def f(:" in error.detail
    assert "Traceback" not in error.detail
    written(tmp_path, "def f(:\n", "neighbour_with_error.py")
    error = refused(written(tmp_path, "import neighbour_with_error\n"))
    assert not missing(error.message, "neighbour_with_error.py", "line 1")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("bytes([255]).decode()", "UnicodeDecodeError"),
    ],
)
def test_what_is_raised_on_import_is_shown_as_the_users(tmp_path: Path, line: str, kind: str) -> None:
    path = written(tmp_path, f"# first\n{line}\n")
    error = refused(path)
    assert error.message == f"importing {path} raised {kind}"
    assert str(path) in error.next_step
    lines = error.detail.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{path}", line 2, in <module>'
    assert lines[2].strip() == line
    assert lines[-1].startswith(kind)
    (tmp_path / "link.py").symlink_to(path)
    assert "Traceback" in refused(tmp_path / "link.py").detail


NO_WORKLOAD = {
    "a generator": "def make(): yield 1\nmake = workload(make)",
    "a number": "make = workload(lambda: 3)",
    "nothing": "@workload\ndef one(): pass",
    "a dtype that is none": (
        "from advisor import Buffer, Workload, host\nimport numpy as np\n@workload\ndef make():\n"
        "    return Workload({'good': Buffer(4, 'f4'), 'bad': Buffer(4, 'f33')}, [host(print)])"
    ),
    "an error of ours": "from advisor import host\nhost(print, every=0)",
    "no CuPy": "raise ModuleNotFoundError(name='cupy')",
    "no workload": "x = 1",
}


def test_what_is_no_workload_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accepted: Accepted
) -> None:
    monkeypatch.chdir(tmp_path)
    calls = {}
    for number, (name, text) in enumerate(NO_WORKLOAD.items()):
        path = written(Path(), f"from advisor import workload\n{text}\n", f"file{number}.py")
        calls[name] = partial(load, path, None, {})
    two = written(Path(), TWO)
    for name in (None, "tow", "qqq"):
        calls[f"sample.py::{name}"] = partial(load, two, name, {})
    for missing_file in ("sampel.py", "nowhere/x", "."):
        calls[missing_file] = partial(load, Path(missing_file), None, {})
    for package, file in (("without", "helper.py"), ("camera", "__main__.py")):
        written(Path(package), "x = 1", file)
        calls[f"{package}/"] = partial(targets, package)
    accepted(refusals(calls), "workloads-refused.txt")
    assert load(two, "two", {}).record.name == "two"


@pytest.mark.parametrize("statement", ["exit(2)", "np.zeros(-1)"])
def test_a_workload_function_that_raises(tmp_path: Path, statement: str) -> None:
    path = written(tmp_path, f"{HEAD}\n@workload\ndef one(n: int = 4):\n    {statement}\n")
    error = refused(path)
    assert error.message.startswith("workload 'one' raised ")
    assert error.detail.splitlines()[1] == f'  File "{path}", line 8, in one'


def test_the_traceback_of_a_decorator_beside_the_users_file(tmp_path: Path) -> None:
    """A wrapper that fails before it calls the stage: no frame of the user's file is on the stack."""
    decorator = """\
        import functools
        def checked(function):
            @functools.wraps(function)
            def wrapper(**arguments):
                raise RuntimeError("in the wrapper")
            return wrapper
        """
    written(tmp_path, decorator, "decorators_of_mine.py")
    text = f"from decorators_of_mine import checked\n{ONE}".replace("def produce", "@checked\ndef produce")
    path = written(tmp_path, text)
    function = load(path, None, {}).bound.frame[0].stage.function
    with pytest.raises(RuntimeError) as raised:
        function(a=None)
    shown = user_traceback(raised.value, path).splitlines()
    assert shown[0] == "Traceback (most recent call last):"
    assert shown[1] == f'  File "{tmp_path / "decorators_of_mine.py"}", line 5, in wrapper'
    assert "test_loading" not in "\n".join(shown)


@pytest.mark.parametrize("place", ["loop.py", "package/inner/loop.py"])
def test_a_file_is_a_script_where_what_it_imports_beside_it_uses_cupy(tmp_path: Path, place: str) -> None:
    module = tmp_path / place
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text("import cupy\n")
    main = written(tmp_path, f"from {Path(place).parts[0].removesuffix('.py')} import main\n", "main.py")
    assert is_script(main, None, ())
    module.write_text("import numpy\n")
    assert not is_script(main, None, ())


# What the text of a file says before it runs


@pytest.mark.parametrize(
    ("text", "own", "libraries"),
    [
        ("import torch.nn as nn", "", ["torch"]),
        ("def late():\n    from numba import cuda\n    import torch", "", ["torch", "numba"]),
        ("import numpy\nimport torchvision", "", []),
        ("import os, torch\nos.environ['OMP_NUM_THREADS'] = '1'", "", []),
        ("from os import environ\nimport torch", "", []),
        ("import torch(", "", []),
        ("import torch, numba", "torch.py", ["numba"]),
        ("import torch, numba", "torch/__init__.py", ["numba"]),
    ],
)
def test_slow_libraries_that_a_file_imports(
    text: str, own: str, libraries: list[str], tmp_path: Path
) -> None:
    """A module of the user's own, beside the file, is not the library."""
    if own:
        (tmp_path / own).parent.mkdir(exist_ok=True)
        (tmp_path / own).touch()
    assert imported_early(written(tmp_path, text)) == libraries
    assert imported_early(tmp_path / "none.py") == []


def test_the_process_that_forks_a_run_s_workers_imports_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "workload.py"
    file.write_text("import torch", encoding="utf-8")
    monkeypatch.setattr(pipeline, "fork_server", nullcontext)
    with pipeline._launching(asked(file), None) as launcher:
        assert launcher.server == [*WORKERS, "torch"]


# Parameters: its signature, and what `--set` may say


def typed(annotation: Any, default: Any = None) -> Definition:
    """A workload with one parameter `n` of that annotation; without a default where None is given."""

    def sample(n=default): ...  # type: ignore[no-untyped-def]

    sample.__annotations__["n"] = annotation
    if default is None:
        sample.__defaults__ = ()
    return workload(sample)


def value_of(annotation: Any, text: str) -> Any:
    return resolve(typed(annotation), {"n": text})["n"]


@workload
def sample(n: int = 4, scale: float = 0.5, fast: bool = True, mode: str = "a") -> None: ...


def test_defaults_and_settings() -> None:
    assert resolve(sample, {}) == {"n": 4, "scale": 0.5, "fast": True, "mode": "a"}
    given = parse_assignments(["n=8", " mode = b "])
    assert resolve(sample, given) == {"n": 8, "scale": 0.5, "fast": True, "mode": "b"}


UNIONS: tuple[Any, ...] = (int | float, Union[int, float], Union[float, int])  # noqa: UP007
ONE_OF: Any = Literal["small", 16, "2**3", True]
VALUES: list[tuple[Any, dict[str, Any]]] = [
    (int, {"4096": 4096, "-3": -3, "0": 0, "1_000": 1000, "1e6": 1_000_000, "1E6": 1_000_000, "1.5e3": 1500}),
    (int, {"2**24": 1 << 24, "2 ** 24": 1 << 24, "2**60": 1 << 60, "10**18": 10**18}),
    (int, {"1<<20": 1 << 20, "3<<2": 12, "1<<62": 1 << 62}),
    (float, {"0.5": 0.5, "1e-3": 1e-3, "2**3": 8.0, "-1": -1.0, "1e6": 1e6, "7": 7.0}),
    (bool, {"true": True, "false": False, "1": True, "0": False, "no": False, "on": True}),
    (str, {text: text for text in ("", "2**24", "1e6", " x", "nan", "true")}),
    *((union, {"2**3": eight, "0.5": 0.5}) for union, eight in zip(UNIONS, (8, 8, 8.0), strict=True)),
    (int | str, {"4": 4, "auto": "auto"}),
    (ONE_OF, {"small": "small", "16": 16, "2**4": 16, "2**3": "2**3", "True": True}),
]


@every(
    ("annotation", "text", "value"),
    [(kind, text, value) for kind, texts in VALUES for text, value in texts.items()],
)
def test_a_text_is_read_as_its_annotation_says(annotation: Any, text: str, value: Any) -> None:
    result = value_of(annotation, text)
    assert (result, type(result)) == (value, type(value))


HUGE = ("2**9999999999", "1<<9999999999", "999**999", "1000000**7")
WRONG: list[tuple[Any, tuple[str, ...]]] = [
    (int, ("", "1.5", "x", "1e-3", "1.25e1", "1,2", "nan", "inf", "2**-1", "0x10", "true")),
    (float, ("nan", "inf", "-inf", "1e999")),
    (bool, ("2",)),
    (ONE_OF, ("17",)),
    *((union, ("x",)) for union in UNIONS),
    *((kind, HUGE) for kind in (int, float, int | float)),
]
"""Absurdly large powers are not even computed."""
UNFILLABLE = (list, list[int], None, int | None, dict, "Missing", Literal[1.5], Literal[None], Any)
MISFITS: list[tuple[Any, Any]] = [
    *((int, 1.5), (int, True), (float, math.nan), (bool, 1), (str, 4), (Literal["a", "b"], "c")),
    (int | float, "x"),
]


def unannotated(default: Any) -> Definition:
    def bare(n=default): ...  # type: ignore[no-untyped-def]

    return workload(bare)


def test_what_is_no_value_is_refused(accepted: Accepted) -> None:
    calls = {f"{kind}, --set n={t}": partial(value_of, kind, t) for kind, texts in WRONG for t in texts}
    for texts in (["n=4", "n=5"], ["n=\x1b[31m"], ["n"], ["=4"], ["a b=4"], ["4=4"], [""]):
        calls[f"--sweep {texts}"] = partial(parse_assignments, texts, "--sweep")
    accepted(refusals(calls), "values-refused.txt")


def test_what_is_no_parameter_is_refused(accepted: Accepted) -> None:
    def stars(*n: int) -> None: ...
    def keywords(**n: int) -> None: ...
    def positional(n: int = 1, /) -> None: ...

    wrong = {f"n: {annotation} = 3": typed(annotation, 3) for annotation in UNFILLABLE}
    wrong |= {f"n: {annotation} = {default!r}": typed(annotation, default) for annotation, default in MISFITS}
    wrong |= {f"n={default!r}": unannotated(default) for default in (3, 0.5, True, "a", [])}
    wrong |= {function.__name__: workload(function) for function in (stars, keywords, positional)}
    calls = {name: partial(resolve, one, {}) for name, one in {**wrong, "n: int": typed(int)}.items()}
    calls["n: int = 1.5, --set n=4"] = partial(resolve, typed(int, 1.5), {"n": "4"})
    for name in ("scal", "qqq"):
        calls[f"--set {name}=1"] = partial(resolve, sample, {name: "1"})
    calls["--set where there is none"] = partial(resolve, workload(lambda: None), {"n": "1"})
    accepted(refusals(calls), "parameters-refused.txt")


def test_an_annotation_for_type_checkers_only_does_not_cost_the_others() -> None:
    @workload
    def sample(n: int = 4) -> Something: ...

    assert resolve(sample, {"n": "8"}) == {"n": 8}
