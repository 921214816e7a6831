"""The code to copy is run: against a stand-in for CuPy, and on a GPU against CuPy itself."""

from __future__ import annotations

import ctypes
import gc
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builders import cuda_device, vector_add_workload

from advisor.profiles import BufferRecord, WorkloadRecord
from advisor.rules.snippets import snippet

CHANGES = ("pinned", "zero-copy", "managed")


class _Memory:
    """A block of memory with CuPy's attributes; `live` counts those not yet freed."""

    live = 0

    def __init__(self, size: int, flags: int = 0) -> None:
        self.size, self.flags = size, flags
        self._block = (ctypes.c_byte * size)()
        self.ptr = ctypes.addressof(self._block)
        _Memory.live += 1

    def __del__(self) -> None:
        _Memory.live -= 1


class _Array(np.ndarray):
    """A stand-in for cupy.ndarray: NumPy with `set` and `get`, which note that they were called."""

    log: list[str]

    def set(self, source: np.ndarray, stream: Any) -> None:
        self[...] = source
        stream.log.append("set")

    def get(self, stream: Any, out: np.ndarray, blocking: bool) -> None:
        assert not blocking
        out[...] = self
        stream.log.append("get")


def _fake_cupy() -> Any:
    stream = SimpleNamespace(log=[])
    stream.synchronize = lambda: stream.log.append("synchronize")

    def ndarray(shape: Any, dtype: Any, memptr: Any) -> _Array:
        view = (ctypes.c_byte * memptr.size).from_address(memptr.ptr)
        view.owner = memptr
        return np.frombuffer(view, dtype).reshape(shape).view(_Array)

    def pinned_pointer(memory: _Memory, offset: int) -> Any:
        view = (ctypes.c_byte * memory.size).from_address(memory.ptr + offset)
        view.owner = memory
        return view

    def unowned(pointer: int, size: int, owner: Any) -> Any:
        assert pointer == owner.ptr + DEVICE_ALIAS, "a kernel needs the device's address"
        return SimpleNamespace(ptr=owner.ptr, size=size, owner=owner)

    runtime = SimpleNamespace(
        hostAllocMapped=2,
        pointerGetAttributes=lambda pointer: SimpleNamespace(devicePointer=pointer + DEVICE_ALIAS),
    )
    cuda = SimpleNamespace(
        runtime=runtime,
        PinnedMemory=_Memory,
        PinnedMemoryPointer=pinned_pointer,
        UnownedMemory=unowned,
        MemoryPointer=lambda memory, offset: memory,
        malloc_managed=_Memory,
        get_current_stream=lambda: stream,
    )
    empty = lambda shape, dtype: np.empty(shape, dtype).view(_Array)  # noqa: E731
    return SimpleNamespace(cuda=cuda, ndarray=ndarray, empty=empty, stream=stream)


DEVICE_ALIAS = 1 << 40
"""How far the device's address of mapped memory lies from the host's, to catch a mix-up."""


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = _fake_cupy()
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def run(strategy: str, workload: WorkloadRecord) -> dict[str, Any]:
    text = snippet(strategy, workload, cuda_device("tegra-io-coherent", concurrent_managed_access=0))
    assert text is not None
    assert max(map(len, text.splitlines())) <= 110
    names: dict[str, Any] = {}
    exec(compile(text, strategy, "exec"), names)
    return names


@pytest.mark.parametrize("strategy", CHANGES)
def test_it_makes_arrays_of_the_right_shape(cupy: Any, strategy: str):
    names = run(strategy, vector_add_workload(1000))
    for name in "abc":
        for array in (names[name], names[f"{name}_device"]):
            assert array.shape == (1000,)
            assert array.dtype == np.float32
        names[name][:] = 3
        names[name][0] = 7
        assert names[name].flags.writeable


@pytest.mark.parametrize("strategy", ["zero-copy", "managed"])
def test_both_sides_see_one_memory(cupy: Any, strategy: str):
    names = run(strategy, vector_add_workload(1000))
    names["a"][:] = np.arange(1000)
    assert np.array_equal(names["a_device"], np.arange(1000))
    names["c_device"][5] = 42
    assert names["c"][5] == 42


