"""On two GPUs: what a split gains over one, what copies between them reach, what the loop adds by hand."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

from advisor.errors import NothingMeasured
from advisor.measure.backends import gpu_count, open_backend
from advisor.measure.frames import Ranges
from advisor.measure.jobs import Job
from advisor.measure.placed_workload import PlacedWorkload, place
from advisor.strategies.backend import Backend
from advisor.workloads.loading import load
from tests.benchmarks.timing import alternate, paired_ratio, show

WORKLOADS = Path(__file__).parents[2] / "workloads"
SPLIT_GAIN, PEER_SHARE, MOST_ADDED = 1.8, 0.95, 1.01
FRAMES = 40
LARGE = 1 << 24


def run() -> None:
    """Each figure by itself: one that fails is told in full, and the others are still taken."""
    if gpu_count() < 2:
        raise NothingMeasured(f"two GPUs are needed; CUDA sees {gpu_count()}", next_step="Run it elsewhere.")
    backend = open_backend("cuda")
    backend.open_gpus(2)
    for part in (peer_copies, split_gain, split_by_hand, pipeline_by_hand):
        begin = perf_counter()
        try:
            part(backend)
        except Exception:
            traceback.print_exc()
            show(part.__name__, "failed", "a figure", met=False)
        print(f"    {part.__name__}: {perf_counter() - begin:.0f} s", flush=True)


@contextmanager
def standing(backend: Backend, name: str, strategy: str, n: int) -> Iterator[PlacedWorkload]:
    """The example on its buffers, its first frames run."""
    file = WORKLOADS / f"{name}.py"
    loaded = load(file, None, {"n": str(n)})
    job = Job(
        task="measure", file=str(file), workload=None, assignments={}, backend="cuda", gpu=0,
        strategy=strategy, seconds=1.0, seed=0, directory="", reference="",
    )  # fmt: skip
    with place(job, loaded, backend, Ranges()) as made:
        made.loop.run_setup()
        made.loop.first_frame()
        for index in range(1, 6):
            made.loop.frame(index)
        yield made


def device_path(backend: Backend, name: str, strategy: str) -> float:
    """Seconds of a frame without its host stages."""
    with standing(backend, name, strategy, LARGE) as made:
        seconds = []
        for index in range(10, 10 + FRAMES):
            made.loop.reset()
            begin = perf_counter()
            made.loop.frame(index)
            seconds.append(perf_counter() - begin - sum(made.loop.host_seconds.values()))
    return median(seconds)


def split_gain(backend: Backend) -> None:
    for strategy in ("zero-copy", "registered", "pinned"):
        one, two = (device_path(backend, name, strategy) for name in ("vector_add", "two_gpus_split"))
        figure = f"{one / two:.2f} ({one * 1e3:.2f} / {two * 1e3:.2f} ms)"
        show(
            f"split of 2^24, {strategy}: times one GPU's device path",
            figure,
            f">= {SPLIT_GAIN}",
            met=one / two >= SPLIT_GAIN,
        )


def peer_copies(backend: Backend) -> None:
    """The copies of the pipeline against a bare copy: in a row, and in the place that the loop's has.

    In a frame both GPUs rest while the host produces, and the first has just written what is copied. A bare
    copy after such a frame, behind the same event, tells what that costs; the loop answers for the rest.
    """
    n = 1 << 26
    with standing(backend, "two_gpus_pipeline", "peer", n) as made:
        timed = [made.loop.timed_frame(10 + i) for i in range(10)]
        ours = median(seconds["to-peer"] for seconds in timed)
        rest = median(sum(seconds.values()) for seconds in timed)
        features = made.placed["features"]
        target, source = features.on(1).device_pointer, features.on(0).device_pointer
        call = backend.xp.cuda.runtime.memcpyPeerAsync

        def bare(gpu: Any, rested: float = 0.0) -> float:
            first, seconds = backend.gpus[0], []
            for _ in range(20):
                sleep(rested)
                if rested:
                    backend.xp.multiply(made.placed["image"].device, 2, out=features.on(0).device)
                    gpu.order(gpu.stream, first.mark())
                gpu.hold(1e-4)
                begin = gpu.timestamp()
                call(target, 1, source, 0, 4 * n, gpu.stream.ptr)
                end = gpu.timestamp()
                gpu.synchronize()
                seconds.append(gpu.seconds_between(begin, end))
            return median(seconds)

        pulled, pushed = bare(backend.gpus[1]), bare(backend.gpus[0])
        in_place = bare(backend.gpus[1], rest)
    ran, row, back, alike = (f"{4 * n / each / 1e9:.0f}" for each in (ours, pulled, pushed, in_place))
    rates = f"{ran} GB/s; bare {alike} in its place, in a row {row}, and {back} on the other GPU's stream"
    share = in_place / ours
    show("peer copies of the pipeline", f"{share:.3f} ({rates})", f">= {PEER_SHARE}", met=share >= PEER_SHARE)


def split_by_hand(backend: Backend) -> None:
    with standing(backend, "two_gpus_split", "pinned", LARGE) as made:
        by_hand(made, "split, pinned", _split(made, backend))


def pipeline_by_hand(backend: Backend) -> None:
    with standing(backend, "two_gpus_pipeline", "peer", LARGE) as made:
        by_hand(made, "pipeline, peer", _pipeline(made, backend))


def by_hand(made: PlacedWorkload, what: str, hand: Callable[[], None]) -> None:
    hand()
    times = alternate(lambda: made.loop.frame(1), hand, 150)
    ratio, low, high = paired_ratio(times)
    figure = f"{ratio:.4f} ({low:.4f} to {high:.4f}) of {median(times[1]) * 1e3:.2f} ms"
    show(f"frame loop, {what}, 2^24: to one by hand", figure, f"<= {MOST_ADDED}", met=ratio <= MOST_ADDED)


def _split(made: PlacedWorkload, backend: Backend) -> Callable[[], None]:
    """Both halves uploaded and added at once, each on its GPU's stream."""
    produce, first, second, consume = (stage.stage.function for stage in made.bound.frame)
    runtime, streams = backend.xp.cuda.runtime, [gpu.stream for gpu in backend.gpus]
    up, down = runtime.memcpyHostToDevice, runtime.memcpyDeviceToHost
    a, b, c = (made.placed[name] for name in "abc")
    host = [each.host.ctypes.data for each in (a, b, c) if each.host is not None]
    half = 2 * LARGE
    pointers = [[each.on(gpu).device_pointer for each in (a, b, c)] for gpu in range(2)]

    def upload(gpu: int) -> None:
        for which in range(2):
            begin = gpu * half
            target, source = pointers[gpu][which] + begin, host[which] + begin
            runtime.memcpyAsync(target, source, half, up, streams[gpu].ptr)

    def download(gpu: int) -> None:
        begin = gpu * half
        runtime.memcpyAsync(host[2] + begin, pointers[gpu][2] + begin, half, down, streams[gpu].ptr)

    def frame() -> None:
        produce(a.host, b.host, 1)
        upload(0)
        first(backend.xp, a.on(0).device, b.on(0).device, c.on(0).device)
        upload(1)
        runtime.setDevice(1)
        second(backend.xp, a.on(1).device, b.on(1).device, c.on(1).device)
        runtime.setDevice(0)
        download(0)
        download(1)
        streams[0].synchronize()
        streams[1].synchronize()
        consume(c.host)

    return frame


