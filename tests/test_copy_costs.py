"""Times of calls, and what copies cost a frame by taking them off in some: on a clock that both advance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from recorded import Recording

from advisor.measure.cupy_mock.arrays import DeviceArray
from advisor.measure.recording.calls import Calls, replace
from advisor.measure.recording.cupy_calls import CupyCalls
from advisor.measure.recording.host_memory import Contents, LineContents, host_bytes
from advisor.measure.recording.loops import LAUNCH_SAMPLE, Site
from advisor.measure.recording.played_cupy import modules
from advisor.measure.recording.records import Event
from advisor.measure.recording.torch_calls import TorchCalls
from advisor.profiles.crossings import ScriptRun
from advisor.verdicts.ceilings import ceilings

UPLOADS = "for number in range(500):\n    gpu.upload()\n    gpu.compute()\n"
FRAMES = UPLOADS + "    gpu.download()\n"


class Machine:
    """An upload of 1 ms and a download of 2 ms, each of which slows down what follows by 0.2 ms unless its
    memory is page-locked, which takes 0.5 ms; and a kernel of 3 ms that the download waits for."""

    def __init__(self, recording: Recording) -> None:
        self.recording, self.clock = recording, recording.clock
        self.kernel, self.slower, self.made = 0.0, 0.0, 0
        self.locked: set[int] = set()
        self.is_captured = False
        self.options: dict[str, Any] = {}
        costs = recording.recorder.copy_costs
        costs.is_possible, costs._pages = True, self
        recording.device.wait = lambda _: self.wait()
        recording.device.is_capturing = lambda _: self.is_captured
        calls = Calls("cupy", recording.recorder, recording.device, self.direct)
        host = np.zeros(1 << 20, np.uint8)
        size = lambda *_: host.nbytes  # noqa: E731
        recording.gpu.upload = calls.sized("upload", "up", size, memory="pageable", host=host)(
            partial(self.copy, 0.001)
        )
        download = calls.sized(
            "download", "down", size, blocks=True, memory="pageable", asynchronous=False, host=host
        )
        recording.gpu.download = download(partial(self.copy, 0.002))
        recording.gpu.compute = self.compute
        recording.gpu.launch = calls.launching()(lambda: None)
        recording.gpu.synchronize = calls.synchronizing("synchronize")(self.wait)
        recording.gpu.capture = lambda on: setattr(self, "is_captured", on)

    def run(self, source: str = FRAMES) -> ScriptRun:
        self.recording.run(source)
        return self.recording.record()

    def direct(self, name: str, call: Any, args: Any, _: Any) -> Any:
        if name == self.options.get("indirect"):
            return None
        if name == self.options.get("odd"):
            raise TypeError("an array that nobody thought of")
        return (1000, 1 << 20), partial(call, *args)

    def lock(self, address: int, size: int) -> int:
        self.clock.advance(0.0005)
        status = int(self.options.get("status", 0))
        self.locked |= set() if status else {address}
        return status

    def unlock(self, address: int) -> None:
        self.locked.remove(address)
        self.slower += self.options.get("slowed_by_locks", 0.0)

    def copy(self, seconds: float) -> None:
        if seconds > 0.001 and not self.is_captured:
            self.wait()
        self.made += 1
        self.slower += 0.0 if self.locked else 0.0002
        self.clock.advance(seconds)

    def compute(self) -> None:
        self.clock.advance(0.002 + self.slower)
        self.slower, self.kernel = 0.0, 0.003

    def wait(self) -> None:
        assert not self.is_captured
        self.clock.advance(self.kernel)
        self.kernel = 0.0


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(Recording(tmp_path, monkeypatch))


def test_copies_cost_a_frame_their_own_time_and_what_other_lines_lose(machine: Machine) -> None:
    """Also where page-locking costs other lines more than copies do."""
    machine.options["slowed_by_locks"] = 0.0003
    run = machine.run()
    (loop,) = run.loops
    assert loop.copy_cost
    assert loop.copy_cost.seconds == pytest.approx(0.0034)
    assert loop.copy_cost.interval_seconds == pytest.approx((0.0034, 0.0034))
    assert loop.frame_seconds == pytest.approx(0.0084)
    assert (machine.made, machine.locked) == (1000, set())
    assert [c.count for c in run.crossings] == [500, 500]
    assert [c.host_seconds for c in run.crossings] == pytest.approx([0.5, 1.0])
    assert ceilings(run)[0].seconds == pytest.approx(0.0034)


def test_what_the_recorder_takes_is_in_no_frame(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    crossed = machine.recording.recorder.crossed

    def slow(event: Event) -> None:
        machine.clock.advance(0.0003 if event.created is not None else 0.0)
        crossed(event)

    monkeypatch.setattr(machine.recording.recorder, "crossed", slow)
    (loop,) = machine.run().loops
    assert loop.frame_seconds == pytest.approx(0.0084)
    assert loop.copy_cost
    assert loop.copy_cost.seconds == pytest.approx(0.0034, rel=0.05)


def body(frames: int, times: int = 1) -> str:
    """The lines of an inner loop of so many frames, or of several such loops."""
    return "".join(f"    {line}\n" for line in times * FRAMES.replace("500", str(frames)).splitlines())


@pytest.mark.parametrize(
    ("source", "loops"),
    [
        (f"tables = [gpu.upload() for _ in range(64)]\nfor epoch in range(6):\n{body(97, times=2)}", 2),
        (f"def run():\n{body(1200)}run()\nrun()\n", 1),
    ],
    ids=["training and validation", "a loop that is run from two places"],
)
def test_each_loop_is_measured(source: str, loops: int, machine: Machine) -> None:
    costs = [loop.copy_cost for loop in machine.run(source).loops if loop.last_line > 1]
    assert len(costs) == loops
    assert all(costs)


CAPTURED = FRAMES.replace("gpu.upload", "gpu.capture(number % 3 == 1)\n    gpu.upload")
SUMMED: dict[str, tuple[dict[str, Any], str, float]] = {
    "the memory cannot be page-locked": ({"status": 1}, FRAMES, 0.003),
    "most of the copies do more than copy": ({"indirect": "down"}, FRAMES, 0.003),
    "an array is odd": ({"odd": "up"}, FRAMES, 0.003),
    "few frames": ({}, FRAMES.replace("500", "100"), 0.003),
    "a wait would end a capture into a graph, which the machine forbids": ({}, CAPTURED, 0.003),
    "uploads would wait for kernels": ({}, UPLOADS, 0.001),
}


@pytest.mark.parametrize("case", SUMMED)
def test_calls_are_summed_where_copies_cannot_be_taken_off(case: str, machine: Machine) -> None:
    machine.options, source, seconds = SUMMED[case]
    run = machine.run(source)
    (loop,), (ceiling,) = run.loops, ceilings(run)
    assert loop.copy_cost is None
    assert (ceiling.seconds, ceiling.interval_seconds) == (pytest.approx(seconds), None)
    assert {c.count for c in run.crossings} == {loop.frames}
    assert (machine.made, machine.locked) == (loop.frames * len(run.crossings), set())


def test_waiting_for_kernels_is_no_time_of_a_copy_and_all_of_a_synchronization(machine: Machine) -> None:
    run = machine.run(FRAMES.replace("500", "20") + "gpu.compute()\ngpu.synchronize()\n")
    times = [(c.host_seconds, c.kernel_seconds, c.stream_seconds) for c in run.crossings]
    expected = [(0.02, 0, 0.02), (0.04, 0.06, 0.04), (0, 0.003, None)]
    assert times == [pytest.approx(each, abs=1e-9) for each in expected]


def test_launches_are_a_sample_where_nobody_listens(machine: Machine) -> None:
    machine.run("for number in range(80):\n    gpu.launch()\n")
    assert machine.recording.recorder.launches[None] == 3 * LAUNCH_SAMPLE


@pytest.mark.parametrize("frames", range(40, 46))
def test_a_line_behind_the_loop_is_looked_at_wherever_the_loop_ends(machine: Machine, frames: int) -> None:
    *_, behind = machine.run(FRAMES.replace("500", str(frames)) + "gpu.upload()\n").crossings
    assert behind.origin
    assert behind.repeats


def test_what_is_taken_off_is_a_tenth_of_the_time_at_most(machine: Machine) -> None:
    machine.run(FRAMES.replace("500", "60"))
    assert machine.recording.recorder.copy_costs.seconds < 0.1 * machine.clock.now + 3 * 0.004


@pytest.fixture
def cupy() -> Iterator[Any]:
    """CuPy as it is played for a script: that completes the class of the mock, which is undone here."""
    before = dict(vars(DeviceArray))
    yield modules()["cupy"]
    for name, value in list(vars(DeviceArray).items()):
        if name not in before:
            delattr(DeviceArray, name)
        elif value is not before[name]:
            setattr(DeviceArray, name, before[name])


def test_cupy_copies_from_and_to_one_array_of_the_host(cupy: Any) -> None:
    cupy._watch.heard = lambda: None
    calls = CupyCalls()
    calls._cupy, calls._array = cupy, cupy.ndarray
    host, out = np.arange(6.0).reshape(2, 3), np.zeros((2, 3))
    array = cupy.asarray(host)

    def direct(name: str, call: Any, *args: Any, **options: Any) -> Any:
        return calls._direct(name, call, args, options)

    (place, size), copy = direct("ndarray.get", cupy.ndarray.get, array)
    result = copy()
    assert (result.ctypes.data, result.nbytes, result.flags.owndata) == (place, size, True)
    assert np.array_equal(result, host)
    (place, _), copy = direct("cupy.asnumpy", cupy.asnumpy, array, None, "C", out)
    assert copy() is out
    assert (place, out[1, 2]) == (out.ctypes.data, 5)
    assert direct("ndarray.get", cupy.ndarray.get, array, order="F") is None
    (place, size), copy = direct("cupy.asarray", cupy.asarray, host)
    assert (place, size) == (host.ctypes.data, host.nbytes)
    assert copy().get()[1, 2] == 5
    assert direct("cupy.array", cupy.array, [1, 2]) is None
    assert direct("ndarray.tolist", cupy.ndarray.tolist, array) is None
    (place, _), copy = direct("ndarray.set", cupy.ndarray.set, array, out)
    assert place == out.ctypes.data


def test_bytes_of_tensors_without_memory_of_their_own_or_that_cannot_tell_are_not_looked_at() -> None:
    torch = pytest.importorskip("torch")
    values, freed = torch.ones(4), torch.ones(4)
    freed.untyped_storage().resize_(0)
    made_of_others = type("Pair", (torch.Tensor,), {"__torch_dispatch__": classmethod(lambda *_: None)})
    wrapped = torch.Tensor._make_wrapper_subclass(made_of_others, (4,))
    without = wrapped, freed, torch._efficientzerotensor(4), values.to_sparse(), values.to("meta"), values[:0]
    conjugated = values.to(torch.complex64).conj()  # of its memory, and not its values
    mute = dict.fromkeys(("is_pinned", "is_contiguous"), lambda _: {}["an error of its own"])
    silent = values.as_subclass(type("Silent", (torch.Tensor,), mute))
    assert [host_bytes(each) for each in (*without, conjugated, silent)] == [None] * 8
    calls: Any = TorchCalls()
    calls._torch, calls._recorder = torch, SimpleNamespace(depth=nullcontext())
    assert [calls._memory(each) for each in (silent, values, [1.0])] == ["unknown", "pageable", "pageable"]


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_a_large_matrix_is_looked_at_in_parts() -> None:
    """NumPy's matrices have two dimensions always."""
    seen = LineContents(Site("", 1, (), (), at_head=False))
    for number in (8, 9):
        Contents().look(seen, "upload", np.matrix(np.arange(100_001.0)), number)
    assert (seen.checked, seen.same, seen.complete) == (2, 1, False)


