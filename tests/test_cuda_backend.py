"""The CUDA backend on a fake CuPy: which calls it makes, and what it says where there is no GPU."""

from __future__ import annotations

import ctypes
import importlib
import sys
from typing import Any

import numpy as np
import pytest
from fakes import FakeCupy

from advisor import backends
from advisor.backends import cuda
from advisor.backends.cpu import CpuBackend
from advisor.backends.cuda import CudaBackend
from advisor.errors import NothingMeasured


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake


@pytest.fixture
def gpu(cupy: FakeCupy) -> CudaBackend:
    backend = CudaBackend(0)
    cupy.calls.clear()
    return backend


def test_one_gpu_and_one_stream_become_current(cupy: FakeCupy) -> None:
    backend = CudaBackend(0)
    assert backend.xp is cupy
    assert cupy.calls == [("getDeviceCount",), ("use device", 0), ("Stream", True), ("use stream",)]


def test_memory_comes_from_the_runtime(cupy: FakeCupy, gpu: CudaBackend) -> None:
    pointers = [gpu.malloc(8), gpu.host_alloc(16), gpu.host_alloc(32, mapped=True), gpu.malloc_managed(64)]
    assert pointers == [0xA00, 0xB00, 0xB00, 0xC00]
    gpu.free(1)
    gpu.free_host(2)
    runtime = cupy.cuda.runtime
    assert cupy.calls == [
        ("malloc", 8),
        ("hostAlloc", 16, runtime.hostAllocDefault),
        ("hostAlloc", 32, runtime.hostAllocMapped),
        ("mallocManaged", 64),
        ("free", 1),
        ("freeHost", 2),
    ]


def test_mapped_memory_has_the_address_that_the_device_gives_it(cupy: FakeCupy, gpu: CudaBackend) -> None:
    assert gpu.host_device_pointer(0xB00) == 0xD00
    assert cupy.calls == [("pointerGetAttributes", 0xB00)]


def test_copies_are_asynchronous_on_the_stream(cupy: FakeCupy, gpu: CudaBackend) -> None:
    gpu.copy_to_device(1, 2, 3)
    gpu.copy_to_host(4, 5, 6)
    gpu.synchronize()
    to_device, to_host = cupy.cuda.runtime.memcpyHostToDevice, cupy.cuda.runtime.memcpyDeviceToHost
    assert cupy.calls == [
        ("memcpyAsync", 1, 2, 3, to_device, gpu.stream.ptr),
        ("memcpyAsync", 4, 5, 6, to_host, gpu.stream.ptr),
        ("synchronize",),
    ]