def _pipeline(made: PlacedWorkload, backend: Backend) -> Callable[[], None]:
    """Upload, kernel, copy to the other GPU behind an event, kernel, download."""
    produce, scale, root, consume = (stage.stage.function for stage in made.bound.frame)
    runtime, (first, second) = backend.xp.cuda.runtime, (gpu.stream for gpu in backend.gpus)
    image, features, result = (made.placed[name] for name in ("image", "features", "result"))
    done, nbytes = backend.xp.cuda.Event(disable_timing=True), 4 * LARGE
    assert image.host is not None
    assert result.host is not None
    source, target = image.host.ctypes.data, result.host.ctypes.data

    def frame() -> None:
        produce(image.host, 1)
        runtime.memcpyAsync(image.device_pointer, source, nbytes, runtime.memcpyHostToDevice, first.ptr)
        scale(backend.xp, image.device, features.device)
        done.record(first)
        second.wait_event(done)
        there, here = features.on(1).device_pointer, features.device_pointer
        runtime.memcpyPeerAsync(there, 1, here, 0, nbytes, second.ptr)
        runtime.setDevice(1)
        root(backend.xp, features.on(1).device, result.device)
        runtime.setDevice(0)
        runtime.memcpyAsync(target, result.device_pointer, nbytes, runtime.memcpyDeviceToHost, second.ptr)
        second.synchronize()
        consume(result.host)

    return frame
