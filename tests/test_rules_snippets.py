"""The code to copy is run, for one GPU and for several: against stand-ins for the libraries, whose streams do
nothing until waited for, and on GPUs against the libraries."""

from __future__ import annotations

import gc
import re
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
import snippet_fakes
from builders import altered, cuda_device, vector_add_workload
from every import every
from fake_cupy import FakeCudaBindings
from rendering import Accepted
from running import REPOSITORY
from snippet_fakes import WRITE_COMBINED, Gpus, Launch, Memory, computed, launching

from advisor.profiles.schema import BufferRecord, Device, StageRecord, WorkloadRecord
from advisor.rules.snippets.libraries import CUPY, NUMBA, TORCH, Library
from advisor.rules.snippets.writing import Code, overlapping, serial, snippet, variants
from advisor.rules.snippets.writing import code as written
from advisor.strategies.mixes import mix
from advisor.strategies.registry import BASELINE, STRATEGIES, by_name
from advisor.workloads.loading import prepare

NAMES = tuple(s.name for s in STRATEGIES if s.name != BASELINE and not s.several_gpus)
SERIAL = tuple(name for name in NAMES if name != "pinned-pipelined")
ALL = ("CuPy", "PyTorch", "Numba")
ATTACHED, ONCE = ("managed-prefetch",), ("pinned", "pinned-pipelined")
COPYING, IN_PLACE = ("staged", "write-combined"), ("zero-copy", "zero-copy-wc", "managed")
ON_SEVERAL = {"pinned": ALL, "peer": ALL, **dict.fromkeys((*COPYING, *IN_PLACE), ALL[:1])}
"""What has code of its own to copy for several GPUs, by strategy."""
SEVERAL = ("two_gpus_split", "two_gpus_pipeline", "halves_joined")
RESULTS: dict[str, Callable[[int], int]] = {
    "vector_add": lambda frame: 2 * frame + 1,
    "two_gpus_split": lambda frame: 2 * frame + 1,
    "two_gpus_pipeline": lambda frame: frame,
    "halves_joined": lambda frame: (2 * frame + 1) ** 2,
}
"""All numbers that the consumer sees in a frame."""
CONCURRENT = cuda_device("discrete-hmm", concurrent_managed_access=1, pageable_memory_access=1)
JETSON = cuda_device("tegra-io-coherent", concurrent_managed_access=0)


def libraries(monkeypatch: pytest.MonkeyPatch, cuda: Literal[12, 13] = 13) -> Any:
    """CuPy's stand-in, whose `bindings` are those of CUDA; it and the others are imported in their place."""
    module = snippet_fakes.fake_cupy(Gpus())
    runtime = module.bindings = FakeCudaBindings(cuda)
    for name, each in (
        ("cupy", module),
        ("torch", snippet_fakes.fake_torch(module.gpus)),
        ("numba", snippet_fakes.fake_numba(module.gpus)),
        ("cuda", SimpleNamespace(bindings=SimpleNamespace(runtime=runtime))),
        ("cuda.bindings", SimpleNamespace(runtime=runtime)),
    ):
        monkeypatch.setitem(sys.modules, name, each)
    return module


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    return libraries(monkeypatch)


def record(name: str, n: int = 64) -> WorkloadRecord:
    """A workload of the repository; `halves_joined` is a split whose halves one GPU needs afterwards."""
    if name == "vector_add":
        return vector_add_workload(n)
    folder = "tests/workload_files" if name == "halves_joined" else "workloads"
    return prepare(REPOSITORY / folder / f"{name}.py", None, {"n": str(n)})().record


def texts(
    strategy: str, workload: WorkloadRecord, device: Device = CONCURRENT, *mixes: Any
) -> dict[str, str]:
    """The code to copy, by library."""
    text = snippet(strategy, workload, device, *mixes)
    every = {"CuPy": text, **variants(strategy, workload, device, *mixes)} if text else {}
    assert all(len(line) <= 110 for text in every.values() for line in text.splitlines())
    return every


