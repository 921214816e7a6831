"""Programs that are wrong, each named with stage, buffer and line; right ones are accepted.

Every case is the body of the device stage `compute`, or an edit of the whole file.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from field import Checked, Unmeasured
from rendering import Accepted, refusals
from running import REPOSITORY, cpu_settings

from advisor import pipeline
from advisor.errors import WorkloadError
from advisor.measure.launcher import Launcher
from advisor.measure.progress import Silent
from advisor.profiles.schema import Profile

PROGRAM = """\
import numpy as np
from advisor import Buffer, In, InOut, Out, Workload, device, host, workload

TABLE = np.linspace(0, 1, 256, dtype=np.float32)
CACHE = {}


@workload
def program(n: int = 256, dtype: str = "f4") -> Workload:
    own = np.empty(n, np.float32)

    def produce(image: Out, frame: int) -> None:
        image[...] = np.arange(n).astype(dtype) + np.ones(1).astype(dtype) * frame

    def compute(xp, image: In, result: Out, rng, frame: int) -> None:
        BODY

    def use(result: In) -> None:
        result.sum()

    buffers = {"image": Buffer(n, dtype), "result": Buffer(n, np.float32)}
    return Workload(buffers, frame=[host(produce), device(compute), host(use)])
"""
CHECKED = Checked()
LINE = 1 + PROGRAM[: PROGRAM.index("BODY")].count("\n")
Edit = tuple[str, str]


def body(text: str, *edits: Edit, frames: str = "f4") -> tuple[Edit, ...]:
    """The device stage, other edits of the file, and the type of what it gets."""
    return (("BODY", text), ('"f4")', f'"{frames}")'), *edits)


def produced(text: str) -> tuple[Edit, ...]:
    """What a host stage makes, in a file with state of its own and a neighbour's."""
    made = "image[...] = np.arange(n).astype(dtype) + np.ones(1).astype(dtype) * frame"
    seen = "    program.function.seen = getattr(program.function, 'seen', 0)\n    counts = [0]\n    own ="
    return body(
        DOUBLED, (made, text), ("CACHE = {}", "import helper\nCACHE = {}\nSEEN = 0\n"), ("    own =", seen)
    )


