"""The workloads of the field and files as users write them: they run and are right, and are advised as their
docstrings promise."""

from __future__ import annotations

import ast
import ctypes
import json
import math
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, call

import numpy as np
import pytest
from every import every
from fakes import job
from field import EVERY, EXAMPLES, SMALL, Concluded, example_part, missing, profiled
from running import FILES, REPOSITORY

from advisor import kernel
from advisor.errors import WorkloadError
from advisor.measure.backends import open_backend
from advisor.measure.frames import Ranges
from advisor.measure.placed_workload import place
from advisor.measure.reference import reference
from advisor.profiles import reading
from advisor.profiles.schema import Measured, Profile
from advisor.workloads.kernels import BLOCK, Kernel, as_scalar
from advisor.workloads.loading import load
from tests.forking import run_forked

_PRELUDE = """
#include <algorithm>
#include <cmath>
#include <cstddef>
#define __global__
using std::min; using std::max;
struct Dim3 { unsigned x, y, z; };
static Dim3 gridDim, blockDim, blockIdx, threadIdx;
template <class T> T atomicAdd(T* at, T value) { T before = *at; *at += value; return before; }
"""
_RUN = """
extern "C" void run_PLACE(const unsigned* grid, const unsigned* block, PARAMETERS) {
    gridDim = {grid[0], grid[1], grid[2]}; blockDim = {block[0], block[1], block[2]};
    for (blockIdx.z = 0; blockIdx.z < grid[2]; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid[1]; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < grid[0]; ++blockIdx.x)
    for (threadIdx.z = 0; threadIdx.z < block[2]; ++threadIdx.z)
    for (threadIdx.y = 0; threadIdx.y < block[1]; ++threadIdx.y)
    for (threadIdx.x = 0; threadIdx.x < block[0]; ++threadIdx.x)
        NAME(ARGUMENTS);
}
"""


def emulator(directory: Path, launches: Counter[str]) -> Callable[..., None]:
    """Stands in for `Kernel.__call__`: takes NumPy arrays, and counts launches by kernel."""

    @cache
    def compiled(kernel: Kernel) -> ctypes.CDLL:
        path, parameters = directory / f"{kernel.name}-{id(kernel)}", kernel._signature.parameters
        run = _RUN.replace("PARAMETERS", ", ".join(parameter.text for parameter in parameters))
        run = run.replace("ARGUMENTS", ", ".join(parameter.name for parameter in parameters))
        program = _PRELUDE + kernel._source.text + run.replace("NAME", kernel.name)
        path.with_suffix(".cpp").write_text(program, encoding="utf-8")
        command = ["g++", "-O1", "-shared", "-fPIC", "-fwrapv", "-o", f"{path}.so", f"{path}.cpp"]
        subprocess.run(command, check=True)
        return ctypes.CDLL(f"{path}.so")

    def launch(
        kernel: Kernel, *arguments: Any, size: Any = None, grid: Any = None, block: Any = BLOCK
    ) -> None:
        threads = kernel._extent("block", block)
        blocks = kernel._extent("grid", grid) if grid else kernel._blocks(arguments, size, threads)
        given: list[Any] = [(ctypes.c_uint * 3)(*(*extents, 1, 1)[:3]) for extents in (blocks, threads)]
        for index, (parameter, argument) in enumerate(
            zip(kernel._signature.parameters, arguments, strict=True)
        ):
            if parameter.pointer:
                pointee = parameter.dtype
                assert pointee in (None, argument.dtype) or pointee.itemsize == argument.itemsize == 1
                given.append(ctypes.c_void_p(argument.ctypes.data))
            else:
                number = as_scalar(kernel._signature, index, argument)
                given.append(np.ctypeslib.as_ctypes_type(number.dtype)(number.item()))
        compiled(kernel).run_PLACE(*given)
        launches[kernel.name] += 1

    return launch


UNIFORM_ON_ONE_DRAM = {"zero-copy", "zero-copy-wc", "zero-copy-registered", "managed", "managed-prefetch"}


READ_OF_A = {"vector_add": 4000, "reread": 5 * 20000, "matrix_multiply": 3 * 96 * 96 * 4}


