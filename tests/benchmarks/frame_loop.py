"""What the frame loop adds to one written by hand: the same buffers and functions, copies written by hand."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from advisor.measure.backends import open_backend
from advisor.measure.frames import FrameLoop, Ranges
from advisor.measure.pipelined import SETS, PipelinedLoop
from advisor.strategies.arena import Arena
from advisor.strategies.backend import Backend, BackendName
from advisor.strategies.placement import Layout, Placed
from advisor.strategies.planning import plan
from advisor.strategies.registry import STRATEGIES, Strategy
from advisor.workloads.binding import BoundWorkload
from advisor.workloads.loading import load
from tests.benchmarks.timing import Times, alternate, at_most, paired_ratio, show

WORKLOAD = Path(__file__).parents[2] / "workloads" / "vector_add.py"
TOGETHER = 10
"""Frames that are timed together where they overlap: it ends with nothing under way."""
MOST_ADDED_ON_CPU = 5e-6
"""Seconds: a frame of 2^10 takes a few microseconds there, and nothing is launched."""
Placing = dict[str, Placed]


def run(name: BackendName) -> None:
    small(name)
    large(name)


def small(name: BackendName) -> None:
    for strategy, backend in _available(name):
        times = compare(strategy, backend, 1 << 10, repeats=3000)
        hand = median(times[1]) / (TOGETHER if strategy.pipelined else 1)
        most = MOST_ADDED_ON_CPU / hand if name == "cpu" else 0.05
        ratio, low, high = paired_ratio(times)
        what = f"frame loop, {strategy.name}, 2^10: ratio to a hand-written loop"
        at_most(
            what, ratio, round(1 + most, 2), "{:.3f}", f" ({low:.3f} to {high:.3f}) of {hand * 1e6:.0f} µs"
        )


def large(name: BackendName) -> None:
    for strategy, backend in _available(name):
        ratio, low, high = paired_ratio(compare(strategy, backend, 1 << 24, repeats=200))
        what = f"frame loop, {strategy.name}, 2^24: ratio to a hand-written loop"
        show(what, f"{ratio:.4f} ({low:.4f} to {high:.4f})", "upper end <= 1.01", met=high <= 1.01)


def _available(name: BackendName) -> Iterator[tuple[Strategy, Backend]]:
    backend = open_backend(name)
    return (
        (one, backend) for one in STRATEGIES if not (one.several_gpus or one.unavailable(backend.device()))
    )


def compare(strategy: Strategy, backend: Backend, n: int, repeats: int) -> Times:
    """Seconds of each frame of vector_add: ours, and by hand on the same memory."""
    loaded = load(WORKLOAD, None, {"n": str(n)})
    bound, device = loaded.bound, backend.device()
    placements = strategy.placements(loaded.record)
    traits = {name: placement.traits(device) for name, placement in placements.items()}
    steps = plan([], [stage.use for stage in bound.frame], traits)
    layout = Layout((n,), np.dtype(np.float32))
    with Arena(backend) as arena:
        sets = [
            {name: placement.place(arena, layout) for name, placement in placements.items()}
            for _ in range(SETS if strategy.pipelined else 1)
        ]
        form = PipelinedLoop if strategy.pipelined else FrameLoop
        loop = form(bound, steps, sets, backend, seed=0, ranges=Ranges())
        loop.first_frame()
        if not strategy.pipelined:
            by_hand = _by_hand(strategy, sets[0], backend, _functions(bound))
            by_hand()
            return alternate(lambda: loop.frame(1), by_hand, repeats)

        def ours() -> None:
            for index in range(1, TOGETHER):
                loop.frame(index)
            loop.frame_alone(TOGETHER)

        overlapping = _overlapping(sets, backend, _functions(bound))
        overlapping()
        ours()
        return alternate(ours, overlapping, repeats // TOGETHER)


def _functions(bound: BoundWorkload) -> list[Callable[..., object]]:
    """The workload's own functions in their order: both loops call the same code of the user."""
    return [stage.implementation(cpu=False)[0] for stage in bound.frame]


