"""Scripts not written for advisor, on what plays the GPU; tests/gpu holds the same ones against a GPU."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from script_records import SCRIPTS, expected, record, rows


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_recorded_as_on_a_gpu(name: str, tmp_path: Path) -> None:
    script = SCRIPTS[name].read_text()
    if "numba" in script:
        pytest.importorskip("numba")
    run = record(SCRIPTS[name], tmp_path, "cpu")
    assert (run.error, rows(run)) == ("", expected(script))
    assert {each.host_seconds for each in run.crossings} == {None}, "there is no GPU, so nothing has a time"


MORE = """
## types are converted on the CPU, unless the copy is asked to be asynchronous
import torch
x = torch.ones(100, dtype=torch.float64)
a = x.to("cuda", torch.float32)  # upload Tensor.to, 1, 400
b = x.to("cuda", torch.float32, non_blocking=True)  # upload Tensor.to, 1, 800
c = a.to("cpu", torch.float64)  # download Tensor.to, 1, 400
d = torch.zeros(100).copy_(a)  # download Tensor.copy_, 1, 400
e = a.to("cuda").cuda()
f = x.to(torch.float32).cpu().tolist()
torch.empty(50, pin_memory=True)[:10].pin_memory().to("cuda", non_blocking=True)
# lock torch.empty, 1, 200; upload Tensor.to, 1, 40, pinned
x.to(torch.float32, False, True).to(a, False, True)  # upload Tensor.to, 1, 400
## keys and values on the host are uploaded
import numpy, torch
x, i = torch.zeros(10, 4, device="cuda"), torch.randperm(10)
x[:] = torch.ones(4)  # upload Tensor.__setitem__, 1, 160
x[3] = torch.ones(4, dtype=torch.float64, pin_memory=True)
# lock torch.ones, 1, 32; upload Tensor.__setitem__, 1, 16, pinned
x[i[:6]], x[i > 3], x[[0, 2], 1:], x[numpy.int32([5])], x[[True, False] * 5]
# upload Tensor.__getitem__, 5, 92; wait Tensor.__getitem__, 2
x[x > 3] = 0; x[0] = 1.0; x[1, 2] = torch.tensor(3.0); x[0] = x[1]; x[[]], x[None, :2]
## types of the GPU make and move tensors; of sparse ones indices and values cross
import numpy, torch
from torch.nn.utils import rnn
T = torch.cuda.FloatTensor
v = T(4, 1).fill_(1.0)
z = T(numpy.ones((4, 8)))  # upload torch.as_tensor, 1, 4 * 8 * 4
assert isinstance(torch.ones(6).type(T), T) and not isinstance(torch.ones(6), T)  # upload Tensor.to, 1, 6 * 4
h = torch.ones(6).type("torch.cuda.HalfTensor")  # upload Tensor.to, 1, 6 * 2
assert h.is_cuda and h.type() == "torch.cuda.HalfTensor" and repr(h).startswith("tensor(")
# wait Tensor.__repr__, 1
assert not h.type("torch.FloatTensor").is_cuda  # download Tensor.to, 1, 6 * 2
torch.eye(4).to_sparse().to("cuda", torch.float64, True)  # upload Tensor.to, 1, 80
torch.eye(4).to_sparse_csr().cuda()  # upload Tensor.cuda, 1, 88
torch.nn.Linear(3, 3).to(0)  # upload Module.to, 2, 48
p = rnn.pack_padded_sequence(torch.zeros(4, 2, 3).to(device=0), [4, 2])  # upload Tensor.to, 1, 4 * 2 * 3 * 4
rnn.pad_packed_sequence(p)[1].tolist()
torch.nn.DataParallel(torch.nn.Linear(3, 3).to(device=0))(torch.ones(2, 3)).tolist()
# upload Module.to, 2, 48; upload Tensor.to, 1, 2 * 3 * 4; download Tensor.tolist, 1, 2 * 3 * 4
## gradients are grouped on the GPU; tensors without dimensions are no sequences
import torch
w = torch.nn.Linear(3, 1).cuda()  # upload Module.cuda, 2, 16
loss = w(torch.ones(2, 3, device="cuda")).sum()
loss.backward()
torch.nn.utils.clip_grad_norm_(w.parameters(), 1.0)
torch.tensor([loss, loss], device="cuda")  # upload torch.tensor, 1, 8
class Own(torch.Tensor): pass
torch.tensor([torch.ones(2).as_subclass(Own)[0]])
## what another library has on the GPU is shared and not copied; deep copies stay there
import copy, cupy, torch
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
m = copy.deepcopy(torch.nn.BatchNorm1d(1).cuda())  # upload Module.cuda, 5, 24
s = copy.deepcopy(m.state_dict())
assert m.weight.is_cuda and isinstance(m.weight, torch.nn.Parameter) and s["running_mean"].is_cuda
assert [*c.tolist(), *e.get()] == [2] * 8  # download Tensor.tolist, 1, 32; download ndarray.get, 1, 32
## ufuncs that Numba compiles for cuda copy what is not there
import numpy as np
from numba import cuda, vectorize
@vectorize(["float32(float32, float32)"], target="cuda")
def axpy(x, y): return 2 * x + y
a = np.ones(8, np.float32)
b = axpy(a, a)  # upload cuda.to_device, 2, 64; download DeviceNDArray.copy_to_host, 1, 32
d = cuda.to_device(a)  # upload cuda.to_device, 1, 32
c = axpy(d, d).copy_to_host()  # download DeviceNDArray.copy_to_host, 1, 32
axpy(d, d, out=d)
assert [*(b - 1), *(c - 1), *(d.copy_to_host() - 1)] == [2] * 24  # download DeviceNDArray.copy_to_host, 1, 32
## hidden waits count once, single numbers are no copies
import cupy, cupyx, numpy
a = cupy.asarray(numpy.arange(10))  # upload cupy.asarray, 1, 80
b = cupy.asarray(5.0) + cupy.array([a[0], a[1]], cupy.int64, True) + cupy.random.normal(0, 1, 2, cupy.int64)
cupy.asnumpy(a=cupy.asarray(a=numpy.ones(3)))  # upload cupy.asarray, 1, 24; download cupy.asnumpy, 1, 24
cupy.unique(a); cupy.bincount(a)  # wait cupy.unique, 1; wait cupy.bincount, 1
a[[1, 2]] = 0  # upload ndarray.__setitem__, 1, 16
a[a > 4] = 1  # wait ndarray.__setitem__, 1
assert cupy.allclose(a, a) and cupy.array_equal(a, a)  # wait ndarray.__bool__, 2, 2
print(f"{a.sum()}", a[:0].get().size)  # wait ndarray.__format__, 1, 8
h = cupyx.empty_pinned(4, numpy.float64)  # lock alloc_pinned_memory, 1, 32
c = cupy.asarray(h, dtype=cupy.float32)  # upload cupy.asarray, 1, 16, pinned
cupy.cuda.runtime.memcpy(a.data.ptr, h.ctypes.data, 32, cupy.cuda.runtime.memcpyHostToDevice)
# upload runtime.memcpy, 1, 32, pinned
## properties that programs size their grids by are those of an H200
import cupy, torch
from numba import cuda
assert torch.cuda.get_device_capability() == cuda.get_current_device().compute_capability == (9, 0)
assert torch.cuda.get_device_properties(0).multi_processor_count == 132
assert cuda.get_current_device().MULTIPROCESSOR_COUNT == 132
assert cupy.cuda.Device().compute_capability == "90"
print(torch.cuda.mem_get_info(), cupy.cuda.runtime.getDeviceProperties(0)["totalGlobalMem"] / 2**30)
# not seen: Properties of the GPU that the program asks for: without one, those of an H200
## kernels of plain expressions are computed, others are told
import cupy
from cupy import ElementwiseKernel as K, ReductionKernel as R
x = cupy.asarray([1.0, -2.0, 3.0])  # upload cupy.asarray, 1, 24
d = K("T x, float64 k", "T y", "const T s = x > 0 && !(x > 2) ? x : 0.5f; y = k * s; y += 1", "d")(x, 2)
n = R("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "n")(x.reshape(3, 1), axis=1)
i, whole = K(in_params="T x", out_params="int32 y, bool z", operation="y = x * 2.5; z = x != 1")(x)
t = R("T x", "T y", "x", "a + b", "y = a", "0", "t")(x.reshape(3, 1))
assert [*d.get(), *n.get(), *i.get(), *whole.get(), t] == [3, 2, 2, 1, 2, 3, 2, -5, 7, 0, 1, 1, 2]
# download ndarray.get, 4, 63; wait ndarray.__bool__, 1, 1
K("raw T x, int32 k", "T y", "y = x[i]", "shifted")(x, 1, size=3).get()  # download ndarray.get, 1, 24
K("T x, int32 k", "int32 y", "y = k / 2", "halved")(x, 1).get()  # download ndarray.get, 1, 12
cupy.testing.assert_allclose(K("T x", "T y", "if (x > 0) y = x;", "chosen")(x).get(), [1, 0, 3])
# download ndarray.get, 1, 24
cupy.testing.assert_array_equal(x, x)  # download cupy.asnumpy, 2, 48
# not seen: s.py:10: kernel shifted was
# not seen: s.py:11: kernel halved was
# not seen: s.py:12: kernel chosen was
## kernels of too many threads for the simulator are told, and their arrays cross
import numpy
from numba import cuda
@cuda.jit
def grow(values):
    values[cuda.grid(1)] += 1
few, many = numpy.ones(16), numpy.ones(1 << 17)
grow[1, 16](few)  # upload kernel argument, 1, 128; download kernel argument, 1, 128
grow[512, 256](many)  # upload kernel argument, 1, 1_048_576; download kernel argument, 1, 1_048_576
assert few.sum() == 32 and many.sum() == many.size
# not seen: s.py:8: kernel grow was not run
## devices, and the code of kernels, may be given by name
import cupy, io, torch
x = torch.ones(8).cuda(device="cuda", non_blocking=True)  # upload Tensor.cuda, 1, 32
h = torch.ones(8).pin_memory(device="cuda")  # lock Tensor.pin_memory, 1, 32
assert h.is_pinned(device="cuda") and torch.cuda.get_device_capability(device=0) == (9, 0)
assert torch.cuda.get_device_properties(device=0).major == 9 and not torch.cuda.memory_allocated(device=0)
torch.cuda.set_rng_state(new_state=torch.cuda.get_rng_state(device="cuda"), device="cuda")
torch.cuda.current_stream(device=0).wait_stream(torch.cuda.default_stream(device=0))
torch.save(h, file := io.BytesIO())
assert torch.load(f=file, map_location=file.seek(0) or "cuda").is_cuda
cupy.RawKernel(code="", name="raw")((1,), (1,), ())
cupy.RawModule(code="").get_function(name="named")((1,), (1,), ())
# not seen: Properties of the GPU
# not seen: memory of the GPU
# not seen: Copies of torch.save
# not seen: Copies of torch.load
# not seen: s.py:10: kernel raw was
# not seen: s.py:11: kernel named was
## CUDA graphs are computed once, their replays are told
import cupy, torch
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
    # download Tensor.cpu, 3, 96; download ndarray.get, 3, 192
assert torch.cuda.make_graphed_callables(torch.sin, (x,))(x).is_cuda
# not seen: s.py:12: a CUDA graph was not replayed; without a GPU its arrays keep their values (3 times)
# not seen: s.py:13: a CUDA graph was not replayed; without a GPU its arrays keep their values (3 times)
## functions are compiled, and sent to other processes, as they were written
import cupy, marshal, numba, numba.cloudpickle, subprocess, sys
fast = numba.njit(fastmath=True)
@fast
def total(x):
    for v in x: x[0] += v
    return x[0]
read = "import pickle, sys; print(pickle.load(sys.stdin.buffer)([1]))"
sent = numba.cloudpickle.dumps(double := lambda x: [2 * v for v in x])
assert b"__advisor__" not in marshal.dumps(double.__code__)
assert subprocess.run([sys.executable, "-c", read], input=sent, capture_output=True).stdout.strip() == b"[2]"
assert total(cupy.ones(3).get()) == 4  # download ndarray.get, 1, 24
# not seen: What crosses in a subprocess that the script starts: python
## names that scripts print or set do not end them
import collections, cupy, cupy.testing, cupyx, weakref
y, x = cupy.mgrid[:2, :3]
assert weakref.ref(x)() is x
square = cupy.memoize(for_each_device=True)(lambda n: n * n)
third = cupy.vectorize(lambda n: n / 3)
cupy.fft.config.use_multi_gpus = False
cupy.show_config()
with cupyx.profiler.profile():
    cupy.testing.assert_allclose(third(y * square(3)), [[0, 0, 0], [3, 3, 3]])  # download cupy.asnumpy, 1, 48
cupy.stack(collections.deque([x, y]))
free, total = cupy.cuda.Device(0).mem_info
print(f"{free / total:.0%}", cupy.cuda.runtime.runtimeGetVersion(), cupy.ogrid[:4].get())
# download ndarray.get, 1, 32
## mapped memory of CuPy's is reached where it is
import ctypes
import cupy as cp
import numpy as np
pointer = cp.cuda.runtime.hostAlloc(16, cp.cuda.runtime.hostAllocMapped)  # lock runtime.hostAlloc, 1, 16
host = np.frombuffer((ctypes.c_uint8 * 16).from_address(pointer), np.float32)
both = cp.ndarray((2,), cp.float32, cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(pointer, 16, None), 8))
for n in range(4):
    host[:] = n
    both *= 2
    cp.cuda.get_current_stream().synchronize()  # wait Stream.synchronize, 4
    assert list(host) == [n, n, 2 * n, 2 * n]
    cp.ndarray((4,), cp.float32, cp.cuda.alloc(16)).fill(1)