@pytest.mark.parametrize("name", SMALL)
def test_it_runs_and_is_right(name: str, tmp_path: Path) -> None:
    if missing(name):
        pytest.skip(missing(name) or "")
    forks = name == "pinned_across_processes"  # not the tests' own process, which has others' threads
    make = partial(in_a_process, tmp_path) if forks else profiled
    profile = make(name, *SMALL[name], targets=["rtx-4090"])
    assert all(isinstance(row, Measured) and row.verified for row in profile.results), profile.results
    assert not any("different results" in note for note in profile.notes)
    assert profile.predictions[0].recommendation is not None or profile.workload.gpus > 1
    assert {advice.outcome for advice in profile.advice} <= {"advice", "pass", "not-applicable"}
    read = sum(each.bytes_read for each in profile.traffic.traffic if each.buffer == "a")
    assert read == READ_OF_A.get(name, read)


def in_a_process(directory: Path, *given: str, **options: object) -> Profile:
    """As `profiled`, in a process that is forked from one with PyTorch."""
    asked = str(directory), json.dumps(given), json.dumps(options)
    code = run_forked("field", *asked, output=directory / "log", libraries=",torch")
    assert code == 0, (directory / "log").read_text(encoding="utf-8")
    return reading.load(directory / "saved.json")


PARTS = ("Source", "Question", "Must advise", "Must not")


def test_the_page_of_workloads_says_what_their_docstrings_say() -> None:
    page = (REPOSITORY / "docs" / "workloads.md").read_text(encoding="utf-8")
    sections = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    assert sorted(sections) == sorted(SMALL) == sorted(path.stem for path in EXAMPLES.glob("*.py"))
    for name, section in sections.items():
        said = [f"- **{part}**: {text}" if part in PARTS else text for part, text in said_by(name).items()]
        assert " ".join(section.split()) == " ".join(said)
        question = said_by(name)["Question"]
        assert f"| [`{name}`](#{name}) | {question[0].upper()}{question[1:]} |" in page


def said_by(name: str) -> dict[str, str]:
    """What a docstring says first, under "", and its parts by name; on one line each."""
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))
    text = " ".join((ast.get_docstring(tree) or "").split())
    pieces = re.split(rf" ({'|'.join(PARTS)}): ", text)
    return {"": pieces[0], **dict(zip(pieces[1::2], pieces[2::2], strict=True))}


# What they must and must not be advised


Case = tuple[str, ...]
"""An example, a device, and assignments."""
TALK = ("vector_add", "xavier-nx", "n=2**22", "fill_in_frame=false")
SMALL_PRODUCT, PRODUCT = (("matrix_multiply", "rtx-2060", n) for n in ("n=32", "n=256"))
READS_ON_NANO, READS_ON_ORIN = (("host_reads_back", name, "n=2**20") for name in ("nano", "orin-nano"))
OUTPUT_ON_ORIN, OUTPUT_ON_CARD = (("mapped_output", name, "n=2**22") for name in ("orin-nano", "rtx-4090"))
TURNS_ON_ORIN, TURNS_ON_CARD = (("solver_turns", name) for name in ("orin-nano", "rtx-4090"))
SPARSE, FULL = ("sparse_access", "rtx-4090", "rows=256"), ("sparse_access", "rtx-4090", "rows=64", "share=1")
RATIOS: list[tuple[Case, str, str, float, float]] = [
    (TALK, "pageable", "managed", 4.5, 10),  # 6.5 in the talk, which times copies and kernel alone
    (TALK[:3], "pageable", "managed", 0, 4),  # fills in the frame hide what memory gains
    (SMALL_PRODUCT, "zero-copy", "pinned", 0, 0.8),
    (PRODUCT, "zero-copy", "pinned", 1.2, math.inf),
    (PRODUCT, "managed", "pinned", 1.5, math.inf),
    (READS_ON_NANO, "pinned", "managed", 5, math.inf),  # the CPU's uncached reads
    (READS_ON_ORIN, "zero-copy", "managed", 0, 1.1),
    (OUTPUT_ON_CARD, "zero-copy", "pinned", 0, 1.25),
    (TURNS_ON_CARD, "managed", "pinned", 1, math.inf),  # by how much depends on the CPU time that was traced
    (SPARSE, "pinned", "zero-copy", 5, math.inf),
    (FULL, "pinned", "zero-copy", 0, 1.2),
]


