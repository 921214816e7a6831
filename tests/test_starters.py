"""`advisor new`: what it writes runs unchanged, and nothing is overwritten unasked."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from field import profiled
from rendering import Accepted, refusals
from running import QUICK, REPOSITORY, Command, Said, eventually

from advisor.errors import UsageError
from advisor.measure import observed
from advisor.measure.observed import CallJob, observe
from advisor.measure.processes import start
from advisor.measure.stretches import Stretch, function_at
from advisor.profiles.schema import Profile
from advisor.workloads import starters
from advisor.workloads.loading import load
from tests.forking import server


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are watched in forked processes."""
    monkeypatch.setattr(observed, "start", partial(start, server=server()))


def verified(file: str) -> Profile:
    """Under both strategies of the CPU device, whose results are right."""
    profile = profiled(file, targets=["rtx-4090"], max_seconds=30.0)
    assert {row.verified for row in profile.measured().values()} == {True}
    return profile


def test_the_starter_passes_as_it_is(command: Command) -> None:
    starter = command("new", "deep/my filter.py")
    assert (starter.code, starter.out) == (0, "deep/my filter.py\n")
    assert "next: advisor profile 'deep/my filter.py'" in starter.err
    profile = command("profile", "deep/my filter.py", "--no-gpu", *QUICK)
    assert profile.code == 0, profile.err
    assert profile.out.startswith("my_filter on H200 SXM: predicted")


def test_the_starter_s_check_can_fail(command: Command, tmp_path: Path) -> None:
    starters.write(tmp_path / "w.py")
    text = (tmp_path / "w.py").read_text()
    (tmp_path / "w.py").write_text(text.replace("image * weights, axis", "image * weights * 2, axis"))
    profile = command("profile", "w.py", "--no-gpu")
    assert (profile.code, "check" in profile.err) == (3, True)


def test_an_example_can_be_copied_and_loaded(tmp_path: Path) -> None:
    """An installed package has the examples inside."""
    first, *_ = starters.write(tmp_path / "mine.py", like="vector_add")
    assert first.read_bytes() == (REPOSITORY / "workloads" / "vector_add.py").read_bytes()
    load(first, "vector_add", {})
    _, *parts = starters.write(tmp_path / "sees.py", like="debayer_resize")
    assert [part.relative_to(tmp_path).as_posix() for part in parts] == ["parts/bayer.cu", "parts/bayer.py"]
    assert set(starters.examples()) == {path.stem for path in (REPOSITORY / "workloads").glob("*.py")}
    (tmp_path / "advisor" / "examples").mkdir(parents=True)
    (tmp_path / "advisor" / "examples" / "one.py").touch()
    assert list(starters.examples(tmp_path / "advisor")) == ["one"]


