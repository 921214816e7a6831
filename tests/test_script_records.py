"""Scripts not written for advisor, on what plays the GPU; tests/gpu holds the same table against a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from script_records import DOWN, LOCK, NONE, PAGED, PINNED, RECORDS, SCRIPTS, UP, WAIT, record, rows

from advisor.profiles.crossings import SHARED


@pytest.mark.parametrize("name", RECORDS)
def test_a_script_is_recorded_as_on_a_gpu(name: str, tmp_path: Path) -> None:
    if "numba" in (SCRIPTS / f"{name}.py").read_text():
        pytest.importorskip("numba")
    run = record(SCRIPTS / f"{name}.py", tmp_path, "cpu")
    assert run.error == ""
    assert rows(run) == RECORDS[name]
    assert {each.host_seconds for each in run.crossings} == {None}, "there is no GPU, so nothing has a time"


TOLD = "a CUDA graph was not replayed; without a GPU its arrays keep their values (3 times)"
MORE: dict[str, Any] = {
    "types are converted on the CPU, unless the copy is asked to be asynchronous": (
        """import torch
x = torch.ones(100, dtype=torch.float64)
a = x.to("cuda", torch.float32)
b = x.to("cuda", torch.float32, non_blocking=True)
c = a.to("cpu", torch.float64)
d = torch.zeros(100).copy_(a)
e = a.to("cuda").cuda()
f = x.to(torch.float32).cpu().tolist()
torch.empty(50, pin_memory=True)[:10].pin_memory().to("cuda", non_blocking=True)
x.to(torch.float32, False, True).to(a, False, True)
""",
        [
            (3, UP, "Tensor.to", 1, 400, PAGED),
            (4, UP, "Tensor.to", 1, 800, PAGED),
            (5, DOWN, "Tensor.to", 1, 400, PAGED),
            (6, DOWN, "Tensor.copy_", 1, 400, PAGED),
            (9, LOCK, "torch.empty", 1, 200, PINNED),
            (9, UP, "Tensor.to", 1, 40, PINNED),
            (10, UP, "Tensor.to", 1, 400, PAGED),
        ],
    ),
    "types of the GPU make and move tensors; of sparse ones indices and values cross": (
        """import numpy, torch
from torch.nn.utils import rnn
T = torch.cuda.FloatTensor
v = T(4, 1).fill_(1.0)
z = T(numpy.ones((4, 8)))
assert isinstance(torch.ones(6).type(T), T) and not isinstance(torch.ones(6), T)
torch.eye(4).to_sparse().to("cuda")
torch.eye(4).to_sparse_csr().cuda()
torch.nn.Linear(3, 3).to(0)
p = rnn.pack_padded_sequence(torch.zeros(4, 2, 3).to(device=0), [4, 2])
rnn.pad_packed_sequence(p)[1].tolist()
torch.nn.DataParallel(torch.nn.Linear(3, 3).to(device=0))(torch.ones(2, 3)).tolist()
""",
        [
            (5, UP, "torch.as_tensor", 1, 4 * 8 * 4, PAGED),
            (6, UP, "Tensor.to", 1, 6 * 4, PAGED),
            (7, UP, "Tensor.to", 1, 4 * (8 + 8 + 4), PAGED),
            (8, UP, "Tensor.cuda", 1, 5 * 8 + 4 * (8 + 4), PAGED),
            (9, UP, "Module.to", 2, (9 + 3) * 4, PAGED),
            (10, UP, "Tensor.to", 1, 4 * 2 * 3 * 4, PAGED),
            (12, UP, "Module.to", 2, (9 + 3) * 4, PAGED),
            (12, UP, "Tensor.to", 1, 2 * 3 * 4, PAGED),
            (12, DOWN, "Tensor.tolist", 1, 2 * 3 * 4, PAGED),
        ],
    ),
    "gradients are grouped on the GPU; tensors without dimensions are no sequences": (
        """import torch