@every(("case", "strategy", "other", "low", "high"), RATIOS)
def test_a_strategy_takes_so_many_times_as_long(
    case: Case, strategy: str, other: str, low: float, high: float
) -> None:
    assert low < Concluded(*case).times(strategy, other) < high


RULES: list[tuple[Case, str, str | set[str]]] = [
    (TALK, "zero-copy-reread", "pass"),
    (("reread", "nano", "n=2**16", "passes=64"), "zero-copy-reread", {"managed"}),
    (("reread", "nano", "n=2**16", "passes=1"), "zero-copy-reread", "pass"),
    (PRODUCT, "zero-copy-reread", "advice"),
    (("streaming", "rtx-4090"), "hidden-host-copy", {"zero-copy-registered"}),
    (OUTPUT_ON_ORIN, "duplicate-allocation", UNIFORM_ON_ONE_DRAM),
    (OUTPUT_ON_CARD, "zero-copy-reread", "not-applicable"),
    *((("strided_reads", device), "zero-copy-reread", "advice") for device in ("rtx-4090", "orin-nano")),
    *(
        (("strided_reads", device, "coalesced=true"), "zero-copy-reread", "pass")
        for device in ("rtx-4090", "orin-nano")
    ),
    (TURNS_ON_ORIN, "pageable-transfer", UNIFORM_ON_ONE_DRAM),
    (("weights_reuse", "rtx-4090", "outputs=1024"), "zero-copy-reread", "advice"),
    (("weights_reuse", "orin-nano", "outputs=1024"), "zero-copy-reread", "pass"),
    (SPARSE, "zero-copy-reread", "pass"),
    (("debayer_resize", "rtx-4090"), "pageable-transfer", "advice"),
]


@every(("case", "rule", "expected"), RULES)
def test_a_rule_says_so(case: Case, rule: str, expected: str | set[str]) -> None:
    """Its outcome, or the strategies of which it advises one."""
    advice = Concluded(*case).says(rule)
    assert advice.outcome == expected if isinstance(expected, str) else advice.strategy in expected


@every(
    ("case", "strategies"),
    [
        (TALK, UNIFORM_ON_ONE_DRAM),
        (READS_ON_NANO, {"managed", "managed-prefetch"}),
        (SPARSE, {"zero-copy", "zero-copy-wc", "zero-copy-registered"}),
        (("streaming", "rtx-4090"), {"registered", "zero-copy-registered"}),
        (TURNS_ON_CARD, {name for name in EVERY if not name.startswith("managed")}),
    ],
)
def test_one_of_these_is_recommended(case: Case, strategies: set[str]) -> None:
    assert Concluded(*case).recommended in strategies


def test_an_external_image_is_copied_by_the_host_whatever_memory_it_goes_to() -> None:
    rows = Concluded("streaming", "rtx-4090").rows
    copied = {name for name, row in rows.items() if row.terms.get("host-copy")}
    assert {"pinned", "zero-copy", "managed"} <= copied
    assert not copied & {"pageable", "registered", "zero-copy-registered"}


def test_overlapping_camera_frames_gives_most_of_them_and_registering_the_soonest() -> None:
    """What is best hangs on what is asked for: an overlapped frame is not done any sooner."""
    card = Concluded("streaming", "rtx-4090")
    assert f"{card.recommended} is as fast" in card.says("serial-copies").detail
    most = Concluded("streaming", "rtx-4090", objective="throughput")
    assert min(most.rows, key=lambda name: most.rows[name].likely_seconds) == "pinned-pipelined"
    overlapped = card.rows["pinned-pipelined"]
    assert overlapped.latency_seconds is not None
    assert overlapped.latency_seconds > overlapped.likely_seconds


def test_turns_cannot_overlap() -> None:
    assert "between frames" in Concluded(*TURNS_ON_ORIN).skipped["pinned-pipelined"]


def test_what_is_read_again_is_named_and_nothing_else() -> None:
    advice = Concluded("weights_reuse", "rtx-4090", "outputs=1024").says("zero-copy-reread")
    assert "weights: the same data in each frame" in advice.detail
    assert not any(evidence.label.startswith("reads of x") for evidence in advice.evidence)
    size = ("width=1152", "height=822", "small_width=200", "small_height=150")
    stencil = Concluded("debayer_resize", "orin-nano", *size).says("zero-copy-reread").detail
    assert [part in stencil for part in ("raw: 7.00 times", "rgb", " 0 s of it")] == [True, False, False]