DOUBLED = "xp.multiply(image, 2, out=result)"
KEPT = ("CACHE = {}", 'KEPT = {"sum": [np.zeros(2)]}'), ("np.empty(n", "np.zeros(n")
WRONG: dict[str, tuple[Edit, ...]] = {
    "scipy": body("from scipy import ndimage; result[...] = ndimage.laplace(image)"),
    "constant": body("xp.multiply(image, TABLE, out=result)"),
    "out": body("np.multiply(image, 2, out=own); result[...] = 0"),
    "assigned": body("result[...] = TABLE"),
    "missing": body("xp.multiply(image, xp.spacing(image), out=result)"),
    "keyword": body("result.fill(xp.sum(image, where=image > 0))"),
    "objects": body("xp.array([None]); result[...] = image"),
    "raises in the first frame": body("xp.add(image, 1, out=result, dtype='i1')"),
    "raises in a later frame": body("result[...] = image; frame == 1 and 1 / 0"),
    "raises in what it calls": body("(lambda x: x.missing.part)(frame); result[...] = 0"),
    "raises in set-up": body(
        DOUBLED,
        ("frame=[", "setup=[host(first)], frame=["),
        ("    buffers = {", "    def first(image: Out): image[...] = np.ones(3)\n\n    buffers = {"),
    ),
    "no such function": body("xp.multiplyy(image, 2, out=result)"),
    "no such method": body("result.fil(1)"),
    "a download": body("image.get()"),
    "time units": body("result[...] = (image - image[0]) / np.timedelta64(1, 's')", frames="m8[s]"),
    "converted from another byte order": body("result[...] = image.astype('f4')", frames=">f4"),
    "assigned from long double": body("result[...] = image", frames="g"),
    "writes an array": body("result[...] = image; own[3] = 1 + frame", *KEPT),
    "writes a global": body("result[...] = image; TABLE.sort(); TABLE[frame] += 2", *KEPT),
    "writes in containers": body("result[...] = image; KEPT['sum'][-1][...] = frame + 1", *KEPT),
    "writes by address": body(
        "import ctypes; result[...] = image; ctypes.memset(own.ctypes.data, 1 + frame, 4)", *KEPT
    ),
    "state in a number": produced("global SEEN; SEEN += 1; image[...] = SEEN"),
    "state in an array": produced("TABLE[:] += 1; image[...] = TABLE[:1]"),
    "state in a function": produced("program.function.seen += 1; image[...] = program.function.seen"),
    "state in a neighbour": produced("image[...] = helper.step()"),
}
SPARE = ("buffers = {", 'buffers = {"spare": Buffer(1 << 26, "f4"), ')
SCRATCH = (
    "    return Workload(buffers, frame=[",
    '    buffers["spare"] = Buffer(n, "f4", scratch=True)\n'
    "    def more(spare: Out): spare.fill(1); spare.sum()\n"
    "    return Workload(buffers, frame=[device(more), ",
)
ADDED = "xp.multiply(image, 2 + frame, out=result)"
RIGHT: dict[str, tuple[Edit, ...]] = {
    "a cache": body("result[...] = image * CACHE.setdefault(xp.__name__, xp.asarray(TABLE))"),
    "random numbers": body("result[...] = image + xp.asarray(rng.random(n), dtype=image.dtype)"),
    "asks what it is": body("result[...] = (xp if hasattr(xp, 'RawKernel') else np).sqrt(image)"),
    "scalars": body("result[...] = image; result -= result.min(); result /= max(float(result.max()), 1)"),
    "a kernel": body(
        "result[...] = image if xp is np else xp.ElementwiseKernel('T x', 'T y', 'y = x', 'copy')(image)"
    ),
    "a loop of a library's own, whose arithmetic is unknown": body(
        "from scipy import ndimage; result[...] = xp.asarray(ndimage.median_filter(xp.asnumpy(image), 3)) "
        "if hasattr(xp, 'asnumpy') else ndimage.median_filter(image, 3)"
    ),
    "a log": produced("CACHE.setdefault('log', []).append(frame); image[...] = frame"),
    "a table": produced("image[...] = CACHE.setdefault('table', np.arange(n)) + frame"),
    "state of the workload": produced("counts[0] += 1; image[...] = counts[0]"),
    "state from the first frame": produced(
        "global SEEN; SEEN = 0 if frame == 0 else SEEN + 1; image[...] = SEEN"
    ),
    "NaN": body("result[...] = image; result[3] = np.nan"),
    "NaN in a later frame": body("result[...] = image; result[3] = np.nan if frame == 1 else 0"),
    "infinity": body("result[...] = image; result[3] = np.inf"),
    "a buffer without a stage": body(ADDED, SPARE),
    "a stage that does nothing": body(ADDED, ("result.sum()", "pass")),
    "an unused parameter": body(ADDED, ("dtype: str", "unused: int = 3, dtype: str")),
    "an unused buffer": body(ADDED, ("def use(result: In)", "def use(image: In, result: In)")),
    "a result that nothing reads": body(ADDED, (", host(use)", "")),
    "scratch": body(ADDED, SCRATCH),
    "a check": body(ADDED, (", host(use)]", "], check=lambda result: True")),
    "a use by a function": body(ADDED, ("result.sum()", "(lambda: result)().sum()")),
}