def test_a_frame_makes_the_copies_and_waits_of_its_strategy(cupy: Any):
    expected = {
        "pinned": ["set", "set", "get", "synchronize"],
        "zero-copy": ["synchronize"],
        "managed": ["synchronize"],
    }
    for strategy, calls in expected.items():
        names = run(strategy, vector_add_workload(1000))
        names["a"][:] = 1
        cupy.stream.log.clear()
        names["frame"]()
        assert cupy.stream.log == calls
        if strategy == "pinned":
            assert np.array_equal(names["a_device"], names["a"])


@pytest.mark.parametrize("strategy", CHANGES)
def test_memory_lives_as_long_as_either_array_and_no_longer(cupy: Any, strategy: str):
    gc.collect()
    before = _Memory.live
    names = run(strategy, vector_add_workload(1000))
    assert _Memory.live == before + 3
    view = names["a"][10:]
    names.clear()
    gc.collect()
    assert _Memory.live == before + 1
    view[:] = 5
    del view
    gc.collect()
    assert _Memory.live == before


def test_mapped_memory_is_asked_for_as_such(cupy: Any):
    names = run("zero-copy", vector_add_workload(1000))
    assert names["a"].base.base is not None
    text = snippet("zero-copy", vector_add_workload(), cuda_device())
    assert "hostAllocMapped" in text
    assert "hostAllocMapped" not in snippet("pinned", vector_add_workload(), cuda_device())


def test_each_stage_is_told_where_its_arrays_are():
    text = snippet("pinned", vector_add_workload(), cuda_device())
    assert "# your produce, on the CPU: writes a, b" in text
    assert "# your add, on the GPU: reads a_device, b_device; writes c_device" in text
    assert "# your consume, on the CPU: reads c" in text


def test_scratch_external_and_structured_buffers(cupy: Any):
    workload = vector_add_workload(100)
    a, b, c = workload.buffers
    scratch = BufferRecord(
        name="s", shape=(4,), dtype="float32", bytes=16, access={"add": "out"}, scratch=True
    )
    fields = "[('x', '<f4'), ('y', '<i2')]"
    buffers = (
        a.model_copy(update={"external": True}),
        b.model_copy(update={"dtype": fields, "shape": (10, 5)}),
        c,
        scratch,
    )
    workload = workload.model_copy(update={"buffers": buffers})
    names = run("zero-copy", workload)
    assert names["b"].dtype.names == ("x", "y")
    assert names["b"].shape == (10, 5)
    assert "s" not in names
    text = snippet("zero-copy", workload, cuda_device())
    assert "# The data of a arrives elsewhere" in text
    assert "The data of b" not in text
    assert "reads a_device, b_device; writes c_device, s" in text


def test_no_code_for_the_baseline_or_an_unknown_strategy():
    assert snippet("pageable", vector_add_workload(), cuda_device()) is None
    assert snippet("from-the-future", vector_add_workload(), cuda_device()) is None


@pytest.mark.gpu
@pytest.mark.parametrize("strategy", CHANGES)
def test_on_a_gpu(strategy: str):
    """The frame with the user's stages put in place of their comments computes the right sums."""
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("no usable GPU")
    text = snippet(strategy, vector_add_workload(1 << 16), cuda_device(concurrent_managed_access=0))
    assert text is not None
    for comment, code in (
        ("# your produce", "a.fill(number); b.fill(0.5)  # your produce"),
        ("# your add", "cupy.add(a_device, b_device, out=c_device)  # your add"),
        ("# your consume", "sums.append(float(c.sum()))  # your consume"),
    ):
        text = text.replace(comment, code)
    names: dict[str, Any] = {"sums": []}
    with cupy.cuda.Stream(non_blocking=True):
        exec(compile(text, strategy, "exec"), names)
        for number in range(20):
            names["number"] = number
            names["frame"]()
    assert names["sums"] == [(number + 0.5) * (1 << 16) for number in range(20)]