def test_an_existing_file_stays_unless_forced(command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("precious")
    said = command("new", "mine.py")
    assert (said.code, said.error[0]) == (2, "error: mine.py exists")
    assert (tmp_path / "mine.py").read_text() == "precious"
    assert command("new", "mine.py", "--force", "--quiet").err == ""
    assert "@workload" in (tmp_path / "mine.py").read_text()


def test_a_file_and_an_example_that_cannot_be_used_are_refused(command: Command, accepted: Accepted) -> None:
    asked = [["mine.txt"], ["json.py"], ["/proc/mine.py"], ["mine.py", "--like", "vector_sum"], ["v.py", "5"]]
    calls = {f"advisor new {' '.join(words)}": partial(command, "new", *words) for words in asked}
    accepted(re.sub(r"[.]mine[.]py[.]\w+", "…", refusals(calls)), "new-refused.txt")


@pytest.mark.parametrize(
    ("stem", "name"), [("my-filter", "my_filter"), ("class", "workload_class"), ("3d", "workload_3d")]
)
def test_the_function_is_named_like_the_file(stem: str, name: str, tmp_path: Path) -> None:
    starters.write(tmp_path / f"{stem}.py")
    assert load(tmp_path / f"{stem}.py", name, {}).record.name == name


PIPELINE = """\
import sys
import numpy as np

def process(image, weights, out, level=0.5, mode="soft", history=None):
    out[...] = image * weights + level
    weights += 1
    return out > 3, None, out, float(out.sum())

if __name__ == "__main__":
    image = np.arange(12, dtype=np.float32).reshape(*map(int, sys.argv[1:] or "34"))
    for _ in range(2):
        process(image, np.ones_like(image[0]), np.empty_like(image), level=0.25)
"""


def test_a_workload_from_one_call_of_a_function(tmp_path: Path, command: Command) -> None:
    """In another folder than the function, with its script's arguments; it runs unchanged. What is returned
    has a buffer, unless it is an argument."""
    Path("src").mkdir()
    Path("src/pipeline.py").write_text(PIPELINE, encoding="utf-8")
    said = command("new", "w.py", "--from", "src/pipeline.py::process", "--", "4", "3")
    assert (said.code, said.out) == (0, "w.py\nw.npz\n")
    loaded = load(Path("w.py"), None, {})
    record = loaded.record
    assert record.parameters == {"level": 0.25, "mode": "soft"}
    access = {b.name: (b.shape, b.dtype, b.access.get("run")) for b in record.buffers}
    assert access == {
        "image": ((4, 3), "float32", "in"),
        "weights": ((3,), "float32", "inout"),
        "out": ((4, 3), "float32", "out"),
        "result": ((4, 3), "bool", "out"),
        "result_2": ((1,), "float64", "out"),
    }
    verified("w.py")


CALL = "pipeline.py::process"
NO_CALLS = (
    (PIPELINE, "pipeline.py::proces"),
    ("def process(a): ...", CALL),
    (PIPELINE, "pipeline.py"),
    ("import numpy as np\ndef process(frame): ...\nprocess(np.ones(3))", CALL),
    ("def process(): ...\nraise ValueError(3)", CALL),
    ("def process(): exit()\nprocess()", CALL),
    ("def process(): yield 1\nlist(process())", CALL),
    ("class P:\n  def run(self): ...\nP().run()", "pipeline.py::P.run"),
    ("if 1:\n  def process(): ...\nprocess()", CALL),
    ("def process(a): ...\nprocess(a=[1])", CALL),
    ("import numpy as np\ndef process(*a): return a[0]\nprocess(np.ones(3))", CALL),
    ("import numpy as np\ndef process(a, /): ...\nprocess(np.ones(3))", CALL),
    ("def process(n): return n\nprocess(3)", CALL),
    ("def process(a):\n    return a\nprint(1)\n", "pipeline.py:2"),
    ("class A:\n    def f(self):\n        pass\n", "pipeline.py:3"),
    ("for i in range(3):\n    x = 1\n    break\n", "pipeline.py:2"),
    ("x = (\n", "pipeline.py:1"),
    ("import math\nprint(1)\n", "pipeline.py:1"),
    ("for i in range(3):\n    x = missing(i)\n", "pipeline.py:2"),
    ("x = [1]\nfor i in x:\n    y = len(x)\n", "pipeline.py:3"),
)


def test_a_call_and_a_line_that_make_no_workload_are_refused(command: Command, accepted: Accepted) -> None:
    def new(text: str, start: str) -> Said:
        Path("pipeline.py").write_text(text, encoding="utf-8")
        said = command("new", "w.py", "--from", start)
        assert (said.out, [*Path().glob("w*")]) == ("", [])
        return said

    told = {f"--from {start}\n{text.strip()}": partial(new, text, start) for text, start in NO_CALLS}
    accepted(refusals(told), "calls-refused.txt")


TENSORS = """\
import torch

def step(batch, state):
    state += batch
    return torch.relu(batch) * 2

if __name__ == "__main__":
    step(torch.arange(4.0), torch.zeros(4, device="cuda"))
"""


def test_a_function_of_tensors_gets_its_buffers_as_tensors(command: Command) -> None:
    pytest.importorskip("torch")
    Path("relu.py").write_text(TENSORS, encoding="utf-8")
    assert command("new", "w.py", "--from", "relu.py::step").code == 0
    assert {b.name: b.access for b in verified("w.py").workload.buffers} == {
        "batch": {"produce": "out", "run": "in"},
        "state": {"load": "out", "run": "inout"},
        "result": {"run": "out", "use": "in"},
    }
    mixed = TENSORS.replace("torch.arange(4.0),", "__import__('numpy').ones(4, 'f4'),")
    mixed = mixed.replace("+= batch", "+= 1").replace("torch.relu(batch)", "state")
    Path("relu.py").write_text(mixed, encoding="utf-8")
    said = command("new", "v.py", "--from", "relu.py::step")
    assert (said.code, "it has tensors and arrays of other libraries" in said.error[0]) == (2, True)


@pytest.mark.parametrize(
    ("function", "message"),
    [("process", "called process, which had not returned"), ("other", "did not call")],
)
def test_a_call_that_goes_on_is_told_from_none(
    function: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, folders = tmp_path / "slow.py", list[Path]()
    file.write_text("import time\ndef process(): time.sleep(600)\ndef other(): ...\nprocess()\n")

    def begin(job: CallJob, directory: Path, worker: str) -> Any:
        folders.append(directory)
        return start(job, directory, worker, server=server())

    def when_begun(_: object, seconds: float) -> bool:
        assert eventually(lambda: any(folders[0].glob("begun")) or function == "other")
        return False

    monkeypatch.setattr(observed, "start", begin)
    monkeypatch.setattr(observed, "wait", when_begun)
    with pytest.raises(UsageError, match=message):
        observe(file, function, tmp_path / "w.npz", timeout=2.0)


ON_GPU = """\
import numpy as np
try:
    import cupy
except ImportError:
    cupy = np

def step(image, weights, state, out):
    state[...] = state + 1
    out[...] = weights * 2
    return HOST(image)

if __name__ == "__main__":
    import cupy
    there = [cupy.asarray(np.ones(4)) for _ in range(3)]
    step(np.ones(4), *there)
"""


@pytest.mark.parametrize("returned", ["image + 1", "None"])
def test_arrays_on_the_gpu_stay_there(returned: str, tmp_path: Path, command: Command) -> None:
    """They come once, in set-up, and outputs do not go to the host; the inputs of every frame do come."""
    Path("gpu.py").write_text(ON_GPU.replace("HOST(image)", returned), encoding="utf-8")
    assert command("new", "w.py", "--from", "gpu.py::step").code == 0
    profile = verified("w.py")
    access = {b.name: (b.access, b.scratch) for b in profile.workload.buffers}
    result = {} if returned == "None" else {"result": ({"run": "out", "use": "in"}, False)}
    assert access == result | {
        "image": ({"produce": "out", "run": "in"}, False),
        "weights": ({"load": "out", "run": "in"}, False),
        "state": ({"load": "out", "run": "inout"}, False),
        "out": ({"run": "out"}, bool(result)),
    }


LOOP = """\
import cupy
import numpy as np

GAIN = 2.0

def brighten(image, by):
    return image * by

model = cupy.asarray(np.arange(4.0))
total = 0.0
for number in range(3):
    image = np.full(4, 1.0 + number)
    there = cupy.asarray(image)
    there = brighten(there, GAIN) * model
    out = there.get()
    total += float(out[1])
print(total)
"""


HALVES = (
    ("there = brighten(there, GAIN) * model", "there = brighten(there, GAIN)"),
    ("out = there.get()", "out = (there * model).get()"),
)
"""The download computes as well."""
ONE_LINE = (
    *HALVES,
    ("there = cupy.asarray(image)", "pass"),
    ("brighten(there", "brighten(cupy.asarray(image)"),
)


@pytest.mark.parametrize(
    ("line", "changes"), [(13, ()), (15, ()), (13, HALVES), (15, HALVES), (14, ONE_LINE)]
)
def test_a_workload_from_a_line_keeps_on_the_gpu_what_lives_there(
    line: int, changes: tuple[tuple[str, str], ...], tmp_path: Path, command: Command
) -> None:
    """From the upload up to the download, whichever of their lines is named."""
    source = LOOP
    for old, new in changes:
        source = source.replace(old, new)
    stem = f"w{line}_{len(changes)}"  # modules are imported once
    Path("camera.py").write_text(source, encoding="utf-8")
    said = command("new", f"{stem}.py", "--from", f"camera.py:{line}")
    assert (said.code, said.out) == (0, f"{stem}.py\n{stem}_part.py\n{stem}.npz\n")
    profile = verified(f"{stem}.py")
    access = {b.name: b.access for b in profile.workload.buffers}
    assert access["model"] == {"load": "out", "run": "in"}
    assert access["result"] == {"run": "out", "use": "in"}, "the next line downloads it"


def test_what_is_uploaded_keeps_its_place_in_an_expression(tmp_path: Path) -> None:
    file = tmp_path / "camera.py"
    file.write_text("import cupy\nfor a in [1, 2]:\n    b = cupy.asarray(a + 1) * cupy.asarray(a)\n")
    stretch = function_at(file, 3)
    assert isinstance(stretch, Stretch)
    assert "    b = (a + 1) * a\n" in stretch.module