# The parts they share


def test_opencv_debayers_and_resizes_alike() -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    bayer = example_part("parts/bayer")
    raw = np.random.default_rng(3).integers(0, 256, (33, 46), np.uint8)
    results = []
    for library in (bayer.cv2, None):
        bayer.cv2 = library
        rgb, small = np.zeros((33, 46, 3), np.uint8), np.zeros((12, 16, 3), np.uint8)
        bayer.debayer(raw, rgb)
        bayer.resize(rgb, small)
        results.append((rgb, small.astype(int)))
    (rgb, small), (our_rgb, our_small) = results
    np.testing.assert_array_equal(rgb, our_rgb)
    assert rgb.any()
    assert np.abs(small - our_small).max() <= 1


def test_onnx_runtime_labels_alike() -> None:
    for library in ("onnx", "onnxruntime"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    profile = profiled("inference", "batch=12", "engine=onnxruntime")
    assert all(isinstance(row, Measured) and row.verified for row in profile.results)
    assert {t.source for t in profile.traffic.traffic if t.stage == "classify"} == {"assumed"}


@pytest.mark.parametrize(
    ("missing_module", "workload", "message", "step"),
    [
        ("onnxruntime", ("inference", "batch=12", "engine=onnxruntime"), "onnxruntime", "[onnx]"),
        ("torch", ("dataloader", "batch=8"), "PyTorch", "[torch]"),
        ("none", ("inference", "batch=12", "engine=fast"), "fast", ""),
        ("none", ("flag_polling", "polls=262145"), "polls", ""),
    ],
)
def test_what_an_example_cannot_do_is_named(
    missing_module: str, workload: tuple[str, ...], message: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing_module, None)
    monkeypatch.delitem(sys.modules, "parts.pytorch", raising=False)
    with pytest.raises(WorkloadError, match=message) as raised:
        profiled(*workload)
    assert step in raised.value.next_step


def gpu_runtime(monkeypatch: pytest.MonkeyPatch, *providers: str) -> tuple[ModuleType, MagicMock]:
    """inference.py's engine beside an ONNX Runtime that has these providers, and how its session is made."""
    runtime = MagicMock()
    runtime.get_available_providers.return_value = list(providers)
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    monkeypatch.setitem(sys.modules, "onnx", MagicMock())
    return example_part("parts/onnx_engine"), runtime.InferenceSession


SHAPES, STREAM = {"images": (2, 1, 28, 28)}, SimpleNamespace(ptr=77)


@pytest.mark.parametrize(
    ("engine", "provider"), [("auto", "CUDA"), ("onnxruntime", "CUDA"), ("tensorrt", "Tensorrt")]
)
def test_on_a_gpu_the_runtime_uses_the_program_s_stream_and_addresses(
    engine: str, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, made = gpu_runtime(monkeypatch, "TensorrtExecutionProvider", "CUDAExecutionProvider")
    session = parts.open_session(engine, STREAM, SHAPES)
    ((chosen, options),) = made.call_args.kwargs["providers"]
    assert (chosen, options["user_compute_stream"]) == (f"{provider}ExecutionProvider", "77")
    placed = SimpleNamespace(
        device=SimpleNamespace(id=1), dtype=np.dtype("f4"), shape=(2,), data=SimpleNamespace(ptr=640)
    )
    parts.run(session, placed, images=placed)
    described = ("cuda", 1, np.float32, (2,), 640)
    binding = session.io_binding.return_value
    assert binding.bind_input.call_args_list == [call("images", *described)]
    assert binding.bind_output.call_args_list == [call("labels", *described)]
    session.run_with_iobinding.assert_called_once_with(binding)


def test_a_runtime_without_a_gpu_leaves_the_work_to_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, made = gpu_runtime(monkeypatch, "CPUExecutionProvider")
    assert parts.open_session("auto", STREAM, SHAPES) is None
    assert parts.open_session("auto", None, SHAPES) is made.return_value
    assert made.call_args.kwargs["providers"] == [("CPUExecutionProvider", {})]
    assert parts.open_session("arrays", None, SHAPES) is None
    with pytest.raises(WorkloadError, match="no TensorrtExecutionProvider") as raised:
        parts.open_session("tensorrt", STREAM, SHAPES)
    assert "onnxruntime-gpu" in raised.value.next_step


# Their kernels, as C++


CASES = [
    ("mapped_output", {}, {"ramp"}),
    ("strided_reads", {}, {"sum_fields"}),
    ("strided_reads", {"coalesced": "true"}, {"sum_fields"}),
    ("flag_polling", {}, {"wait_and_count"}),
    ("debayer_resize", {"small_width": "17"}, {"debayer", "resize"}),
]


needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@needs_compiler
@pytest.mark.parametrize(("name", "more", "kernels"), CASES)
def test_a_kernel_does_what_its_twin_does(
    name: str, more: dict[str, str], kernels: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches: Counter[str] = Counter()
    monkeypatch.setattr(Kernel, "__call__", emulator(tmp_path, launches))
    path, parameters = EXAMPLES / f"{name}.py", dict(given.split("=") for given in SMALL[name]) | more
    loaded = load(path, None, parameters)
    frame = tuple(replace(stage, stage=replace(stage.stage, cpu=None)) for stage in loaded.bound.frame)
    without_twins = replace(loaded, bound=replace(loaded.bound, frame=frame))
    asked = job(task="reference", file=str(path), reference=str(tmp_path / "results"), assignments=parameters)
    backend = open_backend("cpu", 0)
    run = reference(asked, backend, lambda again=False: place(asked, without_twins, backend, Ranges()))
    assert not run.unlike
    assert set(launches) == kernels


@needs_compiler
def test_debayering_is_exact(tmp_path: Path) -> None:
    """The workload's check, of the resized image, lets a difference of one pass."""
    raw = np.random.default_rng(5).integers(0, 256, (33, 46), np.uint8)
    ours, expected = np.zeros((2, 33, 46, 3), np.uint8)
    debayer = kernel(str(EXAMPLES / "parts" / "bayer.cu"), "debayer")
    emulator(tmp_path, Counter())(debayer, raw, ours, 46, 33, grid=(3, 3), block=(16, 16))
    example_part("parts/bayer").debayer(raw, expected)
    np.testing.assert_array_equal(ours, expected)


# Files as users write them


def verified(file: str, *given: str, **options: Any) -> Profile:
    profile = profiled(f"{FILES}/{file}", *given, **options)
    assert [row.strategy for row in profile.results] == ["pageable", "zero-copy"]
    assert all(isinstance(row, Measured) and row.verified for row in profile.results), profile.results
    return profile


def moved(profile: Profile, strategy: str) -> tuple[int, int]:
    total = profile.measured()[strategy].transfer_bytes
    return total["to-device"], total["to-host"]


def test_state_stays_on_the_device() -> None:
    profile = verified("counter.py", "n=100", "step=0.5", rounds=2)
    assert (moved(profile, "pageable"), profile.notes) == ((0, 800), ())
    assert profile.workload.parameters == {"n": 100, "step": 0.5}


def test_weights_go_up_once_and_scratch_memory_never_moves() -> None:
    profile = verified("camera.py")
    pixels = 64 * 48
    assert moved(profile, "pageable") == (2 * pixels, 48 * 4)  # image and mask go up, sums come back
    assert moved(profile, "zero-copy") == (0, 0)
    row = profile.measured()["zero-copy"]
    assert row.host_copy_seconds  # the camera's image is not where kernels reach it
    assert profile.measured()["pageable"].host_copy_seconds is None
    assert row.footprint.physical_bytes == 2 * pixels + pixels + 4 * pixels + 4 * pixels + 48 * 4
    assert set(row.stage_seconds) == {"capture", "weigh", "add_rows", "show"}


def test_a_kernel_without_a_twin_needs_its_passes() -> None:
    profile = profiled(FILES / "raw_kernel.py", targets=["rtx-4090"])
    assert {row.status for row in profile.results} == {"skipped"}
    sources = {each.stage: each.source for each in profile.traffic.traffic if each.buffer == "a"}
    assert (sources["twice"], sources["produce"]) == ("declared", "traced")
    assert profile.predictions[0].recommendation is not None
    assert any("CPU twin" in note for note in profile.notes)
    with pytest.raises(WorkloadError) as raised:
        profiled(FILES / "raw_kernel.py", "declared=false", targets=["rtx-4090"])
    assert "CPU twin" in raised.value.next_step
