"""Programs that are wrong, each named with stage, buffer and line; right ones are accepted.

Every case is the body of the device stage `compute`, or an edit of the whole file.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from field import Checked, Unmeasured
from running import REPOSITORY, Command, cpu_settings

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

WRONG = {
    "scipy": ("from scipy import ndimage; result[...] = ndimage.laplace(image)", "image", "cupyx.scipy"),
    "constant": ("xp.multiply(image, TABLE, out=result)", "image", "xp.asarray"),
    "generator": ("result[...] = image + rng.random(n)", "image", "xp.random"),
    "out": ("np.multiply(image, 2, out=own); result[...] = 0", "", "xp.empty"),
    "assigned": ("result[...] = TABLE", "result", "xp.asarray"),
    "copyto": ("np.copyto(own, image); result.fill(1)", "image", "xp.asarray"),
    "missing": ("xp.multiply(image, xp.spacing(image), out=result)", "", "comparison.html"),
    "method": ("image.setflags(); xp.multiply(image, 2, out=result)", "", "comparison.html"),
    "keyword": ("result.fill(xp.sum(image, where=image > 0))", "image", "a, axis, dtype, out, keepdims"),
    "objects": ("xp.array([None]); result[...] = image", "", "float64"),
    "pointer": ("image.ctypes.data; result[...] = image", "", "comparison.html"),
}
RIGHT = [
    "xp.multiply(image, xp.asarray(TABLE), out=result)",
    "result[...] = image * CACHE.setdefault(xp.__name__, xp.asarray(TABLE))",
    "result[...] = image + xp.asarray(rng.random(n), dtype=image.dtype)",
    "result[...] = xp.where(image > image.mean(), image, 0)",
    "xp.copyto(result, image); result += frame; result[0] = 3; result[1:3] *= 2",
    "np.multiply(image, np.float32(2), out=result)",
    "result[...] = (xp if hasattr(xp, 'RawKernel') else np).sqrt(image)",
    "result[...] = image; result -= result.min(); result /= max(float(result.max()), 1)",
    "result[...] = image if xp is np else xp.ElementwiseKernel('T x', 'T y', 'y = x', 'copy')(image)",
]
LIBRARY = (
    "from scipy import ndimage; result[...] = xp.asarray(ndimage.median_filter(xp.asnumpy(image), 3)) "
    "if hasattr(xp, 'asnumpy') else ndimage.median_filter(image, 3)"
)


@pytest.fixture(autouse=True)
def _without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a worker: a program that imports CuPy itself is not judged, and another test may have done so."""
    monkeypatch.delitem(sys.modules, "cupy", raising=False)


def profiled(
    folder: Path,
    body: str = "xp.multiply(image, 2, out=result)",
    *assignments: str,
    text: str = PROGRAM,
    launcher: Launcher = CHECKED,
) -> Profile:
    file = folder / "program.py"
    file.write_text(text.replace("BODY", body), encoding="utf-8")
    settings = cpu_settings(file, *assignments, targets=["rtx-4090"], max_seconds=60.0)
    return pipeline.profile(settings, Silent(), keep_in=folder, launcher=launcher)


def refusal(folder: Path, *given: str, text: str = PROGRAM) -> WorkloadError:
    with pytest.raises(WorkloadError) as raised:
        profiled(folder, *given, text=text)
    return raised.value


@pytest.mark.parametrize(("body", "buffer", "write"), WRONG.values(), ids=WRONG)
def test_a_stage_that_fails_under_cupy_is_an_error(
    body: str, buffer: str, write: str, tmp_path: Path
) -> None:
    error = refusal(tmp_path, body)
    named = f", buffer {buffer!r}" if buffer else ""
    assert error.message.startswith("stage 'compute' fails under CuPy ")
    assert f" at program.py:{LINE}{named}: " in error.message
    assert write in error.next_step
    assert error.detail.endswith(body.partition("; ")[0] if ";" not in body else body)
    assert error.exit_code == 3


HERE, BUFFERS = f"stage 'compute' (program.py:{LINE}), frame", "image float32 (256,), result float32 (256,)"
NO_NAME, NO_ARITHMETIC = (
    f"program.py:{LINE}, in compute: neither NumPy nor CuPy has",
    "no arithmetic on arrays of",
)
CONVERSIONS = ("result[...] = image.astype('f4')", "result[...] = image")
REFUSED: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "xp.add(image, 1, out=result, dtype='i1')",
        "f4",
        (f"{HERE} 0: UFuncTypeError", f"; buffers: {BUFFERS}"),
    ),
    ("result[...] = image; frame == 1 and 1 / 0", "f4", (f"{HERE} 1: ZeroDivisionError", BUFFERS)),
    ("(lambda x: x.missing.part)(frame); result[...] = 0", "f4", (f"{HERE} 0: AttributeError", BUFFERS)),
    ("xp.multiplyy(image, 2, out=result)", "f4", (f"{NO_NAME} 'multiplyy'; did you mean 'multiply'?",)),
    ("result.fil(1)", "f4", (f"{NO_NAME} 'fil'; did you mean 'fill'?",)),
    ("image.get()", "f4", ("cpu=numpy_function",)),
    ("result[...] = (image - image[0]) / np.timedelta64(1, 's')", "m8[s]", (f"{NO_ARITHMETIC} timedelta64",)),
    *((body, dtype, (NO_ARITHMETIC,)) for dtype in (">f4", "g", "m8[s]") for body in CONVERSIONS),
)