CASES = [
    (name, strategy, library)
    for name, strategies in {"vector_add": NAMES, **dict.fromkeys(SEVERAL, ON_SEVERAL)}.items()
    for strategy in strategies
    for library in texts(strategy, record(name))
]


def code(strategy: str, workload: WorkloadRecord, device: Device = CONCURRENT) -> str:
    return texts(strategy, workload, device)["CuPy"]


def run(strategy: str, workload: WorkloadRecord, device: Device = CONCURRENT) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(code(strategy, workload, device=device), strategy, "exec"), names)
    return names


def assert_right(text: str, launch: Launch, name: str = "vector_add", frames: int = 5) -> None:
    numbers = [np.unique(array).tolist() for array in computed(text, launch, frames)]
    assert numbers == [[RESULTS[name](frame)] for frame in range(frames)]


@pytest.mark.parametrize(("name", "strategy", "library"), CASES)
def test_frames_compute_the_right_results(cupy: Any, name: str, strategy: str, library: str):
    assert_right(texts(strategy, record(name))[library], launching(cupy.gpus, library), name)


@every("strategy", [name for name in NAMES if not by_name(name).unavailable(JETSON)])
def test_frames_compute_the_same_where_memory_is_attached(strategy: str, monkeypatch: pytest.MonkeyPatch):
    assert_right(code(strategy, record("vector_add"), JETSON), launching(libraries(monkeypatch).gpus))


def test_without_concurrent_access_memory_is_attached_in_place_of_a_prefetch(cupy: Any):
    """To a stream of its own, which kernels run on: the null stream, the current one, cannot."""
    names = run("managed-prefetch", vector_add_workload(1000), device=JETSON)
    stream = cupy.gpus.streams[-1]
    assert (names["stream"], bool(stream.ptr)) == (stream, True)
    names["frame"]()
    bindings, attached = cupy.bindings, "cudaStreamAttachMemAsync"
    assert {(name, by, size) for name, by, _, size, _ in bindings.calls} == {(attached, stream.ptr, 0)}
    kinds = {kind for *_, kind in bindings.calls}
    assert kinds == {bindings.cudaMemAttachSingle, bindings.cudaMemAttachHost}


@every("version", [12, 13])
def test_prefetch_and_advice_name_a_place_on_either_cuda(monkeypatch: pytest.MonkeyPatch, version: Any):
    module = libraries(monkeypatch, version)
    run("managed-advised", vector_add_workload(100))["frame"]()
    named = [
        (name, place) for name, *given in module.bindings.calls for place in given if type(place) is tuple
    ]
    assert Counter((name, place) for name, (place, _) in named) == {
        (name + "_v2" * (version == 12), f"cudaMemLocationType{place}"): 3
        for name in ("cudaMemAdvise", "cudaMemPrefetchAsync")
        for place in ("Device", "Host")
    }


def test_a_refused_call_raises(cupy: Any):
    cupy.bindings.error = cupy.bindings.cudaError_t.cudaErrorInvalidDevice
    with pytest.raises(RuntimeError, match="cudaErrorInvalidDevice"):
        run("managed-prefetch", vector_add_workload(100))["frame"]()


def with_weights() -> WorkloadRecord:
    """vector_add whose b is written once, in set-up; c is used by a second kernel after the CPU saw it."""
    made = altered(vector_add_workload(100), "buffers.b", access={"load": "out", "add": "in", "again": "in"})
    made = altered(made, "buffers.c", access={"add": "out", "consume": "in", "again": "inout"})
    load = StageRecord(name="load", side="host", phase="setup")
    again = StageRecord(name="again", side="device", phase="frame")
    return made.model_copy(update={"stages": (load, *made.stages, again)})


def of_all_kinds() -> WorkloadRecord:
    """vector_add with data that arrives elsewhere, a structured buffer, and scratch memory of the kernel."""
    made = altered(vector_add_workload(100), "buffers.a", external=True)
    made = altered(made, "buffers.b", dtype="[('x', '<f4'), ('y', '<i2')]", shape=(10, 5))
    shape: dict[str, Any] = {"shape": (4,), "dtype": "float32", "bytes": 16}
    scratch = BufferRecord(name="s", access={"add": "out"}, scratch=True, **shape)
    return made.model_copy(update={"buffers": (*made.buffers, scratch)})


