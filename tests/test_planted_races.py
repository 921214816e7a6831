"""Scripts in which a change of memory would be a race: each is refused, guarded, or not written."""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from every import every

from advisor.measure.recording import played_torch
from advisor.measure.trying.changes import Imposed, imposed
from advisor.measure.trying.libraries import NumbaCopies, TorchCopies
from advisor.measure.trying.results import _TORCH, Downloads
from advisor.profiles.trials import ChangeKind
from advisor.strategies.allocators import VARIABLE
from advisor.strategies.edits import Change, edited
from advisor.strategies.syntax import CannotWrite
from tests.forking import run_forked

PACKAGES = Path(__file__).parent / "trial_packages"
SCRIPT = "planted.py"
START = """\
import cupy
import numpy as np
log, kept, late = [], [], False
"""
GRAY = "gray = np.full(4, 0.0)  #origin\n"
GUARDED = "right, imposed and written"
KEEPS = "keeps the arrays"


def frames(body: str) -> str:
    return f"for i in range(6):  #loop\n{body}"


def uploads(body: str, before: str = GRAY) -> str:
    """Frames that write `gray`, upload it to `d`, and write it again."""
    return before + frames(f" gray[...] = i\n{body}\n gray[...] = -1\n log.append(d.get()[0])")


def downloads(body: str) -> str:
    """Frames that have a new `d` on the GPU."""
    return frames(f" d = cupy.asarray(np.full(4, i))\n{body}")