def _by_hand(
    strategy: Strategy, placed: Placing, backend: Backend, functions: Sequence[Callable[..., object]]
) -> Callable[[], None]:
    """What a careful programmer would write for this placement, with what ours must do besides: the time of
    each host stage, and an array that cannot be written where a new one is given to a stage that reads it."""
    a, b, c = (placed[name] for name in "abc")
    produce, add, consume = functions
    spent, clock = {"produce": 0.0, "consume": 0.0}, perf_counter
    synchronize, xp = backend.synchronize, backend.xp
    placement = strategy.placement

    def in_place() -> None:
        begun = clock()
        produce(a.host, b.host, 1)
        spent["produce"] += clock() - begun
        add(xp, a.device, b.device, c.device)
        synchronize()
        begun = clock()
        consume(c.host)
        spent["consume"] += clock() - begun

    def staged() -> None:
        begun = clock()
        produce(a.host, b.host, 1)
        spent["produce"] += clock() - begun
        device_a, device_b = xp.asarray(a.host), xp.asarray(b.host)
        add(xp, device_a, device_b, c.device)
        result = xp.asnumpy(c.device).view()
        result.flags.writeable = False
        begun = clock()
        consume(result)
        spent["consume"] += clock() - begun

    prefetch, bring = backend.prefetch, backend.discard if backend.discards else backend.prefetch
    at_a, at_b, at_c = ((buffer.host_pointer, buffer.host.nbytes) for buffer in (a, b, c))

    def prefetching() -> None:
        bring(*at_a, "host")
        bring(*at_b, "host")
        synchronize()
        begun = clock()
        produce(a.host, b.host, 1)
        spent["produce"] += clock() - begun
        prefetch(*at_a, "device")
        prefetch(*at_b, "device")
        bring(*at_c, "device")
        add(xp, a.device, b.device, c.device)
        prefetch(*at_c, "host")
        synchronize()
        begun = clock()
        consume(c.host)
        spent["consume"] += clock() - begun

    up_a, up_b, down_c = (_copy(backend, buffer, up=buffer is not c) for buffer in (a, b, c))
    settle = (lambda: None) if placement.locks else synchronize

    def copying() -> None:
        begun = clock()
        produce(a.host, b.host, 1)
        spent["produce"] += clock() - begun
        up_a(backend.stream)
        settle()
        up_b(backend.stream)
        settle()
        add(xp, a.device, b.device, c.device)
        down_c(backend.stream)
        synchronize()
        begun = clock()
        consume(c.host)
        spent["consume"] += clock() - begun

    if a.to_device is None:
        return in_place
    if placement.staged:
        return staged
    return prefetching if placement.prefetched else copying


def _copy(backend: Backend, placed: Placed, *, up: bool) -> Callable[[Any], object]:
    """The runtime's own call, on a stream."""
    if placed.to_device is None:
        return lambda _: None
    host, size = int(placed.host.ctypes.data), int(placed.host.nbytes)
    if backend.xp is np:
        device = int(placed.device.ctypes.data)
        target, source = (device, host) if up else (host, device)
        return lambda _: ctypes.memmove(target, source, size)
    runtime, device = backend.xp.cuda.runtime, int(placed.device.data.ptr)
    if up:
        return lambda stream: runtime.memcpyAsync(device, host, size, runtime.memcpyHostToDevice, stream.ptr)
    return lambda stream: runtime.memcpyAsync(host, device, size, runtime.memcpyDeviceToHost, stream.ptr)


def _overlapping(
    sets: Sequence[Placing], backend: Backend, functions: Sequence[Callable[..., object]]
) -> Callable[[], None]:
    """The usual double buffering: frame i+1 is filled, uploaded and queued before frame i is waited for.
    With what ours must do besides: the time of each host stage and the latency of each frame."""
    (produce, add, consume), cuda, main = functions, backend.xp.cuda, backend.stream
    spent, clock = {"produce": 0.0, "consume": 0.0}, perf_counter
    began, latencies = [0.0] * len(sets), deque[float]()
    uploads, downloads = (cuda.Stream(non_blocking=True) for _ in range(2))
    copies = [
        (*(_copy(backend, placed[name], up=True) for name in "ab"), _copy(backend, placed["c"], up=False))
        for placed in sets
    ]
    events = [[cuda.Event(disable_timing=True) for _ in range(3)] for _ in sets]

    def begin(which: int) -> None:
        placed, (up_a, up_b, down_c), (uploaded, computed, done) = sets[which], copies[which], events[which]
        begun = began[which] = clock()
        produce(placed["a"].host, placed["b"].host, 1)
        spent["produce"] += clock() - begun
        up_a(uploads)
        up_b(uploads)
        uploaded.record(uploads)
        main.wait_event(uploaded)
        add(backend.xp, placed["a"].device, placed["b"].device, placed["c"].device)
        computed.record(main)
        downloads.wait_event(computed)
        down_c(downloads)
        done.record(downloads)

    def end(which: int) -> None:
        events[which][2].synchronize()
        begun = clock()
        consume(sets[which]["c"].host)
        spent["consume"] += clock() - begun
        latencies.append(clock() - began[which])

    def frames() -> None:
        begin(0)
        for index in range(1, TOGETHER):
            begin(index % SETS)
            end((index - 1) % SETS)
        end((TOGETHER - 1) % SETS)

    return frames