w = torch.nn.Linear(3, 1).cuda()
loss = w(torch.ones(2, 3, device="cuda")).sum()
loss.backward()
torch.nn.utils.clip_grad_norm_(w.parameters(), 1.0)
torch.tensor([loss, loss], device="cuda")
class Own(torch.Tensor): pass
torch.tensor([torch.ones(2).as_subclass(Own)[0]])
""",
        [(2, UP, "Module.cuda", 2, (3 + 1) * 4, PAGED), (6, UP, "torch.tensor", 1, 8, PAGED)],
    ),
    "what another library has on the GPU is shared and not copied; deep copies stay there": (
        """import copy, cupy, torch
from numba import cuda
@cuda.jit
def add(x, y):
    i = cuda.grid(1)
    if i < x.size: x[i] += y[i]
a = cupy.ones(4)
b = torch.as_tensor(a, device="cuda")
c = torch.from_dlpack(a)
d = cupy.from_dlpack(c)
add[1, 8](a, b)
e = cupy.asarray(cuda.as_cuda_array(d))
m = copy.deepcopy(torch.nn.BatchNorm1d(1).cuda())
s = copy.deepcopy(m.state_dict())
assert m.weight.is_cuda and isinstance(m.weight, torch.nn.Parameter) and s["running_mean"].is_cuda
assert [*c.tolist(), *e.get()] == [2] * 8
""",
        [
            (13, UP, "Module.cuda", 5, 4 * 4 + 8, PAGED),
            (16, DOWN, "Tensor.tolist", 1, 32, PAGED),
            (16, DOWN, "ndarray.get", 1, 32, PAGED),
        ],
    ),
    "ufuncs that Numba compiles for cuda copy what is not there": (
        """import numpy as np
from numba import cuda, vectorize
@vectorize(["float32(float32, float32)"], target="cuda")
def axpy(x, y): return 2 * x + y
a = np.ones(8, np.float32)
b = axpy(a, a)
d = cuda.to_device(a)
c = axpy(d, d).copy_to_host()
axpy(d, d, out=d)
assert [*(b - 1), *(c - 1), *(d.copy_to_host() - 1)] == [2] * 24
""",
        [
            (6, UP, "cuda.to_device", 2, 64, PAGED),
            (6, DOWN, "DeviceNDArray.copy_to_host", 1, 32, PAGED),
            (7, UP, "cuda.to_device", 1, 32, PAGED),
            (8, DOWN, "DeviceNDArray.copy_to_host", 1, 32, PAGED),
            (10, DOWN, "DeviceNDArray.copy_to_host", 1, 32, PAGED),
        ],
    ),
    "hidden waits count once, single numbers are no copies": (
        """import cupy, cupyx, numpy
a = cupy.asarray(numpy.arange(10))
b = cupy.asarray(5.0) + cupy.array([a[0], a[1]])
cupy.unique(a); cupy.bincount(a)
a[[1, 2]] = 0
a[a > 4] = 1
print(f"{a.sum()}", a[:0].get().size)
h = cupyx.empty_pinned(4, numpy.float64)
c = cupy.asarray(h, dtype=cupy.float32)
cupy.cuda.runtime.memcpy(a.data.ptr, h.ctypes.data, 32, cupy.cuda.runtime.memcpyHostToDevice)
""",
        [
            (2, UP, "cupy.asarray", 1, 80, PAGED),
            (4, WAIT, "cupy.unique", 1, 0, NONE),
            (4, WAIT, "cupy.bincount", 1, 0, NONE),
            (5, UP, "ndarray.__setitem__", 1, 16, PAGED),
            (6, WAIT, "ndarray.__setitem__", 1, 0, NONE),
            (7, WAIT, "ndarray.__format__", 1, 8, NONE),
            (8, LOCK, "alloc_pinned_memory", 1, 32, PINNED),
            (9, UP, "cupy.asarray", 1, 16, PINNED),
            (10, UP, "runtime.memcpy", 1, 32, PINNED),
        ],
    ),
    "properties that programs size their grids by are those of an H200": (
        """import cupy, torch