RACES = {
    "a buffer that is overwritten next": ("lock", uploads(" d = cupy.asarray(gray)  #line"), GUARDED),
    "an assignment that shares the array": ("lock", (
        GRAY + "e = cupy.asarray(np.zeros(4))\nfor i in range(6):  #loop\n gray[...] = i\n"
        " d = cupy.asarray(gray)  #line\n gray[...] = -1\n e[...] = gray  #also\n gray[...] = -2\n"
        " log.append((d.get()[0], e.get()[0]))"
    ), GUARDED),
    "a new buffer in each frame": ("lock", (
        "for i in range(30):  #loop\n gray = np.full(4, i)  #origin\n d = cupy.asarray(gray)  #line\n"
        " gray[...] = -1\n log.append(d.get()[0])"
    ), "a new array in each frame"),
    "memory of another's": ("lock", (
        "gray = np.frombuffer(bytearray(32))  #origin\nfor i in range(6):  #loop\n gray[...] = i\n"
        " d = cupy.asarray(gray)  #line\n gray[...] = -1\n log.append(d.get()[0])"
    ), "does not own the memory"),
    "several copies in one statement": ("lock", (
        GRAY + "def read(i):\n gray[...] = i\n return gray\nfor i in range(6):  #loop\n"
        " ds = [cupy.asarray(read(i + k)) for k in (0, 9)]  #line\n"
        " log.append([d.get()[0] for d in ds])"
    ), GUARDED),
    "a view that a branch uploads which the run did not take": ("lock", uploads(
        " d = cupy.asarray(gray)  #line\n if late:\n  d = cupy.asarray(view)",
        GRAY + "view = gray[:]\n"
    ), GUARDED),
    "a function that uploads it, called in such a branch": ("lock", uploads(
        " d = cupy.asarray(gray)  #line\n if late:\n  d = up(host=gray)",
        GRAY + "def up(host):\n return cupy.asarray(host)\n"
    ), GUARDED),
    "a method that gives it, uploaded in such a branch": ("lock", (
        "class Camera:\n def __init__(self):\n  self.gray = np.zeros(4)  #origin\n def read(self):\n"
        "  return self.gray\ncamera = Camera()\nfor i in range(6):  #loop\n camera.gray[...] = i\n"
        " d = cupy.asarray(camera.read())  #line\n frame = camera.read()\n if late:\n"
        "  d = cupy.asarray(frame)\n camera.gray[...] = -1\n log.append(d.get()[0])"
    ), GUARDED),
    "a copy in a stream of its own": ("lock", uploads(
        " d.set(gray, stream)  #line",
        GRAY + "d = cupy.asarray(np.zeros(4))\nstream = cupy.Stream()\n"
    ), "a stream of its own"),
    "a downloaded array that is kept": ("reuse", downloads(
        " out = d.get()  #line\n kept.append(out)\nlog += [out[0] for out in kept]"
    ), KEEPS),
    "downloads of which an expression takes values": (
        "reuse", downloads(" log.append(float((d * 2).get()[1:].sum()) + i)  #line"), GUARDED,
    ),
    "downloads that are copied into an array": ("reuse", (
        "rows = np.zeros((6, 4))\nfor turn in range(2):\n for i in range(6):  #loop\n"
        "  d = cupy.asarray(np.full(4, i + turn))\n  rows[i] = cupy.asnumpy(d)  #line\n"
        " log += [*rows[:, 0]]"
    ), GUARDED),
    "a function that returns its download": ("reuse", (
        "def down(d):\n return (d * 2).get()  #line\nlast = [np.zeros(4)]\nfor i in range(6):  #loop\n"
        " out = down(cupy.asarray(np.full(4, i)))\n log.append(out[0] - last[0][0])\n last[0] = out\n"
        " del out"
    ), GUARDED),
    "a downloaded array whose name is given up": ("reuse", (
        "last = [np.zeros(4)]\nfor i in range(6):  #loop\n d = cupy.asarray(np.full(4, i))\n"
        " out = d.get()  #line\n log.append(out[0] - last[0][0])\n last[0] = out\n del out"
    ), "given other values in the loop"),
    "a download that is uploaded and overwritten": ("reuse", downloads(
        " out = d.get()  #line\n e = cupy.asarray(out)\n out[...] = -1\n log.append(e.get()[0])"
    ), "uploads what it downloads"),
    "a thread that may hold what is downloaded": ("reuse", (
        "import threading\nend = threading.Event()\nthread = threading.Thread(target=end.wait)\n"
        "thread.start()\nfor i in range(6):  #loop\n d = cupy.asarray(np.full(4, i))\n"
        " out = d.get()  #line\n log.append(out[0])\nend.set()\nthread.join()"
    ), "runs threads"),
    "downloads of several shapes": ("reuse", frames(
        " d = cupy.asarray(np.full(4 + i, i))\n out = d.get()  #line\n log.append(out.sum())"
    ), "several shapes"),
    "an upload that changes now and then": ("hoist", (
        "gray = np.zeros(4)\nfor i in range(9):  #loop\n w = cupy.asarray(gray)  #line\n"
        " log.append(w.get()[0])\n gray[3 * (i == 7)] += i == 7"
    ), "not the same in each frame"),
    "an array on the GPU that is read before it is uploaded": ("hoist", (
        "gray = np.zeros(4)\nw = cupy.asarray(np.ones(4))\nfor i in range(6):  #loop\n"
        " log.append(w.get()[0])\n w = cupy.asarray(gray)  #line"
    ), "is read in the loop before"),
    "an array that is set": ("hoist", (
        "gray = np.zeros(4)\nw = cupy.asarray(np.ones(4))\nfor i in range(6):  #loop\n"
        " w.set(gray)  #line\n log.append(w.get()[0] + i)"
    ), GUARDED),
    "an array on the GPU that a function writes to": ("hoist", (
        "gray = np.zeros(4)\ndef spoil(w):\n w.fill(9)\nfor i in range(6):  #loop\n"
        " w = cupy.asarray(gray)  #line\n log.append(w.get()[0])\n if i == 2:\n  spoil(w)"
    ), "writes to what it uploads"),
}  # fmt: skip


