"""Devices to calibrate without one: kernels as NumPy twins, and a GPU whose every cost is known."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from builders import cuda_device
from fakes import CAPABLE as WITH_HMM
from fakes import ON_DEVICE, DeviceArray, FakeClock, RecordingBackend

from advisor.calibration.bench import Bench, Limits, Sizes
from advisor.calibration.calibrations import by_name
from advisor.measure.backends import CpuBackend
from advisor.measure.jobs import CalibrationJob, GroupRun, Reading
from advisor.measure.launcher import Ended
from advisor.profiles.schema import Device
from advisor.strategies.backend import HostFlag

MIB = 1 << 20
CAPABLE = {**WITH_HMM, "pageable_memory_access": 0}
"""A card without HMM."""
SIZES = Sizes(host=1 << 16, transfer=MIB, device=1 << 16, managed=8 * MIB, l2=1 << 14, host_cache=1 << 15)
QUICK = Limits(seconds=0.002, least=3, most=5)


TWINS: dict[str, Callable[..., object]] = {
    "nothing": lambda: None,
    "read_once": lambda data, count, out: data[: int(count) * 4].sum(),
    "read_again": lambda data, mask, loads, out: data[: (int(mask) + 1) * 4].sum(),
    "read_near": lambda data, records, loads, out: data[: int(records) * 64].sum(),
    "multiply_tiles": lambda a, b, c, n: np.copyto(c[: int(n), : int(n)], a + b),
    "read_again_l2": lambda data, mask, loads, out: data[: (int(mask) + 1) * 4].sum(),
    "write_once": lambda data, count, value: data[: int(count) * 4].fill(value),
    "copy_once": lambda source, target, count: np.copyto(target, source),
    "multiply_add": lambda rounds, factor, out: out.fill(factor),
    "touch_in_turn": lambda data, step, count, out: data[: int(count) * int(step) : int(step)].sum(),
}
"""What each kernel reads and writes, as far as it can go wrong outside its buffers."""


class RawKernels:
    """An array module with `RawKernel`: its launches go to `launch(name, grid, arguments)`."""

    def __init__(
        self,
        launch: Callable[[str, Any, tuple[Any, ...]], None],
        routine: Callable[..., object] | None = None,
    ) -> None:
        self._launch = launch
        self._routine = routine

    def __getattr__(self, name: str) -> Any:
        return partial(self._routine, name) if self._routine else getattr(np, name)

    def RawKernel(self, source: str, name: str) -> Callable[..., None]:  # noqa: N802
        assert f"__global__ void {name}(" in source
        return lambda grid, block, arguments: self._launch(name, (grid, block), arguments)


class CpuWithKernels(CpuBackend):
    """The CPU as a device that can do everything, in real time."""

    def __init__(self) -> None:
        super().__init__()
        self.xp: Any = RawKernels(self._launch)

    @staticmethod
    def _launch(name: str, grid: Any, arguments: tuple[Any, ...]) -> None:
        with np.errstate(all="ignore"):  # buffers start with whatever was in that memory
            TWINS[name](*arguments)

    def device(self) -> Device:
        return cuda_device(**CAPABLE, multiprocessor_count=1, l2_cache_size=1 << 14, total_global_mem=1 << 30)


class Sliced(DeviceArray):
    """A device array whose parts are device arrays."""

    def __getitem__(self, key: Any) -> Sliced:
        return Sliced(self._backend, self.data.ptr, self.memory[key])

    @property
    def T(self) -> Sliced:  # noqa: N802
        return Sliced(self._backend, self.data.ptr, self.memory.T)


class KnownGpu(RecordingBackend):
    """A recording GPU on which copies take `call + bytes / rate`, launches `launch`, and kernels and
    prefetches what they are told to; all on `clock`."""

    def __init__(
        self, clock: FakeClock | None = None, *, device: Device | None = None, **options: Any
    ) -> None:
        device = device or cuda_device(
            **CAPABLE, multiprocessor_count=2, l2_cache_size=1 << 14, total_global_mem=1 << 30
        )
        super().__init__(device=device, **options)
        self.clock = clock or FakeClock()
        self.call, self.rate, self.launch, self.wait = 4e-6, 10e9, 2e-6, 0.0
        self.kernel_seconds: dict[str, Iterable[float]] = {}
        self.routine_seconds: dict[str, float] = {}
        self.prefetch_rate = 20e9
        self.prefetch_call = self.attach_call = self.arriving = 0.0
        self.beyond_cache = 0
        self.xp = RawKernels(self._run, self._library)
        self._costs: dict[str, Any] = {}

    def _run(self, name: str, grid: Any, arguments: tuple[Any, ...]) -> None:
        self._call("kernel", name)
        costs = self._costs.setdefault(name, iter(self.kernel_seconds.get(name, ())))
        self.clock.advance(self.launch + next(costs, 0.0))
        plain = [a.memory if isinstance(a, DeviceArray) else a for a in arguments]
        self.submit("kernel", lambda: TWINS[name](*plain))

    def _library(self, name: str, *arrays: Sliced) -> None:
        self._call("routine", name)
        self.clock.advance(self.routine_seconds.get(name, 0.0))

    def host_alloc(self, nbytes: int, *flags: HostFlag) -> int:
        return super().host_alloc(nbytes, *(flag for flag in flags if flag == "mapped"))

    def device_array(self, pointer: int, nbytes: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        array = super().device_array(pointer, nbytes, shape, dtype)
        return Sliced(self, pointer, array.memory)

    def copy_to_device(self, target: int, source: int, nbytes: int, stream: Any = None) -> None:
        self._copy("copy_to_device", target, nbytes)

    def copy_to_host(self, target: int, source: int, nbytes: int, stream: Any = None) -> None:
        self._copy("copy_to_host", source, nbytes)

    def _copy(self, name: str, device_pointer: int, nbytes: int) -> None:
        self._call(name, nbytes)
        assert nbytes <= self.live[device_pointer & ~ON_DEVICE][1]
        self.clock.advance(self.call + nbytes / self.rate * (2 if nbytes == self.beyond_cache else 1))

    def prefetch(self, pointer: int, nbytes: int, side: Any) -> None:
        self._call("prefetch", nbytes, side)
        self.clock.advance(self.prefetch_call + nbytes / self.prefetch_rate)

    def attach(self, pointer: int, side: Any) -> None:
        super().attach(pointer, side)
        self.clock.advance(self.attach_call)

    def synchronize(self) -> None:
        copied = self.names[-1:] and self.names[-1].startswith("copy")
        super().synchronize()
        self.clock.advance(self.wait + self.arriving * bool(copied))

    def timestamp(self, stream: Any = None) -> Any:
        return types.SimpleNamespace(seconds=self.clock.now)


def bench_on(backend: Any, **changes: Any) -> Bench:
    """A bench with small sizes; on a known GPU with its clock."""
    clock = {"clock": backend.clock} if isinstance(backend, KnownGpu) else {}
    return Bench(backend, **{"sizes": SIZES, "limits": QUICK, **clock, **changes})


def measured(measure: Callable[[Bench], None], backend: Any, **changes: Any) -> Bench:
    bench = bench_on(backend, **changes)
    measure(bench)
    return bench


DISCRETE = cuda_device(**CAPABLE, multiprocessor_count=8, l2_cache_size=4 * MIB, total_global_mem=8 << 30)


def reading(value: float, what: str = "256 MiB") -> Reading:
    return Reading(value=value, low=value * 0.9, high=value * 1.1, repeats=9, what=what)


def run_of(group: str, device: Device = DISCRETE, *, without: tuple[str, ...] = ()) -> GroupRun:
    """A group that found all its figures: rates of 10 GB/s, and 5 µs."""
    keys = [key for key in by_name(group).keys if key not in without]
    readings = {key: reading(10e9 if key.endswith("per_second") else 5e-6) for key in keys}
    if "migration_bytes" in readings:
        readings["migration_bytes"] = reading(65536.0)
    return GroupRun(
        device=device if by_name(group).needs_gpu else Device(name="CPU", kind="cpu"),
        gpu={"cuda_driver": "13.0", "pci_bus_id": "0000:01:00.0"},
        readings=readings,
        absent=dict.fromkeys(without, "it was left out"),
    )


class Answers:
    """A launcher that answers at once; `answers` by the name of the group, all groups well without."""

    def __init__(self, **answers: Callable[[], Ended]) -> None:
        self.jobs: list[CalibrationJob] = []
        self._answers = {name.replace("_", "-"): answer for name, answer in answers.items()}

    def __call__(self, job: CalibrationJob) -> Ended:
        self.jobs.append(job)
        answer = self._answers.get(job.group)
        return answer() if answer else Ended(run_of(job.group), "finished")


def died() -> Ended:
    return Ended(None, "died", "the process was killed by SIGBUS")