@pytest.mark.parametrize(("body", "dtype", "parts"), REFUSED)
def test_an_error_names_stage_line_frame_and_buffers_or_the_name_that_was_meant(
    body: str, dtype: str, parts: tuple[str, ...], tmp_path: Path
) -> None:
    error = refusal(tmp_path, body, f"dtype={dtype}")
    assert [part for part in parts if part not in f"{error.message}\n{error.next_step}"] == []


def test_an_error_in_set_up_says_so(tmp_path: Path) -> None:
    text = PROGRAM.replace("frame=[", "setup=[host(first)], frame=[").replace(
        "    buffers = {", "    def first(image: Out): image[...] = np.ones(3)\n\n    buffers = {"
    )
    with pytest.raises(WorkloadError, match=r"stage 'first' \(program.py:\d+\), set-up: ValueError"):
        profiled(tmp_path, text=text)


@pytest.mark.parametrize(
    ("body", "array"),
    [
        ("result[...] = image; own[3] = 1 + frame", "own"),
        ("result[...] = image; TABLE.sort(); TABLE[frame] += 2", "TABLE"),
        ("result[...] = image; KEPT['sum'][-1][...] = frame + 1", "KEPT['sum'][0]"),
        ("import ctypes; result[...] = image; ctypes.memset(own.ctypes.data, 1 + frame, 4)", "own"),
    ],
)
def test_a_device_stage_that_writes_a_host_array_is_named(body: str, array: str, tmp_path: Path) -> None:
    text = PROGRAM.replace("CACHE = {}", 'KEPT = {"sum": [np.zeros(2)]}')
    text = text.replace("np.empty(n", "np.zeros(n")
    message = refusal(tmp_path, body, text=text).message
    assert message.startswith("device stage 'compute' (program.py:")
    assert f"writes the NumPy array {array}, float" in message


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("torch.from_numpy(result).fill_(frame)", "PyTorch takes NumPy arrays"),
        ("compiled(image, result)", "Numba compiles this function for the CPU"),
    ],
)
def test_a_library_that_takes_numpy_arrays_alone_is_named(body: str, why: str, tmp_path: Path) -> None:
    for library in ("torch", "numba"):
        pytest.importorskip(library)
    head = "import numba, torch\n\n\n@numba.njit\ndef compiled(a, b):\n    b[:] = a[:] + 1\n\n\n"
    message = refusal(tmp_path, body, text=PROGRAM.replace("@workload\n", f"{head}@workload\n", 1)).message
    line = LINE + head.count("\n")
    buffer = "image" if "image" in body else "result"
    assert f" at program.py:{line}, buffer {buffer!r}: {why}" in message


_STATE = {
    "a number": ("global SEEN; SEEN += 1; image[...] = SEEN", "'SEEN'"),
    "an array": ("TABLE[:] += 1; image[...] = TABLE[:1]", "'TABLE'"),
    "a function": ("program.function.seen += 1; image[...] = program.function.seen", "'program.seen'"),
    "a neighbour": ("image[...] = helper.step()", "'COUNT'"),
}


@pytest.mark.parametrize(("line", "name"), _STATE.values(), ids=_STATE)
def test_a_global_that_frames_change_is_named_where_results_follow_it(
    line: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "helper.py").write_text(
        "COUNT = 0\ndef step():\n    global COUNT\n    COUNT += 1\n    return COUNT\n"
    )
    with pytest.raises(WorkloadError) as raised:
        _with_state(line, tmp_path)
    assert f"frames change the global {name}, and" in raised.value.message
    assert "buffer 'result' differs from frame 0 on" in raised.value.message


@pytest.mark.parametrize(
    "line",
    [
        "CACHE.setdefault('log', []).append(frame); image[...] = frame",
        "image[...] = CACHE.setdefault('table', np.arange(n)) + frame",
        "counts[0] += 1; image[...] = counts[0]",
        "global SEEN; SEEN = 0 if frame == 0 else SEEN + 1; image[...] = SEEN",
    ],
)
def test_state_that_no_result_follows_is_accepted(line: str, tmp_path: Path) -> None:
    assert _with_state(line, tmp_path).notes == ()