from numba import cuda
assert torch.cuda.get_device_capability() == cuda.get_current_device().compute_capability == (9, 0)
assert torch.cuda.get_device_properties(0).multi_processor_count == 132
assert cuda.get_current_device().MULTIPROCESSOR_COUNT == 132
assert cupy.cuda.Device().compute_capability == "90"
print(torch.cuda.mem_get_info(), cupy.cuda.runtime.getDeviceProperties(0)["totalGlobalMem"] / 2**30)
""",
        [],
        "Properties of the GPU that the program asks for: without one, those of an H200",
    ),
    "kernels of plain expressions are computed, others are told": (
        """import cupy
from cupy import ElementwiseKernel as K, ReductionKernel as R
x = cupy.asarray([1.0, -2.0, 3.0])
d = K("T x, float64 k", "T y", "const T s = x > 0 && !(x > 2) ? x : 0.5f; y = k * s; y += 1", "d")(x, 2)
n = R("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "n")(x.reshape(3, 1), axis=1)
i, whole = K(in_params="T x", out_params="int32 y, bool z", operation="y = x * 2.5; z = x != 1")(x)
assert [*d.get(), *n.get(), *i.get(), *whole.get()] == [3, 2, 2, 1, 2, 3, 2, -5, 7, 0, 1, 1]
K("raw T x, int32 k", "T y", "y = x[i]", "shifted")(x, 1, size=3).get()
K("T x, int32 k", "int32 y", "y = k / 2", "halved")(x, 1).get()
cupy.testing.assert_allclose(K("T x", "T y", "if (x > 0) y = x;", "chosen")(x).get(), [1, 0, 3])
cupy.testing.assert_array_equal(x, x)
""",
        [
            (3, UP, "cupy.asarray", 1, 24, PAGED),
            (7, DOWN, "ndarray.get", 4, 24 + 24 + 12 + 3, PAGED),
            (8, DOWN, "ndarray.get", 1, 24, PAGED),
            (9, DOWN, "ndarray.get", 1, 12, PAGED),
            (10, DOWN, "ndarray.get", 1, 24, PAGED),
            (11, DOWN, "cupy.asnumpy", 2, 48, PAGED),
        ],
        *(f"s.py:{line} was " for line in ("8: kernel shifted", "9: kernel halved", "10: kernel chosen")),
    ),
    "kernels of too many threads for the simulator are told, and their arrays cross": (
        """import numpy
from numba import cuda
@cuda.jit
def grow(values):
    values[cuda.grid(1)] += 1
few, many = numpy.ones(16), numpy.ones(1 << 17)
grow[1, 16](few)
grow[512, 256](many)
assert few.sum() == 32 and many.sum() == many.size
""",
        [
            (7, UP, "kernel argument", 1, 128, PAGED),
            (7, DOWN, "kernel argument", 1, 128, PAGED),
            (8, UP, "kernel argument", 1, 1 << 20, PAGED),
            (8, DOWN, "kernel argument", 1, 1 << 20, PAGED),
        ],
        "s.py:8: kernel grow was not run",
    ),
    "CUDA graphs are computed once, their replays are told": (
        """import cupy, torch
x = torch.ones(8, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x + 1
a, stream = cupy.zeros(8), cupy.cuda.Stream(non_blocking=True)
with stream:
    stream.begin_capture()
    b = a + 1
    captured = stream.end_capture()
for _ in range(3):
    graph.replay()
    captured.launch(stream)
    assert y.cpu().sum() == 16 and b.get().sum() == 8
assert torch.cuda.make_graphed_callables(torch.sin, (x,))(x).is_cuda
""",
        [(14, DOWN, "Tensor.cpu", 3, 96, PAGED), (14, DOWN, "ndarray.get", 3, 192, PAGED)],
        f"s.py:12: {TOLD}",
        f"s.py:13: {TOLD}",
    ),
    "names that scripts print or set do not end them": (
        """import collections, cupy, cupy.testing, cupyx
y, x = cupy.mgrid[:2, :3]
square = cupy.memoize(for_each_device=True)(lambda n: n * n)
third = cupy.vectorize(lambda n: n / 3)
cupy.fft.config.use_multi_gpus = False
cupy.show_config()
with cupyx.profiler.profile():
    cupy.testing.assert_allclose(third(y * square(3)), [[0, 0, 0], [3, 3, 3]])
cupy.stack(collections.deque([x, y]))
free, total = cupy.cuda.Device(0).mem_info
print(f"{free / total:.0%}", cupy.cuda.runtime.runtimeGetVersion(), cupy.ogrid[:4].get())
""",
        [(8, DOWN, "cupy.asnumpy", 1, 48, PAGED), (11, DOWN, "ndarray.get", 1, 32, PAGED)],
    ),
    "mapped memory of CuPy's is reached where it is": (
        """import ctypes
import cupy as cp
import numpy as np
pointer = cp.cuda.runtime.hostAlloc(16, cp.cuda.runtime.hostAllocMapped)
host = np.frombuffer((ctypes.c_uint8 * 16).from_address(pointer), np.float32)
both = cp.ndarray((2,), cp.float32, cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(pointer, 16, None), 8))
for n in range(4):
    host[:] = n
    both *= 2
    cp.cuda.get_current_stream().synchronize()
    assert list(host) == [n, n, 2 * n, 2 * n]
    cp.ndarray((4,), cp.float32, cp.cuda.alloc(16)).fill(1)
""",
        [(4, LOCK, "runtime.hostAlloc", 1, 16, PINNED), (10, WAIT, "Stream.synchronize", 4, 0, NONE)],
        SHARED,
    ),
}


@pytest.mark.parametrize("name", MORE)
def test_a_call_is_recorded_for_what_it_does(name: str, tmp_path: Path) -> None:
    """After a script's rows stands what begins each text of what was not seen of it, if it says so."""
    source, expected, *unseen = MORE[name]
    if "numba" in source:
        pytest.importorskip("numba")
    (tmp_path / "s.py").write_text(source)
    run = record(tmp_path / "s.py", tmp_path, "cpu")
    assert (run.error, rows(run)) == ("", expected)
    if unseen:
        assert [told[: len(text)] for told, text in zip(run.unseen, unseen, strict=True)] == unseen


def test_what_only_a_gpu_can_tell_ends_the_script_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("import cupy\nx = cupy.asarray([1.0, 2.0])\nx.device.attributes\n")
    run = record(tmp_path / "s.py", tmp_path, "cpu")
    assert run.exit_code == 1
    assert "s.py:3: attributes of the device is unknown without a GPU" in run.error
    assert rows(run) == [(2, UP, "cupy.asarray", 1, 16, PAGED)]


@pytest.mark.parametrize(("reader", "unread"), [("b[1:] + 1", 4), ("ndimage.shift(b, 1)", None)])
def test_uploads_that_nothing_reads_are_counted(reader: str, unread: int | None, tmp_path: Path) -> None:
    """What cupyx reads is not known."""
    source = f"""import cupy, numpy
from cupyx.scipy import ndimage
a, b, c, d, h = *(cupy.zeros(9) for _ in range(4)), numpy.ones(9)
for _ in range(5):
    a.set(h)
    b.set(h)
    c.set(h)
    d.set(h)
    {reader}
    cupy.sin(c)
    d.data.ptr
"""
    (tmp_path / "s.py").write_text(source)
    run = record(tmp_path / "s.py", tmp_path, "cpu")
    assert [each.unread for each in run.crossings] == [unread, None, None, None]