TENSORS = {
    "a download that is read at once": (
        "reuse", frames(" out = (x.cuda() + i).cpu().numpy()  #line\n log.append(float(out[0]))"), GUARDED,
    ),
    "the frame before is read": ("reuse", (
        "last = None\nfor i in range(6):  #loop\n out = (x.cuda() + i).to('cpu')  #line\n"
        " if last is not None: log.append(float(last[0] - out[0]))\n last = out"
    ), GUARDED),
    "NumPy's arrays are kept": ("reuse", frames(
        " kept.append((x.cuda() + i).cpu().numpy())  #line\nlog = [float(each[0]) for each in kept]"
    ), KEEPS),
    "a download that goes up again": ("reuse", frames(
        " out = (x.cuda() + i).cpu()  #line\n y = out.cuda()\n log.append(float(y[0]))"
    ), "uploads what it downloads"),
    "a gradient through the download": ("reuse", (
        "w = torch.ones(4, requires_grad=True)\nfor i in range(6):  #loop\n"
        " out = (w.cuda() * i).cpu()  #line\n out.sum().backward()\nlog = [float(w.grad[0])]"
    ), "gradient"),
    "a tensor that is overwritten next": (
        "lock", frames(" x[...] = i\n y = x.cuda()  #line\n x[...] = -1\n log.append(float(y[0]))"), GUARDED,
    ),
    "a copy that does not wait elsewhere": ("lock", frames(
        " x[...] = i\n y = x.cuda()  #line\n z = x.to('cuda', non_blocking=True)\n x[...] = -1\n"
        " log.append(float(y[0] + z[0]))"
    ), "may copy it asynchronously"),
    "a constant tensor": ("hoist", frames(" y = x.to('cuda')  #line\n log.append(float(y[0] + i))"), GUARDED),
    "a tensor on the GPU that is written": ("hoist", frames(
        " y = x.to('cuda')  #line\n y.add_(i)\n log.append(float(y[0]))"
    ), "writes to what it uploads"),
}  # fmt: skip


Run = Callable[[str, Imposed | None], object]
Play = Callable[[pytest.MonkeyPatch], Any]


def line(text: str, mark: str) -> int:
    return next((n for n, row in enumerate(text.splitlines(), 1) if row.endswith(mark)), 0)


def logged(text: str, change: Imposed | None = None) -> object:
    """What the script logs, with that change in force."""
    names: dict[str, object] = {"stream": 7}
    if change:
        change.switch(True)
    exec(compile(text, SCRIPT, "exec"), names)
    if change:
        change.switch(False)
    return names["log"]


def outcome(kind: ChangeKind, text: str, library: str, run: Run) -> str:
    """Whether the changed script was right, or why the change was refused or not written."""
    expected, own = run(text, None), {SCRIPT}.__contains__
    change = Change(name="n", kind=kind, library=library, file=SCRIPT, line=line(text, "#line"))
    imposing = imposed(change, own, checks=True)
    if run(text, imposing) != expected:
        return "wrong while imposed"
    if not any(vars(imposing).get(name) for name in ("_memories", "_calls", "_shape", "refused")):
        return "not imposed"
    if imposing.refused:
        return imposing.refused
    also = tuple(("", each) for each in [line(text, "#also")] if each)
    places = (change.line, line(text, "#origin"), line(text, "#loop"), also)
    written = Change(kind, *places, library=library, tried=True)
    try:
        patched = edited(text, [written])
    except CannotWrite as error:
        return str(error)
    taken = patched.replace("[], [], False", "[], [], True")
    return GUARDED if [run(each, None) for each in (patched, taken)] == [expected] * 2 else "wrong as written"


def test_planted_races_of_tensors_are_refused_guarded_or_not_written(tmp_path: Path) -> None:
    """On PyTorch's own storages, in a process whose PyTorch plays the GPU."""
    pytest.importorskip("torch")
    output = tmp_path / "output"
    code = run_forked("test_planted_races", output=output, libraries=",torch")
    assert code == 0, output.read_text(encoding="utf-8")
    found = json.loads(output.read_text(encoding="utf-8"))
    assert found.keys() == TENSORS.keys()
    assert not [(name, said) for name, said in found.items() if TENSORS[name][2] not in said]


def tensor_run(torch: types.ModuleType, text: str, change: Imposed | None) -> tuple[object, list[str]]:
    """What the script logs, and digests of what its lines download."""
    calls = {name: getattr(torch.Tensor, name) for name in (*_TORCH, "cuda")}
    downloads = Downloads({SCRIPT}.__contains__)
    if change:
        change.install(torch)
    downloads.install("torch", torch)
    log = logged(text, change)
    for name, call in calls.items():
        setattr(torch.Tensor, name, call)
    return log, [digest for _, digest in downloads.by_line()]