def test_pytorch_copies_into_a_tensor_that_can_be_resized() -> None:
    torch = pytest.importorskip("torch")
    on_gpu = torch.arange(6.0).reshape(2, 3).as_subclass(type("Gpu", (torch.Tensor,), {"is_cuda": True}))
    calls: Any = TorchCalls()
    calls._torch, calls._is_plain = torch, torch.Tensor.is_contiguous
    (place, size), copy = calls._direct("Tensor.cpu", torch.Tensor.cpu, (on_gpu,), {})
    result = copy()
    assert (result.data_ptr(), size, result.tolist()) == (place, 24, [[0, 1, 2], [3, 4, 5]])
    assert host_bytes(result).view("f4").tolist() == [0, 1, 2, 3, 4, 5]
    assert host_bytes(result.T) is None
    assert result.resize_(20).numel() == 20
    assert calls._direct("Tensor.to", torch.Tensor.to, (on_gpu, "cpu", torch.float64), {}) is None


def test_methods_of_compiled_classes_are_replaced() -> None:
    device = pytest.importorskip("cupy").cuda.Device
    original = device.synchronize
    replace(device, "synchronize", lambda call: lambda self: ("replaced", call is original))
    try:
        assert device(0).synchronize() == ("replaced", True)
    finally:
        replace(device, "synchronize", lambda _: original)