def test_arrays_lie_over_memory_that_cupy_does_not_own(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCupy(count=3)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    gpu = CudaBackend(2)
    fake.calls.clear()
    array: Any = gpu.device_array(0xA00, 24, (2, 3), np.dtype(np.float32))
    assert array == ("array", (2, 3), np.dtype(np.float32), ("at", ("memory",), 0))
    assert fake.calls == [("UnownedMemory", 0xA00, 24, ("device_id", 2), ("owner", gpu))]


def test_time_is_taken_by_events_on_the_stream(gpu: CudaBackend) -> None:
    start, end = gpu.timestamp(), gpu.timestamp()
    assert start is not end
    assert start.recorded_on is gpu.stream
    assert gpu.seconds_between(start, end) == 1.5e-3


def test_free_memory_and_the_pool(cupy: FakeCupy, gpu: CudaBackend) -> None:
    assert gpu.free_memory() == 111
    assert gpu.pool_reserved() == 12345
    cupy.broken.add("memGetInfo")
    assert gpu.free_memory() is None


def test_versions_as_people_write_them(gpu: CudaBackend) -> None:
    assert gpu.environment() == {"cuda_driver": "13.2", "cuda_runtime": "12.6"}
    assert gpu.kind_of("managed") == "managed"


def test_attributes_in_our_names(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {theirs: number for number, theirs in enumerate(cuda._ATTRIBUTES.values(), 10)}
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy(attributes={**known, "WarpSize": 32}, cc="110"))
    device = CudaBackend(0).device()
    assert device.kind == "cuda"
    assert device.name == "Fake RTX \N{REPLACEMENT CHARACTER}"
    for ours, theirs in cuda._ATTRIBUTES.items():
        assert device.attributes[ours] == known[theirs]
        assert type(device.attributes[ours]) is int
    assert device.attributes["compute_capability"] == "11.0"
    assert device.attributes["total_global_mem"] == 8 << 30
    assert len(device.attributes) == len(known) + 2
    assert device.memory_class == "tegra-coherent"


def test_an_attribute_that_cupy_does_not_know_is_absent(gpu: CudaBackend) -> None:
    device = gpu.device()
    assert device.attributes["compute_capability"] == "8.9"
    assert "integrated" in device.attributes
    assert "managed_memory" not in device.attributes
    assert device.memory_class == "discrete"


def test_attributes_have_cudas_names_in_snake_case() -> None:
    spelled = {ours: ours.replace("_", "") for ours in cuda._ATTRIBUTES}
    assert spelled == {ours: theirs.lower() for ours, theirs in cuda._ATTRIBUTES.items()}


def test_every_name_is_one_of_cupys() -> None:
    """CuPy trims `cudaDevAttr` from the names of `Device.attributes`."""
    runtime = pytest.importorskip("cupy").cuda.runtime
    unknown = [name for name in cuda._ATTRIBUTES.values() if not hasattr(runtime, f"cudaDevAttr{name}")]
    assert unknown == []
    fake = vars(FakeCupy().cuda.runtime)
    assert [name for name in fake if not hasattr(runtime, name)] == []
    numbers = [name for name, value in fake.items() if isinstance(value, int)]
    assert {name: getattr(runtime, name) for name in numbers} == {name: fake[name] for name in numbers}


def test_the_fake_has_the_names_of_the_real_cupy() -> None:
    real = pytest.importorskip("cupy")
    assert [name for name in vars(FakeCupy().cuda) if not hasattr(real.cuda, name)] == []
    assert hasattr(real, "get_default_memory_pool")
    assert "owner, int device_id" in real.cuda.UnownedMemory.__doc__
    assert "intptr_t dst, intptr_t src, size_t size, int kind, intptr_t stream" in (
        real.cuda.runtime.memcpyAsync.__doc__
    )


# Where there is none


def test_no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(NothingMeasured) as raised:
        CudaBackend(0)
    assert raised.value.message.startswith("CuPy cannot be imported: ")
    assert "gpu-memory-advisor[cuda13]" in raised.value.next_step


def test_no_driver(cupy: FakeCupy) -> None:
    cupy.broken.add("getDeviceCount")
    with pytest.raises(NothingMeasured) as raised:
        CudaBackend(0)
    assert raised.value.message == "CUDA found no usable GPU: cudaError in getDeviceCount"
    assert "nvidia-smi" in raised.value.next_step


@pytest.mark.parametrize("index", [2, 3, -1])
def test_a_gpu_that_is_not_there(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy(count=2))
    with pytest.raises(NothingMeasured) as raised:
        CudaBackend(index)
    assert raised.value.message == f"there is no GPU {index}; CUDA sees 2"
    assert raised.value.next_step.startswith("Choose --gpu 0 to 1;")


def test_the_last_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCupy(count=2)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    CudaBackend(1)
    assert ("use device", 1) in fake.calls


# Choosing a backend


def test_backends_by_name(cupy: FakeCupy) -> None:
    assert isinstance(backends.open_backend("cpu"), CpuBackend)
    opened = backends.open_backend("cuda", 0)
    assert isinstance(opened, CudaBackend)
    with pytest.raises(NothingMeasured):
        backends.open_backend("cuda", 5)


def test_cupy_is_found_without_importing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "find_spec", lambda name: {"cupy": object()}.get(name))
    assert backends.has_cupy()
    monkeypatch.setattr(backends, "find_spec", lambda name: None)
    assert not backends.has_cupy()


class Driver:
    """libcuda with so many GPUs."""

    def __init__(self, count: int, init: int = 0, result: int = 0) -> None:
        self.count = count
        self.result = result
        self.cuInit = lambda flags: init

    def cuDeviceGetCount(self, pointer: Any) -> int:  # noqa: N802
        ctypes.cast(pointer, ctypes.POINTER(ctypes.c_int))[0] = self.count
        return self.result


@pytest.mark.parametrize(
    ("driver", "count"),
    [(Driver(0), 0), (Driver(3), 3), (Driver(3, init=100), 0), (Driver(3, result=100), 0)],
)
def test_gpus_are_counted_by_the_driver(driver: Driver, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: (asked.append(name), driver)[1])
    assert backends.gpu_count() == count
    assert asked == ["libcuda.so.1"]


def test_no_driver_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert backends.gpu_count() == 0


def test_the_module_needs_no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    importlib.reload(cuda)