def main(_: list[str]) -> None:
    torch = importlib.import_module("torch")
    played_torch.play(torch)
    empty_like = torch.empty_like
    torch.empty_like = lambda tensor, device, pin_memory: empty_like(tensor, device=device)
    zeros = torch.zeros
    torch.zeros = lambda *size, pin_memory=False: zeros(*size)
    TorchCopies.lock = TorchCopies.unlock = lambda *_: None  # type: ignore[method-assign]
    start, run = "import torch\nlog, kept = [], []\nx = torch.zeros(4)\n", partial(tensor_run, torch)
    cases = {name: (kind, start + body) for name, (kind, body, _) in TENSORS.items()}
    print(json.dumps({name: outcome(*case, "torch", run) for name, case in cases.items()}))  # type: ignore[arg-type]


NUMBA = {
    "arrays of a kernel that are overwritten next": ("lock", frames(
        " x[...] = i\n add[1, 1](x, d)  #line\n x[...] = -1\n log.append(d.copy_to_host()[0])"
    ), GUARDED),
    "arrays of a kernel in a stream": ("lock", frames(
        " x[...] = i\n add[1, 1, stream](x, d)  #line\n x[...] = -1\n log.append(d.copy_to_host()[0])"
    ), "copies in a stream"),
    "an upload that is overwritten next": ("lock", frames(
        " x[...] = i\n e = cuda.to_device(x)  #line\n x[...] = -1\n log.append(e.copy_to_host()[0])"
    ), GUARDED),
    "a download that is read": ("reuse", frames(
        " x[...] = i\n add[1, 1](x, d)\n out = d.copy_to_host()  #line\n log.append(out[0])"
    ), GUARDED),
    "an array on the GPU that a kernel writes": ("hoist", frames(
        " e = cuda.to_device(x)  #line\n add[1, 1](x + 1, e)\n log.append(e.copy_to_host()[0])"
    ), "writes to what it uploads"),
}  # fmt: skip


class DeviceNDArray:
    """Numba's array on the GPU, on NumPy. A stream reads locked memory only when it is waited for."""

    locked: ClassVar[set[int]] = set()
    waiting: ClassVar[list[tuple[Any, Any]]] = []

    def __init__(self, host: Any) -> None:
        self.host = np.zeros_like(host)
        self.shape, self.dtype, self.size = host.shape, host.dtype, host.size

    def is_c_contiguous(self) -> bool:
        return True

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        source = getattr(ary, "host", ary)
        self.waiting.append((self.host, source))
        if not (stream and source.__array_interface__["data"][0] in self.locked):
            synchronize()

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:
        synchronize()
        if ary is None:
            return self.host.copy()
        ary[...] = self.host
        return ary


def synchronize() -> None:
    while DeviceNDArray.waiting:
        to, source = DeviceNDArray.waiting.pop(0)
        to[...] = source


class Launch:
    """A kernel that adds its first array to the second."""

    def __init__(self, configuration: tuple[Any, ...]) -> None:
        self.stream = (*configuration, 0)[2]

    def __class_getitem__(cls, configuration: tuple[Any, ...]) -> Launch:
        return cls(configuration)

    def __call__(self, source: Any, target: DeviceNDArray) -> None:
        there = DeviceNDArray(source)
        there.copy_to_device(source, self.stream)
        DeviceNDArray.waiting.append((target.host, there.host))
        if not self.stream:
            synchronize()