def test_what_is_written_is_as_accepted(accepted: Accepted):
    """Of each strategy on one GPU, all but the functions that it calls; of several GPUs, which have code."""
    written = {name: (name, vector_add_workload(100), CONCURRENT) for name in ("pageable", *NAMES)}
    written |= {f"{name} where memory is attached": (name, *written[name][1:2], JETSON) for name in ATTACHED}
    written |= {f"{n} of what is written once": (n, with_weights(), CONCURRENT) for n in ONCE}
    written |= {f"{n} of all kinds": (n, of_all_kinds(), CONCURRENT) for n in ("registered", *ONCE)}
    lines = []
    for name, (strategy, workload, device) in written.items():
        every = texts(strategy, workload, device)
        head, what, rest = re.split(
            r"(# Once\. Let|class Slot)", every.get("CuPy", "# Once. Let"), maxsplit=1
        )
        calls = re.findall(r"(?m)^(?:import|from|def) [^(\n]+", head)
        lines += [f"## {name}: {', '.join(every)}", "; ".join(calls), f"{what}{rest}"]
    for name in SEVERAL:
        several = {each.name: ", ".join(texts(each.name, record(name))) for each in STRATEGIES}
        lines += [f"## {name}", *(f"{each}: {libraries}" for each, libraries in several.items() if libraries)]
    accepted("\n".join(lines) + "\n", "snippets.txt")


@pytest.mark.parametrize("strategy", ["pinned", "zero-copy", "managed", "registered", "zero-copy-registered"])
def test_memory_lives_as_long_as_either_array_and_no_longer(cupy: Any, strategy: str):
    """Registered memory is released when it is freed."""
    gc.collect()
    before = len(Memory.live)

    def held() -> int:
        return len(cupy.registered if "registered" in strategy else Memory.live) - before

    before *= "registered" not in strategy
    names = run(strategy, vector_add_workload(1000))
    assert held() == 3
    assert set(cupy.registered.values()) <= {2 if strategy.startswith("zero") else 0}
    view = names["a"][10:]
    names.clear()
    gc.collect()
    assert held() == 1, "a view of it is still there"
    view[:] = 5
    del view
    gc.collect()
    assert held() == 0


@every("strategy", ["write-combined", "zero-copy-wc"])
def test_only_what_the_cpu_never_reads_is_write_combined(strategy: str, cupy: Any):
    gc.collect()
    before = {*Memory.live}
    names = run(strategy, vector_add_workload(100))
    flags = [memory.flags & WRITE_COMBINED for at, memory in Memory.live.items() if at not in before]
    assert ("frame" in names, flags) == (True, [WRITE_COMBINED, WRITE_COMBINED, 0])


@pytest.mark.parametrize("strategy", NAMES)
def test_scratch_and_structured_buffers(cupy: Any, strategy: str):
    names = run(strategy, of_all_kinds())
    held = vars(names["slots"][0]) if "slots" in names else names
    assert (held["b"].dtype.names, held["b"].shape, "s" in held) == (("x", "y"), (10, 5), False)


def test_what_is_unknown_or_unavailable_has_no_code():
    assert texts("from-the-future", vector_add_workload()) == {}
    assert snippet("managed-advised", vector_add_workload(), JETSON) is None


def test_a_frame_without_kernels_is_still_python(cupy: Any):
    made = vector_add_workload(10)
    buffers = tuple(
        b.model_copy(update={"access": {"produce": "out", "use": "in"}}) for b in made.buffers[:2]
    )
    stages = tuple(stage for stage in made.stages if stage.side == "host")
    only_host = made.model_copy(update={"stages": stages[:1], "buffers": buffers})
    run("pinned", only_host)["frame"]()
    assert snippet("pinned-pipelined", only_host, CONCURRENT) is None


