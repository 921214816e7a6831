"""Buffers as other libraries' arrays: the same memory, in order with the stream, clear words where not."""

from __future__ import annotations

import ctypes
import re
import sys
import types
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from every import every
from fakes import EVERY_HASTE, DeviceArray, RecordingBackend, bench
from rendering import Accepted, refusals

from advisor.errors import WorkloadError
from advisor.measure.backends import CpuBackend
from advisor.workloads.binding import BoundWorkload, bind
from advisor.workloads.bridges import require_libraries
from advisor.workloads.definition import Buffer, In, InOut, Out, Stage, Workload, device, host

N = 16


def one_stage(stage: Stage, dtype: Any = np.float32) -> Workload:
    """A buffer that the host fills, the stage and a host stage that reads what it wrote."""

    def produce(a: Out, frame: int) -> None:
        a.fill(frame)

    def consume(b: In) -> None:
        b.sum()

    return Workload({name: Buffer(N, dtype) for name in "ab"}, [host(produce), stage, host(consume)])


def run_once(workload: Workload, backend: Any = None, strategy: str = "pageable") -> tuple[Any, Any]:
    """The host's buffer after frame 3, and the placed buffers' addresses by name."""
    with bench(workload, strategy, backend or CpuBackend()) as run:
        run.start()
        run.loop.frame_alone(3)
        addresses = {name: (lies(p.host), lies(p.device)) for name, p in run.placed.items()}
        return run.inspector.newest("b").copy(), addresses


def lies(array: Any) -> int | None:
    return int(array.ctypes.data) if isinstance(array, np.ndarray) else None


def seen_by(form: str, seen: dict[str, int], side: str = "device") -> Stage:
    """A stage that doubles `a` into `b` through NumPy, and notes the addresses it was given."""

    def as_array(given: Any) -> Any:
        if form == "pointer":
            assert type(given) is int
            return np.frombuffer((ctypes.c_float * N).from_address(given), np.float32)
        if form == "torch":
            return given.numpy()
        return np.asarray(given) if form == "numba" else np.from_dlpack(given)

    def double(a: In, b: Out) -> None:
        source, target = as_array(a), as_array(b)
        seen.update(a=source.ctypes.data, b=target.ctypes.data)
        ctypes.memmove(target.ctypes.data, (source * 2).ctypes.data, 4 * N)

    return device(double, arrays=form) if side == "device" else host(double, arrays=form)


@every("side", ["device", "host"])
@every("form", ["numba", "pointer", "dlpack", "torch"])
def test_a_form_shares_the_placement_s_memory(form: str, side: str) -> None:
    if form == "torch":
        pytest.importorskip("torch")
    seen: dict[str, int] = {}
    result, addresses = run_once(one_stage(seen_by(form, seen, side)))
    assert (result == 6).all()
    assert seen == {name: both[side == "device"] for name, both in addresses.items()}


def test_annotations_name_the_form_of_one_buffer() -> None:
    torch = pytest.importorskip("torch")

    def take(a: In[int], b: InOut[np.ndarray]) -> None: ...

    (stage,) = bind(one_stage(device(take))).frame[1:2]
    assert dict(stage.forms) == stage.record().arrays == {"a": "pointer"}
    given: list[type] = []

    def on_gpu(a: In, b: Out) -> None: ...
    def twin(a: In[torch.Tensor], b: Out[int]) -> None:  # type: ignore[name-defined]
        given.extend((type(a), type(b)))

    run_once(one_stage(device(on_gpu, cpu=twin, arrays="pointer")))
    assert given[:2] == [torch.Tensor, int]


def takes(form: str, dtype: Any = np.float32) -> BoundWorkload:
    return bind(one_stage(device(stage, arrays=form), dtype))


