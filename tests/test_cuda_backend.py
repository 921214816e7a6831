"""The CUDA backend on a fake CuPy: which calls it makes, and what it says where there is no GPU."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pytest
from every import every
from fake_cupy import BINDINGS_ENUMS, FakeCudaBindings, FakeCupy, bindings_signatures
from rendering import Accepted, refusals
from running import missing

from advisor.fleets import remote
from advisor.measure import backends
from advisor.measure.backends import cuda
from advisor.measure.backends import cuda_calls as driver
from advisor.measure.backends.cuda import CudaBackend
from advisor.measure.backends.cuda_calls import ManagedCallFailed, ManagedCalls
from advisor.profiles.schema import Side
from advisor.strategies.backend import Hint, HostFlag
from advisor.strategies.parts import Span


class FakeDriver:
    """libcuda, whose attributes are each its own number, but for those it does not know and for `integrated`;
    the call that is named fails."""

    def __init__(self, failing: str = "", unknown: int | None = None, count: int = 1) -> None:
        self.failing, self.unknown, self.count = failing, unknown, count

    def __getattr__(self, name: str) -> Callable[..., int]:
        numbers = {
            "cuDriverGetVersion": 13010,
            "cuDeviceTotalMem_v2": 8 << 30,
            "cuDeviceGetCount": self.count,
        }

        def call(answer: Any = None, *given: int) -> int:
            if name in ("cuDeviceGetName", "cuDeviceGetPCIBusId"):
                answer.value = b"A GPU \xff" if name.endswith("Name") else b"0000:01:00.0"
            elif name.startswith("cuDeviceGetUuid"):
                answer._obj[:] = range(16)
            elif name == "cuDeviceGetAttribute" and given[0] == self.unknown:
                return 1
            elif name != "cuInit":
                number = given[0] if given and given[0] != driver.ATTRIBUTES["integrated"] else 0
                answer._obj.value = numbers.get(name, number)
            return 101 if name == self.failing else 0

        return call


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeCupy]:
    """Puts such a CuPy in place of the real one."""

    def install(**options: Any) -> FakeCupy:
        fake = FakeCupy(**options)
        monkeypatch.setitem(sys.modules, "cupy", fake)
        monkeypatch.setattr(cuda, "Driver", lambda gpu: driver.Driver(gpu, lambda _: FakeDriver()))
        return fake

    return install


def test_further_gpus_are_opened_and_the_first_stays_current(installed: Callable[..., FakeCupy]) -> None:
    fake = installed(count=3)
    first = CudaBackend(2)
    first.open_gpus(2)
    assert [gpu.index for gpu in first.gpus] == [2, 0]
    assert fake.current_device == 2
    second = first.gpus[1]
    assert second.gpus is first.gpus
    second.enter()
    assert fake.current_device == 0
    second.leave()
    assert fake.current_device == 2
    assert not missing(str(first.environment()), "gpu0_pci_bus_id", "'gpu1_peers': '0'")
    assert not any(name.startswith("gpu") for name in CudaBackend(0).environment())


def on_another_stream(gpu: CudaBackend) -> object:
    other = gpu.new_stream()
    gpu.copy_to_device(1, 2, 3, other)
    gpu.copy_to_host(4, 5, 6, other)
    mark = gpu.timestamp(other)
    gpu.order(gpu.stream, mark)
    gpu.wait(mark)
    return mark


FLAGS: tuple[tuple[HostFlag, ...], ...] = ((), ("portable",), ("mapped",), ("mapped", "write-combined"))
ROWS = Span(8, 4, 32, 2)
CALLS: dict[str, Callable[[CudaBackend], object]] = {
    "memory": lambda gpu: (gpu.malloc(8), gpu.host_alloc(16), gpu.malloc_managed(64)),
    "memory given back": lambda gpu: (gpu.free(1), gpu.free_host(2)),
    "flags of page-locked memory": lambda gpu: [gpu.host_alloc(8, *flags) for flags in FLAGS],
    "registered": lambda gpu: (gpu.host_register(0x100, 8), gpu.host_unregister(0x100)),
    "registered and mapped": lambda gpu: gpu.host_register(0x100, 8, mapped=True),
    "mapped memory on the GPU": lambda gpu: gpu.host_device_pointer(0xB00),
    "an array over memory": lambda gpu: gpu.device_array(0xA00, 24, (2, 3), np.dtype("f4")),
    "arrays of the library": lambda gpu: gpu.download(gpu.upload([1])),
    "copies": lambda gpu: (gpu.copy_to_device(1, 2, 3), gpu.copy_to_host(4, 5, 6), gpu.synchronize()),
    "a copy of one row": lambda gpu: gpu.copy_span(Span(8, 40, 40), "device", 1000, 2000),
    "rows to the host": lambda gpu: gpu.copy_span(ROWS, "host", 1000, 2000),
    "rows to the GPU": lambda gpu: gpu.copy_span(ROWS, "device", 1000, 2000),
    "another stream": on_another_stream,
    "time": lambda gpu: (gpu.timestamp(), gpu.mark(), gpu.seconds_between(gpu.timestamp(), gpu.timestamp())),
    "a stream that is held": lambda gpu: gpu.hold(1e-3),
    "peers, twice": lambda gpu: [gpu.reach_peers(range(len(gpu.gpus))) for _ in range(2)],
    "rows from a peer": lambda gpu: gpu.copy_from_peer(ROWS, 0, 0x100, 0x200),
}


def calls_of(table: dict[str, Callable[[CudaBackend], object]], gpu: CudaBackend, calls: list[Any]) -> str:
    """What each makes of the library or the bindings, and what it returns."""
    text = ""
    for name, use in table.items():
        calls.clear()
        answer = use(gpu)
        called = ", ".join(f"{call[0]}{call[1:]}" for call in calls)
        text += f"{name}: {called or 'nothing'} -> {answer}\n"
    return re.sub(r"<\S*\.(\w+) object at 0x\w+>", r"\1", text)


def test_what_is_called(installed: Callable[..., FakeCupy], accepted: Accepted) -> None:
    """cudaHostAlloc: 1 Portable, 2 Mapped, 4 WriteCombined; cudaHostRegister: 1 Portable, 2 Mapped."""
    fake, several = installed(), installed(count=2)
    first = CudaBackend(1)
    first.open_gpus(2)
    second = calls_of(CALLS, first.gpus[1], several.calls)
    sys.modules["cupy"] = fake
    accepted(f"{calls_of(CALLS, CudaBackend(0), fake.calls)}\nThe second of two\n{second}", "cuda-calls.txt")


def test_what_a_workload_leaves_behind(installed: Callable[..., FakeCupy]) -> None:
    cupy, gpu = installed(), CudaBackend(0)
    assert gpu.disturbed() is None
    stream, allocator = cupy.current_stream, cupy.allocator
    gpu.xp.cuda.Device(1).use()
    assert not missing(gpu.disturbed() or "", "device 1", "of 0")
    gpu.xp.cuda.Device(0).use()
    gpu.new_stream().use()
    assert "stream" in (gpu.disturbed() or "")
    cupy.current_stream, cupy.allocator = stream, object()
    assert "allocator" in (gpu.disturbed() or "")
    cupy.allocator = allocator
    assert gpu.disturbed() is None
    with gpu.new_stream():
        assert "stream" in (gpu.disturbed() or "")
    with gpu.page_locks() as locks:
        cupy.cuda.runtime.hostRegister(1, 8, 0)
    assert (locks.calls, gpu.disturbed()) == (1, None)


def test_free_memory_and_versions(installed: Callable[..., FakeCupy]) -> None:
    cupy, gpu = installed(), CudaBackend(0)
    assert gpu.free_memory() == 111
    assert gpu.pool_reserved() == 12345
    cupy.broken.add("memGetInfo")
    assert gpu.free_memory() is None
    assert gpu.environment() == {"cuda_driver": "13.1", "cuda_runtime": "12.6", "pci_bus_id": "0000:01:00.0"}
    assert gpu.device() is gpu.device()
    assert gpu.kind_of("managed") == "managed"


def test_every_name_is_one_of_cupys() -> None:
    real = pytest.importorskip("cupy")
    runtime, fake = real.cuda.runtime, vars(FakeCupy().cuda.runtime)
    assert [name for name in fake if not hasattr(runtime, name)] == []
    numbers = [name for name, value in fake.items() if isinstance(value, int)]
    assert {name: getattr(runtime, name) for name in numbers} == {name: fake[name] for name in numbers}
    assert [name for name in vars(FakeCupy().cuda) if not hasattr(real.cuda, name)] == []
    assert hasattr(real, "get_default_memory_pool")
    assert "unsigned int flags" in real.cuda.runtime.hostRegister.__doc__
    assert {"ptr", "mem"} <= set(dir(real.cuda.PinnedMemoryPointer))
    assert hasattr(real.cuda.Stream, "wait_event")
    assert hasattr(real.cuda.Event, "synchronize")
    assert hasattr(real.cuda.Device, "pci_bus_id")
    assert "owner, int device_id" in real.cuda.UnownedMemory.__doc__
    assert "intptr_t dst, intptr_t src, size_t size, int kind, intptr_t stream" in (
        real.cuda.runtime.memcpyAsync.__doc__
    )


# Managed memory, by cuda-bindings


@pytest.fixture(params=[12, 13])
def bindings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> FakeCudaBindings:
    """Both versions; the package `cuda.bindings` has the module as an attribute."""
    fake = FakeCudaBindings(request.param)
    package = types.ModuleType("cuda.bindings")
    monkeypatch.setattr(package, "runtime", fake, raising=False)
    monkeypatch.setitem(sys.modules, "cuda", types.ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", package)
    monkeypatch.setitem(sys.modules, "cuda.bindings.runtime", fake)
    return fake


ON_HOST = ("cudaMemLocationTypeHost", 0)
MANAGED: dict[str, Callable[[CudaBackend], object]] = {
    **{f"prefetch to the {to}": lambda gpu, to=to: gpu.prefetch(0xC00, 64, to) for to in get_args(Side)},
    **{f"attach to the {to}": lambda gpu, to=to: gpu.attach(0xC00, to) for to in get_args(Side)},
    **{hint: lambda gpu, hint=hint: gpu.advise(0xC00, 64, hint) for hint in get_args(Hint)},
    "discard": lambda gpu: gpu.discards and gpu.discard(0xC00, 64, "host"),
}


def test_managed_memory_is_placed_by_calls_that_take_a_location(
    bindings: FakeCudaBindings, monkeypatch: pytest.MonkeyPatch, accepted: Accepted
) -> None:
    """Attaching: length 0; cudaMemAttachHost is 2, cudaMemAttachSingle 4. Discarding: a batch of one."""
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy(count=2))
    second = CudaBackend(1)
    accepted(calls_of(MANAGED, second, bindings.calls), f"managed-calls-{bindings.version}.txt")
    bindings.error = bindings.cudaError_t.cudaErrorInvalidDevice
    with pytest.raises(ManagedCallFailed, match=r"^cudaErrorInvalidDevice \(101\)$"):
        second.prefetch(0xC00, 64, "host")


def test_the_fake_bindings_take_what_the_real_ones_take() -> None:
    real = pytest.importorskip("cuda.bindings.runtime")
    version: Literal[12, 13] = 12 if hasattr(real, "cudaMemPrefetchAsync_v2") else 13
    for name, parameters in bindings_signatures(version).items():
        assert tuple(inspect.signature(getattr(real, name)).parameters) == parameters
    for name, members in BINDINGS_ENUMS.items():
        assert {member: int(getattr(getattr(real, name), member)) for member in members} == members
    fake = FakeCudaBindings(version)
    assert (int(real.cudaMemAttachHost), int(real.cudaMemAttachSingle)) == (
        fake.cudaMemAttachHost,
        fake.cudaMemAttachSingle,
    )
    place = real.cudaMemLocation()
    place.type, place.id = real.cudaMemLocationType.cudaMemLocationTypeHost, 0
    assert (place.type.name, place.id) == ON_HOST
    places = ManagedCalls(3)._places
    assert {side: (place.type.name, place.id) for side, place in places.items()} == {
        "host": ON_HOST,
        "device": ("cudaMemLocationTypeDevice", 3),
    }


# Where there is none


def test_what_is_not_there_is_refused(
    installed: Callable[..., FakeCupy], monkeypatch: pytest.MonkeyPatch, accepted: Accepted
) -> None:
    def on(module: str, fake: object, call: Callable[[], object]) -> Callable[[], object]:
        def run() -> object:
            with monkeypatch.context() as changed:
                changed.setitem(sys.modules, module, fake)
                return call()

        return run

    def no_library(_: str) -> Any:
        raise OSError("no libcuda.so.1")

    installed()
    broken = FakeCupy()
    broken.broken.add("getDeviceCount")
    two = {f"GPU {n} of two": on("cupy", FakeCupy(count=2), partial(CudaBackend, n)) for n in (2, -1)}
    calls = {
        "two GPUs where there is one": lambda: CudaBackend(0).open_gpus(2),
        "two GPUs where one is chosen": lambda: CudaBackend(0).open_gpus(2, (0,)),
        **two,
        "CuPy is not installed": on("cupy", None, partial(CudaBackend, 0)),
        "CUDA finds no GPU": on("cupy", broken, partial(CudaBackend, 0)),
        "cuda-bindings is not installed": on(
            "cuda.bindings", None, lambda: CudaBackend(0).prefetch(0xC00, 64, "host")
        ),
        "there is no driver": partial(driver.Driver, 7, no_library),
        "the driver refuses": partial(driver.Driver, 7, lambda _: FakeDriver("cuDeviceGet")),
    }
    accepted(refusals(calls), "gpus-refused.txt")


# Choosing a backend


def test_cupy_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    (tmp_path / "cupy.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(tmp_path)
    assert backends.has_cupy()
    assert "cupy" not in sys.modules
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert not backends.has_cupy()


@every(("count", "failing"), [(0, ""), (3, ""), (3, "cuInit"), (3, "cuDeviceGetCount")])
def test_gpus_are_counted_by_the_driver(count: int, failing: str) -> None:
    names: list[str] = []
    library = FakeDriver(count=count, failing=failing)
    assert backends.gpu_count(lambda name: (names.append(name), library)[1]) == count * (not failing)
    assert names == ["libcuda.so.1"]


@every("unknown", [None, driver.ATTRIBUTES["memory_pools_supported"]])
def test_the_attributes_of_the_driver(unknown: int | None) -> None:
    """Each is its own number; one that the driver does not know is left out."""
    gpu = driver.Driver(0, lambda _: FakeDriver(unknown=unknown))
    assert (gpu.device().name, gpu.device().memory_class) == ("A GPU \N{REPLACEMENT CHARACTER}", "coherent")
    known = {name: number for name, number in driver.ATTRIBUTES.items() if number != unknown}
    more = {"integrated": 0, "compute_capability": "75.76", "total_global_mem": 8 << 30}
    assert gpu.device().attributes == {**known, **more}
    assert gpu.environment() == {"cuda_driver": "13.1", "pci_bus_id": "0000:01:00.0"}
    assert gpu.uuid() == "00010203-0405-0607-0809-0a0b0c0d0e0f"


def test_the_gpus_of_a_fleet_s_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """By UUID, parts of a GPU by their names in CUDA_VISIBLE_DEVICES; one that fails is left out."""

    def opened(gpu: int) -> driver.Driver:
        library = FakeDriver("cuDeviceGet" * (gpu == 2), unknown=driver.ATTRIBUTES["integrated"])
        return driver.Driver(gpu, lambda _: library)

    monkeypatch.setattr(remote, "gpu_count", lambda: 3)
    monkeypatch.setattr(remote, "Driver", opened)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,MIG-7,1")
    gpus = remote.machine().gpus
    assert [gpu.uuid for gpu in gpus] == ["GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", "MIG-7"]
    assert [gpu.place for gpu in gpus] == [gpu.uuid for gpu in gpus]