def mixed(*names: str, pipelined: bool = False, library: Library = CUPY) -> Code:
    """A placement for each buffer of `vector_add`, in order."""
    chosen = mix("mix", dict(zip("abc", names, strict=True)), pipelined=pipelined)
    made = written(library, chosen, vector_add_workload(1000), CONCURRENT)
    assert made is not None
    return made


MIXED = [("CuPy", filled, read) for filled in (BASELINE, *SERIAL) for read in (BASELINE, *SERIAL)] + [
    (library, filled, read)
    for library in ("PyTorch", "Numba")
    for filled in ("pageable", "pinned", "zero-copy-wc")
    for read in ("pageable", "pinned", "zero-copy", "managed")
]


@pytest.mark.parametrize(("library", "filled", "read"), MIXED)
def test_any_mix_of_placements_computes_the_right_sums(cupy: Any, library: str, filled: str, read: str):
    made = mixed(filled, "pinned", read, library={"PyTorch": TORCH, "Numba": NUMBA}.get(library, CUPY))
    assert_right(serial(made), launching(cupy.gpus, library))


def test_a_mix_by_its_short_name_has_code_in_all_libraries(cupy: Any):
    workload = vector_add_workload(1000)
    made = texts(
        "hybrid-1", workload, CONCURRENT, {"hybrid-1": mix("hybrid-1", {"a": "zero-copy", "c": "pinned"})}
    )
    assert tuple(made) == ALL
    for library, text in made.items():
        assert_right(text, launching(cupy.gpus, library))
    assert texts("hybrid-1", workload) == {}, "not known by its name alone"
    peer = {"hybrid-1": mix("hybrid-1", {"image": "pageable", "features": "peer", "result": "pinned"})}
    several = texts("hybrid-1", record("two_gpus_pipeline"), CONCURRENT, peer).values()
    assert [("mark0" in text, "features = " in text) for text in several] == [(True, False)] * 3


def test_frames_of_a_mix_overlap_where_all_copies_take_a_stream(cupy: Any):
    text = overlapping(mixed("pinned", "zero-copy", "registered", pipelined=True))
    assert text is not None
    assert_right(text, launching(cupy.gpus))
    assert overlapping(mixed("pinned", "pinned", "staged", pipelined=True)) is None


def on_the_gpu(library: str) -> Launch:
    if library != "Numba":
        xp = pytest.importorskip("torch" if library == "PyTorch" else "cupy")
        return lambda kernel, arrays, _: kernel(xp, **arrays)
    cuda = pytest.importorskip("numba.cuda")

    @cuda.jit
    def add(a: Any, b: Any, c: Any) -> None:
        i = cuda.grid(1)
        if i < c.size:
            c[i] = a[i] + b[i]

    def launch(_: object, arrays: dict[str, Any], names: dict[str, Any]) -> None:
        try:
            add[arrays["c"].size // 256 + 1, 256, names["stream"]](*arrays.values())
        except AttributeError as problem:  # Numba 0.68 with NumPy 2.5: "no attribute 'row_stack'"
            pytest.skip(f"Numba and NumPy do not fit here: {problem}")

    return launch


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "strategy", "library"), CASES)
def test_on_gpus(name: str, strategy: str, library: str):
    """The frame with the user's stages put in place of their comments computes the right results."""
    cupy, several = pytest.importorskip("cupy"), name in SEVERAL
    if not cupy.cuda.is_available() or cupy.cuda.runtime.getDeviceCount() < 1 + several:
        pytest.skip("fewer GPUs than it needs")
    if several and library == "Numba":
        pytest.skip("kernels are compiled for one")
    from advisor.measure.backends import open_backend

    device = open_backend("cuda").device()
    text = texts(strategy, record(name, 64 if several else 1 << 16), device).get(library)
    if text is None:
        pytest.skip(by_name(strategy).unavailable(device) or "not available on this device")
    with nullcontext() if several else cupy.cuda.Stream(non_blocking=True):
        assert_right(text, on_the_gpu(library), name)