def test_what_no_library_can_share_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, accepted: Accepted
) -> None:
    pytest.importorskip("torch")
    calls = {
        f"{form} of {dtype}": partial(require_libraries, takes(form, dtype), CpuBackend())
        for form, dtype in (("torch", ">f4"), ("dlpack", "M8[s]"), ("numba", "M8[s]"))
    }
    accepted(re.sub("(?<=share its memory: ).*", "…", refusals(calls)), "arrays-refused.txt")
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(WorkloadError, match="Numba") as caught:
        require_libraries(takes("numba"), RecordingBackend())
    assert caught.value.next_step.startswith("Install compatible versions: pip install -U numba")


def stage(a: In, b: Out) -> None: ...


def test_a_copy_is_not_taken_for_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    def copied(array: Any) -> Any:
        return types.SimpleNamespace(data_ptr=array.copy().ctypes.data.__int__)

    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(from_numpy=copied))
    with pytest.raises(WorkloadError, match="PyTorch copied it"):
        run_once(one_stage(device(stage, arrays="torch")))


# On the GPU, with the recording backend and stand-ins for the libraries


@every("takes_stream", [False, True])
@every("haste", EVERY_HASTE)
def test_work_on_the_default_stream_is_in_order_with_the_program_s(haste: Any, takes_stream: bool) -> None:
    """A stage of a library that works on the default stream, or on the one it is given."""
    backend = RecordingBackend(haste=haste)

    def memory(address: int) -> Any:
        real = address & ~(1 << 52)
        return np.frombuffer((ctypes.c_float * N).from_address(real), np.float32)

    def as_told(a: In, b: Out, stream: Any) -> None:
        backend.submit("kernel", lambda: np.multiply(memory(a), 2, out=memory(b)), stream)

    def by_default(a: In, b: Out) -> None:
        as_told(a, b, backend.default_stream())

    stage = device(as_told if takes_stream else by_default, arrays="pointer")
    result, _ = run_once(one_stage(stage), backend, "pinned")
    assert (result == 6).all()
    assert ("order" in backend.names) != takes_stream, "who takes the stream pays for no order"


class FakeTorch(types.ModuleType):
    """As much of PyTorch with CUDA as the bridge uses; notes the stream that is current in a stage."""

    def __init__(self, *, knows_ordinary_memory: bool = True) -> None:
        super().__init__("torch")
        self.current: Any = None
        self._knows = knows_ordinary_memory
        self.cuda = types.SimpleNamespace(
            init=lambda: None,
            current_device=lambda: 0,
            ExternalStream=lambda ptr, device: ("external", ptr),
            stream=self._within,
        )
        self.device = lambda kind, index: (kind, index)
        self.from_numpy = lambda array: types.SimpleNamespace(data_ptr=lambda: array.ctypes.data)

    @contextmanager
    def _within(self, stream: Any) -> Any:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def as_tensor(self, array: Any, device: Any) -> Any:
        if isinstance(array, DeviceArray) and not self._knows:
            raise RuntimeError("The specified pointer resides on host memory")
        return self.from_dlpack(array)

    def from_dlpack(self, array: DeviceArray) -> Any:
        return types.SimpleNamespace(data_ptr=lambda: array.data.ptr, fill_=array.fill)


def test_a_pytorch_without_cuda_says_so_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = FakeTorch()
    torch.cuda.init = Mock(side_effect=AssertionError("Torch not compiled with CUDA enabled"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(WorkloadError, match="cannot use the GPU: Torch not compiled with CUDA") as caught:
        require_libraries(takes("torch"), RecordingBackend())
    assert "pytorch.org" in caught.value.next_step


@pytest.mark.parametrize("knows", [True, False])
def test_tensors_on_the_gpu_share_memory_and_run_on_the_program_s_stream(
    knows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = FakeTorch(knows_ordinary_memory=knows)
    monkeypatch.setitem(sys.modules, "torch", torch)
    seen: list[Any] = []

    def fill(a: In, b: Out, stream: Any, frame: int) -> None:
        seen.append((torch.current, stream))
        b.fill_(frame)

    backend = RecordingBackend(haste="lazy")
    result, _ = run_once(one_stage(device(fill, arrays="torch")), backend, "pinned")
    assert (result == 3).all()
    assert seen == [(("external", backend.stream.ptr),) * 2] * 2
    assert torch.current is None