# not seen: What the host reads and writes of managed or mapped memory
## what only a GPU can tell ends the script with its line
import cupy
x = cupy.asarray([1.0, 2.0])  # upload cupy.asarray, 1, 16
x.device.attributes
# ends with: s.py:3: attributes of the device is unknown without a GPU
"""
"""Scripts by title, each with what it ends with and what begins each text of what is not seen of it."""
TITLED = dict(re.findall(r"^## (.+)\n((?:.|\n)+?)(?=^## |\Z)", MORE, re.MULTILINE))


@pytest.mark.parametrize("name", TITLED)
def test_a_call_is_recorded_for_what_it_does(name: str, tmp_path: Path) -> None:
    source = TITLED[name]
    if "numba" in source:
        pytest.importorskip("numba")
    (tmp_path / "s.py").write_text(source)
    run = record(tmp_path / "s.py", tmp_path, "cpu")
    assert rows(run) == expected(source)
    ends, unseen = (
        re.findall(rf"^# {what}: (.+)", source, re.MULTILINE) for what in ("ends with", "not seen")
    )
    assert (bool(run.error), [text for text in ends if text in run.error]) == (bool(ends), ends)
    if unseen:
        assert [text[: len(begin)] for text, begin in zip(run.unseen, unseen, strict=True)] == unseen


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