@pytest.fixture(autouse=True)
def _without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a worker: a program that imports CuPy itself is not judged, and another test may have done so."""
    monkeypatch.delitem(sys.modules, "cupy", raising=False)


def profiled(folder: Path, edits: Sequence[Edit], launcher: Launcher = CHECKED) -> Profile:
    text = PROGRAM
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    file = folder / "program.py"
    file.write_text(text, encoding="utf-8")
    (folder / "helper.py").write_text(
        "COUNT = 0\ndef step():\n    global COUNT\n    COUNT += 1\n    return COUNT\n"
    )
    sys.modules.pop("helper", None)
    settings = cpu_settings(file, targets=["rtx-4090"], max_seconds=60.0)
    return pipeline.profile(settings, Silent(), keep_in=folder, launcher=launcher)


def test_what_fails_under_cupy_or_differs_is_named_with_stage_line_and_buffer(
    tmp_path: Path, accepted: Accepted
) -> None:
    calls = {name: partial(profiled, tmp_path, edits) for name, edits in WRONG.items()}
    accepted(refusals(calls).replace(f"{tmp_path}/", ""), "programs-refused.txt")


def test_what_is_right_is_predicted_and_what_looks_forgotten_is_noted(
    tmp_path: Path, accepted: Accepted
) -> None:
    """Without a recommendation, the reasons of all strategies."""
    said = []
    for name, edits in RIGHT.items():
        profile = profiled(tmp_path, edits)
        assert {row.verified for row in profile.measured().values()} == {True}
        (prediction,) = profile.predictions
        reasons = {getattr(row, "reason", "") for row in prediction.results}
        notes = profile.notes if prediction.recommendation else (*profile.notes, *reasons)
        said += [name, *(f"  {text}" for text in notes)]
    accepted("\n".join(said) + "\n", "programs-accepted.txt")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("torch.from_numpy(result).fill_(frame)", "PyTorch takes NumPy arrays"),
        ("compiled(image, result)", "Numba compiles this function for the CPU"),
    ],
)
def test_a_library_that_takes_numpy_arrays_alone_is_named(text: str, why: str, tmp_path: Path) -> None:
    for library in ("torch", "numba"):
        pytest.importorskip(library)
    head = "import numba, torch\n\n\n@numba.njit\ndef compiled(a, b):\n    b[:] = a[:] + 1\n\n\n"
    with pytest.raises(WorkloadError) as raised:
        profiled(tmp_path, body(text, ("@workload\n", f"{head}@workload\n")))
    line, buffer = LINE + head.count("\n"), "image" if "image" in text else "result"
    assert f" at program.py:{line}, buffer {buffer!r}: {why}" in raised.value.message
    assert raised.value.detail.endswith(text)


def test_a_wait_is_advice_with_a_gain(tmp_path: Path) -> None:
    edits = body("xp.multiply(image, 1 / (1 + float(image.max())), out=result)")
    profile = profiled(tmp_path, edits, launcher=Unmeasured())  # 13 µs are a part of a frame that load hides
    (wait,) = profile.traffic.waits
    assert (wait.stage, wait.line, wait.call, wait.count) == ("compute", f"program.py:{LINE}", "float()", 1)
    (advice,) = [each for each in profile.advice if each.rule == "implicit-wait"]
    assert advice.outcome == "advice"
    assert advice.gain.seconds_per_frame == pytest.approx(13e-6)


def test_neighbours_and_data_are_found_as_python_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`from . import helper`; a data file from the working directory, with a word where it lies elsewhere."""
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/helper.py").write_text("FACTOR = 2\n", encoding="utf-8")
    text = PROGRAM.replace("BODY", "xp.multiply(image, helper.FACTOR, out=result)").replace(
        "TABLE = ", "from . import helper\nTABLE = "
    )
    Path("sub/program.py").write_text(text, encoding="utf-8")
    settings = cpu_settings(Path("sub/program.py"), targets=["rtx-4090"], max_seconds=60.0)
    assert pipeline.profile(settings, Silent(), keep_in=tmp_path, launcher=CHECKED).notes == ()
    Path("sub/program.py").write_text(
        text.replace("np.linspace(0, 1, 256, dtype=np.float32)", 'open("data.txt")'), encoding="utf-8"
    )
    shutil.copy(REPOSITORY / "LICENSE", "sub/data.txt")
    with pytest.raises(WorkloadError) as raised:
        pipeline.profile(settings, Silent(), keep_in=tmp_path, launcher=CHECKED)
    assert "Path(__file__).parent / 'data.txt'" in raised.value.next_step
