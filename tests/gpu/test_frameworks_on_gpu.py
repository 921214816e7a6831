"""Buffers as tensors and as Numba's arrays on a real GPU: the same address, in order with the stream."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from fakes import bench
from on_gpu import numba_cuda, require, torch_with_cuda

from advisor.strategies.backend import Backend
from advisor.strategies.registry import STRATEGIES
from advisor.workloads.definition import Buffer, In, Out, Stage, Workload, device, host

pytestmark = pytest.mark.filterwarnings("default")
"""Other libraries' own warnings are no failure of ours."""

N = 1 << 20
STRATEGY_NAMES = [s.name for s in STRATEGIES]


def workload(stage: Stage, log: dict[int, Any]) -> Workload:
    """Large enough that a stage that runs too early or is read too early shows."""

    def produce(a: Out, frame: int) -> None:
        a.fill(frame + 1)

    def consume(b: In, frame: int) -> None:
        log[frame] = float(b.min()), float(b.max())

    return Workload({name: Buffer(N, np.float32) for name in "ab"}, [host(produce), stage, host(consume)])


def doubles(stage: Stage, strategy: str, cuda: Backend) -> None:
    """Runs 20 frames and holds each one's result against twice its input."""
    require(strategy, cuda)
    log: dict[int, Any] = {}
    with bench(workload(stage, log), strategy, cuda) as run:
        run.start(20)
        run.loop.frame_alone(20)
    assert log == {frame: (2.0 * (frame + 1),) * 2 for frame in range(21)}


@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_torch_tensors_under_every_strategy(strategy: str, cuda: Backend) -> None:
    torch = torch_with_cuda()

    def double(a: In, b: Out, stream: Any) -> None:
        assert a.is_cuda
        assert torch.cuda.current_stream().cuda_stream == cuda.stream.ptr == stream.cuda_stream
        torch.mul(a, 2, out=b)

    doubles(device(double, arrays="torch"), strategy, cuda)


@pytest.mark.parametrize("takes_stream", [False, True])
@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_numba_kernels_under_every_strategy(strategy: str, takes_stream: bool, cuda: Backend) -> None:
    numba = numba_cuda()

    @numba.jit
    def kernel(a: Any, b: Any) -> None:
        i = numba.grid(1)
        if i < a.size:
            b[i] = a[i] * 2

    def by_default(a: In, b: Out) -> None:
        kernel[N // 256, 256](a, b)

    def as_told(a: In, b: Out, stream: Any) -> None:
        kernel[N // 256, 256, stream](a, b)

    doubles(device(as_told if takes_stream else by_default, arrays="numba"), strategy, cuda)


@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_dlpack_under_every_strategy(strategy: str, cuda: Backend) -> None:
    xp = cuda.xp

    def double(a: In, b: Out) -> None:
        xp.multiply(xp.from_dlpack(a), 2, out=xp.from_dlpack(b))

    doubles(device(double, arrays="dlpack"), strategy, cuda)


@pytest.mark.parametrize("form", ["torch", "numba", "pointer", "dlpack"])
def test_a_form_of_arrays_costs_less_than_some_launches(form: str, cuda: Backend) -> None:
    """What a stage's form adds to the host's side of a call; the stream's order is two events."""
    if form == "torch":
        torch_with_cuda()
    elif form == "numba":
        numba_cuda()

    def nothing(a: In, b: Out) -> None: ...

    def launch(xp: Any, a: In, b: Out) -> None:
        xp.copyto(b, a)

    def best(stage: Stage) -> float:
        with bench(workload(stage, {}), "zero-copy", cuda) as run:
            run.start()
            (action,) = [action for action in run.loop.steady if action.label.startswith("device:")]
            times = []
            for index in range(200):
                begin = time.perf_counter()
                action.run(index)
                times.append(time.perf_counter() - begin)
        return min(times)

    assert best(device(nothing, arrays=form)) < 5 * best(device(launch))