def _with_state(line: str, folder: Path) -> Profile:
    text = PROGRAM.replace("image[...] = np.arange(n).astype(dtype) + np.ones(1).astype(dtype) * frame", line)
    text = text.replace("CACHE = {}", "import helper\nCACHE = {}\nSEEN = 0\n").replace(
        "    own =",
        "    program.function.seen = getattr(program.function, 'seen', 0)\n    counts = [0]\n    own =",
    )
    (folder / "helper.py").touch()
    sys.modules.pop("helper", None)  # another test's
    return profiled(folder, text=text)


@pytest.mark.parametrize(
    ("body", "notes"),
    [
        ("result[...] = image; result[3] = np.nan", ["'result' has NaN from frame 0 on"]),
        (
            "result[...] = image; result[3] = np.nan if frame == 1 else 0",
            ["'result' has NaN from frame 1 on"],
        ),
        ("result[...] = image; result[3] = np.inf", []),
    ],
)
def test_nan_in_results_is_told(body: str, notes: list[str], tmp_path: Path) -> None:
    profile = profiled(tmp_path, body)
    assert len(profile.notes) == len(notes)
    assert all(part in note for part, note in zip(notes, profile.notes, strict=True))
    assert {row.verified for row in profile.measured().values()} == {True}


@pytest.mark.parametrize("body", RIGHT)
def test_right_ones_are_accepted(body: str, tmp_path: Path) -> None:
    assert profiled(tmp_path, body).predictions[0].recommendation is not None


def test_a_library_s_own_loop_is_accepted_and_its_arithmetic_is_asked_for(tmp_path: Path) -> None:
    told = profiled(tmp_path, LIBRARY).predictions[0]
    assert told.recommendation is None
    assert all("arithmetic is unknown" in row.reason for row in told.results)  # type: ignore[union-attr]


def test_a_wait_is_advice_with_a_gain(tmp_path: Path) -> None:
    body = "xp.multiply(image, 1 / (1 + float(image.max())), out=result)"
    profile = profiled(tmp_path, body, launcher=Unmeasured())  # 13 µs are a part of a frame that load hides
    (wait,) = profile.traffic.waits
    assert (wait.stage, wait.line, wait.call, wait.count) == ("compute", f"program.py:{LINE}", "float()", 1)
    (advice,) = [each for each in profile.advice if each.rule == "implicit-wait"]
    assert advice.outcome == "advice"
    assert advice.gain.seconds_per_frame == pytest.approx(13e-6)


@pytest.mark.parametrize(
    ("old", "new", "notes"),
    [
        ("buffers = {", 'buffers = {"spare": Buffer(1 << 26, "f4"), ', ["'spare'", "256 MiB", "footprint"]),
        ("result.sum()", "pass", ["'use' does nothing"]),
        ("dtype: str", "unused: int = 3, dtype: str", ["'unused'"]),
        ("def use(result: In)", "def use(image: In, result: In)", ["'use' takes buffer 'image'"]),
        (", host(use)", "", ["'result'", "never read"]),
        (
            "    return Workload(buffers, frame=[",
            '    buffers["spare"] = Buffer(n, "f4", scratch=True)\n'
            "    def more(spare: Out): spare.fill(1); spare.sum()\n"
            "    return Workload(buffers, frame=[device(more), ",
            [],
        ),
        (", host(use)]", "], check=lambda result: True", []),
        ("result.sum()", "(lambda: result)().sum()", []),
    ],
)
def test_what_looks_forgotten_is_noted(old: str, new: str, notes: list[str], tmp_path: Path) -> None:
    assert old in PROGRAM
    body, text = "xp.multiply(image, 2 + frame, out=result)", PROGRAM.replace(old, new)
    told = profiled(tmp_path, body, text=text).notes
    assert len(told) == bool(notes)
    assert all(word in told[0] for word in notes)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "n=0"], ["'image'", "(0,)", "n=0"]),
        (["--set", "n=10**12"], ["'image'", "(1000000000000,)", "float32"]),
        (["--sweep", "n=1..1000000000000"], ["--sweep n=", "'image'"]),
    ],
)
def test_a_size_that_cannot_be_is_told_before_anything_runs(
    arguments: list[str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PROGRAM.replace("BODY", "xp.multiply(image, 2, out=result)").replace(
        "own = np.empty", "own = np.empty if n else np.ones"
    )
    Path("program.py").write_text(
        text.replace("own = np.empty if n else np.ones(n, np.float32)", ""), encoding="utf-8"
    )
    said = Command(monkeypatch, capsys)("profile", "program.py", "--no-gpu", *arguments)
    assert (said.code, said.out) == (3, "")
    assert all(word in "\n".join(said.error) for word in words), said.error
    assert not Path("advisor-report").exists()


def test_neighbours_and_data_are_found_as_python_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`from . import helper`; a data file from the working directory, with a word where it lies elsewhere."""
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/helper.py").write_text("FACTOR = 2\n", encoding="utf-8")
    body = "xp.multiply(image, helper.FACTOR, out=result)"
    text = PROGRAM.replace("BODY", body).replace("TABLE = ", "from . import helper\nTABLE = ")
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
