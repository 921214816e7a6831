"""Frames on a real GPU: every strategy computes the same, and overlapping frames really overlap."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from fakes import Bench, bench
from on_gpu import require

from advisor.strategies.backend import Backend
from advisor.strategies.registry import STRATEGIES
from advisor.workloads.definition import Buffer, In, InOut, Out, Workload, device, host

SPIN = r"""
extern "C" __global__ void spin(const float* a, float* b, long long n, int loops) {
    long long step = (long long)gridDim.x * blockDim.x;
    long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    float x = 0;
    for (long long i = first; i < n; i += step) x += a[i];
    for (int k = 0; k < loops; ++k) x = x * 0.999f + 1e-3f;
    b[first] = x;
}
"""
BLOCKS, THREADS = 256, 256
ELEMENTS = 1 << 24


def chain(log: dict[int, float], *, external: bool = False) -> Workload:
    """A state on the device that depends on the order of all frames; the host turns data between kernels."""
    n = 1 << 20

    def weights(w: Out) -> None:
        w.fill(3)

    def clear(s: Out) -> None:
        s.fill(1)

    def produce(a: Out, frame: int) -> None:
        a.fill(frame % 97 + 1)

    def step(xp: Any, a: In, w: In, s: InOut, b: Out) -> None:
        xp.multiply(s, w, out=s)
        xp.add(s, a, out=s)
        xp.remainder(s, 9973, out=s)
        b[...] = s

    def turn(b: InOut, a: In) -> None:
        b += a

    def finish(xp: Any, b: In, c: Out) -> None:
        xp.multiply(b, 2, out=c)

    def consume(c: In, frame: int) -> None:
        log[frame] = float(c.sum())

    buffers = {name: Buffer(n, np.int64) for name in "sbcw"} | {"a": Buffer(n, np.int64, external=external)}
    frame = [host(produce), device(step), host(turn), device(finish), host(consume)]
    return Workload(buffers, frame, setup=[host(weights), device(clear)])


def run_frames(run: Bench, last: int) -> None:
    run.start(last)
    run.loop.frame_alone(last)


@pytest.mark.parametrize("external", [False, True], ids=["own", "external"])
@pytest.mark.parametrize("strategy", [s.name for s in STRATEGIES])
def test_every_strategy_gives_the_same_results_frame_by_frame(
    strategy: str, external: bool, cuda: Backend
) -> None:
    require(strategy, cuda)
    state, expected = 1, {}
    for frame in range(31):
        state = (state * 3 + frame % 97 + 1) % 9973
        expected[frame] = float((state + frame % 97 + 1) * 2 * (1 << 20))
    log: dict[int, float] = {}
    with bench(chain(log, external=external), strategy, cuda) as run:
        run_frames(run, 30)
    assert log == expected


def spinning(cuda: Backend, loops: int) -> Workload:
    """A large upload, a kernel that takes as long as it is told to, a small download."""
    kernel = cuda.xp.RawKernel(SPIN, "spin")

    def produce(a: Out, frame: int) -> None:
        a[0] = frame

    def spin(a: In, b: Out) -> None:
        kernel((BLOCKS,), (THREADS,), (a, b, np.int64(ELEMENTS), np.int32(loops)))

    def consume(b: In) -> None:
        b[0]

    buffers = {"a": Buffer(ELEMENTS, np.float32), "b": Buffer(BLOCKS * THREADS, np.float32)}
    return Workload(buffers, [host(produce), device(spin), host(consume)])


def steps(cuda: Backend, loops: int) -> dict[str, float]:
    """Seconds of the steps of a serial frame, the best of ten."""
    with bench(spinning(cuda, loops), "pinned", cuda) as run:
        run_frames(run, 5)
        frames = [run.loop.timed_frame(6 + i) for i in range(10)]
    return {label: min(frame[label] for frame in frames) for label in frames[0]}


def seconds_a_frame(cuda: Backend, strategy: str, loops: int) -> float:
    with bench(spinning(cuda, loops), strategy, cuda) as run:
        run_frames(run, 5)
        run.loop.frame(6)
        best = float("inf")
        index = 7
        for _ in range(3):
            begin = time.perf_counter()
            for _ in range(30):
                run.loop.frame(index)
                index += 1
            best = min(best, (time.perf_counter() - begin) / 30)
        run.loop.frame_alone(index)
        return best


def test_overlapping_frames_are_half_again_as_fast_where_copy_and_kernel_take_as_long(cuda: Backend) -> None:
    """Both alike means twice as fast at best."""
    idle, busy = steps(cuda, 0), steps(cuda, 1 << 16)
    a_loop = (busy["device:spin"] - idle["device:spin"]) / (1 << 16)
    loops = round((idle["to-device"] - idle["device:spin"]) / a_loop)
    if loops <= 0:
        pytest.skip("the kernel's reading alone takes longer than the copy")
    found = steps(cuda, loops)
    assert found["device:spin"] == pytest.approx(found["to-device"], rel=0.2)
    serial, overlapped = (seconds_a_frame(cuda, name, loops) for name in ("pinned", "pinned-pipelined"))
    assert serial / overlapped >= 1.5, f"{serial * 1e3:.3f} ms serial, {overlapped * 1e3:.3f} ms overlapped"