def a_numba(monkeypatch: pytest.MonkeyPatch) -> Any:
    array, launch = type("Array", (DeviceNDArray,), {}), type("Launch", (Launch,), {})

    def to_device(host: Any, stream: Any = 0) -> Any:
        there = array(host)
        there.copy_to_device(host, stream)
        return there

    def locked(shape: Any, dtype: Any) -> Any:
        memory: Any = np.ndarray(shape, dtype, bytearray(int(np.prod(shape)) * np.dtype(dtype).itemsize))
        DeviceNDArray.locked.add(memory.__array_interface__["data"][0])
        return memory

    cuda = SimpleNamespace(
        __name__="numba.cuda",
        to_device=to_device,
        pinned_array=locked,
        pinned_array_like=lambda like: locked(like.shape, like.dtype),
        device_array_like=lambda like: array(like.host),
        synchronize=synchronize,
    )
    for name, module in (
        ("numba", SimpleNamespace(cuda=cuda, add=launch)),
        ("numba.cuda", cuda),
        ("numba.cuda.dispatcher", SimpleNamespace(_LaunchConfiguration=launch)),
        ("numba.cuda.cudadrv.devicearray", SimpleNamespace(DeviceNDArray=array)),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(NumbaCopies, "lock", lambda _, memory: DeviceNDArray.locked.add(memory.address))
    monkeypatch.setattr(NumbaCopies, "unlock", lambda _, memory: DeviceNDArray.locked.discard(memory.address))
    return cuda


def a_cupy(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """CuPy on NumPy, without the times of its copies."""
    monkeypatch.syspath_prepend(str(PACKAGES))
    for name in ("cupy", "cupyx"):
        monkeypatch.setitem(sys.modules, name, None)  # undone also where CuPy was not imported yet
        del sys.modules[name]
    module = importlib.import_module("cupy")
    for name in ("PAGEABLE", "PINNED", "NEW"):
        monkeypatch.setattr(module, name, 0)
    return module


NUMBA_START = """\
from numba import add, cuda
import numpy as np
log, kept = [], []
x = np.zeros(4)
d = cuda.to_device(np.zeros(4))
"""


@every(
    ("library", "play", "start", "races"),
    [("cupy", a_cupy, START, RACES), ("numba", a_numba, NUMBA_START, NUMBA)],
    ids=("cupy", "numba"),
)
def test_a_planted_race_is_refused_guarded_or_not_written(
    library: str, play: Play, start: str, races: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    others, threads = {*threading.enumerate()}, threading.enumerate  # of the tests before
    monkeypatch.setattr(threading, "enumerate", lambda: [each for each in threads() if each not in others])

    def run(text: str, change: Imposed | None) -> object:
        module = play(monkeypatch)
        if change:
            change.install(module)
        return logged(text, change)

    outcomes = {name: outcome(kind, start + body, library, run) for name, (kind, body, _) in races.items()}
    assert not [(name, said) for name, said in outcomes.items() if races[name][2] not in said]


def test_what_a_kernel_writes_to_numpys_arrays_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from numba import add, cuda\nimport numpy as np\nx, log = np.full(4, {}), []\n"
    text += "d = cuda.to_device(x)\nadd[1, 1](x, d)\n"
    digests = []
    for value in (1.0, 1.0, 2.0):
        downloads = Downloads({SCRIPT}.__contains__)
        downloads.install("numba", a_numba(monkeypatch))
        logged(text.format(value))
        digests += downloads.by_line()
    assert {place for place, _ in digests} == {f"{SCRIPT}:5"}
    assert digests[0] == digests[1] != digests[2]


def test_allocators_take_turns_and_a_script_that_sets_one_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = a_cupy(monkeypatch)
    default = cupy.cuda.get_allocator()
    changes = [
        imposed(Change(name=name, kind="allocator", file=SCRIPT, line=1), {SCRIPT}.__contains__, checks=True)
        for name in ("no-pool", "async-pool", "managed-prefetch-pool")
    ]
    for change in changes:
        change.install(cupy)
    for change in changes:
        change.switch(True)
        assert cupy.cuda.get_allocator() != default
        cupy.ndarray(np.zeros(3))
        change.switch(False)
        assert cupy.cuda.get_allocator() == default
    changes[2].switch(True)
    cupy.cuda.get_allocator()(8)  # the pool has no memory
    assert cupy.cuda.get_allocator() == default
    own = cupy.cuda.MemoryPool().malloc
    cupy.cuda.set_allocator(own)
    assert cupy.cuda.get_allocator() == own
    assert {change.refused for change in changes[:2]} == {"the script sets an allocator itself"}


@every(("before", "after"), [("", ""), ("backend:native", ""), ("", "backend:native")])
def test_pytorchs_allocator_is_a_variable_that_nobody_else_sets(
    before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """before: by the user; after: by the script, before it imports PyTorch."""
    change = Change(name="cuda-malloc-async", kind="allocator", file=SCRIPT, line=1)
    monkeypatch.setenv(VARIABLE, before)
    if not before:
        monkeypatch.delenv(VARIABLE)
    allocator = imposed(change, {SCRIPT}.__contains__, checks=False)
    allocator.switch(True)
    if after:
        monkeypatch.setenv(VARIABLE, after)
    allocator.install(None)
    assert (VARIABLE in allocator.refused) == bool(before or after)
    assert os.environ[VARIABLE] == (before or after or "backend:cudaMallocAsync")
